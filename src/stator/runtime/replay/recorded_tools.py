"""Does what recorded calls of agents' shell and file tools did, in a folder that a person chose.

Paths lead nowhere else: they are mapped from the recorded folder, and no link is followed. A command is run by a shell
in that folder, as its person would run it: nothing confines it, which is why it never runs without their word.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stator.errors import BadWorkflow, Conflict, InvalidInput, NotDone
from stator.model.calls.vocabulary import Act, Replacement, act_of, moved, moved_text
from stator.model.exchange.patch_text import BEGIN, END
from stator.model.log.shown_text import cut_short
from stator.runtime.driving.tools import Tool
from stator.runtime.files import safe_io

OUTPUT_MAX = 1_000_000
"""Bytes of what a command prints that are kept; the rest is read and dropped."""
TIMEOUT_S = 600.0
LEFT_S = 2.0
"""How long what a command left behind may still print."""
READ_MAX = 1_000_000
NAMES_MAX = 2000
WALKED_MAX = 50_000
"""Files that are looked at to find those that a pattern names."""


class CommandFailed(Exception):
    """A command ended with another exit code than 0; it may have done something before."""


class RecordedTools:
    """The shell and file tools of other agents, below one folder."""

    def __init__(
        self,
        root: str,
        recorded: str = "",
        *,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`environment` are the variables that commands are given; default: those of this process."""
        self.root = os.path.realpath(root)
        self.recorded = recorded
        self._timeout = timeout_s
        self._environment = environment
        self._written = itertools.count()
        if not os.path.isdir(self.root):
            raise InvalidInput(f"{root!r:.200} is no folder", path="$.root", hint="--root FOLDER")

    def __contains__(self, tool: str) -> bool:
        """Whether a tool of this name may be one of these; its arguments decide."""
        return act_of(tool, _ANY) is not None or tool.lower().endswith("editor")

    def act(self, tool: str, given: Mapping[str, Any]) -> Act:
        """What a call would do here; `BadWorkflow` if it is none of these tools, or leads elsewhere."""
        found = act_of(tool, given)
        if found is None:
            raise BadWorkflow(
                f"nothing here can do what {tool!r:.80} did",
                hint="give it with --tools file.py:TOOLS, or take the call out of the file",
            )
        try:
            return moved(found, self.recorded, self.root)
        except InvalidInput as error:
            raise BadWorkflow(error.what, hint=error.hint) from None

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the call is recorded with here: with this folder's paths in place of the recorded ones."""
        return {key: self._mapped(value) for key, value in given.items()}

    def _mapped(self, value: Any) -> Any:
        if isinstance(value, str):
            return moved_text(value, self.recorded, self.root)
        if isinstance(value, list):
            return [self._mapped(item) for item in value]
        if isinstance(value, dict):
            return {key: self._mapped(item) for key, item in value.items()}
        return value

    def tool(self, name: str, given: Mapping[str, Any], *, is_shown: bool = True) -> Tool[..., Any]:
        """The tool for one call: its effect is that of what the call would do. A write whose arguments nobody could
        be shown before, because an earlier call gave them, asks by itself."""
        act = self.act(name, given)
        asks = act.effect == "write" and not is_shown
        return Tool(
            lambda **_: self.do(act), name=name, effect=act.effect, attempts=1, approve=asks
        )

    def do(self, act: Act) -> str:
        """Do it, and give what it printed or found."""
        doing: dict[str, Callable[[Act], str]] = {
            "shell": self._shell,
            "read": lambda act: _as_text(self._content(act.path)),
            "write": self._write,
            "edit": self._edit,
            "patch": self._patch,
            "delete": self._delete,
            "move": self._move,
            "list": self._list,
            "glob": self._glob,
            "grep": self._grep,
        }
        return doing[act.kind](act)

    # -- commands ---------------------------------------------------------------------------------

    def _shell(self, act: Act) -> str:
        shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        code, output = self._run([shell, "-c", act.text], self._folder(act.path))
        if code:
            raise CommandFailed(f"exit code {code}: {cut_short(output[-2000:].strip(), 500)}")
        return output

    def _grep(self, act: Act) -> str:
        self._folder_or_file(act.path)
        asked = ["grep", "-rnIE", "-m", "200", "--", act.text, act.path or "."]
        code, output = self._run(asked, self.root)
        if code > 1:
            raise NotDone(cut_short(output.strip(), 500))
        return output

    def _run(self, words: Sequence[str], folder: str) -> tuple[int, str]:
        """Run a program in a group of its own, for a bounded time; what it leaves running ends with it."""
        program = subprocess.Popen(
            words,
            cwd=folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        kept = bytearray()
        reader = threading.Thread(target=_keep, args=(program, kept), daemon=True)
        reader.start()
        try:
            code = program.wait(self._timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"it ran longer than {self._timeout:g} s and was ended") from None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
            # A program that left the group may hold the pipe open; it is not waited for.
            reader.join(LEFT_S)
        return code, kept.decode("utf-8", "replace")

    # -- files ------------------------------------------------------------------------------------

    def _folder(self, path: str) -> str:
        """A folder below the root, with no link on the way."""
        place = self.root
        for name in safe_io.parts(path) if path else []:
            place = os.path.join(place, name)
            if os.path.islink(place) or not os.path.isdir(place):
                raise NotDone(f"{path!r:.200} is no folder here")
        return place

    def _folder_or_file(self, path: str) -> None:
        if path and not safe_io.look(self.root, path, 0).digest:
            self._folder(path)

    def _look(self, path: str) -> safe_io.Look:
        # some file systems do not tell .GIT from .git
        if not path or safe_io.FORBIDDEN.intersection(path.casefold().split("/")):
            raise NotDone(f"{path or '.'!r:.200} is not a file that a workflow may touch")
        return safe_io.look(self.root, path, READ_MAX)

    def _content(self, path: str) -> bytes:
        found = self._look(path)
        if found.data is None:
            why = f": {found.why}" if found.why else ""
            raise NotDone(f"there is no file {path!r:.200} to read here{why}")
        return found.data

    def _put(self, path: str, data: bytes, before: safe_io.Look) -> None:
        try:
            tag = f"{os.getpid()}-{next(self._written)}"
            safe_io.write(self.root, path, data, before.mode or 0o644, before, tag)
        except Conflict as error:
            raise NotDone(error.what) from None

    def _write(self, act: Act) -> str:
        self._put(act.path, act.text.encode("utf-8", "surrogateescape"), self._look(act.path))
        return f"wrote {act.path}"

    def _edit(self, act: Act) -> str:
        before = self._look(act.path)
        text = _as_text(self._content(act.path)) if before.there else ""
        for edit in act.edits:
            text = _edited(text, edit, act.path, new=not before.there)
        self._put(act.path, text.encode("utf-8", "surrogateescape"), before)
        return f"edited {act.path}"

    def _delete(self, act: Act) -> str:
        before = self._look(act.path)
        if not before.there:
            raise NotDone(f"there is no file {act.path!r:.200} here")
        try:
            safe_io.remove(self.root, act.path, before)
        except Conflict as error:
            raise NotDone(error.what) from None
        return f"deleted {act.path}"

    def _move(self, act: Act) -> str:
        data, target = self._content(act.path), self._look(act.to)
        if target.there:
            raise NotDone(f"{act.to!r:.200} is there already")
        self._put(act.to, data, target)
        self._delete(act)
        return f"moved {act.path} to {act.to}"

    def _patch(self, act: Act) -> str:
        changes = _patched(act.text)
        befores = {path: self._look(path) for change in changes for path in change[:2] if path}
        done: list[tuple[str, str, bytes | None]] = []
        for path, to, hunks in changes:  # all are worked out before any is written
            if hunks is None:
                done.append((path, "", None))
                continue
            text = _as_text(self._content(path)) if befores[path].there else ""
            for edit in hunks:
                text = _edited(text, edit, path, new=not befores[path].there)
            done.append((path, to, text.encode("utf-8", "surrogateescape")))
        for path, to, data in done:
            if data is not None:
                self._put(to or path, data, befores[to or path])
            if data is None or to:
                self._delete(Act(kind="delete", path=path))
        return f"patched {', '.join(path for path, _, _ in done)}"

    # -- finding ----------------------------------------------------------------------------------

    def _list(self, act: Act) -> str:
        folder = self._folder(act.path)
        names = sorted(os.listdir(folder))[:NAMES_MAX]
        return "\n".join(
            f"{name}/" if os.path.isdir(os.path.join(folder, name)) else name for name in names
        )

    def _glob(self, act: Act) -> str:
        folder = self._folder(act.path)
        wanted = _pattern(act.text.removeprefix(f"{folder}/"))
        found: list[str] = []
        walked = 0
        for place, folders, files in os.walk(folder):
            folders[:] = sorted(name for name in folders if name not in safe_io.FORBIDDEN)
            for name in sorted(files):
                walked += 1
                path = os.path.relpath(os.path.join(place, name), folder)
                if wanted.fullmatch(path):
                    found.append(path)
                if walked >= WALKED_MAX or len(found) >= NAMES_MAX:
                    return "\n".join(found)
        return "\n".join(found)


_ANY = {name: "x" for name in ("command", "file_path", "content", "old_string", "new_string", "pattern", "input",
                               "source", "destination")}  # fmt: skip
"""Arguments with which every one of these tools does something."""


def _keep(program: subprocess.Popen[bytes], kept: bytearray) -> None:
    assert program.stdout is not None
    with program.stdout as output:
        while piece := os.read(output.fileno(), 65536):
            kept += piece[: max(OUTPUT_MAX - len(kept), 0)]


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _edited(text: str, edit: Replacement, path: str, *, new: bool = False) -> str:
    """A text with one replacement made: an edit of what is not there, or is there twice, is refused."""
    if not edit.old:
        if text and not new:
            raise NotDone(f"{path!r:.200} is there already")
        return edit.new
    times = text.count(edit.old)
    if not times or (times > 1 and not edit.everywhere):
        how = "is not in it" if not times else f"is in it {times} times"
        raise NotDone(f"{path!r:.200} was not edited: the text to replace {how}")
    return text.replace(edit.old, edit.new)


def _pattern(pattern: str) -> re.Pattern[str]:
    """A pattern of paths: `*` and `?` stay within a folder, `**` crosses any number of them."""
    made = ""
    for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern):
        made += {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(
            part, re.escape(part)
        )
    return re.compile(made)


def _patched(patch: str) -> list[tuple[str, str, list[Replacement] | None]]:
    """What a patch does to each file: its path, where it goes, its replacements (None: it is deleted)."""
    lines = patch.strip().split("\n")
    if len(lines) < 2 or lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise NotDone("the patch is not whole")
    found: list[tuple[str, str, list[Replacement] | None]] = []
    old: list[str] = []
    new: list[str] = []
    for line in [*lines[1:-1], "@@"]:
        order, _, path = line.partition(": ")
        if not line.startswith(("*** ", "@@")):
            sign, text = line[:1] or " ", line[1:]
            old += [text] if sign in " -" else []
            new += [text] if sign in " +" else []
            continue
        if (old or new) and found:
            _add_hunk(found[-1], old, new)
        old, new = [], []
        if order == "*** Move to" and found:
            found[-1] = (found[-1][0], path.strip(), found[-1][2])
        elif order in ("*** Add File", "*** Update File", "*** Delete File"):
            found.append((path.strip(), "", None if order == "*** Delete File" else []))
    return found


def _add_hunk(
    change: tuple[str, str, list[Replacement] | None], old: Sequence[str], new: Sequence[str]
) -> None:
    if change[2] is None:
        return
    before, after = ("".join(f"{line}\n" for line in side) for side in (old, new))
    change[2].append(Replacement(before, after))
