"""Answers to why: what a person can ask about, and the reasons behind it, turn by turn. Pure.

A thing is named as people type it: a path, a topic, a name, a revision, a call or a commit. Reasons are read off
commits; what was erased says so, and nothing is taken from prose: an agent's words are given as its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from stator.errors import Erased
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.log.edges import edges_of
from stator.model.log.shown_text import cut_short
from stator.model.records.text import arguments_text, given_by, prompt_text, recorded_text
from stator.model.records.types import (
    ApprovalRecord,
    ArtifactRecord,
    DeadEndRecord,
    DecisionRecord,
    ErasedRecord,
    FileRecord,
    PlanRecord,
    Record,
    RevisionRecord,
    file_key,
)
from stator.model.values.late_pattern import late
from stator.model.views.patch import FilePatch
from stator.model.window.reply import dialect, text_of

ERASED = "(erased)"
LATER = "after the edits"
"""Status of a decision that cannot be the reason of edits in its turn: it came after them."""
TEXT_MAX = 2000
"""Characters of a prompt, an answer or the arguments of a call that a reason holds."""
WORDS_MAX = 6
"""Answers of a turn, up to which all of them are given."""
NAME_MAX = 400
"""Characters of what a person asks about."""

NAMED: dict[str, str] = {
    "decision": "decisions",
    "fact": "facts",
    "preference": "preferences",
    "plan": "plan",
    "artifact": "artifacts",
    "dead_end": "dead_ends",
    "revision": "revisions",
}
"""Kinds of things that have a name, and the collections that hold them."""
PREFIXES = (*NAMED, "file", "call", "commit")
"""What can be written before a colon, to say which kind of thing is meant."""
_LINES = late(r"(.+):(\d{1,7})(?:-(\d{1,7}))?\Z", re.DOTALL)
_SHA = late(r"[0-9a-f]{4,64}\Z")
SHA_MIN = 4


# -- the answer -----------------------------------------------------------------------------------


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that a reason was made from, and whether it is trusted."""

    session: str
    seq: int
    kind: str
    text: str = ""
    trust: str = ""
    """`unverified`, `vouched`, or empty if nothing speaks against it."""
    source: str = ""
    """Why it is not trusted, or where it came from: `web:example.com`."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why something is as it is."""

    kind: str
    """decision, call, edit, read, revision, fact, preference, plan, artifact, dead_end, commit, or asked and said
    (a prompt and an answer)."""
    text: str
    session: str
    turn: int
    seq: int
    detail: str = ""
    topic: str = ""
    """Of a decision that has one; of a fact, a preference, a plan step and an artifact its name."""
    at: int = 0
    """When it happened, in µs."""
    id: str = ""
    """Of the commit."""
    call: str = ""
    """The call it is, or was made in."""
    tool: str = ""
    """Of that call."""
    effect: str = ""
    """Of a call: read, idempotent or write."""
    status: str = ""
    """Of a call: how it ended; of a version of a record: in force, superseded, or taken back; of a revision:
    pushed."""
    by: str = ""
    """Who decided, where that was not the agent."""
    over: list[str] = []
    """Of a decision: the options that were not chosen."""
    path: str = ""
    """Of an edit: the file."""
    files: list[str] = []
    """Of a revision: the files it names."""
    grounds: list[Ground] = []
    """What it was made from, as far as single commits are known, and what it rests on that is not trusted."""
    trust: str = ""
    """`unverified` if something behind it is not trusted, `vouched` if a person vouches for it, `unknown` if too
    much lies behind it to look at; empty if nothing speaks against it."""
    unverified: str = ""
    """Where the untrusted root came from that it rests on: `web:example.com`."""


class WhyTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The reasons of one turn."""

    session: str
    name: str
    """Of the session."""
    turn: int
    at: int
    asked: str
    """The prompt; empty before any turn."""
    reasons: list[Reason]
    unverified: str = ""
    """Where the untrusted root came from that the prompt or the name of the session rests on."""
    times_known: bool = True
    """Whether the transcript says when; if not, `at` is when it was last written."""
    added: int = 0
    removed: int = 0
    """Lines of the file that the turn added and removed, where they are known."""
    patches: list[FilePatch] = []
    """What the turn changed in the file, if that was asked for."""


class WhyLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a file, and where it comes from."""

    line: int
    text: str
    source: str
    """`recorded`: from a write that is recorded; `before` any of them, `between` two of them, `since` the last one;
    or `unknown`."""
    session: str = ""
    turn: int = 0
    seq: int = 0
    unverified: str = ""
    """Where the untrusted root came from that it rests on."""


class WhyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one thing."""

    kind: str
    """file, decision, fact, preference, plan, artifact, dead_end, revision, call or commit."""
    name: str
    """As it is recorded."""
    matched: str = ""
    """How the name fits what was asked, where it is not the same: `another case`, `begins so`, `ends so`,
    `contains it`."""
    turns: list[WhyTurn] = []
    """The newest first."""
    sessions: int = 0
    """Sessions that changed it."""
    changes: int = 0
    """Edits or versions."""
    reads: int = 0
    """Of a file."""
    more: bool = False
    """Whether there are older ones that are not listed."""
    lines: list[WhyLine] = []
    """The lines of a file that were asked about."""
    unverified: str = ""
    """Where the untrusted root came from that its name rests on."""

    def __iter__(self) -> Iterator[Reason]:
        return (reason for turn in self.turns for reason in turn.reasons)


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """Where an answer was looked for."""

    store: str
    project: str = ""
    """Empty: every project."""
    session: str = ""
    """The name of the one session, if only that was asked."""
    sessions: int = 0
    """How many sessions that is, or the least number if `more`."""
    more: bool = False


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to why: what the thing that was named is, and the reasons behind each."""

    asked: str
    looked: Looked
    answers: list[WhyAnswer] = []
    near: list[str] = []
    """Names like the one that was asked about, where nothing has that name; none that came from elsewhere."""

    @property
    def reasons(self) -> list[Reason]:
        """The reasons of all answers, in order."""
        return [reason for answer in self.answers for reason in answer]

    def __iter__(self) -> Iterator[Reason]:
        return iter(self.reasons)

    def __len__(self) -> int:
        return sum(len(turn.reasons) for answer in self.answers for turn in answer.turns)


# -- what a person asks about ---------------------------------------------------------------------


class AskedThing(msgspec.Struct, frozen=True):
    """What a person asks about."""

    text: str
    kind: str = ""
    """One of `PREFIXES`; empty: any."""
    session: str = ""
    first: int = 0
    last: int = 0
    """Lines of a file; 0: all of it."""


def parse_thing(text: str) -> AskedThing:
    """A thing as it is typed: `auth.py:12`, `decision:auth`, `monday:fact:port`, `@12`, `64f1b9a`."""
    head, colon, rest = text.partition(":")
    if colon and rest and head in PREFIXES:
        return _with_lines(AskedThing(rest, head))
    inner = rest.partition(":")
    if colon and head and ((inner[0] in PREFIXES and inner[2]) or rest.startswith("@")):
        return msgspec.structs.replace(parse_thing(rest), session=head)
    return _with_lines(AskedThing(text))


def _with_lines(thing: AskedThing) -> AskedThing:
    match = _LINES.match(thing.text) if thing.kind in ("", "file") else None
    if match is None:
        return thing
    first = int(match[2])
    last = int(match[3] or first)
    if not 0 < first <= last:
        return thing
    return AskedThing(match[1], thing.kind, thing.session, first, last)


def sha_spellings(text: str) -> list[str]:
    """Under which keys a revision may be recorded that a person names with these digits: as typed, and shorter."""
    lower = text.lower()
    if not _SHA.match(lower):
        return []
    return [lower[:size] for size in range(len(lower), SHA_MIN - 1, -1)]


def fits(name: str, wanted: str) -> str:
    """How a name fits what was typed, where it is not the same; empty if it does not."""
    low, want = name.casefold(), wanted.casefold()
    if not want:
        return ""
    if low == want:
        return "another case"
    if low.startswith(want):
        return "begins so"
    return "contains it" if want in low else ""


def best(names: Iterable[tuple[str, str]], wanted: str) -> list[tuple[str, list[str], str]]:
    """Of (kind, name) pairs, those that fit best, with how. A part of a name counts only if it fits one name of its
    kind; the end of a path may be that of the same file in several checkouts."""
    found: dict[str, dict[str, set[str]]] = {}
    for kind, name in names:
        ends = kind == "file" and name.endswith("/" + wanted.removeprefix("./"))
        if how := "ends so" if ends else fits(name, wanted):
            found.setdefault(how, {}).setdefault(kind, set()).add(name)
    for how in ("ends so", "another case", "begins so", "contains it"):
        kinds = found.get(how, {})
        if picked := [
            (kind, sorted(fitting), how)
            for kind, fitting in kinds.items()
            if len(fitting) == 1 or how == "ends so"
        ]:
            return picked
    return []


# -- reasons from commits -------------------------------------------------------------------------


def _base(commit: Commit, kind: str, text: str, **more: object) -> Reason:
    made = Reason(
        kind=kind,
        text=text,
        session=commit.session,
        turn=commit.turn,
        seq=commit.seq,
        at=commit.when,
        id=commit.id,
        call=commit.call,
        tool=commit.tool if commit.call else "",
    )
    return msgspec.structs.replace(made, **more) if more else made


