"""Calls that wait for a person: in doubt, or for approval. How they, and grants, are shown and told to programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stator.model.values import canon
from stator.model.values.ids import short
from stator.runtime.driving.approvals import Grant, Waiting
from stator.runtime.driving.settlement import Doubt
from stator.surfaces.cli.render import record_line
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.times import clock, span, stamp

NEXT = "    "


def asked(tool: str, arguments: Any) -> Line:
    """A call as it was meant: `pay(amount=5)`."""
    shown = record_line.arguments(arguments) if arguments is not None else "erased"
    return Line(tool, "bold").add(f"({shown})")


def doubt_lines(found: Doubt, *, named: bool = True) -> Iterator[Line]:
    """A call in doubt, and what to do about it."""
    line = Line("in doubt: ", "doubt").extend(asked(found.tool, found.arguments))
    line.add(" · call ", "dim").add(short(found.call), "id").add(f" · t{found.turn}", "dim")
    if found.attempt > 1:
        line.add(f" · attempt {found.attempt}", "dim")
    line.add(f" of {found.name}" if named else "", "dim")
    yield line.add(f" · started {clock(found.since)}, {found.cause}")
    settle = f"stator settle {short(found.call)}"
    yield Line(f"{NEXT}It may or may not have happened. Check, then: ", "dim").add(
        f"{settle} --done | --not-done | --run-again"
    )


def waiting_lines(found: Waiting, now: int, *, named: bool = True) -> Iterator[Line]:
    """A call that waits for approval, and the two answers."""
    line = Line().add(short(found.call), "id", width=11).extend(asked(found.tool, found.arguments))
    line.add(f" · {found.effect} · t{found.turn}", "dim").add(
        f" of {found.name}" if named else "", "dim"
    )
    if found.answer:
        yield line.add(f" · {found.answer}; its driver has not come by since", "dim")
    else:
        yield line.add(f" · waits {span(now - found.since)}", "doubt")
    if found.why:
        yield Line(f"{'':11}because: ", "dim").add(found.why)


def goes_on_line(call: str) -> Line:
    """What to do about a command that stopped at a call which waits."""
    what = f"stator approve {short(call)}, then the same command again goes on"
    return Line("waits: ", "doubt").add(what)


def grant_line(found: Grant) -> Line:
    """A grant: what it is about, how wide and how long."""
    record = found.record
    line = Line().add(found.id, "id", width=18)
    line.add(record.verdict, "ok" if record.verdict == "approved" else "bad", width=10)
    about = record.pattern or f"{record.tool} with arguments {record.arguments[:8]}"
    line.add(about, "bold").add(f" · {record.scope}", "dim")
    line.add(f" · call {short(record.call)}" if record.call else "", "dim")
    line.add(f" · by {record.by} · {found.name}", "dim")
    if found.state != "standing":
        return line.add(f" · {found.state}", "doubt")
    if record.expires:
        line.add(f" · until {stamp(record.expires)}", "dim")
    return line


def plain(found: Waiting | Doubt) -> dict[str, Any]:
    """A waiting call for programs; its arguments in their recorded form."""
    fields: dict[str, Any] = msgspec.structs.asdict(found)
    return {**fields, "arguments": canon.to_plain(found.arguments)}


def grant_plain(found: Grant) -> dict[str, Any]:
    """A grant for programs."""
    record: Mapping[str, Any] = msgspec.structs.asdict(found.record)
    fields = {name: getattr(found, name) for name in ("id", "session", "name", "seq", "state")}
    return {**fields, **record}
