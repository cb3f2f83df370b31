"""Reads a recorded call of another agent's shell or file tool as an act that can be done here. Pure.

Agents name these tools much alike: `Bash`, `exec_command` and `run_shell_command` run a command, `Write`, `write_file`
and `create` write a file. An act says what would be done, to which path as it was recorded; it does nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stator.errors import InvalidInput
from stator.model.exchange.tool_files import FILE_TOOLS, SHELLS, ActKind, command_of, words_of
from stator.model.records.types import Effect

MOST = 0.8
"""The part of the paths that is below the folder which a chain is about; others read an agent's own files."""
LINES_SHOWN = 6
"""Lines of a text that is written which a dry run shows."""
_READING = frozenset({"read", "list", "glob", "grep"})
_PATHS = ("file_path", "filePath", "path", "absolute_path", "filename", "file_name", "target_file",
          "notebook_path", "dir_path", "directory", "file")  # fmt: skip
_EDITOR = frozenset({"str_replace_editor", "str_replace_based_edit_tool", "text_editor", "editor"})
_EDITOR_ACTS: dict[str, ActKind] = {"create": "write", "view": "read", "str_replace": "edit"}
_SHELL_NAMES = SHELLS | {"run", "shell_command", "container_exec", "powershell"}
IDLE = frozenset(
    "todo_write todowrite todo_read update_plan update_todo think ask_user_question enter_plan_mode exit_plan_mode"
    " attempt_completion finish submit skill task_output change_title".split()
)
"""Words of tools that keep an agent's own books or end its work: there is nothing to do again."""


class Replacement(msgspec.Struct, frozen=True):
    """A text that is replaced by another, once or wherever it is."""

    old: str
    new: str
    everywhere: bool = False


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """What a recorded call would do."""

    kind: ActKind
    path: str = ""
    """As it was recorded; "" is the root."""
    to: str = ""
    text: str = ""
    """The text of a file, a command, a pattern or a patch."""
    edits: tuple[Replacement, ...] = ()

    @property
    def effect(self) -> Effect:
        return "read" if self.kind in _READING else "write"


def is_idle(tool: str) -> bool:
    """Whether a tool only keeps its agent's own books."""
    return "_".join(words_of(tool)) in IDLE


def act_of(tool: str, arguments: Mapping[str, Any]) -> Act | None:
    """What a call does, if its tool is one of the shell and file tools that agents have; None of any other."""
    name = "_".join(words_of(tool))
    if name in _SHELL_NAMES:
        command = command_of(arguments)
        folder = _text(arguments, ("workdir", "cwd", "dir_path", "directory"))
        return Act(kind="shell", text=command, path=folder) if command.strip() else None
    kind = FILE_TOOLS.get(name)
    if name in _EDITOR:
        kind = _EDITOR_ACTS.get(_text(arguments, ("command",)))
    return None if kind is None else _file_act(kind, arguments)


def _file_act(kind: ActKind, given: Mapping[str, Any]) -> Act | None:
    path = _text(given, _PATHS)
    if kind == "patch":
        patch = _text(given, ("input", "patch", "patch_text", "patchText", "diff"))
        return Act(kind=kind, text=patch) if patch else None
    if kind in ("glob", "grep"):
        pattern = _text(given, ("pattern", "regex", "query"))
        return Act(kind=kind, path=path, text=pattern) if pattern else None
    if kind == "list":
        return Act(kind=kind, path=path)
    if kind == "move":
        source = _text(given, ("source", "src", "old_path", "from", "source_path")) or path
        target = _text(
            given, ("destination", "dest", "new_path", "to", "target", "destination_path")
        )
        return Act(kind=kind, path=source, to=target) if source and target else None
    if not path:
        return None
    if kind == "write":
        text = next(
            (given[n] for n in ("content", "contents", "file_text", "text") if n in given), None
        )
        return Act(kind=kind, path=path, text=text) if isinstance(text, str) else None
    if kind == "edit":
        edits = _edits(given)
        return Act(kind=kind, path=path, edits=edits) if edits else None
    return Act(kind=kind, path=path)


def _edits(given: Mapping[str, Any]) -> tuple[Replacement, ...]:
    """The replacements of an edit, in any vocabulary; empty if one of them is not whole."""
    several = given.get("edits")
    found = several if isinstance(several, Sequence) and not isinstance(several, str) else [given]
    edits: list[Replacement] = []
    for one in found:
        if not isinstance(one, Mapping):
            return ()
        old = next(
            (one[n] for n in ("old_string", "oldString", "oldText", "old_str", "old") if n in one),
            None,
        )
        new = next(
            (one[n] for n in ("new_string", "newString", "newText", "new_str", "new") if n in one),
            None,
        )
        if not isinstance(old, str) or not isinstance(new, str):
            return ()
        edits.append(Replacement(old, new, bool(one.get("replace_all") or one.get("replaceAll"))))
    return tuple(edits)


def _text(given: Mapping[str, Any], names: Sequence[str]) -> str:
    return next(
        (value for name in names if isinstance(value := given.get(name), str) and value), ""
    )


# -- another root ---------------------------------------------------------------------------------


