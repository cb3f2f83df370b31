"""Adds our entries to settings text, or removes them, and leaves every other byte unchanged. Pure.

Removing gives back the text before adding. A file that cannot be parsed, or has an unexpected shape, is refused
and not changed. A text of None is a file that does not exist.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from stator.errors import InvalidInput
from stator.surfaces.agent_settings import toml_edit
from stator.surfaces.agent_settings.agents import HOOK, SERVER, WantedSettings
from stator.surfaces.agent_settings.json_edit import (
    NewEntry,
    TextEdits,
    insert_entries,
    is_spaced,
    new_document,
    parsed_value,
    remove_entries_of,
)
from stator.surfaces.agent_settings.json_spans import JsonEntry, JsonSpan, parse_json

PROGRAM = "stator"
"""The program of our MCP server."""
_SETTING = re.compile(r"[A-Za-z_]\w*=")
"""A variable assignment, which may precede the program in a shell command."""
_HOOKS = "hooks"


def add_entries(text: str | None, wanted: WantedSettings) -> str:
    """Return the text of a file with our entries. If they are there already, it is the same text."""
    if wanted.kind == "file":
        return _own_file(text, wanted)
    if wanted.kind == "toml":
        return _toml_add(text, wanted)
    if text is not None and _is_complete(_parse(text, wanted), wanted):
        return text
    clean = remove_entries(text, wanted) if text is not None else None
    return _json_add(clean, wanted)


def remove_entries(text: str | None, wanted: WantedSettings) -> str | None:
    """Return the text of a file without our entries; None if it has to go, because we created it."""
    if text is None:
        return None
    if wanted.kind == "file":
        return None if text.startswith(wanted.mark) else text
    if wanted.kind == "toml":
        return _toml_remove(text, wanted)
    root = _parse(text, wanted)
    return text if root is None else _json_remove(text, root, wanted)


def has_hooks(text: str | None, wanted: WantedSettings) -> bool:
    """Whether a file turns on recording."""
    if text is None:
        return False
    if wanted.kind == "file":
        return text.startswith(wanted.mark)
    root = _parse(text, wanted) if wanted.hooks else None
    return root is not None and any(True for _ in _own_commands(root))


def is_ours(one: Any) -> bool:
    """Whether an entry starts our hook program."""
    if not isinstance(one, dict):
        return False
    try:
        words = shlex.split(str(one.get("command", "")))
    except ValueError:  # an unclosed quote: not a command of ours
        return False
    return _base(next((word for word in words if not _SETTING.match(word)), "")) == HOOK


def _is_our_server(server: Any) -> bool:
    command = server.get("command") if isinstance(server, dict) else None
    if isinstance(command, list):
        command = command[0] if command else ""
    return isinstance(command, str) and _base(command) == PROGRAM


def _base(program: str) -> str:
    return program.replace("\\", "/").rpartition("/")[2]


def _own_file(text: str | None, wanted: WantedSettings) -> str:
    """A file that is wholly ours."""
    if text is not None and not text.startswith(wanted.mark):
        raise _refused(wanted, "exists and is not ours")
    return wanted.content


def _refused(wanted: WantedSettings, what: str) -> InvalidInput:
    return InvalidInput(
        f"{wanted.path} {what}",
        path=str(wanted.path),
        hint="nothing was changed; correct the file, or add the entries by hand: stator init --help",
    )


# -- JSON -----------------------------------------------------------------------------------------


def _parse(text: str, wanted: WantedSettings) -> JsonSpan | None:
    """The root object; None if the file contains nothing."""
    if not text.removeprefix("\ufeff").strip():
        return None
    try:
        root = parse_json(text)
    except ValueError as error:
        raise _refused(wanted, f"is not JSON: {error}") from None
    if root.kind != "object":
        raise _refused(wanted, "is not an object")
    for key in (_HOOKS if wanted.hooks else "", wanted.servers_key if wanted.server else ""):
        if (entry := root.member(key)) is not None and entry.span.kind != "object":
            raise _refused(wanted, f"has a value under {key!r} that is not an object")
    return root


def _is_complete(root: JsonSpan | None, wanted: WantedSettings) -> bool:
    """Whether our entries are there as they should be. What the user added to them may stay."""
    if root is None:
        return False
    if wanted.server:
        servers = root.member(wanted.servers_key)
        known = servers.span.value.get(SERVER) if servers else None
        if not isinstance(known, dict) or not known.items() >= wanted.server.items():
            return False
    commands = sorted((event, _command(group)) for event, group in wanted.hooks.items())
    return not wanted.hooks or sorted(_own_commands(root)) == commands


def _command(group: dict[str, Any]) -> str:
    inner = group.get(_HOOKS)
    return str((inner[0] if isinstance(inner, list) else group).get("command"))


def _own_commands(root: JsonSpan) -> list[tuple[str, str]]:
    """The commands of ours that the settings start, with their events."""
    hooks = root.member(_HOOKS)
    found = []
    for event, groups in (
        hooks.span.value if hooks and hooks.span.kind == "object" else {}
    ).items():
        for group in groups if isinstance(groups, list) else []:
            inner = group.get(_HOOKS) if isinstance(group, dict) else None
            for one in inner if isinstance(inner, list) else [group]:
                if is_ours(one):
                    found.append((event, str(one["command"])))
    return found


def _json_add(text: str | None, wanted: WantedSettings) -> str:
    root = None if text is None else _parse(text, wanted)
    members: list[NewEntry] = []
    edits = TextEdits(text or "")
    hooks = root.member(_HOOKS) if root else None
    if wanted.hooks and root and hooks:
        _add_hooks(edits, root, hooks.span, wanted)
    elif wanted.hooks:
        value = {event: [group] for event, group in wanted.hooks.items()}
        members.append(NewEntry(value, _HOOKS, levels=1))
    servers = root.member(wanted.servers_key) if root else None
    if wanted.server and root and servers:
        if servers.span.member(SERVER) is not None:
            raise _refused(wanted, f"has another server called {SERVER!r}")
        insert_entries(edits, root, servers.span, [NewEntry(wanted.server, SERVER)])
    elif wanted.server:
        members.append(NewEntry({SERVER: wanted.server}, wanted.servers_key, levels=1))
    if root is None:
        fixed = [NewEntry(value, key) for key, value in wanted.new_file.items()]
        document = new_document([*fixed, *members])
        return document + "\n" if text is None else f"{text}\n{document}"
    if members:
        insert_entries(edits, root, root, members)
    new = edits.result()
    if parsed_value(new) != _with_ours(root.value, wanted):
        raise _refused(wanted, "has a form that Stator cannot extend")
    return new


def _add_hooks(edits: TextEdits, root: JsonSpan, hooks: JsonSpan, wanted: WantedSettings) -> None:
    missing = []
    for event, group in wanted.hooks.items():
        known = hooks.member(event)
        if known is None:
            missing.append(NewEntry([group], event))
        elif known.span.kind != "array":
            raise _refused(wanted, f"has a value under hooks.{event} that is not a list")
        else:
            insert_entries(edits, root, known.span, [NewEntry(group)])
    if missing:
        insert_entries(edits, root, hooks, missing)


def _with_ours(document: dict[str, Any], wanted: WantedSettings) -> dict[str, Any]:
    """The document that adding must give."""
    for event, group in wanted.hooks.items():
        groups = document.setdefault(_HOOKS, {}).setdefault(event, [])
        groups.append(group)
    if wanted.server:
        document.setdefault(wanted.servers_key, {})[SERVER] = wanted.server
    return document


def _json_remove(text: str, root: JsonSpan, wanted: WantedSettings) -> str | None:
    edits = TextEdits(text)
    own: list[JsonEntry] = []
    for entry in root.entries:
        if entry.span.kind != "object":
            continue
        if wanted.hooks and entry.key == _HOOKS:
            inside = [one for one in entry.span.entries if _is_own_event(edits, one)]
        elif wanted.server and entry.key == wanted.servers_key:
            inside = [
                one
                for one in entry.span.entries
                if one.key == SERVER and _is_our_server(one.span.value)
            ]
        else:
            continue
        if remove_entries_of(edits, entry.span, inside):
            own.append(entry)
    if own and not any(map(is_spaced, own)):
        mine = {id(entry) for entry in own}
        left = {entry.key: entry.span.value for entry in root.entries if id(entry) not in mine}
        if left == wanted.new_file or not left:
            own = root.entries
    if remove_entries_of(edits, root, own):
        return _without_root(text, root)
    return edits.result()


def _without_root(text: str, root: JsonSpan) -> str | None:
    """The text without the root object, which we created."""
    before, after = text[: root.start], text[root.end :]
    if "/" in before + after:  # a comment of the user
        return f"{before}{{}}{after}"
    return before.removesuffix("\n") + after if before else None


def _is_own_event(edits: TextEdits, event: JsonEntry) -> bool:
    """Whether an event lists only our hooks, in a list that we created; else ours are deleted from it."""
    if event.span.kind != "array":
        return False
    own = []
    for group in event.span.entries:
        inner = group.span.member(_HOOKS) if group.span.kind == "object" else None
        if inner is not None and inner.span.kind == "array":
            mine = [one for one in inner.span.entries if is_ours(one.span.value)]
            if mine and len(mine) == len(inner.span.entries):
                own.append(group)
            else:
                remove_entries_of(edits, inner.span, mine)
        elif is_ours(group.span.value):
            own.append(group)
    return remove_entries_of(edits, event.span, own)


# -- TOML -----------------------------------------------------------------------------------------


def _toml_add(text: str | None, wanted: WantedSettings) -> str:
    document = _parse_toml(text or "", wanted)
    servers = document.get(wanted.servers_key, {})
    if not isinstance(servers, dict):
        raise _refused(wanted, f"has a value under {wanted.servers_key!r} that is not a table")
    known = servers.get(SERVER)
    if text is not None and isinstance(known, dict) and known.items() >= wanted.server.items():
        return text
    name = f"{wanted.servers_key}.{SERVER}"
    rest = toml_edit.cut_table(text, name) if text is not None else None
    new = toml_edit.append_table(rest, name, wanted.server)
    expected = document | {wanted.servers_key: {**servers, SERVER: wanted.server}}
    if _parse_toml(new, wanted) != expected:
        raise _refused(wanted, f"has {wanted.servers_key!r} in a form that Stator cannot extend")
    return new


def _toml_remove(text: str, wanted: WantedSettings) -> str | None:
    document = _parse_toml(text, wanted)
    left = toml_edit.cut_table(text, f"{wanted.servers_key}.{SERVER}")
    servers = document.get(wanted.servers_key)
    if isinstance(servers, dict):
        servers.pop(SERVER, None)
    if _without_empty(_parse_toml(left or "", wanted)) != _without_empty(document):
        raise _refused(
            wanted, f"has {wanted.servers_key!r} in a form that Stator cannot remove from"
        )
    return left


def _without_empty(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if value != {}}


def _parse_toml(text: str, wanted: WantedSettings) -> dict[str, Any]:
    try:
        return toml_edit.parse_toml(text)
    except ValueError as error:
        raise _refused(wanted, f"is not TOML: {error}") from None
