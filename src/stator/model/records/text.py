"""Writes values and records as text: for a brief, and in pieces for a line on a screen.

Recorded words only; the caller delimits or escapes them. Bounded: of a value of a million parts only
the first few thousand characters are written out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from stator.errors import StatorError
from stator.model.records.types import (
    ApprovalRecord,
    ArtifactRecord,
    CallRecord,
    CandidateRecord,
    CheckRecord,
    ChildRecord,
    DecisionRecord,
    DeliveryRecord,
    FileRecord,
    FlagRecord,
    PendingRecord,
    PlanRecord,
    ReadStep,
    RevisionRecord,
    RunRecord,
    ScoreRecord,
    SessionRecord,
    SettingRecord,
    SpendRecord,
    ToolRecord,
    TrustRecord,
    WorkingRecord,
)
from stator.model.values import canon
from stator.model.values.ids import is_id, short
from stator.model.values.paths import outside

VALUE_MAX = 4000
"""Characters of a value that are written out."""
PROMPT_FIELDS = frozenset({"digest", "first"})
"""What is recorded of a prompt."""
BITS_MAX = 1024
"""Of a number that is written out in digits."""


def value_text(value: Any) -> str:
    """A value as text: a string as it is, anything else much as JSON writes it."""
    if isinstance(value, str):
        return value
    found: list[str] = []
    size = 0
    for piece in _pieces(value):
        found.append(piece)
        size += len(piece)
        if size > VALUE_MAX:
            return "".join(found)[:VALUE_MAX] + "…"
    return "".join(found)


def _pieces(value: Any) -> Iterator[str]:
    """JSON, piece by piece, so that it can stop early."""
    if isinstance(value, str):
        yield json.dumps(value[:VALUE_MAX], ensure_ascii=False)
    elif value is None or isinstance(value, bool):
        yield json.dumps(value)
    elif isinstance(value, int):
        bits = value.bit_length()
        yield str(value) if bits <= BITS_MAX else f"(a number of {bits:,} bits)"
    elif isinstance(value, Mapping):
        yield "{"
        for place, (key, item) in enumerate(value.items()):
            yield f"{', ' if place else ''}{json.dumps(str(key)[:VALUE_MAX], ensure_ascii=False)}: "
            yield from _pieces(item)
        yield "}"
    elif isinstance(value, (list, tuple)):
        yield "["
        for place, item in enumerate(value):
            yield ", " if place else ""
            yield from _pieces(item)
        yield "]"
    elif isinstance(value, bytes):
        yield f"({len(value):,} bytes)"
    else:
        yield str(value)[:VALUE_MAX]


def recorded_text(plain: Any) -> str:
    """A value inside a record, from its recorded form."""
    try:
        return value_text(canon.from_plain(plain))
    except StatorError:
        return value_text(plain)


def arguments_text(tool: str, given: Any) -> str:
    """A call as it was meant: `pay(amount=5)`."""
    if not isinstance(given, Mapping):
        return f"{tool}({'' if given is None else value_text(given)})"
    shown: list[str] = []
    size = 0
    for name, value in given.items():
        shown.append(f"{name}={value_text(value)}")
        size += len(shown[-1])
        if size > VALUE_MAX:
            break
    return f"{tool}({', '.join(shown)})"


def prompt_text(prompt: Any) -> str:
    """What was asked; of content blocks, the texts in them."""
    if isinstance(prompt, list):
        texts = [block["text"] for block in prompt if _is_text(block)]
        if texts:
            return "\n".join(texts)
    return value_text(prompt)


def _is_text(block: Any) -> bool:
    return isinstance(block, Mapping) and isinstance(block.get("text"), str)


# -- records as one text --------------------------------------------------------------------------


def because(what: str, why: str) -> str:
    return f"{what} — because {why}" if why else what


def _on(name: str, on: str) -> str:
    return f"{name} on {on}" if on else name


def _intended(record: PendingRecord) -> str:
    """What is pending; a call to settle by the short form of its id."""
    verb, _, call = record.what.partition(" ")
    what = f"settle {short(call)}" if verb == "settle" and is_id(call, "call") else record.what
    return f"{what} (waits for {record.on})" if record.on else what


def named_value_text(record: Any) -> str:
    return f"{record.name} = {recorded_text(record.value)}"


def setting_value(value: Any, shown: Callable[[Any], str]) -> str:
    """The value of a setting; of a prompt its first line, then its digest."""
    if isinstance(value, Mapping) and value.keys() == PROMPT_FIELDS:
        return f"{shown(value['first'])} ({shown(value['digest'])})"
    return shown(value)


def setting_text(record: SettingRecord) -> str:
    return f"{record.name} = {setting_value(record.value, recorded_text)}"


def reasoned_text(record: Any) -> str:
    return because(record.what, record.why)


def decision_text(record: DecisionRecord) -> str:
    text = because(f"{record.topic}: {record.what}" if record.topic else record.what, record.why)
    return f"{text} (over {', '.join(record.over)})" if record.over else text


def plan_text(record: PlanRecord) -> str:
    text = f"{record.step}: {record.detail}" if record.detail else record.step
    text = f"{text} (evidence: {record.evidence})" if record.evidence else text
    if not isinstance(record, ReadStep) or record.status != "claimed":
        return text
    path = record.because.partition(": ")[2]
    text = f"{text}; changed: {path}" if path else text
    return f"{text}; check: {record.check}" if record.check else text


def pending_text(record: PendingRecord) -> str:
    return because(_intended(record), record.why)


def file_text(record: FileRecord) -> str:
    where = record.path + outside(record.root, record.path)
    return f"{where} from {record.from_path}" if record.from_path else where


def artifact_text(record: ArtifactRecord) -> str:
    kind = "" if record.media_type == "text/plain" else f" ({record.media_type})"
    return f"{record.name}{kind}"


def approval_text(record: ApprovalRecord) -> str:
    by = f" {given_by(record)}" if record.by else ""
    return f"{record.verdict} {record.pattern or record.tool} for {record.scope}{by}"


def flag_text(record: FlagRecord) -> str:
    return because(_on(record.name, record.on), record.why)


def trust_text(record: TrustRecord) -> str:
    return f"{record.on} is {'believed' if record.believed else 'not believed any more'}"


def score_text(record: ScoreRecord) -> str:
    return because(_on(f"{record.name} {record.value / 1000:g}", record.on), record.comment)


# -- records as the pieces of a line --------------------------------------------------------------

Piece = tuple[str, str]
"""Words and their role in a line: a style (`dim`, `bold`, `ok`, `bad`, `doubt`, `id`), or the list of words
that they are one of (`status`, `op`, `step`) and that the surface has styles for."""


class Show(Protocol):
    """How a surface writes what is not a word."""

    def value(self, plain: Any, /) -> str:
        """A value in its recorded form."""
        ...

    def size(self, count: int, /) -> str:
        """A number of bytes."""
        ...


def _reason(why: str) -> Piece:
    return (f" — {why}" if why else "", "dim")


def named_value_line(record: Any, show: Show) -> list[Piece]:
    return [(f"{record.name} = {show.value(record.value)}", "")]


def setting_line(record: SettingRecord, show: Show) -> list[Piece]:
    return [(f"{record.name} = {setting_value(record.value, show.value)}", "")]


def reasoned_line(record: Any, show: Show) -> list[Piece]:
    return [(record.what, ""), _reason(record.why)]


def session_line(record: SessionRecord, show: Show) -> list[Piece]:
    agent = f" · agent {record.agent}" if record.agent else ""
    return [(record.name, ""), (agent, "dim"), (" · ", "dim"), (record.status, "status")]


def run_line(record: RunRecord, show: Show) -> list[Piece]:
    where = f" on {record.host}" if record.host else ""
    return [(f"{record.program or 'a driver'}{where}, pid {record.pid}", "")]


def child_line(record: ChildRecord, show: Show) -> list[Piece]:
    return [
        (f"{record.kind} {record.name} {short(record.session)} ", ""),
        (record.status, "status"),
    ]


def file_line(record: FileRecord, show: Show) -> list[Piece]:
    return [
        (record.op, "op"),
        (" ", ""),
        (record.path, ""),
        (f" from {record.from_path}" if record.from_path else "", ""),
        (f" ({record.how})" if record.how != "recorded" else "", "dim"),
        (f" ({record.reason})" if record.reason else "", "dim"),
    ]


def decision_line(record: DecisionRecord, show: Show) -> list[Piece]:
    return [
        (f"{record.topic}: " if record.topic else "", "bold"),
        (record.what, ""),
        _reason(record.why),
        (f" (over {', '.join(record.over)})" if record.over else "", "dim"),
    ]


def pending_line(record: PendingRecord, show: Show) -> list[Piece]:
    return [(_intended(record), ""), _reason(record.why)]


def spend_line(record: SpendRecord, show: Show) -> list[Piece]:
    if not record.unit.startswith("money:"):
        return [(f"{record.amount:,} {record.unit}", "")]
    whole, part = divmod(record.amount, 1_000_000)
    cents = f"{part:06d}".rstrip("0").ljust(2, "0")
    return [(f"{whole:,}.{cents} {record.unit.removeprefix('money:')}", "")]


def uses(record: ToolRecord) -> str:
    """How often a tool was used, and how often that failed."""
    times = "once" if record.uses == 1 else f"{record.uses:,} times"
    return f"{record.name}: used {times}, {record.failures:,} failed"


def call_line(record: CallRecord, show: Show) -> list[Piece]:
    return [
        (record.tool, ""),
        (" ", ""),
        (record.status, "status"),
        (f" ({record.cause})" if record.cause else "", ""),
        (f" {short(record.call)}", "id"),
        (" elsewhere" if record.elsewhere else "", "dim"),
    ]


def step_word(record: PlanRecord) -> str:
    """The status of a step in words. A record by itself says at most that the step is claimed: only a reader, who
    looked for a check that succeeded, calls it done."""
    is_proved = isinstance(record, ReadStep) and record.status == "done"
    return (
        "claimed" if record.status == "done" and not is_proved else record.status.replace("_", " ")
    )


def unproved(record: PlanRecord) -> str:
    """Why a step reads claimed, and which command would prove it; "" of any other step."""
    if not isinstance(record, ReadStep) or record.status != "claimed":
        return ""
    return f"{record.because}; {record.check} would prove it" if record.check else record.because


def plan_line(record: PlanRecord, show: Show) -> list[Piece]:
    more = record.detail or record.evidence
    why = unproved(record)
    return [
        (record.step, ""),
        (": ", ""),
        (step_word(record), "step"),
        (f" — {why}" if why else "", "dim"),
        (f" ({more})" if more else "", ""),
    ]


def artifact_line(record: ArtifactRecord, show: Show) -> list[Piece]:
    return [(f"{record.name} v{record.version}", ""), (f" ({show.size(record.size)})", "dim")]


def working_text(record: WorkingRecord) -> str:
    return f"{record.kind} {record.name}" + (f" ({record.detail})" if record.detail else "")


def working_line(record: WorkingRecord, show: Show) -> list[Piece]:
    return [(f"{record.kind} {record.name}", ""), _reason(record.detail)]


def revision_text(record: RevisionRecord) -> str:
    made = f"{record.sha} {record.subject}".rstrip()
    return f"{made} (pushed to {record.pushed})" if record.pushed else made


def revision_line(record: RevisionRecord, show: Show) -> list[Piece]:
    pushed = f", pushed to {record.pushed}" if record.pushed else ""
    where = f" (on {record.branch}{pushed})" if record.branch else pushed
    return [(record.sha, "id"), (f" {record.subject}", ""), (where, "dim")]


def delivery_text(record: DeliveryRecord) -> str:
    changed = "" if record.whole else ", not as it was given"
    return f"{record.kind} {record.note}{changed}"


def delivery_line(record: DeliveryRecord, show: Show) -> list[Piece]:
    changed = [] if record.whole else [(", not as it was given", "doubt")]
    return [(f"{record.kind} ", ""), (record.note, "id"), *changed]


def check_text(record: CheckRecord) -> str:
    return f"{record.command}: {record.ended}"


def candidate_text(record: CandidateRecord) -> str:
    quote = f", from «{record.quote}»" if record.quote else ""
    said = record.name if record.value is None else named_value_text(record)
    return f"{said} (not confirmed{quote})"


def candidate_line(record: CandidateRecord, show: Show) -> list[Piece]:
    quote = f" «{record.quote}»" if record.quote else ""
    said = [(record.name, "")] if record.value is None else named_value_line(record, show)
    return [*said, (f"{quote} (not confirmed)", "dim")]


def approval_line(record: ApprovalRecord, show: Show) -> list[Piece]:
    return [
        (record.verdict, "ok" if record.verdict == "approved" else "bad"),
        (" ", ""),
        (record.pattern or f"{record.tool} with arguments {record.arguments[:8]}", ""),
        (f" · {record.scope} · {given_by(record)}", "dim"),
    ]


def given_by(record: ApprovalRecord) -> str:
    """Who gave a grant, and how that person was recognised: `by local:ann · terminal · below driver 4711 (agent.py)`.
    Where a program called the library, the name is only what the program said."""
    proof = "" if record.proof == "program" else f" · {record.proof}"
    below = f" · below {record.below}" if record.below else ""
    return f"by {record.by}{proof}{below}"


def score_line(record: ScoreRecord, show: Show) -> list[Piece]:
    return [(_on(f"{record.name} {record.value / 1000:g}", record.on), ""), _reason(record.comment)]


def flag_line(record: FlagRecord, show: Show) -> list[Piece]:
    return [(_on(record.name, record.on), "doubt"), _reason(record.why)]
