"""What a route of the service is: its path, its parameters and the function that answers it.

Routes are data, so that one table makes the routes, checks what callers send and writes the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from stator.errors import BadQuery
from stator.runtime.facade.view import SessionView
from stator.surfaces.http.served import Served

Kind = Literal["text", "whole", "flag", "list"]
TEXT_MAX = 1_000
"""The most characters of one parameter."""
LIST_MAX = 50
"""The most times that a parameter may be repeated."""
DIGITS_MAX = 15
FLAGS = {"true": True, "1": True, "": True, "false": False, "0": False}
"""What a flag may say; without a value it is set."""
CURSOR = "cursor"


class RouteParameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a route, in its path or after the question mark."""

    name: str
    about: str
    kind: Kind = "text"
    default: Any = None
    least: int = 0
    most: int = 0
    choices: tuple[str, ...] = ()
    required: bool = False
    in_path: bool = False

    def read(self, given: Sequence[str]) -> Any:
        """The value, or the default if none was given."""
        for text in given:
            if len(text) > TEXT_MAX:
                raise BadQuery(f"{self.name} is longer than {TEXT_MAX} characters")
            if self.choices and text not in self.choices:
                raise BadQuery(f"{self.name}: {text!r:.40}", hint=", ".join(self.choices))
        if self.kind == "list":
            if len(given) > LIST_MAX:
                raise BadQuery(f"{self.name} is given more than {LIST_MAX} times")
            return list(given)
        if len(given) > 1:
            raise BadQuery(f"{self.name} is given {len(given)} times", hint="give it once")
        if not given:
            if self.required:
                raise BadQuery(f"{self.name} is missing", hint=self.about)
            return self.default
        return self._single(given[0])

    def _single(self, text: str) -> Any:
        if self.kind == "whole":
            digits = text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX
            if not digits or not self.least <= int(text) <= self.most:
                raise BadQuery(
                    f"{self.name} must be a whole number from {self.least:,} to {self.most:,}, got {text!r:.40}"
                )
            return int(text)
        if self.kind == "flag":
            if text not in FLAGS:
                raise BadQuery(f"{self.name} is true or false, got {text!r:.40}")
            return FLAGS[text]
        if self.required and not text:
            raise BadQuery(f"{self.name} is empty", hint=self.about)
        return text


class WholeDocument(msgspec.Struct, frozen=True):
    """An answer that is one document."""

    plain: Mapping[str, Any]


class ItemPage(msgspec.Struct, frozen=True):
    """An answer that is some items of a list, and the key after which it continues."""

    items: Sequence[Mapping[str, Any]]
    next: Sequence[int | str] | None = None


class Attachment(msgspec.Struct, frozen=True):
    """An answer that is recorded bytes. It is saved, never shown."""

    data: bytes
    name: str


Answer = WholeDocument | ItemPage | Attachment


class Question(msgspec.Struct, frozen=True):
    """What a request asks for, checked."""

    served: Served
    values: Mapping[str, Any]
    after: Sequence[int | str] | None = None
    """The key that a page continues after."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def view(self) -> SessionView:
        """The session that the path names: by id, end of an id or name."""
        return self.served.store.read(self.values["session"])

    def whole_key(self) -> tuple[int, ...] | None:
        """The key to continue after, where it is made of numbers."""
        if self.after is None:
            return None
        return tuple(part for part in self.after if isinstance(part, int))


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One route of the service. `answer` is called in a thread; a `stream` is awaited."""

    path: str
    name: str
    about: str
    parameters: tuple[RouteParameter, ...] = ()
    answer: Callable[[Question], Answer] | None = None
    gives: Literal["document", "list", "attachment"] = "list"
    stream: Callable[[Request], Awaitable[Response]] | None = None
    schema: str = ""
    """The schema of the document."""
    paged: bool = False
    tag: Literal["", "log", "read"] = ""
    """What the ETag stands for: the log alone, or also what readers make of it while nothing is written."""

    def read(self, path: Mapping[str, str], query: QueryParams) -> dict[str, Any]:
        """The values of all parameters; refuses what is wrong, and what the route does not know."""
        known = {one.name for one in self.parameters if not one.in_path}
        if self.paged:
            known.add(CURSOR)
        for name in query:
            if name not in known:
                raise BadQuery(
                    f"unknown parameter {name!r:.40}", hint=", ".join(sorted(known)) or "none"
                )
        return {
            one.name: one.read([path[one.name]] if one.in_path else query.getlist(one.name))
            for one in self.parameters
        }
