"""The types of records that the state of a session holds, one map per collection.

Every record type is declared here; what else there is to know of a kind of record is its row in
`registry`. Records hold integers only (per-mille, micro-units, µs); a value the user supplied is in
the tagged form of `canon`. Adding a field with a default is compatible; removing or renaming one is
not: these shapes are on disk.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

import msgspec

Mode = Literal["driven", "recorded", "project"]
Status = Literal["open", "active", "paused", "closed", "archived"]
ParentKind = Literal["fork", "retry", "child", "import"]
FileOp = Literal["read", "created", "modified", "deleted", "renamed", "skipped"]
LOOKS = frozenset({"read", "skipped"})
"""What is recorded of a file without changing it."""
Knowledge = Literal["recorded", "observed", "inferred"]
StepStatus = Literal["pending", "in_progress", "done", "blocked", "dropped"]
StepReading = Literal["pending", "in_progress", "claimed", "done", "blocked", "dropped"]
"""The status of a step as readers show it: what a record calls done is claimed until its check proves it."""
Effect = Literal["read", "idempotent", "write"]
CallStatus = Literal[
    "requested",
    "awaiting approval",
    "started",
    "ok",
    "error",
    "timeout",
    "cancelled",
    "denied",
    "in doubt",
]
UseKind = Literal["file", "app", "data"]

CONFIDENCE_MAX = 1000
"""Confidence is in per-mille."""


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What every record has in common: fields sorted on disk, defaults left out.

    Plain data without cycles, so the garbage collector need not follow it: a whole state is tens of
    thousands of them.
    """


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session came from."""

    session: str
    seq: int
    hash: str
    kind: ParentKind


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the log, `after < seq <= upto`, that lives under another session's key."""

    session: str
    after: int
    upto: int


class SessionRecord(Record, frozen=True):
    """The session itself, every field but its head."""

    id: str
    name: str
    adopted: str = ""
    """The session that was adopted for this one."""
    agent: str = ""
    aliases: list[list[str]] = []
    app_schema: str = ""
    app_version: int = 0
    budget: dict[str, int] = {}
    continues: str = ""
    """The earlier session whose work this one continues, in a conversation of its own."""
    created: int = 0
    labels: dict[str, str] = {}
    lineage: list[Segment] = []
    mapper: str = ""
    """Which mapping made the commits of a recorded session: the format's name and its version."""
    mode: Mode = "driven"
    orderer: str = ""
    """What decides the order of a recorded session: its transcript, its hooks or a proxy."""
    parent: Parent | None = None
    project: str = ""
    reason: str = ""
    retention: dict[str, Any] = {}
    status: Status = "open"
    tenant: str = ""


class TagRecord(Record, frozen=True):
    """A name for a position."""

    name: str
    hash: str
    seq: int


class RunRecord(Record, frozen=True):
    """One driver's hold, while it lasts."""

    id: str
    epoch: int
    host: str = ""
    pid: int = 0
    program: str = ""
    since: int = 0


class ChildRecord(Record, frozen=True):
    """A session started from this one."""

    session: str
    kind: str = "child"
    name: str = ""
    status: str = ""


class ToolRecord(Record, frozen=True):
    """A tool the agent has or used."""

    name: str
    available: bool = True
    definition: str = ""
    failures: int = 0
    last: str = ""
    uses: int = 0


class FileRecord(Record, frozen=True):
    """A file the agent touched; digests are of its content where they are known.

    `after_in` and `before_in` are the commits that hold the content itself, where it was kept. `patch_in` is the
    commit that holds the changed places, where only those are known.
    """

    path: str
    op: FileOp
    after: str = ""
    after_in: str = ""
    before: str = ""
    before_in: str = ""
    from_path: str = ""
    how: Knowledge = "recorded"
    patch_in: str = ""
    reason: str = ""
    root: str = "."


class DecisionRecord(Record, frozen=True):
    """A choice that is in force."""

    what: str
    by: str = ""
    """Who chose, where that was not the agent: `user`."""
    confidence: int | None = None
    factors: dict[str, Any] = {}
    how: Literal["", "inferred"] = ""
    """Whether a rule found it in what happened; empty if it was recorded as a decision."""
    over: list[str] = []
    supersedes: str = ""
    topic: str = ""
    why: str = ""


