"""Makes the addresses of the inspector's pages: the command line prints them, and the pages link to each other by them.

An address is a path. `at(base, path)` puts the address of a running inspector in front of it.
"""

from __future__ import annotations

from urllib.parse import quote

PORT = 8719
"""Where `stator web` listens if no other port is given."""
BASE = f"http://127.0.0.1:{PORT}"


def at(base: str, path: str) -> str:
    """The whole address, to open in a browser."""
    return base.rstrip("/") + path


def session(session: str) -> str:
    return f"/s/{_part(session)}"


def turn(session: str, turn: str | int) -> str:
    """A turn by its number, or an attempt at it by its name: t5.2."""
    return f"/s/{_part(session)}/{turn if isinstance(turn, str) else f't{turn}'}"


def commit(session: str, seq: int) -> str:
    return f"/s/{_part(session)}/@{seq}"


def calls(session: str) -> str:
    return f"/s/{_part(session)}/calls"


def call(session: str, call: str) -> str:
    return f"/s/{_part(session)}/calls/{_part(call)}"


def files(session: str) -> str:
    return f"/s/{_part(session)}/files"


def file(session: str, path: str) -> str:
    """A file by its recorded path, which may hold anything: so it is no part of the path here."""
    return f"{files(session)}?path={quote(path)}"


def decisions(session: str) -> str:
    return f"/s/{_part(session)}/decisions"


def decision(session: str, decision: str) -> str:
    return f"{decisions(session)}#{_part(decision)}"


def _part(text: str) -> str:
    """The text as one part of a path: a slash in it does not begin another."""
    return quote(text, safe="")
