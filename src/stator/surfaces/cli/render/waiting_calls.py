"""Shows calls in doubt, calls that wait for approval, and grants, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stator.model.records.text import given_by
from stator.model.values import canon
from stator.model.values.ids import short
from stator.runtime.driving.approvals import Grant, Waiting
from stator.runtime.driving.settlement import Doubt
from stator.surfaces.cli.render import record_line
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.times import clock, span, stamp

NEXT = "    "
NEEDS = {
    "terminal": "an approval in a terminal",
    "passphrase": "an approval with your passphrase",
    "signed": "an approval that is signed: --signing-key FILE",
}
"""What a call demands of its approval."""


def call_text(tool: str, arguments: Any) -> Line:
    """A call with its arguments: `pay(amount=5)`."""
    shown = record_line.arguments(arguments) if arguments is not None else "erased"
    return Line(tool, "bold").add(f"({shown})")


def doubt_lines(found: Doubt, *, named: bool = True) -> Iterator[Line]:
    """A call in doubt, and the command that settles it."""
    line = Line("in doubt: ", "doubt").extend(call_text(found.tool, found.arguments))
    line.add(" · call ", "dim").add(short(found.call), "id").add(f" · t{found.turn}", "dim")
    if found.attempt > 1:
        line.add(f" · attempt {found.attempt}", "dim")
    line.add(f" of {found.name}" if named else "", "dim")
    yield line.add(f" · started {clock(found.since)}, {found.cause}")
    settle = f"stator settle {short(found.call)}"
    yield Line(f"{NEXT}It may or may not have happened. Check, then run: ", "dim").add(
        f"{settle} --done | --not-done | --run-again"
    )


def waiting_lines(found: Waiting, now: int, *, named: bool = True) -> Iterator[Line]:
    """A call that waits for approval, or its answer if the driver has not acted on it yet."""
    line = (
        Line().add(short(found.call), "id", width=11).extend(call_text(found.tool, found.arguments))
    )
    line.add(f" · {found.effect} · t{found.turn}", "dim").add(
        f" of {found.name}" if named else "", "dim"
    )
    if found.answer:
        yield line.add(f" · {found.answer}; its driver has not acted on it yet", "dim")
    else:
        line.add(f" · waiting for {span(now - found.since)}", "doubt")
        yield line.add(f"   stator approve {short(found.call)}", "bold")
    if found.why:
        yield Line(f"{'':11}reason: ", "dim").add(found.why)
    if found.proof and not found.answer:
        yield Line(f"{'':11}needs: ", "dim").add(NEEDS.get(found.proof, found.proof))


def waiting_hint(call: str) -> Line:
    """How to continue a command that stopped at a call that waits for approval."""
    how = f"stator approve {short(call)}, then run the same command again to continue"
    return Line("waiting for approval: ", "doubt").add(how)


def grant_line(found: Grant) -> Line:
    """A grant on one line: the call or pattern, its scope, who gave it, and its expiry."""
    record = found.record
    line = Line().add(found.id, "id", width=18)
    line.add(record.verdict, "ok" if record.verdict == "approved" else "bad", width=10)
    about = record.pattern or f"{record.tool} with arguments {record.arguments[:8]}"
    line.add(about, "bold").add(f" · {record.scope}", "dim")
    line.add(f" · call {short(record.call)}" if record.call else "", "dim")
    line.add(f" · {given_by(record)} · {found.name}", "dim")
    if found.state != "standing":
        return line.add(f" · {found.state}", "doubt")
    if record.expires:
        line.add(f" · until {stamp(record.expires)}", "dim")
    return line


def as_json(found: Waiting | Doubt) -> dict[str, Any]:
    """A waiting call as JSON; its arguments in their recorded form."""
    fields: dict[str, Any] = msgspec.structs.asdict(found)
    return {**fields, "arguments": canon.to_plain(found.arguments)}


def grant_as_json(found: Grant) -> dict[str, Any]:
    """A grant as JSON."""
    record: Mapping[str, Any] = msgspec.structs.asdict(found.record)
    fields = {name: getattr(found, name) for name in ("id", "session", "name", "seq", "state")}
    return {**fields, **record}
