"""Describes a commit or a record on one line, in words a newcomer can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stator.errors import StatorError
from stator.model.log.chain import put_item
from stator.model.log.commit import (
    CONTINUED,
    CONTINUES,
    Commit,
    Gone,
    Large,
    gone,
    size_of,
)
from stator.model.log.delta import Drop, Put, to_plain
from stator.model.records.tables import TALLIED, record_pieces
from stator.model.records.types import (
    ErasedRecord,
    Record,
    RunRecord,
    SessionRecord,
    ToolRecord,
)
from stator.model.sessions.lifecycle import AFTER_CLOSE, split_cause
from stator.model.values import canon
from stator.model.values.ids import short
from stator.model.views.why import Reason
from stator.surfaces.cli.render.escape import LINE_MAX
from stator.surfaces.cli.render.evicted_words import recorded_in_words
from stator.surfaces.cli.render.lines import STATUS_STYLES, Line

ROWS_MAX = 50
"""At most this many rows of a text are joined into its one line."""
ARGUMENT_MAX = 60
"""At most this many characters of one argument of a call are shown."""
OP_STYLES = {
    "created": "added",
    "modified": "changed",
    "renamed": "changed",
    "deleted": "removed",
    "read": "dim",
    "skipped": "dim",
}


# -- values ---------------------------------------------------------------------------------------


def value_of(commit: Commit, name: str) -> Any:
    """The value of a content field, or a remark in brackets if it was erased or is too large."""
    item = commit.content.get(name)
    if isinstance(item, Gone):
        return gone(item.by)
    if isinstance(item, Large):
        return f"({size(item.size)}: stator show {short(commit.session)}:@{commit.seq})"
    try:
        return commit.value(name, "")
    except StatorError as error:
        return f"({error.what})"


def brief(value: Any, limit: int = LINE_MAX) -> str:
    """A value as one line of text: strings unquoted, other values similar to JSON."""
    if isinstance(value, str):
        if "\n" not in value:
            return _cut(value, limit)
        rows = value.strip().split("\n", ROWS_MAX)
        return _cut(" ⏎ ".join(row.strip() for row in rows), limit)
    if value is None or isinstance(value, bool):
        return "none" if value is None else "yes" if value else "no"
    if isinstance(value, (int, float)):
        return _number(value, limit)
    if isinstance(value, bytes):
        return f"({size(len(value))} of binary data)"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key}: {brief(item, 80)}" for key, item in list(value.items())[:20])
        return _cut("{" + inner + "}", limit)
    if isinstance(value, (list, tuple)):
        return _cut("[" + ", ".join(brief(item, 80) for item in value[:20]) + "]", limit)
    return _cut(str(value), limit)


def _number(value: float, limit: int) -> str:
    try:
        return _cut(str(value), limit)
    except ValueError:  # more digits than Python converts to decimal
        return "(a very large number)"


def recorded(plain: Any) -> str:
    """One line for a value inside a record, which is in its recorded form."""
    try:
        return brief(canon.from_plain(plain))
    except StatorError:
        return brief(plain)


def size(count: int) -> str:
    """1.2 KB"""
    amount = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return str(count)


def count(number: int, noun: str) -> str:
    """3 turns, 1 turn"""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def arguments(value: Any) -> str:
    """The arguments of a call: `path=auth.py, line=3`."""
    if not isinstance(value, Mapping):
        return brief(value, ARGUMENT_MAX * 3) if value != "" else ""
    return ", ".join(f"{key}={brief(item, ARGUMENT_MAX)}" for key, item in list(value.items())[:12])


# -- records --------------------------------------------------------------------------------------


_ROLES: dict[str, dict[str, str]] = {
    "status": STATUS_STYLES,
    "op": OP_STYLES,
    "step": {
        "pending": "dim",
        "in progress": "changed",
        "claimed": "doubt",
        "done": "ok",
        "blocked": "bad",
        "dropped": "dim",
    },
}
"""The styles of words that have one of these roles in a line."""


class _Shown:
    """Values and sizes as a screen shows them."""

    value = staticmethod(recorded)
    size = staticmethod(size)


def of_record(record: Record) -> Line:
    """A record on one line."""
    if isinstance(record, ErasedRecord):
        return Line(gone(record.erased), "dim")
    pieces = record_pieces(record, _Shown())
    if pieces is None:
        return Line(brief(to_plain(record)))
    line = Line()
    for words, role in pieces:
        line.add(words, _ROLES[role].get(words, "") if role in _ROLES else role)
    return line


def of_decision(reason: Reason, over: str = ", over ") -> Line:
    """A decision as a reason: `payment: pay by transfer, over card — ACME takes no cards`."""
    line = Line(f"{reason.topic}: " if reason.topic else "", "bold").add(brief(reason.text))
    line.add(f"{over}{', '.join(reason.over)}" if reason.over else "")
    line.add(f" (chosen by the {reason.by})" if reason.by else "", "dim")
    return _because(line, brief(reason.detail) if reason.detail else "")


def _because(line: Line, why: str) -> Line:
    return line.add(f" — {why}" if why else "", "dim")


# -- commits --------------------------------------------------------------------------------------


def of_commit(commit: Commit) -> Line:
    """A commit on one line."""
    made = _KINDS.get(commit.kind, _records)
    late, cause = split_cause(commit.cause)
    if not late:
        return made(commit)
    line = made(msgspec.structs.replace(commit, cause=cause))
    return line.add(f" · {AFTER_CLOSE}" if line.plain else AFTER_CLOSE, "doubt")


def _turn(commit: Commit) -> Line:
    if commit.status == CONTINUED:
        return Line("(continued)", "dim")
    line = Line("(continued) ", "dim") if commit.status == CONTINUES else Line()
    return line.add(brief(value_of(commit, "input")) or "(no prompt)", "user")


def _turn_end(commit: Commit) -> Line:
    line = Line().status(commit.status).add(f" — {commit.cause}" if commit.cause else "")
    found = value_of(commit, "input")
    git = found.get("git") if isinstance(found, Mapping) else None
    if isinstance(git, Mapping):
        head = str(git.get("head", ""))
        at = " (no commits yet)" if head.startswith("(") else f"@{head[:8]}"
        where = f"{git.get('branch') or 'detached'}{at}"
        line.add(f" · git {where}{', uncommitted changes' if git.get('dirty') else ''}", "dim")
    return line


def _entry(commit: Commit) -> Line:
    """A message, and the calls the model requested with it."""
    from stator.model.window.reply import (
        dialect,
        requests,
        text_of,
    )  # a list of sessions needs none

    output = value_of(commit, "output")
    line = Line("(partial) " if commit.status == "partial" else "", "doubt")
    asked = requests(output)
    text = text_of(output) if dialect(output) != "plain" or isinstance(output, str) else output
    line.add(brief(text) if text or not asked else "")
    for place, request in enumerate(asked):
        line.add(" " if place or text else "").add("→ ", "dim").add(request.name, "bold")
        line.add(f"({arguments(request.arguments)})")
    return line


def intent(commit: Commit) -> Line:
    """A call with its arguments: `read_file(path=auth.py)`."""
    return Line(commit.tool, "bold").add(f"({arguments(value_of(commit, 'input'))})")


def _outcome(commit: Commit) -> Line:
    line = Line(f"{commit.tool} ").status(commit.status or "settled")
    if commit.kind == "settlement":
        value = value_of(commit, "output")
        line.add(f": {brief(value)}" if value not in ("", None) else "", "dim")
        line.add(f" ({commit.cause})" if commit.cause else "", "dim")
        who = brief(value_of(commit, "principal"))
        line.add(f" by {who}" if who else "", "dim")
        return _because(line, brief(value_of(commit, "why")))
    if commit.attempt > 1:
        line.add(f" at attempt {commit.attempt}", "dim")
    output = value_of(commit, "output")
    summary = brief(value_of(commit, "output_summary"))
    if commit.status == "ok":
        text = summary or (brief(output) if output not in ("", None) else "")
        return line.add(f": {text}" if text else "", "dim")
    message = output.get("message", "") if isinstance(output, Mapping) else output
    problem = ": ".join(part for part in (commit.cause, brief(message)) if part)
    return line.add(f": {problem}" if problem else "")


def _tools(commit: Commit) -> Line:
    """The tools that the model is offered from this commit on."""
    puts = [op.record for op in commit.delta if isinstance(op, Put)]
    tools = [record for record in puts if isinstance(record, ToolRecord)]
    offered = ", ".join(record.name for record in tools if record.available)
    removed = ", ".join(record.name for record in tools if not record.available)
    line = Line(f"offered {offered}" if offered else "")
    return line.add(f"{'; ' if offered else ''}removed {removed}" if removed else "")


def _lifecycle(commit: Commit) -> Line:
    return _because(Line(commit.cause or "", "dim"), brief(value_of(commit, "why")))


def _run_of(commit: Commit) -> Line:
    record = _record(commit, "runs")
    return Line(of_record(record).plain if isinstance(record, RunRecord) else commit.cause, "dim")


def _open(commit: Commit) -> Line:
    record = _record(commit, "session")
    if not isinstance(record, SessionRecord):
        return _records(commit)
    line = Line(f"session {record.name}{f' · agent {record.agent}' if record.agent else ''}", "dim")
    if record.parent is not None:
        line.add(
            f" · {record.parent.kind} of {short(record.parent.session)} @{record.parent.seq}", "dim"
        )
    return line


def _budget(commit: Commit) -> Line:
    from stator.model.calls.budget import shown

    record = _record(commit, "session")
    limits = record.budget if isinstance(record, SessionRecord) else {}
    return Line(", ".join(shown(unit, limits[unit]) for unit in sorted(limits)) or "no limits")


def _retention(commit: Commit) -> Line:
    from stator.model.sessions.retention import shown

    record = _record(commit, "session")
    kept = record.retention if isinstance(record, SessionRecord) else {}
    return Line(", ".join(shown(name, kept[name]) for name in sorted(kept)) or "no policies")


def _purge(commit: Commit) -> Line:
    found = value_of(commit, "input")
    name = found.get("name", "") if isinstance(found, Mapping) else found
    return _because(Line(f"{name}"), brief(value_of(commit, "why")))


def _approval_commit(commit: Commit) -> Line:
    """An approval or denial and who gave it; or that it was revoked, or used."""
    if _record(commit, "approvals") is not None:
        return _records(commit)
    return Line(commit.tool).add(" ").status(commit.status)


def _rewind(commit: Commit) -> Line:
    to, left = commit.inputs if len(commit.inputs) == 2 else (0, 0)
    return Line(f"back to @{to}, from @{left}", "doubt")


def _adopt(commit: Commit) -> Line:
    record = _record(commit, "session")
    adopted = record.adopted if isinstance(record, SessionRecord) else ""
    return Line(f"replaced by {short(adopted)}" if adopted else "the original again")


def _erasure(commit: Commit) -> Line:
    found = value_of(commit, "input")
    if not isinstance(found, Mapping):
        return Line(brief(found))
    if "commits" in found:
        many = found["commits"] if isinstance(found["commits"], int) else len(found["commits"])
        line = Line(count(many, "commit"))
        return line.add(f", {commit.cause}" if commit.cause else "", "dim")
    if found.get("seq"):
        fields = ", ".join(map(str, found.get("fields") or [])) or "everything"
        return Line(f"{fields} of @{found['seq']}")
    return Line(f"{found.get('collection')} record {found.get('id')}")


def _compaction(commit: Commit) -> Line:
    """How many tokens the view lost and what was removed; or which compaction was undone."""
    from stator.model.window.compaction import UNDONE, WINDOW  # loads how a transcript is shortened

    if commit.status == UNDONE:
        return Line(f"undone: @{commit.inputs[0]}" if commit.inputs else commit.status)
    found = value_of(commit, "input")
    if not isinstance(found, Mapping):
        return Line(brief(found))
    sizes, left = found.get("tokens"), found.get("left")
    if commit.status == WINDOW:
        turns = found.get("turns")
        return Line(
            "all turns fit again" if not turns else f"{brief(turns)} turns did not fit"
        ).add(f" · {gone_now}" if (gone_now := _left_in_words(left)) else "", "dim")
    line = Line(_sizes(sizes) if isinstance(sizes, list) else "")
    return line.add(
        f" · left the view: {counts}" if (counts := _left_in_words(left)) else "", "dim"
    )


def _left_in_words(left: Any) -> str:
    return recorded_in_words(left) if isinstance(left, Mapping) else ""


def _sizes(sizes: list[Any]) -> str:
    """The size of a view before and after it was shortened; 0 after it is what a transcript does not say."""
    shown = [f"{size:,}" if isinstance(size, int) else brief(size) for size in sizes]
    if len(sizes) == 2 and not sizes[1]:
        return f"from {shown[0]} tokens"
    return " → ".join(shown) + " tokens"


def _records(commit: Commit) -> Line:
    """A commit described by the records it puts."""
    shown: list[Line] = []
    for n, op in enumerate(commit.delta):
        follows = op.collection == "working_set" and commit.kind != "use"
        if isinstance(op, Put) and op.collection not in TALLIED and not follows:
            shown.append(_put(commit, n, op))
        elif isinstance(op, Drop) and len(commit.delta) == 1:
            shown.append(Line("removed", "dim"))
    line = Line()
    for place, part in enumerate(shown[:12]):
        line.add(", " if place else "").extend(part)
    if not shown:
        line.add(commit.status).add(f" {commit.cause}" if commit.cause else "")
    why = brief(value_of(commit, "why"))
    return _because(line, why)


def _files(commit: Commit) -> Line:
    """The files a commit records; for one that only holds contents, their size."""
    if commit.delta or commit.status != "kept":
        return _records(commit)
    item = commit.content.get("input")
    held = f"contents, {size(size_of(item))}" if item is not None else "contents"
    return Line(
        f"recorded {held}" if not isinstance(item, Gone) else f"(erased by @{item.by})", "dim"
    )


def _put(commit: Commit, n: int, op: Put) -> Line:
    item = commit.content.get(put_item(n))
    if isinstance(item, Large):
        return Line(
            f"({size(item.size)}: stator show {short(commit.session)}:@{commit.seq})", "dim"
        )
    return of_record(op.record)


def _record(commit: Commit, collection: str) -> Record | None:
    """The first record a commit puts into a collection."""
    return next(
        (op.record for op in commit.delta if isinstance(op, Put) and op.collection == collection),
        None,
    )


_KINDS: dict[str, Callable[[Commit], Line]] = {
    "turn": _turn,
    "turn_end": _turn_end,
    "entry": _entry,
    "call": intent,
    "outcome": _outcome,
    "settlement": _outcome,
    "open": _open,
    "fork": _open,
    "run": _run_of,
    "resume": _run_of,
    "run_end": _lifecycle,
    "pause": _lifecycle,
    "close": _lifecycle,
    "archive": _lifecycle,
    "pause_request": _lifecycle,
    "budget": _budget,
    "retention": _retention,
    "purge": _purge,
    "approval": _approval_commit,
    "erasure": _erasure,
    "rewind": _rewind,
    "adopt": _adopt,
    "compaction": _compaction,
    "tools": _tools,
    "file": _files,
}
