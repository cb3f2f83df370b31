"""Folds the commits of a turn into items a person reads: a call with its outcome, words, a change of the state.

Bookkeeping is left out: what a program notes about itself (runs, settings, kept contents, the end of a turn that
ended ok). `stator log --full` shows every commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from stator.model.calls.argument_names import PATHS
from stator.model.calls.costs import Prices
from stator.model.exchange.failures import failure_text
from stator.model.log.commit import CONTINUED, Commit
from stator.model.log.delta import Put
from stator.model.log.query import CallRow
from stator.model.records.tables import QUIET
from stator.model.records.types import (
    ApprovalRecord,
    ChildRecord,
    DecisionRecord,
    FileRecord,
    RevisionRecord,
)
from stator.model.sessions.lifecycle import AFTER_CLOSE, split_cause
from stator.model.values.late_pattern import late
from stator.model.views.open_calls import left_by_dead
from stator.surfaces.cli.render import record_line
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import brief, value_of
from stator.surfaces.cli.render.turns.subject import (
    CallSubject,
    lines_changed,
    net,
    relative,
    subject_of,
)
from stator.surfaces.cli.render.turns.usage import used_by

LABELS = {
    "entry": "said",
    "decision": "decided",
    "dead_end": "dead end",
    "turn_end": "ended",
    "compaction": "compacted",
    "child": "agent",
    "pause_request": "pause asked",
    "settlement": "settled",
}
"""What a kind of commit is called on the screen, where that is not its own name."""
RESULT_MAX = 60
"""A result that is one line of at most this many characters is shown beside its call."""
NOT_BEGUN = "not begun"
WAITS = "ApprovalNeeded"
"""How the cause of an end begins where a turn waits for a person's word."""
_COLOURS = late(r"\x1b\[[0-9;]*m")
_TAGS = late(r"</?[a-zA-Z][\w-]{0,40}>\s*")
TASK, NOTE_MAX = "<task-notification>", 20_000
"""How the note about a background task begins, and the characters of it that are looked at."""
TOPIC_MAX = 48
"""Characters of the topic of a decision."""
NOT_FAILED = ("ok", "started", "running", "awaiting approval")
WORK = frozenset({"turn", "entry", "call", "outcome", "turn_end"})
"""Kinds of what an agent does in a turn."""
ENDED_OK = ("ok", "")


class LogItem(msgspec.Struct, kw_only=True):
    """One line of a turn."""

    seq: int
    at: int
    label: str
    style: str = ""
    subject: CallSubject | None = None
    """Of a call: what it is about."""
    text: Line | None = None
    """Of anything else: what it says."""
    words: str = ""
    """Of a message: all of it."""
    more: str = ""
    """What is put after the subject: lines changed, a result."""
    remark: str = ""
    """Why a call did not end ok."""
    status: str = ""
    took: int | None = None
    """µs from the request to the outcome; None if there is none."""
    outcome: int = 0
    """The commit with the outcome of a call."""
    repairs: list[int] = []
    """The commits of earlier calls that failed, and that this one did again and worked."""
    is_call: bool = False
    is_uncounted: bool = False
    """Whether it changed files, and its arguments do not say by how many lines."""


class TurnFold(msgspec.Struct, kw_only=True):
    """The items of a turn, and what it amounts to."""

    turn: int
    prompt: Line
    asked: str = ""
    """All of the prompt."""
    first: Commit
    last: Commit
    items: list[LogItem]
    calls: int = 0
    failed: int = 0
    repaired: int = 0
    """Those of the failed calls that a later one repaired."""
    changed: list[str] = []
    """Files that were changed."""
    revisions: list[str] = []
    spend: dict[str, int] = {}
    until: int = 0
    """When the agent last did something in it: a tag or a score that came later is none of its time."""
    ended: str = ""
    """How it ended; empty while it is open."""
    hidden: int = 0
    """Commits of bookkeeping that no item shows."""
    cut: bool = False
    """Whether earlier items are left out."""

    @property
    def is_turn(self) -> bool:
        return bool(self.turn)

    @property
    def files(self) -> int:
        return len(self.changed)


def fold(
    commits: Sequence[Commit],
    unanswered: Mapping[str, CallRow],
    base: str,
    *,
    times: bool,
    prices: Prices | None = None,
    model: str = "",
) -> TurnFold:
    """Fold the commits of one turn, in the order they were recorded. `unanswered`: calls whose outcome is not among
    them, by id. `times`: whether it is known when things happened. `model`: of which its cost is computed where
    the commits name none."""
    folded = _Folder(commits, unanswered, base, times).run()
    folded.spend = used_by(commits, prices, model)
    return folded


