"""Shows calls in doubt, calls that wait for approval, and grants, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stator.model.records.text import given_by
from stator.model.values import canon
from stator.model.values.ids import short
from stator.model.views.open_calls import SettledCall
from stator.runtime.driving.approvals import Grant, Waiting
from stator.runtime.driving.settlement import Doubt
from stator.runtime.views.reasons.doubt_story import DoubtStory
from stator.surfaces.cli.render import record_line
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.times import ago, clock, moment, span, stamp

NEXT = "    "
NEEDS = {
    "terminal": "an approval in a terminal",
    "passphrase": "an approval with your passphrase",
    "signed": "an approval that is signed: --signing-key FILE",
}
"""What a call demands of its approval."""
VERDICTS = (
    ("--done", "it happened"),
    ("--not-done", "it did not, and must not run again"),
    ("--run-again", "it did not, and may run again"),
)
LABEL = 10
"""Cells of what a line of a story is about."""
HANG = len(NEXT) + LABEL
"""Where the later rows of such a line begin."""
CALL_MAX = 120
"""Characters of a call beside how it was settled."""
AGAIN = 3
"""Later calls with the same arguments that are named."""


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


def settled_words(found: SettledCall) -> Line:
    """A call that was in doubt, with how it was settled, the author and the reason."""
    line = Line(record_line.brief(found.text, CALL_MAX), "bold").add(f": {found.verdict}")
    line.add(f", by {found.by}" if found.by else "")
    line.add(f", “{record_line.brief(found.why)}”" if found.why else "")
    return line.add(f"  @{found.seq}", "id")


def older_words(older: int) -> str:
    """What the doubts are that nobody is asked about, because they are history."""
    calls = record_line.count(older, "call")
    return f"{calls} of imported sessions {'has' if older == 1 else 'have'} no known outcome"


def story_lines(
    found: Doubt, story: DoubtStory, now: int, *, is_asked: bool = False
) -> Iterator[Line]:
    """A call in doubt with all that is known of it, one thing a line; then the commands that settle it, unless the
    person is asked."""
    line = Line("in doubt: ", "doubt").add(found.tool, "bold").add(" · call ", "dim")
    line.add(short(found.call), "id").add(f" · t{found.turn} of {found.name}", "dim")
    yield line.add(f" · attempt {found.attempt}" if found.attempt > 1 else "", "dim")
    began, age = moment(found.since), ago(found.since, now)
    when = f"{began}, {age}" if age.endswith("ago") else began
    yield _told("began", f"{when}; {found.cause}")
    if story.prompt is not None:
        yield _told("asked", record_line.brief(record_line.value_of(story.prompt, "input")))
    for place, one in enumerate(story.decisions):
        line = _told("" if place else "decided", "").extend(record_line.of_decision(one))
        yield line.add(f"  @{one.seq}", "id")
    if story.said is not None:
        yield _told("said", record_line.brief(story.said.text)).add(f"  @{story.said.seq}", "id")
    yield from _input(found.arguments)
    if story.answer is not None:
        output = record_line.brief(record_line.value_of(story.answer, "output"))
        if output:
            yield _told("returned", output).add(f"  @{story.answer.seq}", "id")
    yield _told("since", _since(story))
    if (then := story.then) is not None:
        label = "next said" if then.kind == "said" else "next ask"
        yield _told(label, record_line.brief(then.text)).add(f"  @{then.seq}", "id")
    if is_asked:
        return
    call = short(found.call)
    yield Line(f"{NEXT}It may or may not have happened. Check, then run one of:", "dim")
    wide = max(len(flag) for flag, _ in VERDICTS)
    for flag, means in VERDICTS:
        line = Line(f"{NEXT}  ").add(f"stator settle {call} {flag:{wide}}", "bold")
        yield line.add(f"   {means}", "dim")
    why = f'stator settle {call} {VERDICTS[0][0]} --why "…"'
    yield Line(f"{NEXT}how you know is recorded with it: {why}", "dim")
    yield Line(f"{NEXT}around it: stator log {short(found.session)}:t{found.turn}", "dim")


def _told(label: str, text: str) -> Line:
    return Line(f"{NEXT}{label:{LABEL}}", "dim").add(text)


def _input(arguments: Any) -> Iterator[Line]:
    """The arguments of a call, one a line."""
    if isinstance(arguments, Mapping) and arguments:
        for place, (name, value) in enumerate(arguments.items()):
            yield _told("" if place else "input", f"{name}: {record_line.brief(value)}")
    else:
        yield _told("input", "erased" if arguments is None else record_line.brief(arguments))


def _since(story: DoubtStory) -> str:
    """What happened after a call in doubt, as far as it bears on it."""
    if story.again:
        again = ", ".join(f"@{row.seq} {row.status}" for row in story.again[:AGAIN])
        more = f" and {len(story.again) - AGAIN} more" if len(story.again) > AGAIN else ""
        return f"called again with the same arguments: {again}{more}"
    if not story.followed:
        return "nothing followed in its session"
    followed = record_line.count(story.followed, "commit")
    return f"not called again with the same arguments; {followed} followed in its session"


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
