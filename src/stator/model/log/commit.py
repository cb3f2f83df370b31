"""Commits: what a caller asks to append (`Draft`) and what the log holds (`Commit`).

A draft is the caller's part. The store adds seq, turn, at, delta, prev and hash when it seals the
draft inside its transaction. Content (`CONTENT` and every put record) is kept apart from structure,
because content can be erased while the chain stays valid.
"""

from __future__ import annotations

import builtins
import re
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET

from stator.errors import BadType
from stator.errors import Erased as ErasedError
from stator.model.log.delta import Delta
from stator.model.records.types import Record
from stator.model.values import canon
from stator.model.values.ids import Kind, retype

FORMAT = 1
"""Version of the commit format; it is in every commit and in every hash."""

CONTINUED = "continued"
"""Status of a `turn` commit that takes the last turn up again instead of beginning one."""
EXTRACTED = "extract"
"""Source of the origin of what rules found in a log."""
CONTINUES = "continues"
"""Status of a `turn` commit that continues, under a new number, a turn that is not the last any more. Its
first input is the seq of the commit that began it."""

Actor = Literal["agent", "user", "model", "tool", "system"]
Source = Literal["user", "model", "tool", "file", "web", "import", "system"]
UNTRUSTED = frozenset({"web", "import"})
"""Sources that nobody here vouches for."""
Trust = Literal["verified", "unverified"]

CONTENT = (
    "principal",
    "key",
    "input",
    "input_hash",
    "output",
    "output_summary",
    "usage",
    "why",
)
"""Fields that are content: salted, committed to by hash, erasable. In the order they are stored."""


DATA = "data:"
"""How the names of content items begin that are bytes as they were given, and not canonical JSON."""


class Provenance(msgspec.Struct, frozen=True, array_like=True):
    """Where a commit's content came from and how far it is trusted."""

    source: Source = "system"
    trust: Trust = "verified"


class Upsert(msgspec.Struct, frozen=True):
    """A change: put this record under its natural key.

    Its values are the caller's own, not yet in tagged form. They are tagged once, when the draft is sealed; a
    record that was read from a log has its tags already and goes back as a `Reset`.
    """

    collection: str
    record: Record


class Remove(msgspec.Struct, frozen=True):
    """A change: remove the record under that key."""

    collection: str
    key: str


class Erase(msgspec.Struct, frozen=True):
    """A change: erase content, fields of one commit or every put of one record."""

    seq: int = 0
    fields: tuple[str, ...] = ()
    collection: str = ""
    id: str = ""


class Reset(msgspec.Struct, frozen=True):
    """A change that puts back what was recorded before: exactly this record, or none, under that id.

    A rewind makes it, and the undoing of a compaction, whose notes get new ids. Its values are in tagged form and
    stay as they are.
    """

    collection: str
    id: str
    key: str
    record: Record | None = None


class Purge(msgspec.Struct, frozen=True):
    """The caller's wish that a whole session be gone: a project's own session says so."""

    session: str
    head: int = 0
    """Its head when the purge was decided: a session with newer commits is refused. 0 skips this check."""


Change = Upsert | Remove | Erase | Reset | Purge


Named = int | str | tuple[str, str]
"""How a draft names commits it was made from: the seq of one, the id of one, or the ids of the first and the last
of a range. A range means the commits in it that a model's view holds. Whoever knows the seqs of a range gives it as
the log holds it: `n`, then `-m`."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's part of a commit. `input` and `output` are any recordable Python values."""

    id: str
    session: str
    kind: str
    actor: Actor = "agent"
    attempt: int = 0
    call: str = ""
    cause: str = ""
    changes: tuple[Change, ...] = ()
    data: dict[str, bytes] = {}
    """Bytes by name, which nobody here reads: they are recorded as they are, but for secrets in text."""
    effect: str = ""
    epoch: int = 0
    happened: int = 0
    input: Any = UNSET
    inputs: tuple[Named, ...] = ()
    """What it was made from. Sealing replaces ids with seqs, as far as it finds them (`model.log.edges`)."""
    key: str = ""
    origin: tuple[str, str] | None = None
    output: Any = UNSET
    output_summary: str = ""
    parent: str = ""
    principal: str = ""
    provenance: Provenance = Provenance()
    run: str = ""
    status: str = ""
    tool: str = ""
    trace: str = ""
    usage: dict[str, int] | None = None
    why: str = ""