def calls_without_outcome(commits: Iterable[Commit]) -> list[Commit]:
    """Calls among the commits of a turn whose outcome is not among them."""
    known = list(commits)
    ended = {one.call for one in known if one.kind in ("outcome", "settlement", "entry")}
    return [one for one in known if one.kind == "call" and one.call not in ended]


class _Folder:
    def __init__(
        self,
        commits: Sequence[Commit],
        unanswered: Mapping[str, CallRow],
        base: str,
        times: bool,
    ) -> None:
        self.commits = commits
        self.unanswered = unanswered
        self.times = times
        self.outcomes: dict[str, Commit] = {}
        for one in commits:
            if one.kind == "outcome" and one.call:
                self.outcomes[one.call] = one  # that of the last attempt
        self.settled = {one.call: one for one in commits if one.kind == "settlement"}
        self.answered = {one.call for one in commits if one.kind == "entry" and one.call}
        self.begun = Counter(
            one.tool for one in commits if one.kind == "call" and one.call not in self.answered
        )
        self.reported = {_child(one): one for one in commits if one.kind == "child"}
        """What was reported last of each sub-agent."""
        self.intents = {one.call for one in commits if one.kind == "call"}
        self.waited = self._waited()
        self.base = self._base(base)

    def run(self) -> TurnFold:
        begin = next((one for one in self.commits if one.kind == "turn"), None)
        prompt = record_line.of_commit(begin) if begin is not None else Line()
        asked = value_of(begin, "input") if begin is not None else ""
        items: list[LogItem] = []
        for commit in self.commits:
            if commit is not begin:
                items += self._items(commit)
        end = next((one for one in reversed(self.commits) if one.kind == "turn_end"), None)
        calls = [item for item in items if item.is_call]
        self._say_repairs(calls)
        return TurnFold(
            turn=self.commits[0].turn,
            prompt=prompt,
            asked=asked if isinstance(asked, str) else "",
            first=self.commits[0],
            last=self.commits[-1],
            items=items,
            calls=len(calls),
            failed=sum(item.status not in NOT_FAILED for item in calls),
            repaired=sum(len(item.repairs) for item in calls),
            changed=self._changed(),
            revisions=self._revisions(),
            until=max(
                (one.when for one in self.commits if one.kind in WORK and not left_by_dead(one)),
                default=self.commits[0].when,
            ),
            ended=end.status if end is not None else "",
            hidden=sum(map(self._is_hidden, self.commits)),
        )

    def _say_repairs(self, calls: Sequence[LogItem]) -> None:
        """Say on each call that worked which earlier failure it repaired."""
        if all(item.status in NOT_FAILED for item in calls):
            return
        from stator.runtime.views.reasons.repaired import (
            UNKNOWN,
            repairs,
        )  # most turns have no failure

        intents = {one.seq: one for one in self.commits if one.kind == "call"}
        ended = [item for item in calls if item.status not in UNKNOWN]
        found = repairs([(intents[item.seq], item.status == "ok") for item in ended])
        for item in ended:
            item.repairs = found.get(item.seq, [])

    # -- one commit -------------------------------------------------------------------------------

    def _items(self, commit: Commit) -> list[LogItem]:
        if commit.kind == "call":
            return [] if commit.call in self.answered else [self._call(commit)]
        if commit.kind == "outcome":
            is_shown = commit.call in self.intents or commit.call in self.answered
            return [] if is_shown else [self._outcome(commit)]
        if commit.kind == "entry":
            return self._entry(commit)
        if commit.seq in self.waited:
            return [self._answer(commit)] if _grant(commit) is not None else []
        if _is_bookkeeping(commit) or self.reported.get(_child(commit), commit) is not commit:
            return []
        return [self._plain(commit)]

    def _waited(self) -> set[int]:
        """The commits about a wait for a person's word after which the turn continued: its end until then, the word,
        its use, and the beginning of the rest."""
        ends = (one for one in self.commits if one.kind == "turn_end" and _is_wait(one))
        began = next((one.seq for one in ends), 0)
        last = max((one.seq for one in self.commits if one.kind == "turn"), default=0)
        if not 0 < began < last:
            return set()
        return {
            one.seq
            for one in self.commits
            if one.seq >= began
            and (
                (one.kind == "turn_end" and one.seq < last and _is_wait(one))
                or one.kind == "approval"
                or (one.kind == "turn" and one.status == CONTINUED)
            )
        }

    def _is_hidden(self, commit: Commit) -> bool:
        is_wait = commit.seq in self.waited and _grant(commit) is None
        return is_wait or _is_bookkeeping(commit)

    def _answer(self, commit: Commit) -> LogItem:
        """The word of a person that a turn waited for."""
        grant = _grant(commit)
        words = f"waited for approval; {grant.verdict} by {grant.by}" if grant is not None else ""
        return LogItem(
            seq=commit.seq, at=commit.when, label="approval", style="dim", text=Line(words)
        )

    def _plain(self, commit: Commit) -> LogItem:
        label = "continued" if commit.kind == "turn" else LABELS.get(commit.kind, commit.kind)
        text = record_line.of_commit(commit)
        if commit.kind == "turn" and commit.status == CONTINUED:
            text = Line("by another run", "dim")
        if commit.kind == "decision" and (decided := _decided(commit)) is not None:
            text = decided
        if (pushed := _pushed(commit)) is not None:
            label, text = "pushed", Line(f"{pushed.sha[:7]} to {pushed.pushed}")
        return LogItem(seq=commit.seq, at=commit.when, label=label, style="dim", text=text)

    def _call(self, commit: Commit) -> LogItem:
        given = value_of(commit, "input")
        outcome = self.outcomes.get(commit.call)
        row = self.unanswered.get(commit.call)
        status = outcome.status if outcome is not None else row.status if row else "started"
        settled = self.settled.get(commit.call)
        if settled is not None and settled.status:
            status = settled.status
        item = LogItem(
            seq=commit.seq, at=commit.when, label=_tool(commit.tool), style="bold", is_call=True,
            subject=subject_of(given, self.base), status=status,
            outcome=outcome.seq if outcome is not None else 0,
        )  # fmt: skip
        # What ended a call in doubt is whoever found it cut off, at any time later.
        if outcome is not None and self.times and outcome.status != "in doubt":
            # Some transcripts give a call and its result the same time: how long it took is not known then.
            item.took = outcome.when - commit.when or None
        if status == "ok":
            item.more = self._more(given, outcome)
            item.is_uncounted = not item.more and outcome is not None and bool(_written(outcome))
        elif outcome is not None:
            item.remark = problem(outcome)
            if settled is not None:
                item.remark = f"was {outcome.status}: {item.remark}".rstrip(": ")
        elif row is not None:
            item.remark = row.cause
        if outcome is not None and outcome.attempt > 1:
            item.more += f" (attempt {outcome.attempt})"
        return item

    def _more(self, given: Any, outcome: Commit | None) -> str:
        """Lines changed by an edit, or a short result."""
        if counts := lines_changed(given):
            return net(*counts)
        if outcome is None or _files(outcome):
            return ""
        output = value_of(outcome, "output")
        if isinstance(output, str):
            output = output.strip()
        if output in ("", None) or (isinstance(output, str) and "\n" in output):
            return ""
        shown = brief(output, RESULT_MAX + 1)
        return f"→ {shown}" if len(shown) <= RESULT_MAX else ""

    def _outcome(self, commit: Commit) -> LogItem:
        """An outcome whose call is in another turn."""
        return LogItem(
            seq=commit.seq, at=commit.when, label=_tool(commit.tool), style="bold",
            text=Line("outcome of an earlier call", "dim"), status=commit.status or "",
            remark="" if commit.status == "ok" else problem(commit), outcome=commit.seq,
        )  # fmt: skip

    def _entry(self, commit: Commit) -> list[LogItem]:
        """A message, if it says something, and the calls it asked for that never began."""
        from stator.model.window.reply import dialect, requests, text_of

        output = value_of(commit, "output")
        asked = requests(output)
        text = text_of(output) if dialect(output) != "plain" or isinstance(output, str) else output
        summary = _summary_of_task(text)
        words = summary or _legible(text)
        shown = brief(words).strip() if text else ""
        items: list[LogItem] = []
        if shown or not asked:
            line = Line("(partial) " if commit.status == "partial" else "", "doubt").add(shown)
            label = "task" if summary else "said" if commit.actor == "model" else commit.actor
            items.append(
                LogItem(
                    seq=commit.seq, at=commit.when, label=label, style="dim", text=line,
                    words=words if isinstance(words, str) else "",
                )
            )  # fmt: skip
        for request in asked:
            if self.begun[request.name] > 0:
                self.begun[request.name] -= 1
                continue
            items.append(
                LogItem(
                    seq=commit.seq, at=commit.when, label=_tool(request.name), style="bold",
                    subject=subject_of(request.arguments, self.base), status=NOT_BEGUN,
                )
            )  # fmt: skip
        return items

    # -- the turn ---------------------------------------------------------------------------------

    def _base(self, base: str) -> str:
        """The folder of the work: as the session's files say, or as this turn's arguments and files say together."""
        if base:
            return base
        for one in self.commits:
            outcome = self.outcomes.get(one.call) if one.kind == "call" else None
            given = value_of(one, "input") if outcome is not None else None
            if outcome is None or not isinstance(given, Mapping):
                continue
            for record in _files(outcome):
                for name in PATHS:
                    path = given.get(name)
                    if isinstance(path, str) and path != record.path:
                        found = path.removesuffix(f"/{record.path}")
                        if found != path:
                            return found
        return ""

    def _changed(self) -> list[str]:
        written = (record for commit in self.commits for record in _written(commit))
        return list(dict.fromkeys(relative(record.path, self.base) for record in written))

    def _revisions(self) -> list[str]:
        found = (
            op.record.sha[:8]
            for commit in self.commits
            for op in commit.delta
            if isinstance(op, Put) and isinstance(op.record, RevisionRecord)
        )
        return list(dict.fromkeys(found))


