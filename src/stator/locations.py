"""Finds a store and its spool from a few names, without importing anything that takes time to load.

`connect` asks here, and so does the hook, which has a few milliseconds for everything.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as type checkers know it, without the time that loading `typing` takes
if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = ".stator"
FILE = "store.db"
SERVER = "server"
"""The file in a project's folder that names its store on a server."""
SPOOL = "-spool"
"""What the folder of a store's spool is called, after the store."""
CURRENT = "current"
"""The file in it that hooks append to."""
OWN = "own-"
"""Prefix of a file that one hook wrote for itself, because the current one was being imported."""
TAKEN = "taken-"
"""Prefix of a file that a process is importing, or was when it died."""
HELD = "held"
"""The folder of lines that wait for their place."""
KEY = "key"
"""The key of its placeholders."""
NOTE = "note"
"""Where a hook that could not record says so."""
TOLD = "told"
"""The folder of files that show which conversations were given what bears on their first prompt."""
NAME_MAX = 200
"""Bytes of the name of a folder that is made from a path."""
ELSEWHERE = ("postgresql", "postgres", "http", "https")
"""Schemes of stores on a server, which need no `//` to be recognised."""
SERVERS = ("postgresql", "postgres")
"""Schemes of stores in a PostgreSQL database."""
SCHEME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789+-.")
"""What a URL scheme is made of; a path such as `notes/a://b` has other characters before its colon."""


def nearest(start: str) -> str | None:
    """The nearest `.stator` folder upward that holds a store, or names one on a server. A linked worktree without one
    has that of its repository: of the main checkout, or upward from there.
    """
    here = os.path.abspath(start)
    while True:
        folder = os.path.join(here, FOLDER)
        if _has_store(folder):
            return folder
        if os.path.isfile(os.path.join(here, ".git")) and (shared := _shared(here)):
            return shared
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def _has_store(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, FILE)) or os.path.exists(
        os.path.join(folder, SERVER)
    )


def _shared(tree: str) -> str | None:
    """The `.stator` folder of the repository that a worktree was added to; None without one."""
    from stator.worktrees import linked_trees, repository_at  # few folders are linked worktrees

    found = repository_at(tree)
    if found is None or not found.is_linked:
        return None
    if not found.has_main:
        places = list(linked_trees(found.common))
    else:
        places = [found.home]
        while places[-1] != os.path.dirname(places[-1]):
            places.append(os.path.dirname(places[-1]))
    folders = (os.path.join(place, FOLDER) for place in places)
    return next(filter(_has_store, folders), None)


def users(environ: Mapping[str, str]) -> str | None:
    """The folder of a user's own store; None without a home folder."""
    if base := environ.get("XDG_DATA_HOME"):
        return os.path.join(base, "stator")
    if home := environ.get("HOME"):
        return os.path.join(home, ".local", "share", "stator")
    return None


def scheme_of(url: str) -> str:
    """The scheme of a URL that names no file, such as `postgresql`; "" for a path, `sqlite:` and `memory:`."""
    scheme, colon, rest = url.partition(":")
    if not colon or scheme in ("", "sqlite", "memory"):
        return ""
    is_url = rest.startswith("//") and not set(scheme.lower()) - SCHEME_CHARACTERS
    return scheme if scheme in ELSEWHERE or is_url else ""


def without_secrets(url: str) -> str:
    """A URL as it may be shown: without the password that it holds for a server."""
    if not scheme_of(url):
        return url
    scheme, slashes, rest = url.partition("://")
    # A password may hold a question mark: libpq takes what precedes an @ before the first slash for user and password.
    named = rest.partition("/")[0].rfind("@") + 1
    address, question, query = rest[named:].partition("?")
    user, at, host = f"{rest[:named]}{address}".rpartition("@")
    pairs = [
        pair
        for pair in query.split("&")
        if _unquoted(pair.partition("=")[0]).lower() not in ("password", "sslpassword")
    ]
    shown = f"{scheme}{slashes}{user.partition(':')[0]}{at}{host}"
    return shown + (question + "&".join(pairs) if any(pairs) else "")


def _unquoted(name: str) -> str:
    if "%" not in name:
        return name
    from urllib.parse import unquote  # takes time to load, and hardly any name needs it

    return unquote(name)


def server_address(url: str, tenant: str | None) -> str:
    """The URL of a store on a server, with its tenant named in it."""
    if not tenant or "tenant=" in url:
        return url
    from urllib.parse import quote  # takes time to load, and most URLs name their tenant

    return f"{url}{'&' if '?' in url else '?'}tenant={quote(tenant, safe='')}"


def path_of(url: str) -> str:
    """The file a URL names; "" if it names no file. `sqlite:///notes.db` is relative,
    `sqlite:////srv/notes.db` is absolute.
    """
    scheme, _, rest = url.partition(":")
    if url in ("memory:", ":memory:") or scheme_of(url):
        return ""
    return rest.removeprefix("///").removeprefix("//") if scheme == "sqlite" else url


def spool_of(path: str) -> str:
    """The folder of a store's spool: the same for every name the store is opened by."""
    return os.path.realpath(path) + SPOOL


def foreign_spool_of(path: str, environ: Mapping[str, str]) -> str | None:
    """The folder of the spool for a store that is not this user's own: in the user's data folder, so that nothing is
    written beside it. None without such a folder.
    """
    base = users(environ)
    if base is None:
        return None
    return os.path.join(base, "foreign", _file_name(os.path.realpath(path)) + SPOOL)


def server_spool_of(address: str, environ: Mapping[str, str]) -> str | None:
    """The folder in which hooks of this machine queue for a store on a server, in the user's data folder: one for each
    URL, so that a hook finds it without asking the server. None without a data folder."""
    base = users(environ)
    if base is None:
        return None
    return os.path.join(base, "servers", _file_name(without_secrets(address)) + SPOOL)


def _file_name(text: str) -> str:
    """A path or a URL as the name of one file."""
    name = text.replace("%", "%25").replace("/", "%2F")
    if len(os.fsencode(name)) <= NAME_MAX:
        return name
    from hashlib import sha256  # takes time to load, and few paths are that long

    return sha256(os.fsencode(name)).hexdigest()


def spools_of(path: str, environ: Mapping[str, str]) -> list[str]:
    """The folders in which hooks queue for a store: beside it, and where they do while it is foreign."""
    foreign = foreign_spool_of(path, environ)
    return [spool_of(path)] if foreign is None else [spool_of(path), foreign]


def queues_of(url: str, environ: Mapping[str, str]) -> list[str]:
    """The folders in which hooks of this machine queue for the store of a URL."""
    if scheme_of(url) in SERVERS:
        spool = server_spool_of(server_address(url, environ.get("STATOR_TENANT")), environ)
        return [] if spool is None else [spool]
    path = path_of(url)
    return spools_of(path, environ) if path else []


def is_spooled(name: str) -> bool:
    """Whether a file of the spool holds hook lines."""
    return name == CURRENT or name.startswith((OWN, TAKEN))


def waits(folder: str, *, held: bool = True) -> bool:
    """Whether hooks queued anything there that no store has imported; `held`: or that waits for its place."""
    try:
        with os.scandir(folder) as found:
            return any(is_spooled(entry.name) or (held and entry.name == HELD) for entry in found)
    except OSError:
        return False
