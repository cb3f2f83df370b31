"""Finds what a session worked with beside its files: MCP servers, hosts, databases, and instruction files.

Each is recorded once, when a call with it first succeeds. A name comes from a tool's name, from an argument, or from a
word of a simple command; a command whose words cannot be read for certain gives nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from stator.model.exchange.extraction_state import ExtractionState, HeldCall
from stator.model.exchange.shell_effects import simple_commands
from stator.model.exchange.tool_files import command_text, is_shell
from stator.model.extraction.evidence import (
    ENDS,
    Evidence,
    ExtractionRule,
    Found,
    string,
)
from stator.model.extraction.urls import host_of, place_of
from stator.model.log.commit import Upsert
from stator.model.log.shown_text import legible
from stator.model.records.types import FileRecord, UseKind, WorkingRecord

KNOWN_MAX = 256
COMMAND_MAX = 20_000
NAME_MAX = 300
INSTRUCTIONS = frozenset(
    "claude.md claude.local.md agents.md agents.override.md gemini.md .cursorrules .windsurfrules .clinerules"
    " copilot-instructions.md".split()
)
"""Files that agents take instructions from, in lower case."""
_SERVERS = "mcp__"
_MCP = re.compile(rf"{_SERVERS}(?P<server>[^_\s](?:[^\s]*?[^_\s])?)__[^\s]+")
_FETCHES = frozenset("WebFetch web_fetch webfetch fetch_url url_fetch".split())
_WORTH = re.compile(r"\b(?:curl|wget|sqlite3|psql|mysql|mariadb|mongosh|redis-cli)\b")
_SCHEMES = {
    "postgres": "PostgreSQL", "postgresql": "PostgreSQL", "mysql": "MySQL", "mariadb": "MySQL",
    "mongodb": "MongoDB", "mongodb+srv": "MongoDB", "redis": "Redis", "rediss": "Redis",
}  # fmt: skip
_CLIENTS = {
    "psql": "PostgreSQL", "mysql": "MySQL", "mariadb": "MySQL", "mongosh": "MongoDB", "redis-cli": "Redis",
}  # fmt: skip
_HOST_OPTIONS = ("-h", "--host")
_BASE_OPTIONS = ("-d", "--dbname", "-D", "--database")

Used = tuple[UseKind, str, str]
"""Kind, name and detail of something that was used."""


def _fetches_or_runs(tool: str) -> bool:
    return tool in _FETCHES or is_shell(tool)


def _needs(tool: str, given: Any) -> Any:
    if not isinstance(given, dict):
        return None
    if tool in _FETCHES:
        return {"url": string(given.get("url"))} if host_of(string(given.get("url"))) else None
    command = command_text(given)
    wanted = _WORTH.search(command) is not None and len(command) <= COMMAND_MAX
    return {"command": command} if wanted else None


def _find(state: ExtractionState, one: Evidence, held: HeldCall | None) -> Found | None:
    given = held.given if held is not None and isinstance(held.given, dict) else {}
    if one.status != "ok" or not (given or one.records or one.tool.startswith(_SERVERS)):
        return None
    changes = []
    for kind, name, detail in (*_of_call(one, given), *_of_files(one)):
        key = f"{kind}\n{name}"
        if name and len(name) <= NAME_MAX and key not in state.known:
            state.known = [*state.known, key][-KNOWN_MAX:]
            record = WorkingRecord(name=legible(name), kind=kind, detail=detail)
            changes.append(Upsert("working_set", record))
    return Found(changes=tuple(changes)) if changes else None


def _of_call(one: Evidence, given: dict[str, Any]) -> Iterator[Used]:
    if (match := _MCP.fullmatch(one.tool)) is not None:
        yield "app", match["server"], "MCP server"
    if one.tool in _FETCHES and (host := host_of(string(given.get("url")))):
        yield "data", host, "web host"
    for words, _ in simple_commands(string(given.get("command"))):
        name = posixpath.basename(words[0]) if words else ""
        if name in ("curl", "wget"):
            yield from (("data", host, "web host") for word in words[1:] if (host := host_of(word)))
        elif name == "sqlite3":
            yield from _sqlite(words[1:])
        elif name in _CLIENTS:
            yield from _database(_CLIENTS[name], words[1:])


def _of_files(one: Evidence) -> Iterator[Used]:
    """Instruction files that were read."""
    for record in one.records:
        if not isinstance(record, FileRecord) or record.op != "read":
            continue
        if posixpath.basename(record.path).lower() in INSTRUCTIONS:
            yield "file", record.path, "instructions"


def _sqlite(words: list[str]) -> Iterator[Used]:
    """The file that `sqlite3` was given: its first word that is no option."""
    for word in words:
        if not word.startswith("-"):
            if posixpath.splitext(word)[1]:
                yield "data", word, "SQLite"
            return


def _database(what: str, words: list[str]) -> Iterator[Used]:
    """The database that a client was connected to, as far as its words show it."""
    for word in words:
        scheme, place = place_of(word)
        if scheme in _SCHEMES:
            yield "data", place, _SCHEMES[scheme]
            return
    host = _option(words, _HOST_OPTIONS)
    base = _option(words, _BASE_OPTIONS)
    name = "/".join(part for part in (host, base) if part)
    if name:
        yield "data", name, what


def _option(words: list[str], names: tuple[str, ...]) -> str:
    for place, word in enumerate(words):
        if word in names:
            value = words[place + 1] if place + 1 < len(words) else ""
            return "" if value.startswith("-") else value
        for name in names:
            if name.startswith("--") and word.startswith(f"{name}="):
                return word.partition("=")[2]
    return ""


RULE = ExtractionRule(
    name="surroundings", version=1, kind="use", sees=ENDS, find=_find, needs=_needs,
    reads=_fetches_or_runs,
)  # fmt: skip