def _files(commit: Commit) -> list[FileRecord]:
    return [
        op.record
        for op in commit.delta
        if isinstance(op, Put) and isinstance(op.record, FileRecord)
    ]


def _written(commit: Commit) -> list[FileRecord]:
    return [record for record in _files(commit) if record.op not in ("read", "skipped")]


def _is_wait(end: Commit) -> bool:
    """Whether a turn ended only until a person has answered."""
    return (end.cause or "").startswith(WAITS)


def _grant(commit: Commit) -> ApprovalRecord | None:
    """A person's yes or no that a commit records."""
    records = (op.record for op in commit.delta if isinstance(op, Put))
    return next((one for one in records if isinstance(one, ApprovalRecord)), None)


def _child(commit: Commit) -> str:
    """The sub-agent that a commit reports on."""
    records = (op.record for op in commit.delta if isinstance(op, Put))
    return next((one.session for one in records if isinstance(one, ChildRecord)), "")


def _summary_of_task(text: Any) -> str:
    """What an agent's program says of a task that ran in the background; empty if a message is no such note."""
    if not isinstance(text, str) or not text.startswith(TASK):
        return ""
    _, _, rest = text[:NOTE_MAX].partition("<summary>")
    return rest.partition("</summary>")[0].strip()


def _legible(text: Any) -> Any:
    """A message without the marks that only programs read: colours of a terminal, and the tags around all of it."""
    if not isinstance(text, str):
        return text
    plain = _COLOURS.sub("", text)
    return _TAGS.sub(" ", plain) if plain.lstrip().startswith("<") else plain


