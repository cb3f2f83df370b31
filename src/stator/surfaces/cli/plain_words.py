"""Reads the words of a command without the parser, where they are plain.

What a command takes comes from its signature and its `options`, as for the parser. Words are plain if each is the exact
name of an option, the value of one, or an argument. Everything else is left to the parser: unknown and shortened
options, words that begin with a hyphen, `--`, an option given twice, a value that does not convert, a missing argument,
a request for help. So the parser alone decides what is wrong, and says it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, get_origin

from stator.surfaces.cli.options import Option, hints

_TEXT = (str, str | None)
_TEXTS = list[str] | None
_WHOLE = (int, int | None)
_VAR_POSITIONAL, _VAR_KEYWORD = 0x04, 0x08  # flags of a code object, as in `inspect`


class _Unusual(Exception):
    """These words are for the parser."""


class TypedParameter:
    """One parameter of a command: how it is named on the command line, and how its value is read."""

    def __init__(self, name: str, hint: Any) -> None:
        option = Option(help="")
        if get_origin(hint) is Annotated:
            hint, option = hint.__origin__, hint.__metadata__[0]
        self.name = name
        self.names = option.names or (f"--{name.replace('_', '-')}",)
        self.is_flag = hint is bool
        self.is_text = hint in _TEXT
        self.is_texts = hint == _TEXTS
        self.is_whole = option.whole and hint in _WHOLE
        self.is_repeated = self.is_texts and option.repeated

    def value(self, word: str) -> Any:
        """The value that a word stands for."""
        if self.is_text or self.is_repeated:
            return word
        if not self.is_whole:
            raise _Unusual
        try:
            return int(word)
        except ValueError:
            raise _Unusual from None


class Signature:
    """What a command takes: its arguments in order, the parameter that takes the rest, and its options by name."""

    def __init__(self, function: Callable[..., int]) -> None:
        code = function.__code__
        types = hints(function)
        known = [TypedParameter(name, types[name]) for name in code.co_varnames[: _count(code)]]
        end = code.co_argcount
        self.arguments = known[:end]
        self.required = end - len(function.__defaults__ or ())
        options = known[code.co_posonlyargcount : end + code.co_kwonlyargcount]
        self.options = {name: one for one in options for name in one.names}
        self.rest = known[-1] if code.co_flags & _VAR_POSITIONAL else None
        needed = {one.name for one in known[end : end + code.co_kwonlyargcount]}
        self.is_plain = not (
            code.co_flags & _VAR_KEYWORD or needed - set(function.__kwdefaults__ or ())
        )


def _count(code: Any) -> int:
    rest: int = bool(code.co_flags & _VAR_POSITIONAL)
    return int(code.co_argcount + code.co_kwonlyargcount + rest)


def read(function: Callable[..., int], words: Sequence[str]) -> partial[int] | None:
    """The command with what the words give it, ready to run; None if they are for the parser."""
    signature = Signature(function)
    if not signature.is_plain:
        return None
    try:
        arguments, options = _options(signature, words)
        return partial(function, *_arguments(signature, arguments, options), **options)
    except _Unusual:
        return None


def _options(signature: Signature, words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The words that are arguments, and the options."""
    arguments: list[str] = []
    options: dict[str, Any] = {}
    coming = iter(words)
    for word in coming:
        if not word.startswith("-"):
            arguments.append(word)
            continue
        name, equals, value = word.partition("=")
        one = signature.options.get(name)
        if one is None or (one.name in options and not one.is_repeated):
            raise _Unusual
        if one.is_flag and not equals:
            options[one.name] = True
            continue
        value = value if equals else next(coming, "")
        if not value or value.startswith("-"):
            raise _Unusual
        if one.is_repeated:
            options.setdefault(one.name, []).append(value)
        else:
            options[one.name] = one.value(value)
    return arguments, options


def _arguments(signature: Signature, words: list[str], options: dict[str, Any]) -> list[Any]:
    """The values of the arguments, in order."""
    values: list[Any] = []
    for one in signature.arguments:
        if not words:
            break
        if one.name in options:  # given by its name, and words are left for the ones after it
            raise _Unusual
        if one.is_texts:
            values.append(words)
            return values
        values.append(one.value(words.pop(0)))
    if words and (signature.rest is None or not signature.rest.is_text):
        raise _Unusual
    if any(
        one.name not in options for one in signature.arguments[len(values) : signature.required]
    ):
        raise _Unusual
    return [*values, *words]
