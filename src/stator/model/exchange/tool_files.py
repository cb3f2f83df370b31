"""Infers which files a successful call touched, from its tool's name and its arguments. Pure.

Agents name their tools much alike: `write_file(path, content)`, `Edit(file_path, …)`, `bash(command)`. A tool whose
name says what it does to a file, and that is given a path, touched that file; a shell command is read by
`shell_effects`, a patch by `patch_text`. What cannot be told from the words yields nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from stator.model.exchange.items import Touch, digest_of
from stator.model.exchange.patch_text import files_in_command, files_in_patch
from stator.model.exchange.shell_effects import files_touched
from stator.model.records.types import FileOp

ActKind = Literal[
    "shell", "read", "write", "edit", "patch", "delete", "move", "list", "glob", "grep"
]
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
SHELLS = frozenset(
    "bash shell sh zsh run_shell_command execute_command run_command exec_command execute_bash local_shell"
    " run_terminal_cmd run_in_terminal terminal exec command".split()
)
_RUN = "run"
"""OpenHands' shell; elsewhere a tool of that name may be anything, so that only its command is read."""
_VERBS: dict[str, FileOp] = {
    **dict.fromkeys(("read", "view", "cat", "load"), "read"),
    **dict.fromkeys(("write", "create", "save"), "created"),
    **dict.fromkeys(("edit", "replace", "update", "modify", "append", "insert", "overwrite"), "modified"),
    **dict.fromkeys(("delete", "remove", "unlink", "rm"), "deleted"),
    **dict.fromkeys(("rename", "move", "mv"), "renamed"),
}  # fmt: skip
"""What the words of a tool's name say that it does to the file at its path."""
FILE_TOOLS: dict[str, ActKind] = {
    **dict.fromkeys(("read", "read_file", "view", "view_file", "cat", "open_file"), "read"),
    **dict.fromkeys(("write", "write_file", "create", "create_file", "write_to_file", "save_file"), "write"),
    **dict.fromkeys(("edit", "edit_file", "multi_edit", "replace", "replace_in_file", "str_replace"), "edit"),
    **dict.fromkeys(("apply_patch", "patch", "apply_diff"), "patch"),
    **dict.fromkeys(("delete", "delete_file", "remove_file", "remove"), "delete"),
    **dict.fromkeys(("move", "move_file", "rename", "rename_file"), "move"),
    **dict.fromkeys(("ls", "list", "list_dir", "list_directory", "list_files"), "list"),
    **dict.fromkeys(("glob", "find_files", "file_search"), "glob"),
    **dict.fromkeys(("grep", "search_file_content", "grep_files", "grep_search", "search_files"), "grep"),
}  # fmt: skip
"""Tools that only work with files: the words of their names → what they do."""
_FOLDERS = frozenset({"dir", "directory", "folder", "folders", "directories", "files", "tree"})
"""Words of tools whose path is not that of one file."""
_PATHS = (
    "file_path", "path", "filepath", "filename", "file_name", "file", "absolute_path", "target_file",
    "notebook_path",
)  # fmt: skip
_SOURCES = ("source", "src", "old_path", "from", "from_path", "source_path")
_TARGETS = ("destination", "dest", "dst", "new_path", "to", "to_path", "destination_path", "target")
_CONTENTS = ("content", "contents", "text", "file_text")
PATH_MAX = 2_000
"""Characters of a path; a longer text is none."""
WORDS_MAX = 20_000
"""Characters of an argument that may say what a call is about; a longer one says nothing in a few words."""
_ABOUT = ("file_path", "path", "url", "pattern", "query", "prompt", "description")
"""Arguments that say in a few words what a call is about."""
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
"""The first file that a patch in a command names."""


def files_of_call(tool: str, arguments: Mapping[str, Any], cwd: str = "") -> tuple[Touch, ...]:
    """The files that a successful call touched, under the names it uses. `cwd` is the folder it ran in."""
    words = words_of(tool)
    found: Iterator[Touch] | tuple[Touch, ...]
    if "patch" in words:
        found = _patched(arguments)
    elif "_".join(words) in SHELLS:
        command = command_text(arguments)
        found = files_in_command(command) or files_touched(command, cwd)
    else:
        found = _named(words, arguments)
    return tuple(msgspec.structs.replace(touch, how="inferred") for touch in found)