def moved(act: Act, recorded: str, root: str) -> Act:
    """The act in another folder: its paths relative to `root`, and the recorded root in its command replaced by it.
    `InvalidInput` if a path would lie outside."""
    if act.kind == "shell":
        return msgspec.structs.replace(
            act, text=moved_text(act.text, recorded, root), path=below(act.path, recorded, root)
        )
    if act.kind == "patch":
        return msgspec.structs.replace(act, text=_moved_patch(act.text, recorded, root))
    return msgspec.structs.replace(
        act,
        path=below(act.path, recorded, root),
        to=below(act.to, recorded, root) if act.to else "",
    )


def below(path: str, recorded: str, root: str) -> str:
    """A recorded path, relative to the root; "" is the root itself."""
    clean = posixpath.normpath(path) if path else "."
    for base in (recorded, root):
        if base and posixpath.isabs(clean) and _is_under(clean, base):
            clean = posixpath.relpath(clean, posixpath.normpath(base))
            break
    if posixpath.isabs(clean) or clean.startswith(("..", "~")) or "\0" in clean:
        raise InvalidInput(
            f"{path!r:.120} is outside the folder",
            path="$.path",
            hint=f"the recorded folder is {recorded or 'unknown'}; it is `root` in the file",
        )
    return "" if clean == "." else clean


def _is_under(path: str, base: str) -> bool:
    base = posixpath.normpath(base)
    return path == base or path.startswith(base.rstrip("/") + "/")


def moved_text(text: str, recorded: str, root: str) -> str:
    """A command with the recorded root replaced by another, where it is a whole path or the beginning of one."""
    if not recorded or recorded == root:
        return text
    whole = re.compile(rf"(?<![\w./~-]){re.escape(recorded.rstrip('/'))}(?![\w.-])")
    return whole.sub(lambda _: root, text)


_PATCH_PATH = re.compile(
    r"^(\*\*\* (?:Add File|Update File|Delete File|Move to): )(.+)$", re.MULTILINE
)


def _moved_patch(patch: str, recorded: str, root: str) -> str:
    return _PATCH_PATH.sub(lambda m: m[1] + below(m[2].strip(), recorded, root), patch)


def root_of(acts: Sequence[Act], project: str = "") -> str:
    """The folder that most of the recorded paths of some acts are in: their project, if it is a folder, else one that
    no command enters by its name; "" if none says anything."""
    folders = [
        act.path if act.kind in ("list", "glob", "grep", "shell") else posixpath.dirname(act.path)
        for act in acts
        if posixpath.isabs(act.path)
    ]
    folders += [
        match[1]
        for act in acts
        if act.kind == "shell" and (match := re.match(r"\s*cd\s+['\"]?(/[^'\"\s;&|]+)", act.text))
    ]
    counted: dict[str, int] = {}
    for folder in map(posixpath.normpath, folders):
        while folder not in ("/", ""):
            counted[folder] = counted.get(folder, 0) + 1
            folder = posixpath.dirname(folder)
    most = [
        folder
        for folder, times in counted.items()
        if times >= MOST * len(folders) and not _SAYS_NOTHING.fullmatch(folder)
    ]
    if project.rstrip("/") in most:
        return project.rstrip("/")
    found = max(most, key=len, default="")
    words = {word for act in acts if act.kind == "shell" for word in _WORDS.findall(act.text)}
    while found:
        name, above = posixpath.basename(found), posixpath.dirname(found)
        is_entered = any(word == name or word.startswith(f"{name}/") for word in words)
        if not is_entered or _SAYS_NOTHING.fullmatch(above):
            break
        found = above
    return found


_WORDS = re.compile(r"[^\s'\"`;&|()<>=]+")
_SAYS_NOTHING = re.compile(
    r"/|/(?:home|Users)(?:/[^/]+)?|/(?:tmp|root|var|private|mnt|opt|usr|etc|private/tmp)"
)
"""Folders that many unrelated things are in."""


# -- shown ----------------------------------------------------------------------------------------


def lines_of(act: Act) -> list[str]:
    """What an act would do, for a person who decides whether it may; recorded text is not escaped here."""
    where = act.path or "."
    if act.kind == "shell":
        folder = f"  (in {act.path})" if act.path else ""
        first, *rest = act.text.split("\n")
        return [f"$ {first}{folder}", *rest]
    if act.kind == "write":
        return [f"write {where}", *_few("+", act.text)]
    if act.kind == "edit":
        found = [f"edit {where}"]
        for edit in act.edits:
            found += [*_few("-", edit.old), *_few("+", edit.new)]
        return found
    if act.kind == "patch":
        return ["patch", *act.text.split("\n")]
    if act.kind == "move":
        return [f"move {where} to {act.to}"]
    if act.kind in ("glob", "grep"):
        return [f"{act.kind} {act.text} in {where}"]
    return [f"{act.kind} {where}"]


def _few(sign: str, text: str) -> list[str]:
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    shown = [f"{sign} {line}" for line in lines[:LINES_SHOWN]]
    more = len(lines) - len(shown)
    return [*shown, f"{sign} … {more} more lines"] if more else shown
