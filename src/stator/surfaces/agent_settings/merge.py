"""Other people's settings with our entries added, or taken out; everything else as it was. Pure.

A JSON file keeps its order, its indentation and what we do not know. A TOML file keeps every byte
outside our own table. What cannot be read, or has another shape than it should, is refused rather
than written over.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from typing import Any

from stator.errors import InvalidInput
from stator.surfaces.agent_settings.agents import HOOK, SERVER, Wanted

INDENT = 2
_SETTING = re.compile(r"[A-Za-z_]\w*=")
"""What a shell line may begin with before the program: a variable for it."""
_BETWEEN = re.compile(r"(?:\n[ \t]*(?:#[^\n]*)?\r?)*\Z")
"""Blank lines and comments at the end of a table."""
_INDENTED = re.compile(r"^([ \t]+)\S", re.MULTILINE)


def added(text: str, wanted: Wanted) -> str:
    """The file's text with what is wanted in it."""
    if wanted.kind == "toml":
        return _toml_added(text, wanted)
    document = _read(text, wanted)
    if not document:
        document = dict(wanted.base)
    if wanted.hooks:
        hooks = _part(document, "hooks", wanted)
        for moment, entry in wanted.hooks.items():
            hooks[moment] = [*_others(_list(hooks, moment, wanted)), entry]
    if wanted.server:
        _part(document, wanted.servers_key, wanted)[SERVER] = wanted.server
    return _written(document, text)


def removed(text: str, wanted: Wanted) -> str:
    """The file's text without anything of ours; "" if nothing else was in it."""
    if wanted.kind == "toml":
        return _toml_without(text, wanted)
    document = _read(text, wanted)
    hooks = document.get("hooks")
    if wanted.hooks and isinstance(hooks, dict):
        for moment in list(hooks):
            groups = hooks[moment]
            if isinstance(groups, list) and (left := _others(groups)) != groups:
                hooks[moment] = left
                if not left:
                    del hooks[moment]
        if not hooks:
            del document["hooks"]
    servers = document.get(wanted.servers_key)
    if wanted.server and isinstance(servers, dict) and SERVER in servers:
        del servers[SERVER]
        if not servers:
            del document[wanted.servers_key]
    if not document or document == wanted.base:
        return ""
    return _written(document, text)


def is_ours(one: Any) -> bool:
    """Whether an entry starts our program."""
    if not isinstance(one, dict):
        return False
    try:
        words = shlex.split(str(one.get("command", "")))
    except ValueError:  # a quote that is not closed: no line of ours
        return False
    program = next((word for word in words if not _SETTING.match(word)), "")
    return program.replace("\\", "/").rpartition("/")[2] == HOOK


def _others(groups: list[Any]) -> list[Any]:
    """What is not ours: of a group that starts other programs too, those."""
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


def _read(text: str, wanted: Wanted) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        document = json.loads(text.removeprefix("\ufeff"))
    except ValueError as error:
        raise _refused(wanted, f"is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise _refused(wanted, "is not an object")
    return document


def _part(document: dict[str, Any], key: str, wanted: Wanted) -> dict[str, Any]:
    part = document.setdefault(key, {})
    if not isinstance(part, dict):
        raise _refused(wanted, f"has something else than an object under {key!r}")
    return part


def _list(hooks: dict[str, Any], moment: str, wanted: Wanted) -> list[Any]:
    groups = hooks.get(moment, [])
    if not isinstance(groups, list):
        raise _refused(wanted, f"has something else than a list under hooks.{moment}")
    return groups


def _refused(wanted: Wanted, what: str) -> InvalidInput:
    return InvalidInput(
        f"{wanted.path} {what}",
        path=str(wanted.path),
        hint="nothing was changed; put it right, or add the entries by hand: stator init --help",
    )


def _written(document: dict[str, Any], before: str) -> str:
    """The document with the indentation the file had."""
    found = _INDENTED.search(before)
    indent: int | str = found[1] if found else INDENT
    text = json.dumps(document, indent=indent, ensure_ascii=False) + "\n"
    if not _is_utf8(
        text
    ):  # half a character, as agents cut prompts: only its number can be written
        text = json.dumps(document, indent=indent) + "\n"
    return text.replace("\n", "\r\n") if "\r\n" in before else text


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# -- TOML -----------------------------------------------------------------------------------------


def _toml_added(text: str, wanted: Wanted) -> str:
    document = _parsed(text, wanted)
    servers = document.get(wanted.servers_key, {})
    if not isinstance(servers, dict):
        raise _refused(wanted, f"has something else than a table under {wanted.servers_key!r}")
    if servers.get(SERVER) == wanted.server:
        return text
    rest = _toml_removed(text)
    lines = [f"[{wanted.servers_key}.{SERVER}]"]
    # A JSON string, or a list of them, is TOML too.
    lines += [
        f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in wanted.server.items()
    ]
    gap = "" if not rest else "\n" if rest.endswith("\n") else "\n\n"
    new = rest + gap + "\n".join(lines) + "\n"
    expected = document | {wanted.servers_key: {**servers, SERVER: wanted.server}}
    if _parsed(new, wanted) != expected:
        raise _refused(wanted, f"has {wanted.servers_key!r} in a form that cannot be added to")
    return new


def _toml_without(text: str, wanted: Wanted) -> str:
    document = _parsed(text, wanted)
    left = _toml_removed(text)
    servers = document.get(wanted.servers_key)
    if isinstance(servers, dict):
        servers.pop(SERVER, None)
    expected = {key: value for key, value in document.items() if value != {}}
    if {key: value for key, value in _parsed(left, wanted).items() if value != {}} != expected:
        raise _refused(wanted, f"has {wanted.servers_key!r} in a form that cannot be taken out of")
    return left


def _toml_removed(text: str) -> str:
    """Without our table: from its header to the last line before the next one that says something; a
    comment above that belongs to it."""
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
    return _toml_removed(left) if left.strip() else ""


def _parsed(text: str, wanted: Wanted) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _refused(wanted, f"is not TOML: {error}") from None
