"""Parses the arguments of one command with cyclopts, using the signature of its function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, get_origin

from cyclopts import App, CycloptsError, Parameter, Token

from stator import __version__
from stator.surfaces.cli.commands import load
from stator.surfaces.cli.options import Option, hints
from stator.surfaces.cli.registry import COMMANDS, GROUPS

__all__ = ["CycloptsError", "app", "parse"]


def app(names: Sequence[str] = tuple(COMMANDS)) -> App:
    """The cyclopts application with these commands."""
    made = App(
        name="stator",
        version=f"stator {__version__}",
        help_format="plaintext",
        group_parameters="Options",
        default_parameter=Parameter(negative=(), show_default=False),
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    for group, commands in GROUPS.items():
        for name in commands:
            if name in names:
                made.command(resolved(load(name)), name=name, group=group)
    return made


def resolved(function: Callable[..., int]) -> Callable[..., int]:
    """The function with annotations that the parser reads: in its file they are strings, and name plain data."""
    function.__annotations__ = {name: _for_parser(hint) for name, hint in hints(function).items()}
    return function


def _for_parser(hint: Any) -> Any:
    if get_origin(hint) is not Annotated:
        return hint
    return Annotated[hint.__origin__, *map(_parameter, hint.__metadata__)]


def _parameter(option: Option) -> Parameter:
    given: dict[str, Any] = {"name": option.names or None, "metavar": option.metavar}
    if option.whole:
        given["converter"] = _whole
    if option.repeated:
        given["consume_multiple"] = False
    if option.leading_hyphen:
        given["allow_leading_hyphen"] = True
    # What is not given is left out: the parser tells None from no word about it.
    return Parameter(help=option.help, **{k: v for k, v in given.items() if v is not None})


def _whole(_: Any, tokens: Sequence[Token]) -> int:
    """Parse a whole number; the parser itself would round 1.5."""
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r:.40} is not a whole number") from None


def parse(words: Sequence[str]) -> partial[int] | None:
    """The command with its arguments, ready to run; None if the words ask for help, which is printed."""
    made = app(words[:1])  # one command only: adding all of them would import all of them
    if _asked_for_help(words):
        from stator.surfaces.cli.command_help import print_help

        print_help(made, words[0])
        return None
    try:
        command, bound, _ = made.parse_args(list(words), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        from stator.surfaces.cli.parser_errors import explained

        raise explained(error, words) from None
    return partial(command, *bound.args, **bound.kwargs)


def _asked_for_help(words: Sequence[str]) -> bool:
    before = words[: words.index("--")] if "--" in words else words
    return "-h" in before or "--help" in before