class Gone(msgspec.Struct, frozen=True):
    """An erased content item: only the commitment and the seq of its erasure are left.

    0 means that it was not erased but left out of the bundle that the commit came with.
    """

    by: int
    commitment: bytes


class Large(msgspec.Struct, frozen=True):
    """A content item that lives in a blob and was not loaded."""

    digest: bytes
    size: int


Item = bytes | Gone | Large


class Commit(msgspec.Struct, frozen=True):
    """One appended, hash-chained record of a session's log."""

    id: str
    session: str
    seq: int
    kind: str
    turn: int
    at: int
    hash: str
    prev: str
    v: int = FORMAT
    actor: str = "agent"
    attempt: int = 0
    call: str = ""
    cause: str = ""
    content: dict[str, Item] = {}
    delta: Delta = []
    effect: str = ""
    epoch: int = 0
    happened: int = 0
    inputs: list[int | str] = []
    """What it was made from: n is a seq of this lineage; n and then -m is the range from n to m; a text is the id of
    a commit that is elsewhere, or was not here yet. `model.log.edges` reads them."""
    origin: tuple[str, str] | None = None
    parent: str = ""
    provenance: Provenance = Provenance()
    run: str = ""
    salt: bytes = b""
    """Random; the salt of each content item is derived from it. Gone once an item was erased."""
    salts: dict[str, bytes] = {}
    """What erasure keeps instead: the salts of the items that are left, each by itself."""
    status: str = ""
    tool: str = ""
    trace: str = ""

    def has(self, name: str) -> bool:
        return name in self.content

    def value(self, name: str, default: Any = None) -> Any:
        """A content field as the Python value that was recorded; `Erased` if it is gone."""
        item = self._item(name)
        return default if item is None else canon.loads(item)

    def bytes(self, name: str) -> builtins.bytes | None:
        """The bytes that were given under that name; None if none were, `Erased` if they are gone."""
        return self._item(DATA + name)

    @property
    def data_names(self) -> list[str]:
        """The names under which it was given bytes."""
        return [name.removeprefix(DATA) for name in self.content if name.startswith(DATA)]

    def _item(self, name: str) -> builtins.bytes | None:
        item = self.content.get(name)
        if isinstance(item, Gone):
            what = f"was erased by @{item.by}" if item.by else "is not in the bundle it came with"
            raise ErasedError(f"{name} of commit {self.id} {what}", commit=self.id, field=name)
        if isinstance(item, Large):
            raise BadType(
                f"{name} of commit {self.id} was not loaded", hint="read it with load=True"
            )
        return item

    def known(self, name: str, default: Any = None) -> Any:
        """The same for who can do without it: the default also where it was erased."""
        return default if isinstance(self.content.get(name), Gone) else self.value(name, default)

    @property
    def when(self) -> int:
        """When it happened, for display; `at` is when it was appended."""
        return self.happened or self.at

    @property
    def used(self) -> int:
        """When its session was last used, if it is the newest: in what came later from elsewhere, when
        it happened there; never in the future, even if another clock was wrong."""
        return min(self.happened or self.at, self.at)

    def own(self, kind: Kind) -> str:
        """The id of the turn or call this commit began."""
        return retype(self.id, kind)


_DATA_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def is_data_name(name: str) -> bool:
    """Whether bytes may have this name."""
    return _DATA_NAME.fullmatch(name) is not None


def gone(by: int) -> str:
    """The text shown in place of erased content, by the seq of its erasure."""
    return f"(erased by @{by})" if by else "(not in the bundle)"


def size_of(item: Item) -> int:
    """Bytes of a content item in canonical form; an erased one has none."""
    if isinstance(item, Gone):
        return 0
    return item.size if isinstance(item, Large) else len(item)
