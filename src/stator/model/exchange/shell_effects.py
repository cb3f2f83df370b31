"""Works out which files a shell command certainly touched, from its text alone. Pure.

A transcript shows which command ran and that it succeeded. What most commands did to files cannot
be known from that. This module handles the certain cases: simple commands with literal words (`rm
a.txt`, `mv a b`, `echo x > out`) that must all have run. A command with a word that is not literal
(a glob, a variable, a substitution) yields nothing. Where control flow is uncertain (`||`, loops,
all but the last part of `a; b`), that part yields nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec

from stator.model.exchange.items import Touch
from stator.model.records.types import FileOp
from stator.model.values.late_pattern import late

COMMAND_MAX = 20_000
"""The most characters of a command; a longer one yields nothing."""
LINES_KEPT = 32
"""Command lines that are kept split: a call and its result are a few lines apart."""
TOUCHES_MAX = 200

_TOKEN = late(
    r"""(?P<space>[ \t]+|\\\n)
      | (?P<comment>(?<![^\s;&|()])\#[^\n]*)
      | (?P<op>&&|\|\||\|&|&>>|&>|>>|>\||>&|<<<|<<-?|<&|<>|[;\n|&<>()])
      | (?P<word>(?:'[^']*' | "(?:[^"\\$`]|\\["\\])*" | \\[^\n] | [^\s;&|<>()'"\\])+)
    """,
    re.VERBOSE,
)
_UNQUOTED = late(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.""", re.DOTALL)
_EXPANDED = frozenset("*?[]{}$`~!")
_KEYWORDS = frozenset(
    "if then else elif fi for while until do done case esac function select time coproc"
    " eval exec source . alias trap exit return break continue pushd popd xargs sudo env".split()
)


class _Command(msgspec.Struct):
    """A simple command: its words, and the files its output goes to (True: appended)."""

    words: list[str] = []
    outputs: list[tuple[str, bool]] = []
    piped: bool = False
    """Whether another command reads its output."""
    is_plain: bool = True
    """Whether every word is literal."""


def files_touched(command: str, cwd: str = "", *, reads: bool = False) -> tuple[Touch, ...]:
    """The files that a successful command certainly touched, under the names it uses.

    `cwd` is the folder in which it ran; it is needed for what follows a `cd`. With `reads`, also the
    files that it showed (`cat a`, `sed -n 1,9p a`, `nl a | head`); in front of a pipe, a file may be missing.
    """
    if len(command) > COMMAND_MAX:
        return ()
    chains = _chains(command)
    if not chains:
        return ()
    if _is_set_e(chains[0][0]):
        certain = [command_part for chain in chains[1:] for command_part in chain]
    else:
        certain = chains[-1] if all(_stays_in_folder(chain) for chain in chains[:-1]) else []
    found: dict[str, Touch] = {}
    base: str | None = ""
    for command_part in certain:
        if command_part.words[:1] == ["cd"]:
            base = _folder_after_cd(command_part, base, cwd)
            continue
        shown = _files_shown(command_part) if reads else ()
        for touch in (*_touches(command_part), *shown):
            placed = _resolved(touch, base)
            if placed is not None and not (touch.op == "read" and placed.path in found):
                found[placed.path] = placed
    return tuple(found.values())[:TOUCHES_MAX]


def simple_commands(command: str) -> list[tuple[list[str], bool]]:
    """The commands in a command line: the words of each, "" for a word that the shell would expand, and
    whether its output goes into a file. [] if the control flow is uncertain."""
    if len(command) > COMMAND_MAX:
        return []
    return [
        (list(part.words), any(path != "/dev/null" for path, _ in part.outputs))
        for chain in _chains(command)
        for part in chain
    ]


def parts_of_success(command: str) -> list[str]:
    """The texts of the commands of a line that certainly succeeded if the line did: the last chain's, each with its
    pipes and redirections. [] if the control flow is uncertain, or a `cd` before that chain may have failed."""
    chains = _chains(command) if len(command) <= COMMAND_MAX else []
    if not chains or not all(map(_stays_in_folder, chains[:-1])):
        return []
    parts: list[str] = []
    begin = 0
    for match in _TOKEN.finditer(command):
        text = match.group()
        if match.lastgroup == "op" and text in ("&&", ";", "\n", "<<", "<<-"):
            if text.startswith("<<"):
                return []  # the text of a here-document is not one of commands
            parts.append(command[begin : match.start()].strip())
            begin = match.end()
            if text != "&&" and command[begin:].strip():
                parts.clear()
    parts.append(command[begin:].strip())
    return [part for part in parts if part]


def _is_set_e(first: _Command) -> bool:
    """Whether the command is `set -e`; then a command that succeeded ran to its end."""
    options = [word for word in first.words[1:] if word.startswith("-")]
    return first.words[:1] == ["set"] and any("e" in word for word in options)


@lru_cache(maxsize=LINES_KEPT)
def _chains(command: str) -> list[list[_Command]]:
    """Split a command line into chains. `;` and newlines separate chains; `&&` and `|` join the
    commands within one. [] if the control flow is uncertain. Several rules look at each line: nobody changes it."""
    chains: list[list[_Command]] = [[]]
    current = _Command()
    redirect = ""
    position = 0
    here_document_ends: list[str] = []
    while position < len(command):
        match = _TOKEN.match(command, position)
        if match is None:
            return []
        position = match.end()
        text = match.group()
        if match.lastgroup in ("space", "comment"):
            continue
        if match.lastgroup == "word":
            word = _literal(text)
            if redirect == "<<":
                here_document_ends.append(_UNQUOTED.sub(_unquoted, text))
                redirect = ""
            elif redirect:
                if redirect != "<" and word is not None:
                    current.outputs.append((word, redirect == ">>"))
                current.is_plain = current.is_plain and (redirect == "<" or word is not None)
                redirect = ""
            elif word is None:
                current.is_plain = False
                current.words.append("")
            else:
                current.words.append(word)
            continue
        if redirect:
            return []
        if text == "\n":
            for end in here_document_ends:
                position = _after_here_document(command, position, end)
                if position < 0:
                    return []
            here_document_ends = []
        if text in ("<<", "<<-"):
            redirect = "<<"
        elif text in (">", ">>", "&>", "&>>", ">|", "<", ">&"):
            if (
                current.words
                and current.words[-1].isdigit()
                and command[match.start() - 1].isdigit()
            ):
                current.words.pop()
            redirect = {"<": "<", ">>": ">>", "&>>": ">>"}.get(text, ">")
            if text == ">&" and command[position : position + 1].isdigit():
                position += 1
                redirect = ""
        elif text in (";", "\n", "&&", "|"):
            if current.words or current.outputs:
                current.piped = text == "|"
                chains[-1].append(current)
            current = _Command()
            if text in (";", "\n") and chains[-1]:
                chains.append([])
        else:
            return []
    if redirect or here_document_ends:
        return []
    if current.words or current.outputs:
        chains[-1].append(current)
    whole = [chain for chain in chains if chain]
    return (
        []
        if any(
            command_part.words[:1] and command_part.words[0] in _KEYWORDS
            for c in whole
            for command_part in c
        )
        else whole
    )


def _after_here_document(command: str, position: int, end: str) -> int:
    """The position after a here-document that ends with the line `end`; -1 if it never ends."""
    while position < len(command):
        stop = command.find("\n", position)
        stop = len(command) if stop < 0 else stop
        line = command[position:stop]
        position = stop + 1
        if line.lstrip("\t") == end:
            return min(position, len(command))
    return -1


def _literal(word: str) -> str | None:
    """The literal value of a word, or None if the shell would expand it."""
    bare = _UNQUOTED.sub("", word)
    if _EXPANDED & set(bare):
        return None
    return _UNQUOTED.sub(_unquoted, word)


def _unquoted(match: re.Match[str]) -> str:
    text = match.group()
    if text[0] == "\\":
        return text[1:]
    return text[1:-1] if text[0] == "'" else re.sub(r'\\(["\\])', r"\1", text[1:-1])


def _stays_in_folder(chain: list[_Command]) -> bool:
    return all(command_part.words[:1] != ["cd"] for command_part in chain)


def _folder_after_cd(command_part: _Command, base: str | None, cwd: str) -> str | None:
    """The folder that a `cd` enters; None if it is unknown."""
    if (
        len(command_part.words) != 2
        or not command_part.is_plain
        or base is None
        or command_part.words[1] in ("", "-")
    ):
        return None
    here = base or cwd
    if not here and not posixpath.isabs(command_part.words[1]):
        return None
    return posixpath.normpath(posixpath.join(here, command_part.words[1]))


def _resolved(touch: Touch, base: str | None) -> Touch | None:
    """A touch with its paths below the folder `base`; None if that folder is unknown and a path is
    relative."""
    if not base and base is not None:
        return touch
    names = [touch.path, *([touch.from_path] if touch.from_path else [])]
    if base is None:
        return touch if all(map(posixpath.isabs, names)) else None
    return msgspec.structs.replace(
        touch,
        path=posixpath.join(base, touch.path),
        from_path=posixpath.join(base, touch.from_path) if touch.from_path else "",
    )


def _touches(command_part: _Command) -> Iterator[Touch]:
    for path, added in command_part.outputs:
        if not path.startswith("/dev/") and path not in ("", "-"):
            yield _touch(path, "modified" if added else "created")
    # in a pipe, only the exit status of the last command is known; the others may have failed
    if not command_part.is_plain or not command_part.words or command_part.piped:
        return
    words = command_part.words
    name = posixpath.basename(words[0])
    if name == "git" and words[1:2] in (["rm"], ["mv"]):
        name, words = words[1], words[1:]
    rule = _RULES.get(name)
    if rule is not None:
        yield from rule(words[1:])


def _touch(path: str, op: FileOp, from_path: str = "") -> Touch:
    return Touch(path=path, op=op, from_path=from_path, how="inferred")


def _names(words: list[str], allowed: str) -> list[str]:
    """The words that are not options; [] if an option may change the meaning."""
    names: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return names + words[place + 1 :]
        if word.startswith("-") and len(word) > 1:
            if not set(word[1:]) <= set(allowed):
                return []
        else:
            names.append(word)
    return [name for name in names if name]


def _by_rm(words: list[str]) -> Iterator[Touch]:
    # with -r a name may be a folder, and its files are unknown
    yield from (_touch(name, "deleted") for name in _names(words, "vf"))


def _by_mv(words: list[str]) -> Iterator[Touch]:
    names = _names(words, "fv")
    if len(names) == 2 and _looks_like_file(names[1]) and _looks_like_file(names[0]):
        yield _touch(names[1], "renamed", names[0])


def _by_cp(words: list[str]) -> Iterator[Touch]:
    names = _names(words, "fvp")
    if len(names) == 2 and _looks_like_file(names[1]):
        yield _touch(names[1], "created")


def _by_touch(words: list[str]) -> Iterator[Touch]:
    yield from (_touch(name, "created") for name in _names(words, ""))


def _by_tee(words: list[str]) -> Iterator[Touch]:
    op: FileOp = "modified" if "-a" in words else "created"
    yield from (_touch(name, op) for name in _names(words, "a"))


def _by_sed(words: list[str]) -> Iterator[Touch]:
    if not words or words[0] not in ("-i", "-i.bak", "-i''"):
        return
    # BSD's sed requires a suffix after -i, which may be empty
    rest = words[2:] if words[1:2] == [""] else words[1:]
    if rest[:1] == ["-e"] or (rest[:1] and rest[0] in ("-E", "-r", "-n")):
        rest = rest[1:]
    if len(rest) >= 2 and not any(word.startswith("-") for word in rest):
        yield from (_touch(name, "modified") for name in rest[1:])


def _files_shown(command_part: _Command) -> Iterator[Touch]:
    """The files whose content a command wrote to its output."""
    if not command_part.is_plain or not command_part.words:
        return
    name, words = posixpath.basename(command_part.words[0]), command_part.words[1:]
    names: list[str] = []
    if name == "nl" and words[:2] == ["-b", "a"]:
        words = words[2:]
    if name in _SHOWN_WHOLE:
        names = _names(words, _SHOWN_WHOLE[name]) if "-b" not in words else []
    elif name in ("head", "tail"):
        names = _names(_COUNTED.sub("", "\n".join(["", *words])).split("\n")[1:], "qv")
    elif name == "sed" and words[:1] == ["-n"] and words[1:2] and _PRINTED.fullmatch(words[1]):
        names = _names(words[2:], "")
    elif name in ("rg", "grep"):
        names = [word for word in _names(words, "niwHFEoclsP")[1:] if _looks_like_file(word)]
    for path in names:
        if path != "-" and not path.startswith("/dev/"):
            yield _touch(path, "read")


def _looks_like_file(name: str) -> bool:
    """Whether a name is probably that of a file: it has an extension and no trailing slash. If `b`
    is a folder, `mv a b` moves into it, and the command does not show that."""
    return bool(posixpath.splitext(name)[1]) and not name.endswith(("/", "/.", "/.."))


_SHOWN_WHOLE = {"cat": "nAbsETv", "nl": "ba", "wc": "lcwm", "less": "NRSX", "bat": "pn"}
"""Commands that show the files they name → the options that change nothing about that."""
_COUNTED = late(r"\n-(?:[nc]\n?\+?\d+|\d+)(?=\n|\Z)")
"""How many lines `head` and `tail` show; the words are separated by newlines."""
_PRINTED = late(r"(?:\d+|\$)?(?:,(?:\d+|\$))?[pq](?:;(?:\d+|\$)?(?:,(?:\d+|\$))?[pq])*")
"""A script of `sed` that only prints lines."""
_RULES: dict[str, Callable[[list[str]], Iterator[Touch]]] = {
    "rm": _by_rm,
    "unlink": _by_rm,
    "mv": _by_mv,
    "cp": _by_cp,
    "touch": _by_touch,
    "tee": _by_tee,
    "sed": _by_sed,
}
"""`mkdir` is left out on purpose: it creates no file."""
