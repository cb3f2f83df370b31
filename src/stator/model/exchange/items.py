"""Items: what another agent did, in one vocabulary for importers, hooks and the proxy.

An item says what happened, in our words and in no format's. Its `id` is the name the other side has
for it; it is recorded once under (source, id), no matter how often and through which channel it arrives. So
the id of one thing must be the same in every channel: a tool call is known by the provider's id for it,
in a transcript as in a hook.

    Prompted     a user asked for something: a turn begins
    Answered     the model's answer, as the provider gave it
    Noted        something else that was shown to the model
    Delivered    a text of Stator's own that arrived there
    Configured   what the agent runs with: its model, its permission mode
    Called       a tool call, before its effect is known
    Returned     what became of it (its id is the call's)
    Touched      files, where no call says so
    Planned      the current plan
    Offered      the tools there are, as their server describes them
    Flagged      something a person should look at
    Compacted    the agent shortened its own view
    TurnEnded    the agent stopped, and waits
    Spawned      a sub-agent: a session of its own
    Began Ended  the agent's program started, or left, the conversation
    About        what is known of the conversation as a whole
    Unknown      a record no importer can read yet: kept as it is

Two more are never recorded, only counted: `Skipped` (it could not be read) and `Noise` (known to say
nothing). `Cursor` says where reading may continue next time.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from stator.model.exchange.hunks import Place
from stator.model.log.commit import Source
from stator.model.records.types import (
    Effect,
    FileOp,
    Knowledge,
    StepStatus,
)
from stator.model.values.digest import sha256
from stator.model.values.ids import derived

DIGEST_DIGITS = 16
"""Of a file's SHA-256, as `files` has them."""

Via = Literal["import", "hook", "proxy"]
"""The channel something was recorded through; it is in the principal of every commit: `import:codex`."""


CLAUDE_CALL = "claudecode/toolUseId"
"""The member of `_meta` in which Claude Code tells an MCP server the id of its tool use."""
Author = Literal["user", "agent", "system"]
"""Whose words a text is."""


class Touch(msgspec.Struct, frozen=True, kw_only=True):
    """A file as an agent names it: absolute, or relative to its folder."""

    path: str
    op: FileOp
    before: str = ""
    after: str = ""
    from_path: str = ""
    how: Knowledge = "recorded"
    before_text: str | None = None
    """What it held, where the source shows all of it."""
    after_text: str | None = None
    places: tuple[Place, ...] = ()
    """What was changed, where that is all the source shows."""

    def __post_init__(self) -> None:
        """Where the text is known, so is its digest."""
        for side, text in (("before", self.before_text), ("after", self.after_text)):
            if text is not None:
                msgspec.structs.force_setattr(self, side, digest_of(text))


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a plan."""

    step: str
    status: StepStatus = "pending"
    detail: str = ""


class Item(msgspec.Struct, frozen=True, kw_only=True, tag="Item"):
    """One thing that happened. `at` in µs, 0 where unknown; `within`: the sub-agent's conversation it belongs
    to, where the parent's transcript contains it."""

    id: str = ""
    at: int = 0
    within: str = ""


class Prompted(Item, frozen=True, tag="Prompted"):
    content: Any
    by: Author = "user"
    """Whose words they are. Only what a person typed is the user's; a sub-agent's prompt is an agent's."""


class Answered(Item, frozen=True, tag="Answered"):
    reply: Any
    """The response as the provider gave it (see `model.window.reply`), or text."""
    usage: dict[str, int] = {}
    model: str = ""
    partial: bool = False


class Noted(Item, frozen=True, tag="Noted"):
    content: Any
    by: Author = "system"
    """Whose words they are: text that a program adds is the system's, what another agent reports is an agent's."""


class Delivered(Item, frozen=True, tag="Delivered"):
    """A text that a hook of Stator gave to the agent, where the agent shows it. It is nobody's words."""

    note: str
    """The id of the text: a digest of it."""
    kind: str
    whole: bool = True
    """It arrived as it was given."""
    text: str = ""


class Configured(Item, frozen=True, tag="Configured"):
    """What the agent runs with from here on: model, permission mode and the like, by name. A name that is
    missing is unchanged."""

    settings: dict[str, Any]


class Called(Item, frozen=True, tag="Called"):
    tool: str
    input: Any = None
    effect: Effect = "write"
    parent: str = ""
    """The enclosing call's id."""
    key: str = ""
    """The provider's own id, where `id` is another."""
    attempt: int = 1
    """Which try at the call; each has an intent and an outcome of its own."""


