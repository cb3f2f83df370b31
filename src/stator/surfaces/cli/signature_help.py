"""Reads what a command takes and says of itself: from its signature and its docstring, without the parser."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args, get_origin

from stator.surfaces.cli.options import Option, hints
from stator.surfaces.cli.plain_words import Signature, TypedParameter

SECTION = "Parameters\n----------\n"


class CommandInput:
    """One argument or option of a command: how it is written, what may be given, what it is for."""

    def __init__(self, parameter: TypedParameter, hint: Any, about: str) -> None:
        option = Option(help="")
        if get_origin(hint) is Annotated:
            hint, option = hint.__origin__, hint.__metadata__[0]
        self.name = parameter.name
        self.names = parameter.names
        self.is_flag = parameter.is_flag
        self.metavar = option.metavar or ""
        self.choices = [str(one) for one in get_args(hint)] if get_origin(hint) is Literal else []
        self.about = " ".join((option.help or about).split())

    @property
    def label(self) -> str:
        """-n, --limit N"""
        names = ", ".join(sorted(self.names, key=len))
        value = self.metavar or ("" if self.is_flag else self.name.upper().replace("_", "-"))
        return f"{names} {value}".rstrip()


class CommandHelp:
    """What a command takes and says of itself."""

    def __init__(self, function: Callable[..., int]) -> None:
        text, _, described = (inspect.getdoc(function) or "").partition(SECTION)
        summary, _, more = text.strip().partition("\n")
        self.summary = summary
        self.paragraphs = [" ".join(part.split()) for part in more.strip().split("\n\n") if part]
        about, types, signature = _described(described), hints(function), Signature(function)

        def taken(one: TypedParameter) -> CommandInput:
            return CommandInput(one, types[one.name], about.get(one.name, ""))

        positional = [*signature.arguments, *([signature.rest] if signature.rest else [])]
        self.arguments = [taken(one) for one in positional]
        named = {one.name for one in positional}
        unique = {one.name: one for one in signature.options.values() if one.name not in named}
        self.options = [taken(one) for one in unique.values()]


def _described(text: str) -> dict[str, str]:
    """The part of a docstring that describes parameters, by their names."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if line and not line.startswith(" "):
            name = line.strip()
        elif name:
            found[name] = f"{found.get(name, '')} {line.strip()}".strip()
    return found