def why_of(commit: Commit) -> str:
    """Why a commit was made, as far as that is still there."""
    return str(commit.known("why", "")) if not _is_gone(commit, "why") else ERASED


def _is_gone(commit: Commit, field: str) -> bool:
    try:
        commit.value(field, "")
    except Erased:
        return True
    return False


def put_of(commit: Commit, collection: str, key: str = "") -> Record | None:
    """The record that a commit puts into a collection, under that key or any; else one that was erased since."""
    puts = [op.record for op in commit.delta if isinstance(op, Put) and op.collection == collection]
    exact = (record for record in puts if not key or key_of(record) == key)
    gone = (record for record in puts if isinstance(record, ErasedRecord))
    return next(exact, None) or next(gone, None)


def key_of(record: Record) -> str:
    """The natural key of a record of a named thing or a file; empty if it has none, or was erased."""
    if isinstance(record, ErasedRecord):
        return ""
    if isinstance(record, FileRecord):
        return file_key(record.root, record.path)
    for field in ("topic", "name", "step", "sha"):
        if hasattr(record, field):
            return str(getattr(record, field))
    return record.what if isinstance(record, DeadEndRecord) else ""


def edit_reason(commit: Commit, keys: Sequence[str]) -> Reason:
    """What a commit did to a file; a rename also to its old path."""
    records = [
        op.record
        for op in commit.delta
        if isinstance(op, Put) and isinstance(op.record, FileRecord) and key_of(op.record) in keys
    ]
    renamed = [
        op.record
        for op in commit.delta
        if isinstance(op, Put) and isinstance(op.record, FileRecord) and op.record.from_path
    ]
    record = records[-1] if records else None
    op = record.op if record is not None else "touched"
    how = f" ({record.how})" if record is not None and record.how != "recorded" else ""
    why = why_of(commit)
    onto = next((r for r in renamed if record is not None and r.from_path == record.path), None)
    if onto is not None and onto is not record and op == "deleted":
        how = f"{how}, now {onto.path}"
    elif record is not None and record.op == "renamed" and record.from_path:
        how = f"{how}, was {record.from_path}"
    return _base(
        commit,
        "read" if op in ("read", "skipped") else "edit",
        f"{op} by {commit.actor}{how}" + (f": {why}" if why else ""),
        path=record.path if record is not None else "",
        status=op,
    )


def renamed_from(commit: Commit, keys: Sequence[str]) -> str:
    """The key a file had before a commit renamed it; empty if it did not."""
    for op in commit.delta:
        record = op.record if isinstance(op, Put) else None
        if isinstance(record, FileRecord) and record.from_path and key_of(record) in keys:
            return file_key(record.root, record.from_path)
    return ""


def decision_reason(commit: Commit, topic: str = "") -> Reason:
    """A decision as it was recorded; of several, the one on a topic."""
    record = put_of(commit, "decisions", topic)
    if not isinstance(record, DecisionRecord):
        return _base(commit, "decision", ERASED)
    return _base(
        commit,
        "decision",
        record.what,
        detail=record.why or why_of(commit),
        topic=record.topic,
        by=record.by,
        over=list(record.over),
    )


def version_reason(commit: Commit, kind: str, name: str) -> Reason:
    """A version of a named thing: a fact, a preference, a plan step, an artifact, a dead end, a revision."""
    if kind == "decision":
        return decision_reason(commit, name)
    record = put_of(commit, NAMED[kind], name)
    detail = why_of(commit)
    by = commit.actor if commit.actor not in ("agent", "model", "tool") else ""
    if record is None or isinstance(record, ErasedRecord):
        return _base(commit, kind, "" if record is None else ERASED, topic=name, detail=detail)
    if isinstance(record, RevisionRecord):
        return revision_reason(commit, record)
    if isinstance(record, PlanRecord):
        text = record.status.replace("_", " ")
        detail = " · ".join(filter(None, [record.detail, record.evidence, detail]))
    elif isinstance(record, ArtifactRecord):
        text = f"version {record.version}, {record.size:,} bytes, {record.media_type}"
    elif isinstance(record, DeadEndRecord):
        text, detail = record.what, record.why or detail
    else:
        text = recorded_text(getattr(record, "value", None))
    return _base(commit, kind, cut_short(text, TEXT_MAX), topic=name, detail=detail, by=by)


def revision_reason(commit: Commit, record: RevisionRecord) -> Reason:
    """A revision that a turn made."""
    return _base(
        commit,
        "revision",
        record.subject,
        topic=record.sha,
        detail=record.branch,
        status="pushed" if record.pushed else "",
        files=list(record.files),
    )


