"""Adds our entries to settings text, or removes them, and leaves everything else unchanged. Pure.

A JSON file keeps its order, its indentation and all keys we do not know. A TOML file keeps every byte outside
our own table. A file that cannot be parsed, or has an unexpected shape, is refused and not changed.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from typing import Any

from stator.errors import InvalidInput
from stator.surfaces.agent_settings.agents import HOOK, SERVER, WantedSettings

INDENT = 2
_SETTING = re.compile(r"[A-Za-z_]\w*=")
"""A variable assignment, which may precede the program in a shell command."""
_BETWEEN = re.compile(r"(?:\n[ \t]*(?:#[^\n]*)?\r?)*\Z")
"""Blank lines and comments at the end of a TOML table."""
_INDENTED = re.compile(r"^([ \t]+)\S", re.MULTILINE)


def add_entries(text: str, wanted: WantedSettings) -> str:
    """Return the text of a file with our entries."""
    if wanted.kind == "toml":
        return _toml_add(text, wanted)
    document = _read_json(text, wanted)
    if not document:
        document = dict(wanted.new_file)
    if wanted.hooks:
        hooks = _object_at(document, "hooks", wanted)
        for event, entry in wanted.hooks.items():
            hooks[event] = [*_without_ours(_hook_list(hooks, event, wanted)), entry]
    if wanted.server:
        _object_at(document, wanted.servers_key, wanted)[SERVER] = wanted.server
    return _dump_json(document, text)


def remove_entries(text: str, wanted: WantedSettings) -> str:
    """Return the text of a file without our entries; "" if it contained nothing else."""
    if wanted.kind == "toml":
        return _toml_remove(text, wanted)
    document = _read_json(text, wanted)
    hooks = document.get("hooks")
    if wanted.hooks and isinstance(hooks, dict):
        for event in list(hooks):
            groups = hooks[event]
            if isinstance(groups, list) and (left := _without_ours(groups)) != groups:
                hooks[event] = left
                if not left:
                    del hooks[event]
        if not hooks:
            del document["hooks"]
    servers = document.get(wanted.servers_key)
    if wanted.server and isinstance(servers, dict) and SERVER in servers:
        del servers[SERVER]
        if not servers:
            del document[wanted.servers_key]
    if not document or document == wanted.new_file:
        return ""
    return _dump_json(document, text)


def is_ours(one: Any) -> bool:
    """Whether an entry starts our hook program."""
    if not isinstance(one, dict):
        return False
    try:
        words = shlex.split(str(one.get("command", "")))
    except ValueError:  # an unclosed quote: not a command of ours
        return False
    program = next((word for word in words if not _SETTING.match(word)), "")
    return program.replace("\\", "/").rpartition("/")[2] == HOOK


def _without_ours(groups: list[Any]) -> list[Any]:
    """Return the entries without ours; a group that also starts other programs keeps those."""
    left = []
    for group in groups:
        inner = group.get("hooks") if isinstance(group, dict) else None
        if isinstance(inner, list) and any(map(is_ours, inner)):
            kept = [one for one in inner if not is_ours(one)]
            left += [{**group, "hooks": kept}] if kept else []
        elif not is_ours(group):
            left.append(group)
    return left


# -- JSON -----------------------------------------------------------------------------------------


def _read_json(text: str, wanted: WantedSettings) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        document = json.loads(text.removeprefix("\ufeff"))
    except ValueError as error:
        raise _refused(wanted, f"is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise _refused(wanted, "is not an object")
    return document


def _object_at(document: dict[str, Any], key: str, wanted: WantedSettings) -> dict[str, Any]:
    part = document.setdefault(key, {})
    if not isinstance(part, dict):
        raise _refused(wanted, f"has a value under {key!r} that is not an object")
    return part


def _hook_list(hooks: dict[str, Any], event: str, wanted: WantedSettings) -> list[Any]:
    groups = hooks.get(event, [])
    if not isinstance(groups, list):
        raise _refused(wanted, f"has a value under hooks.{event} that is not a list")
    return groups


def _refused(wanted: WantedSettings, what: str) -> InvalidInput:
    return InvalidInput(
        f"{wanted.path} {what}",
        path=str(wanted.path),
        hint="nothing was changed; correct the file, or add the entries by hand: stator init --help",
    )


def _dump_json(document: dict[str, Any], before: str) -> str:
    """Serialise the document with the indentation the file had."""
    found = _INDENTED.search(before)
    indent: int | str = found[1] if found else INDENT
    text = json.dumps(document, indent=indent, ensure_ascii=False) + "\n"
    if not _is_utf8(text):
        # agents cut prompts in the middle of a surrogate pair: only its escape can be written
        text = json.dumps(document, indent=indent) + "\n"
    return text.replace("\n", "\r\n") if "\r\n" in before else text


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# -- TOML -----------------------------------------------------------------------------------------


def _toml_add(text: str, wanted: WantedSettings) -> str:
    document = _parse_toml(text, wanted)
    servers = document.get(wanted.servers_key, {})
    if not isinstance(servers, dict):
        raise _refused(wanted, f"has a value under {wanted.servers_key!r} that is not a table")
    if servers.get(SERVER) == wanted.server:
        return text
    rest = _toml_cut_table(text)
    lines = [f"[{wanted.servers_key}.{SERVER}]"]
    # A JSON string, or a list of them, is TOML too.
    lines += [
        f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in wanted.server.items()
    ]
    gap = "" if not rest else "\n" if rest.endswith("\n") else "\n\n"
    new = rest + gap + "\n".join(lines) + "\n"
    expected = document | {wanted.servers_key: {**servers, SERVER: wanted.server}}
    if _parse_toml(new, wanted) != expected:
        raise _refused(wanted, f"has {wanted.servers_key!r} in a form that Stator cannot extend")
    return new


def _toml_remove(text: str, wanted: WantedSettings) -> str:
    document = _parse_toml(text, wanted)
    left = _toml_cut_table(text)
    servers = document.get(wanted.servers_key)
    if isinstance(servers, dict):
        servers.pop(SERVER, None)
    expected = {key: value for key, value in document.items() if value != {}}
    if {key: value for key, value in _parse_toml(left, wanted).items() if value != {}} != expected:
        raise _refused(
            wanted, f"has {wanted.servers_key!r} in a form that Stator cannot remove from"
        )
    return left


def _toml_cut_table(text: str) -> str:
    """Remove our table and its subtables. Comments and blank lines before the next table belong to that table
    and stay."""
    header = re.compile(
        rf"^\[mcp_servers\.(?:{SERVER}|\"{SERVER}\")(?:\..*)?\][ \t]*(?:#.*)?\r?$", re.MULTILINE
    )
    found = header.search(text)
    if found is None:
        return text
    following = re.compile(r"^\[", re.MULTILINE).search(text, found.end())
    end = following.start() if following else len(text)
    end = found.end() + len(_BETWEEN.sub("", text[found.end() : end]))
    before, after = text[: found.start()], text[end:].lstrip("\r\n")
    gap = ("\n\n" if after else "\n") if before.strip() else ""
    left = before.rstrip("\n") + gap + after
    return _toml_cut_table(left) if left.strip() else ""


def _parse_toml(text: str, wanted: WantedSettings) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _refused(wanted, f"is not TOML: {error}") from None