@lru_cache(maxsize=256)
def is_shell(tool: str) -> bool:
    """Whether the command that a tool is given is one of a shell."""
    name = "_".join(words_of(tool))
    return name in SHELLS or name == _RUN


@lru_cache(maxsize=256)
def is_file_tool(tool: str) -> bool:
    """Whether a tool only works with files, and runs no command."""
    return "_".join(words_of(tool)) in FILE_TOOLS


@lru_cache(maxsize=256)
def words_of(tool: str) -> tuple[str, ...]:
    """The words of a tool's name, in lower case, without the server that it belongs to."""
    name = tool.rpartition(".")[2].rpartition("__")[2]
    return tuple(word.lower() for word in _WORD.findall(name))


def command_text(arguments: Mapping[str, Any]) -> str:
    """The shell command among the arguments of a call; of `bash -c COMMAND` the command."""
    given = arguments["command"] if "command" in arguments else arguments.get("cmd", "")
    if isinstance(given, (list, tuple)):
        given = given[2] if len(given) == 3 and given[1] in ("-c", "-lc") else ""
    return given if isinstance(given, str) else ""


def command_of(arguments: Any) -> str:
    """The command among the arguments of a call of any tool; "" if it has none."""
    if type(arguments) is not dict and not isinstance(arguments, Mapping):
        return ""
    if named := command_text(arguments):
        return named
    words: Any = ""
    for name in ("args", "argv", "command", "cmd"):
        if words := arguments.get(name):
            break
    if isinstance(words, str):
        return words
    is_list = isinstance(words, (list, tuple)) and all(isinstance(word, str) for word in words)
    return " ".join(words) if is_list else ""


def _patched(arguments: Mapping[str, Any]) -> tuple[Touch, ...]:
    patches = (_text(arguments, (name,)) for name in ("patch", "input", "command"))
    return next((found for patch in patches if (found := files_in_patch(patch))), ())


def _named(words: Sequence[str], arguments: Mapping[str, Any]) -> Iterator[Touch]:
    """The file at the path that a tool was given, by what its name, or its command, says."""
    verbs = [_VERBS[word] for word in words if word in _VERBS]
    if _FOLDERS.intersection(words):
        return
    # an editor with several commands: str_replace_based_edit_tool(command="create", path=…)
    spoken = [word.lower() for word in _WORD.findall(_text(arguments, ("command",))[:40])]
    verbs = [_VERBS[word] for word in spoken if word in _VERBS] or verbs
    if not verbs:
        return
    op = verbs[0]
    path = _path(arguments, _PATHS)
    if op == "renamed":
        old, new = _path(arguments, _SOURCES) or path, _path(arguments, _TARGETS)
        if old and new:
            yield Touch(path=new, op="renamed", from_path=old)
    elif path:
        content = _text(arguments, _CONTENTS) if op == "created" else ""
        yield Touch(path=path, op=op, after=digest_of(content) if content else "")


def _text(arguments: Mapping[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def _path(arguments: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The path among the arguments; empty if the text can be none."""
    path = _text(arguments, names)
    is_path = len(path) <= PATH_MAX and path.isprintable() and not path.endswith("/")
    return path if is_path and "://" not in path else ""


def subject(tool: str, given: Any) -> str:
    """What a call is about, as its arguments say: its command, path, address or question; "" if they do not."""
    texts = given if isinstance(given, dict) else {}
    words = command_text(texts) if is_shell(tool) else ""
    for name in () if words else _ABOUT:
        text = texts.get(name)
        if isinstance(text, str) and (words := text.strip()):
            break
    words = "" if len(words) > WORDS_MAX else words
    patched = _PATCHED.search(words)
    return patched[1] if patched else words.strip().partition("\n")[0]
