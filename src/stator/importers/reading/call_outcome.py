"""Describes how a tool call ended and which files it touched, for formats that work these out alike."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import Literal

import msgspec

from stator.model.exchange.items import Touch

CallStatus = Literal["ok", "error", "timeout", "cancelled", "denied", "in doubt"]


class CallOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended, judging by its output."""

    status: CallStatus = "ok"
    cause: str = ""


def resolve_touches(touches: Iterable[Touch], folder: str) -> tuple[Touch, ...]:
    """The touches with their paths resolved against a folder."""

    def place(path: str) -> str:
        return posixpath.join(folder, path) if path else ""

    return tuple(
        msgspec.structs.replace(touch, path=place(touch.path), from_path=place(touch.from_path))
        for touch in touches
    )