def _decided(commit: Commit) -> Line | None:
    """A decision whose topic is long, such as a question that was asked: the beginning of that, and what was chosen."""
    puts = (op.record for op in commit.delta if isinstance(op, Put))
    record = next((one for one in puts if isinstance(one, DecisionRecord)), None)
    if record is None or len(record.topic) <= TOPIC_MAX:
        return None
    line = Line(f"{brief(record.topic, TOPIC_MAX)}: ").add(brief(record.what), "bold")
    return line.add(f" — {brief(record.why)}" if record.why else "", "dim")


def _pushed(commit: Commit) -> RevisionRecord | None:
    """The revision that was pushed, where it was recorded before: its subject is in an earlier line."""
    known = (op.record for op in commit.delta if isinstance(op, Put) and op.was)
    return next((one for one in known if isinstance(one, RevisionRecord) and one.pushed), None)


def _is_bookkeeping(commit: Commit) -> bool:
    if commit.kind == "turn_end":
        return commit.status in ENDED_OK
    if commit.kind == "file":
        return commit.status == "kept" and not commit.delta
    return commit.kind in QUIET or commit.kind in ("settings", "tools")


def _tool(name: str) -> str:
    """A tool's name without the server it belongs to."""
    return name.rpartition("__")[2] or name


def problem(outcome: Commit) -> str:
    """Why a call did not end ok, on one line."""
    output = value_of(outcome, "output")
    message = output.get("message", "") if isinstance(output, Mapping) else output
    said = message if isinstance(message, str) else brief(message)
    late, cause = split_cause(outcome.cause)
    told = brief(failure_text(cause, said))
    return " · ".join(part for part in (told, AFTER_CLOSE if late else "") if part)
