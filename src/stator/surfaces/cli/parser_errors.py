"""Says in our words what is wrong with a command line, with the command that would be right where it can be known."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import get_args

from cyclopts import CycloptsError
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from stator.errors import BadQuery
from stator.surfaces.cli.commands import examples, load
from stator.surfaces.cli.options import Option, hints
from stator.surfaces.cli.parts.open_store import is_place
from stator.surfaces.cli.parts.question.typed_file import may_be_file
from stator.surfaces.cli.plain_words import Signature

WORD_MAX, COMMAND_MAX = 60, 200
NEAR = 0.75
"""How much alike two options are for the one to be a slip for the other."""
OTHER_OPTIONS: dict[str, tuple[str, ...]] = {
    "--today": ("--since", "today"),
    "--yesterday": ("--since", "yesterday"),
    "--week": ("--since", "7d"),
    "--month": ("--since", "30d"),
    "--global": ("--everywhere",),
    "--all": ("--everywhere",),
    "-a": ("--everywhere",),
    "--diff": ("--patch",),
    "-u": ("--patch",),
    "--verbose": ("--full",),
    "-v": ("--full",),
    "-y": ("--yes",),
    "--force": ("--yes",),
    "--max": ("--limit",),
    "--reason": ("--why",),
    "-m": ("--why",),
    "--message": ("--why",),
}
"""Options that other programs have, and what says the same here, where a command takes that."""


AS_TABLE = 'stator sql "SELECT * FROM sessions" --csv; stator sql lists what there is'
"""What says the same as an option by which other programs print a table for programs."""
RELATIVES = ("subagent", "agent", "children", "child", "fork", "retrie", "tree")
"""Other sessions that people ask for by an option, without their plural."""
LISTS = ("ls", "status", "top")
"""Commands that list sessions and take no name of one."""
ABOUT_ONE = ("why", "blame", "search")
"""Commands whose arguments say what is asked about, and not where."""
SORTED = (
    "lists are in order of time; by cost: stator cost --by session; by anything: "
    'stator sql "SELECT name, tokens FROM sessions ORDER BY tokens DESC"'
)
"""What says the same as an option by which other programs sort."""


def explained(error: CycloptsError, words: Sequence[str]) -> BadQuery:
    """The error of the parser as one of ours; `words` begin with the command."""
    what, instead = _explained(error, words)
    return BadQuery(what, hint=instead or f"stator {words[0]} --help")


def _explained(error: CycloptsError, words: Sequence[str]) -> tuple[str, str]:
    """What is wrong, and what to type instead, if that is known."""
    if isinstance(error, UnknownOptionError):
        return _unknown(words)
    if isinstance(error, UnusedCliTokensError):
        return _unexpected((error.unused_tokens or [""])[0], words)
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        name = error.keyword or error.argument.name
        is_typed = name.startswith("-") and name in words
        what = f"{name} needs a value" if is_typed else f"{name} is missing"
        return what, f"for example: {_example(words, name)}"
    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword} is given twice", "give it once"
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    if isinstance(error, CoercionError):
        text = text.replace("unable to convert ", "").replace(" into float", " is not a number")
    return text[0].lower() + text[1:], ""


def _unknown(words: Sequence[str]) -> tuple[str, str]:
    known = Signature(load(words[0])).options
    typed = [word for word in words[1:] if word.startswith("-") and word != "-"]
    option = next((one for one in typed if not _is_known(one.partition("=")[0], known)), "")
    name = option.partition("=")[0]
    if not name:
        return _unexpected("-", words)
    if name[1:].isdigit() and "-n" in known:
        others = [f"-n {name[1:]}" if one == option else shlex.quote(one) for one in words]
        return f"stator {words[0]} has no option {name}", f"did you mean: stator {' '.join(others)}"
    if name.lstrip("-").replace("-", "").rstrip("s") in RELATIVES:
        return f"stator {words[0]} has no option {name}", "stator tree shows them"
    if name in ("--csv", "--tsv", "--table") or name.startswith(("--min-", "--max-", "--where")):
        return f"stator {words[0]} has no option {name}", AS_TABLE
    if name in ("--sort", "--order", "--order-by"):
        return f"stator {words[0]} has no option {name}", SORTED
    if name in ("-s", "--session"):
        value = option.partition("=")[2] or words[words.index(option) + 1 :][:1]
        return _without_session(words[0], name, "".join(value) or "SESSION")
    return f"stator {words[0]} has no option {name:.{WORD_MAX}}", _instead(
        words, option, name, known
    )


def _without_session(command: str, option: str, named: str) -> tuple[str, str]:
    """What to type where a command has no option that names a session."""
    takes = Signature(load(command))
    if any(one.name in ("session", "sessions") for one in (*takes.arguments, takes.rest) if one):
        what = f"stator {command} takes the session as an argument, not by {option}"
        return what, shlex.join(["stator", command, named])
    what = f"stator {command} is about the project, and has no option {option}"
    about_one = command if takes.rest is not None else "show"
    return what, f"one session: {shlex.join(['stator', about_one, named])}"


def _unexpected(word: str, words: Sequence[str]) -> tuple[str, str]:
    known = Signature(load(words[0])).options
    what = f"unexpected argument {word!r:.{WORD_MAX}}"
    option = f"--{word}"
    if option in known:
        return what, _instead(words, word, option, known)
    if words[0] in LISTS and word != "-":
        return what, f"one session: {shlex.join(['stator', 'show', word]):.{COMMAND_MAX}}"
    if "--session" not in known or word == "-":
        return what, ""
    others = [one for one in words[1:] if not one.startswith("-") and one != word]
    if others and is_place(word) and not is_place(others[-1]):  # SESSION t5 where one word is taken
        rest = [one for one in words[1:] if one not in (word, others[-1])]
        line = shlex.join(["stator", words[0], *rest, f"{others[-1]}:{word}"])
        return what, f"did you mean: {line:.{COMMAND_MAX}}"
    return what, f"in one session: {_in_session(words[0], others, word):.{COMMAND_MAX}}"


def _in_session(command: str, others: Sequence[str], word: str) -> str:
    """The command with the option that names a session, which one of its words is."""
    if command not in ABOUT_ONE:
        return shlex.join(["stator", command, "-s", word])
    named, thing = _session_and_thing(others, word)
    return shlex.join(["stator", command, *filter(None, [thing]), "-s", named])


def _session_and_thing(others: Sequence[str], word: str) -> tuple[str, str]:
    """Which of two words is the session: not the one that is a file; what is asked about comes first."""
    if not others:
        return word, ""
    first = others[0]
    return (first, word) if may_be_file([word]) and not may_be_file([first]) else (word, first)


def _instead(words: Sequence[str], word: str, name: str, known: Iterable[str]) -> str:
    """The same command with the option that was meant."""
    other = OTHER_OPTIONS.get(name, ())
    if other and other[0] in list(known):
        typed = [part for one in words for part in (other if one == word else (one,))]
        return f"did you mean: {shlex.join(['stator', *typed]):.{COMMAND_MAX}}"
    near = get_close_matches(name[:WORD_MAX], list(known), n=1, cutoff=NEAR)
    if not near:
        return ""
    meant = near[0] + word[word.find("=") :] if "=" in word else near[0]
    line = shlex.join(["stator", *(meant if one == word else one for one in words)])
    return f"did you mean: {line}" if len(line) <= COMMAND_MAX else f"did you mean {near[0]}?"


def _is_known(name: str, known: Collection[str]) -> bool:
    """Whether it is an option, or several of one letter: `-pf`."""
    short = not name.startswith("--") and len(name) > 2
    return name in known or (short and all(f"-{letter}" in known for letter in name[1:]))


def _example(words: Sequence[str], name: str) -> str:
    """An example of a command: with the option that lacks its value, else the first that says more than its name."""
    command = words[0]
    lines = [line.split("  ")[0] for line in examples(command).strip().splitlines()]
    if name.startswith("-"):
        known = [each for hint in hints(load(command)).values() for each in get_args(hint)]
        values = (o.metavar for o in known if isinstance(o, Option) and name in o.names)
        with_it = (line for line in lines if name in line.split())
        return next(with_it, f"stator {command} {name} {next(values, None) or 'VALUE'}")
    return next((line for line in lines if len(line.split()) > 2), lines[0])