class PendingRecord(Record, frozen=True):
    """Something intended and not begun."""

    what: str
    on: str = ""
    why: str = ""


class CallRecord(Record, frozen=True):
    """A call that is open or in doubt."""

    call: str
    tool: str
    attempt: int = 1
    cause: str = ""
    effect: Effect = "write"
    elsewhere: bool = False
    proof: str = ""
    """What its rule demands of an approval, while it waits for one."""
    since: int = 0
    status: CallStatus = "started"


class PlanRecord(Record, frozen=True):
    """One step of the plan."""

    step: str
    check: str = ""
    """The command that must succeed after the last change of its files before the step counts as done."""
    detail: str = ""
    evidence: str = ""
    files: list[str] = []
    """The files it is about; none: all that the session changes."""
    order: int = 0
    status: StepStatus = "pending"
    """As the agent says; whether a step that is said to be done reads done or claimed, readers work out."""


class ReadStep(PlanRecord, frozen=True):
    """A step that its record calls done, as readers show it: `done` or `claimed`. It is never on disk."""

    because: str = ""
    """Why it reads claimed."""
    shown_by: int = 0
    """The seq that shows it: of the call that proves it done, of the check that failed, of the change since."""
    status: StepReading = "pending"  # type: ignore[assignment]  # wider than what a record may say


class FactRecord(Record, frozen=True):
    """A durable statement."""

    name: str
    value: Any = None
    verified: bool = False


class PreferenceRecord(Record, frozen=True):
    """How the user likes things done."""

    name: str
    value: Any = None


class DeadEndRecord(Record, frozen=True):
    """An approach that was tried and does not work."""

    what: str
    why: str = ""


class ArtifactRecord(Record, frozen=True):
    """A named, versioned document; its content is the input of the commit that made this version."""

    name: str
    commit: str = ""
    digest: str = ""
    media_type: str = "text/plain"
    size: int = 0
    version: int = 1


class WorkingRecord(Record, frozen=True):
    """A file, app or data source in play."""

    name: str
    kind: UseKind = "file"
    detail: str = ""
    uses: int = 1


class RevisionRecord(Record, frozen=True):
    """A version-control commit that was made in the session."""

    sha: str
    branch: str = ""
    files: list[str] = []
    how: Knowledge = "inferred"
    pushed: str = ""
    """Where it was pushed to, if that is recorded."""
    replaced: str = ""
    """The revision that took its place, where it was amended."""
    root: str = "."
    subject: str = ""


class DeliveryRecord(Record, frozen=True):
    """A text of Stator's own that an agent received. What it says is the output of its commit."""

    note: str
    """Its id: a digest of what was given."""
    kind: str = ""
    """start, prompt, file or handover."""
    whole: bool = True
    """It arrived as it was given; otherwise it was cut or changed on its way."""


class CandidateRecord(Record, frozen=True):
    """Something that may be worth keeping and that nobody has confirmed. It is never in force by itself."""

    name: str
    collection: str = "preferences"
    """What it would become: preferences, decisions, facts or dead_ends."""
    quote: str = ""
    """The words it was found in."""
    rule: str = ""
    value: Any = None


class CheckRecord(Record, frozen=True):
    """The newest run of a check: of a command that is to prove a step of the plan."""

    command: str
    """The check, without needless blanks."""
    ended: Literal["ok", "failed", "unknown"] = "ok"
    """`unknown`: something happened that may have been a run of it."""
    ran_in: str = ""
    """The commit in which the call began that ran it."""
    wrote: list[str] = []
    """Files that commands wrote since, as their words say."""


class ForgottenRecord(Record, frozen=True):
    """Values of a key that no longer hold for a project or a user: those recorded up to a time."""

    collection: str
    name: str
    """The key, as the collection has it."""
    upto: int = 0
    """Until when, in µs."""