def call_reason(commit: Commit, *, path: str = "", approved: str = "", status: str = "") -> Reason:
    """A call, by what it was asked to do; `path` alone stands for arguments that name it."""
    given = ERASED if _is_gone(commit, "input") else commit.value("input", None)
    text = (
        f"{commit.tool}({path})"
        if path
        else cut_short(arguments_text(commit.tool, given), TEXT_MAX)
    )
    detail = "; ".join(filter(None, [why_of(commit), approved]))
    return _base(commit, "call", text, detail=detail, status=status, effect=commit.effect)


def settled_by(commit: Commit) -> str:
    """Who settled a call that was in doubt, how, and how they knew."""
    who, why = commit.known("principal", ""), commit.known("why", "")
    by = f" by {who}" if who else ""
    return f"settled as {commit.cause or commit.status}{by}" + (f": {why}" if why else "")


def commit_reason(commit: Commit) -> Reason:
    """Any other commit: its words, or what it is."""
    if commit.kind in ("turn", "entry"):
        return said_reason(commit)
    text = " ".join(filter(None, [commit.kind.replace("_", " "), commit.tool, commit.status]))
    return _base(commit, "commit", text, detail=why_of(commit))


def said_reason(commit: Commit) -> Reason:
    """A prompt, or an answer of the agent."""
    field = "input" if commit.kind == "turn" else "output"
    return _base(commit, "asked" if commit.kind == "turn" else "said", words_of(commit, field))


def is_spoken(commit: Commit) -> bool:
    """Whether a commit holds words of the agent; what its program adds to a conversation are not."""
    return commit.kind == "entry" and commit.actor in ("model", "agent") and bool(words_of(commit))


def words_of(commit: Commit, field: str = "output") -> str:
    """The words of a prompt or an answer."""
    if _is_gone(commit, field):
        return ERASED
    value = commit.value(field, "")
    if commit.kind == "turn":
        return cut_short(prompt_text(value) if value else "", TEXT_MAX)
    return cut_short(str(value) if dialect(value) == "plain" else text_of(value), TEXT_MAX)


def approvals_of(commits: Iterable[Commit]) -> dict[str, str]:
    """Who approved or denied each call, and how that person was recognised."""
    return {
        commit.call: f"{op.record.verdict} {given_by(op.record)}"
        for commit in commits
        if commit.kind == "approval" and commit.call
        for op in commit.delta
        if isinstance(op, Put) and isinstance(op.record, ApprovalRecord)
    }


def mentions(commit: Commit, path: str) -> bool:
    """Whether the arguments of a call name a path."""
    return not _is_gone(commit, "input") and path in str(commit.value("input", ""))


def turn_reasons(commits: Sequence[Commit], path: str, edits: Sequence[Commit]) -> list[Reason]:
    """Decisions and calls behind the edits of a file in one turn; without a decision before them, its prompt and the
    agent's words. `commits` are those of the turn that are known, in order."""
    last = max((commit.seq for commit in edits), default=0)
    decisions = [
        decision_reason(c)
        if c.seq < last
        else msgspec.structs.replace(decision_reason(c), status=LATER)
        for c in commits
        if c.kind == "decision"
    ]
    inside = {commit.call for commit in edits if commit.call}
    naming = [c for c in commits if c.kind == "call" and (c.call in inside or mentions(c, path))]
    approved = approvals_of(commits)
    ended = {c.call: c.status for c in commits if c.kind in ("outcome", "settlement")}
    calls = [
        call_reason(c, path=path, approved=approved.get(c.call, ""), status=ended.get(c.call, ""))
        for c in naming
    ]
    if any(reason.status != LATER for reason in decisions):
        return decisions + calls
    said = [
        said_reason(c) if c.seq < last else msgspec.structs.replace(said_reason(c), status=LATER)
        for c in _words(commits, naming, edits)
    ]
    return decisions + calls + [reason for reason in said if reason.text]


def _words(
    commits: Sequence[Commit], naming: Sequence[Commit], edits: Sequence[Commit]
) -> list[Commit]:
    """The prompt and answers of a turn; of many, those that requested the calls that made the edits, or the last
    before the first edit."""
    prompts = [commit for commit in commits if commit.kind == "turn"]
    spoken = [commit for commit in commits if is_spoken(commit)]
    inside = {commit.call for commit in edits if commit.call}
    making = [call for call in naming if call.call in inside] or naming
    behind = [edge for call in making for edge in edges_of(call)]
    if len(spoken) <= WORDS_MAX and not behind:
        return prompts + spoken
    asked = [c for c in spoken if any(edge.first == edge.last and edge.holds(c) for edge in behind)]
    if not asked and edits:
        first = min(commit.seq for commit in edits)
        before = [commit for commit in spoken if commit.seq < first]
        asked = before[-1:] or spoken[:1]
    return prompts + asked