class Returned(Item, frozen=True, tag="Returned"):
    status: Literal["ok", "error", "timeout", "cancelled", "denied", "in doubt"] = "ok"
    output: Any = None
    cause: str = ""
    summary: str = ""
    source: Source = "tool"
    files: tuple[Touch, ...] = ()
    used: dict[str, int] = {}
    tool: str = ""
    """Needed only where the call itself was never seen."""
    attempt: int = 1


class Touched(Item, frozen=True, tag="Touched"):
    files: tuple[Touch, ...]


class Planned(Item, frozen=True, tag="Planned"):
    steps: tuple[Step, ...]
    whole: bool = True
    """Whether steps that are not named are no longer part of it."""


class Offered(Item, frozen=True, tag="Offered"):
    tools: dict[str, str]
    """Name → digest of its definition."""
    definitions: Any = None
    """The definitions themselves, as they were given."""
    changed: tuple[str, ...] = ()
    """Those whose definition was another before: approvals given for them are void."""


class Flagged(Item, frozen=True, tag="Flagged"):
    name: str
    on: str = ""
    why: str = ""


class Compacted(Item, frozen=True, tag="Compacted"):
    summary: str = ""
    keeps_from: str = ""
    """The id of the first item that stayed in view; "": nothing before it did."""
    before: int = 0
    """Tokens."""
    after: int = 0


class TurnEnded(Item, frozen=True, tag="TurnEnded"):
    status: Literal["ok", "aborted", "interrupted"] = "ok"
    why: str = ""


class Spawned(Item, frozen=True, tag="Spawned"):
    child: str
    """The other side's id for the sub-agent's conversation."""
    name: str = ""
    call: str = ""
    """The call that started it."""
    status: str = "started"


class Began(Item, frozen=True, tag="Began"):
    how: str = ""
    """startup, resume, clear, compact, fork."""


class Ended(Item, frozen=True, tag="Ended"):
    reason: str = ""
    died: bool = False
    """Whether this was inferred because the program is gone."""


class About(Item, frozen=True, tag="About"):
    """What is known of a conversation; a later one adds to an earlier one."""

    name: str = ""
    agent: str = ""
    cwd: str = ""
    labels: dict[str, str] = {}


class Unknown(Item, frozen=True, tag="Unknown"):
    raw: Any


class Skipped(Item, frozen=True, tag="Skipped"):
    line: int
    why: str


class Noise(Item, frozen=True, tag="Noise"):
    kind: str


class Cursor(Item, frozen=True, tag="Cursor"):
    """Where to continue, after any line: an offset, and all that the reader must know there. Reading from a cursor
    gives exactly the items that come after it."""

    offset: int
    line: int = 0
    state: dict[str, Any] = {}


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What another agent calls a session."""

    source: str
    """Which agent or format: claude-code, codex, …"""
    id: str
    name: str = ""
    agent: str = ""
    cwd: str = ""
    project: str = ""
    """The project it belongs to; "" means the current one."""
    labels: dict[str, str] = {}
    mapper: str = ""
    """Which mapping reads its transcript: the format's name and its version."""
    parent: str = ""
    """The conversation it is a sub-agent of, and the call that started it."""
    parent_call: str = ""
    fork_of: str = ""
    """The conversation it was forked from."""
    fork_ids: frozenset[str] = frozenset()
    """Ids of items they share: the fork begins after the last of them."""
    dated: int = 0
    """When things happened at the latest, in µs, for items without a time that come before any with one. 0: now."""

    again: int = 0
    """How often it was imported again into a corrected session."""

    @property
    def session(self) -> str:
        """The id of the session it is recorded in: every channel derives the same id."""
        more = ("again", str(self.again)) if self.again else ()
        return derived("session", self.source, self.id, *more)


def commit_id(session: str, kind: str, origin: tuple[str, str], attempt: int = 0) -> str:
    """The id of the commit that records an item: every channel derives the same id."""
    return derived("commit", session, kind, *origin, str(attempt))


def digest_of(content: str | bytes) -> str:
    """A file's content as `files` names it."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return sha256(data).hexdigest()[:DIGEST_DIGITS]


def text_id(text: str, *more: object) -> str:
    """A name for what has none on the other side: made from what it says."""
    data = "\0".join([text, *map(str, more)]).encode("utf-8", "surrogatepass")
    return sha256(data).hexdigest()[:24]