class ApprovalRecord(Record, frozen=True):
    """A person's yes or no: to one call, to these arguments, or to a pattern."""

    tool: str
    arguments: str = ""
    attempt: int = 0
    """The attempt that a signed grant for one call is about; 0: any."""
    below: str = ""
    """The driver or agent that the approving process ran below; empty if none was found."""
    by: str = ""
    call: str = ""
    ends: str = ""
    """When it expires on the clock that only goes forward: the boot it was given in, and µs since that boot."""
    expires: int = 0
    nonce: str = ""
    """Distinguishes a signed grant from any other with the same words."""
    pattern: str = ""
    proof: str = "program"
    """How the person was recognised: program, local, terminal, passphrase or signed."""
    scope: str = "once"
    signature: str = ""
    """The key that signed the grant, and the signature."""
    sure: str = "local"
    verdict: str = "approved"


UNPRICED = "tokens:unpriced"
"""The unit of tokens that were used and have no price."""


class SpendRecord(Record, frozen=True):
    """What one unit of budget has been used so far."""

    unit: str
    amount: int = 0


class ScoreRecord(Record, frozen=True):
    """A judgement of a turn, a call or the session, in thousandths."""

    name: str
    value: int
    by: str = ""
    comment: str = ""
    on: str = ""


class EvictedRecord(Record, frozen=True):
    """A key that left the agent's view, and the seq that still holds it."""

    key: str
    rank: int = 0
    seq: int = 0
    window: bool = False
    """Whether no compaction evicted it: it did not fit into what the last answer was made from."""


class FlagRecord(Record, frozen=True):
    """A mark that asks a person to look."""

    name: str
    by: str = ""
    on: str = ""
    why: str = ""


class TrustRecord(Record, frozen=True):
    """A person's word about where content came from: it is believed, or it is not believed any more."""

    on: str
    """What it is about: the id of a commit, `host:NAME` or `tool:NAME`."""
    believed: bool = True
    by: str = ""
    sure: str = ""
    """The mark of the owner who said so: in another store, or in a bundle, it means nothing."""


class ScratchRecord(Record, frozen=True):
    """A compactible note."""

    name: str
    value: Any = None


READ_POSITION = "where reading goes on"
"""The name, up to its colon, of the scratch note that holds how far a transcript was read. It is recorded."""


class AppRecord(Record, frozen=True):
    """One field of the user's own state, and the version of the type that wrote it."""

    name: str
    value: Any = None
    version: int = 1


class SettingRecord(Record, frozen=True):
    """One thing that the agent runs with: its model, its permission mode, a digest of its prompt."""

    name: str
    value: Any = None


KEY_MAX = 4096
KEYLESS = "#"
"""What a record without a natural key is known by: this and its id."""


def file_key(root: str, path: str) -> str:
    """Files of the session's own root are known by their path alone."""
    return path if root == "." else f"{root}\n{path}"


def to_settle(call: str) -> str:
    """The key of the pending item that asks a person to settle a call in doubt."""
    return f"settle {call}"


class ErasedRecord(Record, frozen=True, tag="erased"):
    """What an erased record folds to: the fact of its erasure and the seq of the commit that did it."""

    erased: int

    def __getattr__(self, name: str) -> Any:
        """Say what happened to a field that a reader looks for; `getattr` with a default works as ever."""
        raise AttributeError(f"this record was erased by @{self.erased}, so it has no {name}")


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A live record with the seq and turn that last touched it."""

    collection: str
    id: str
    key: str
    seq: int
    turn: int
    record: Record


def is_under(key: str, record_id: str, prefix: str) -> bool:
    """Whether a record has a natural key that begins so; every record is under no prefix."""
    return not prefix or (key.startswith(prefix) and key != KEYLESS + record_id)


def chosen(entries: Sequence[Entry], keys: Collection[str] | None, prefix: str) -> Sequence[Entry]:
    """Of live records, last touched first: all, those under some keys, those whose natural key begins so."""
    if prefix:
        entries = [entry for entry in entries if is_under(entry.key, entry.id, prefix)]
    if keys is None:
        return entries
    # Of two that answer to a key, the one that was touched last.
    last = {entry.key: entry for entry in reversed(entries) if entry.key in keys}
    return [entry for entry in entries if last.get(entry.key) is entry]


State = dict[str, dict[str, Record]]
"""Collection → record id → record."""
