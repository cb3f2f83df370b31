"""Lists what left an agent's view, and reads the content behind a key.

A key is what a compaction names (`decision:auth`, `call:c_…`, `entry:@12`). Nothing is ever taken
away by compacting, so everything it names can be recalled, unless it was erased or it expired.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from stator.errors import Ambiguous, NotFound
from stator.model.exchange.tool_files import subject
from stator.model.log.commit import Commit, Gone, Large
from stator.model.log.delta import Put, Version
from stator.model.log.query import read
from stator.model.log.shown_text import cut_short
from stator.model.records.tables import EVICTED, RECALLED, SPOKEN, recall_note
from stator.model.records.types import (
    Entry,
    ErasedRecord,
    EvictedRecord,
    Record,
)
from stator.model.values import canon
from stator.model.values.ids import short
from stator.model.values.json_text import shown
from stator.model.window.compaction import (
    CHATTER,
    GROUPS,
    RANKS,
    UNDONE,
    WINDOW,
    bounded,
    key_for,
    order,
)
from stator.model.window.reply import requests, text_of
from stator.runtime.base.one_answer import ahead
from stator.runtime.base.pages import commit_at, find_entry, named_commits
from stator.runtime.base.provenance import imported_upto
from stator.runtime.views.as_read import for_one_answer
from stator.runtime.views.refs import find_call, find_session, intent_of, last_attempt, with_session
from stator.runtime.window.transcript import latest, stands_for
from stator.store.port import StorePort

Recallable = Literal["recallable", "expired", "erased"]
WHAT_MAX = 160
"""Characters of the line that describes a key."""
NEAR = 5
END_MIN, CANDIDATES = 3, 20
"""Characters of an end of a key by which it is recalled, and keys that are named where several are meant."""
STRETCH_MAX = 10_000
"""Things of a stretch of turns that are listed, give or take a page."""
PAGE = 1000


class Evicted(msgspec.Struct, frozen=True, kw_only=True):
    """A key that left the agent's view, and whether its content can be recalled."""

    key: str
    rank: int
    seq: int
    turn: int
    by: int
    """The compaction that evicted it, or the commit that says that it did not fit."""
    status: Recallable = "recallable"
    what: str = ""
    window: bool = False
    """Whether no compaction evicted it: it did not fit into what the last answer was made from."""

    @property
    def kind(self) -> str:
        """decision, constraint, number, file or chatter."""
        return RANKS[self.rank] if 0 <= self.rank < len(RANKS) else RANKS[-1]


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """The content behind a key, and where it came from."""

    key: str
    session: str
    seq: int
    turn: int
    commit: str
    at: int
    actor: str
    source: str
    trust: str
    status: Recallable = "recallable"
    content: Any = None
    what: str = ""


# -- what left ------------------------------------------------------------------------------------


def evicted(
    store: StorePort, session: str, *, all: bool = False, most: int | None = None
) -> list[Evicted]:
    """What the current compaction evicted and what did not fit into what the last answer was made from, what
    matters most first, at most `most`; or what every compaction and every answer did, newest first."""
    store = for_one_answer(store)
    look = _Look(store, session)
    if not all:
        last = latest(store, session)
        by = 0 if last is None else stands_for(last)
        entries = [
            e for e in store.entries(session, "evicted") if isinstance(e.record, EvictedRecord)
        ]
        chosen = sorted(entries, key=lambda e: order(e.record))[:most]  # type: ignore[arg-type]
        places = [(e.record, e.seq if _is_window(e.record) else by) for e in chosen]
        _read_commits(store, session, [record for record, _ in places])
        return _ranked([look.item(record, seq) for record, seq in places if seq])
    found: dict[int, list[Evicted | None]] = {}
    for version in store.versions(
        session, after=0, upto=store.head(session).seq, collections=("evicted",)
    ):
        if isinstance(version.op, Put) and look.is_own(version.seq):
            item = look.item(version.op.record, version.seq)
            found.setdefault(version.seq, []).append(item)
    return [item for seq in sorted(found, reverse=True) for item in _ranked(found[seq])]


def beyond(
    store: StorePort, session: str, keys: Iterable[tuple[EvictedRecord | Evicted, int]]
) -> dict[int, int]:
    """By rank: how many more things left the view than there are keys, each given with the commit that says so. Where
    there were many, a key names what left of a stretch of turns; the commit says how many there were in all."""
    store, known = for_one_answer(store), list(keys)
    stretches = Counter((by, key.rank) for key, by in known if is_stretch(key.key))
    found: dict[int, int] = {}
    for (by, rank), many in sorted(stretches.items()):
        commit = commit_at(store, session, by)
        said = commit.known("input")
        left = said.get("left") if isinstance(said, dict) else None
        whole = left.get(RANKS[rank]) if isinstance(left, dict) and rank < len(RANKS) else None
        if type(whole) is int:
            is_window = commit.status == WINDOW  # which leaves the keys as they are that it finds
            named = sum(
                key.rank == rank
                and key.window == is_window
                and (is_window or one == by)
                and not is_stretch(key.key)
                for key, one in known
            )
            found[rank] = found.get(rank, 0) + max(0, whole - named - many)
    return found


def beyond_now(store: StorePort, session: str, entries: Iterable[Entry]) -> dict[int, int]:
    """The same of what is not in view now, from the keys in the state."""
    known = [(one.record, one.seq) for one in entries if isinstance(one.record, EvictedRecord)]
    if not any(is_stretch(record.key) for record, _ in known):
        return {}
    last = latest(store, session)
    by = 0 if last is None else stands_for(last)
    placed = ((record, seq if record.window else by) for record, seq in known)
    return beyond(store, session, [(record, seq) for record, seq in placed if seq])


def is_stretch(key: str) -> bool:
    """Whether a key names what left of some turns, and not one thing."""
    return key.partition(":")[0] in GROUPS


def _read_commits(store: StorePort, session: str, records: Sequence[Record]) -> None:
    """Read in one call the commits that some keys name, and the intents of calls among them."""
    known = [record for record in records if isinstance(record, EvictedRecord)]
    calls = {f"k_{one.key[7:]}" for one in known if one.key.startswith("call:c_")}
    if known:
        seqs = {one.seq for one in known if one.seq > 0}
        ahead(store, read("session", session))
        named_commits(store, session, seqs, ids=calls, load=False)


def _is_window(record: Record) -> bool:
    return isinstance(record, EvictedRecord) and record.window


def _ranked(items: Sequence[Evicted | None]) -> list[Evicted]:
    known = [item for item in items if item is not None]
    return sorted(known, key=order)


class _Look:
    """Looks commits up, each once."""

    def __init__(self, store: StorePort, session: str) -> None:
        self._store = store
        self._session = session
        self._known: dict[int, Commit] = {}

    def commit(self, seq: int) -> Commit:
        if seq not in self._known:
            self._known[seq] = commit_at(self._store, self._session, seq, load=False)
        return self._known[seq]

    def is_own(self, seq: int) -> bool:
        """Whether a commit evicted the keys it put; an undo and a rewind put back those of others."""
        commit = self.commit(seq)
        return commit.kind == "compaction" and commit.status != UNDONE

    def item(self, record: Record, by: int) -> Evicted | None:
        """An evicted key as it is listed; None if the key itself was erased, or names nothing before it."""
        if not isinstance(record, EvictedRecord) or not 0 < record.seq <= by:
            return None
        commit = self.commit(record.seq)
        status, what = self._stands(record.key, commit)
        return Evicted(
            key=record.key,
            rank=record.rank,
            seq=record.seq,
            turn=commit.turn,
            by=by,
            status=status,
            what=what,
            window=record.window,
        )

    def _stands(self, key: str, commit: Commit) -> tuple[Recallable, str]:
        prefix = key.partition(":")[0]
        if prefix in RECALLED:
            record = _put(commit, key)
            if isinstance(record, ErasedRecord):
                return taken(self._store, self._session, record.erased), ""
            return "recallable", "" if record is None else _about(RECALLED[prefix], record)
        item = commit.content.get("input" if commit.kind == "turn" else "output")
        if isinstance(item, Gone) and prefix in ("entry", "call"):
            return taken(self._store, self._session, item.by), commit.tool
        intent = intent_of(self._store, self._session, commit.call) if prefix == "call" else None
        given = None if intent is None else intent.known("input")
        return "recallable", _spoken(commit, subject(commit.tool, given))


def taken(store: StorePort, session: str, by: int) -> Recallable:
    """How erased content was erased."""
    # In a fork, the erasure may be a commit of its parent's own log, after the fork.
    found = store.commits(session, after=by - 1, upto=by, limit=1, load=False) if by else []
    return "expired" if found and found[0].cause == "expired" else "erased"


def _put(commit: Commit, key: str) -> Record | None:
    """The record a commit put under an evicted key."""
    collection = RECALLED[key.partition(":")[0]]
    puts = [op for op in commit.delta if isinstance(op, Put) and op.collection == collection]
    for op in puts:
        if collection in EVICTED:
            entry = Entry(collection, op.id, "", commit.seq, commit.turn, op.record)
            if key_for(entry) == key or isinstance(op.record, ErasedRecord):
                return op.record
    return puts[0].record if len(puts) == 1 else None


def _spoken(commit: Commit, about: str = "") -> str:
    """A line about an entry or a call. `about` is the path or the command of the call."""
    if commit.kind in ("outcome", "settlement", "call"):
        return _gist(" ".join(filter(None, (commit.tool, about, commit.status))))
    item = commit.content.get("input" if commit.kind == "turn" else "output")
    if item is None or isinstance(item, (Gone, Large)):
        return commit.kind
    value = canon.loads(item)
    asked = ", ".join(f"→ {ask.name}" for ask in requests(value)) if commit.kind == "entry" else ""
    words = (text_of(value) if commit.kind == "entry" else "") or ("" if asked else value)
    return _gist(f"{shown(words)} {asked}".strip())


def _about(collection: str, record: Record) -> str:
    """A line about a record: what its key does not say of it."""
    return _gist(recall_note(collection, record))


def _gist(value: Any) -> str:
    text = " ".join(cut_short(shown(value), WHAT_MAX * 4).split())
    return text if len(text) <= WHAT_MAX else cut_short(text, WHAT_MAX - 1) + "…"


# -- getting it back ------------------------------------------------------------------------------


def recall(store: StorePort, session: str, key: str) -> Recalled:
    """The content behind a key, whether or not it was evicted; `NotFound` names keys that are near. A key may name
    the session that it is of. Of an evicted one, its end or its position is enough (`auth.py`, `@930`), if no other
    has the same."""
    named, key = with_session(key)
    session = find_session(store, named).id if named else session
    found = _by_key(store, session, key)
    if found is None and (whole := _meant(store, session, key)):
        found = _by_key(store, session, whole)
    if found is None:
        raise _unknown(store, session, key)
    if found.seq <= imported_upto(store, store.session(found.session).record):
        return msgspec.structs.replace(found, source="import", trust="unverified")
    return found


def _meant(store: StorePort, session: str, text: str) -> str:
    """The evicted key that a text is the end or the position of, or "". At a position, what matters
    most is meant; the name of a file counts more than an end of it."""
    records = [entry.record for entry in store.entries(session, "evicted")]
    known = {one.key: one for one in records if isinstance(one, EvictedRecord)}
    there = [one for one in known.values() if text == f"@{one.seq}"]
    found = [one.key for one in there if one.rank == min(each.rank for each in there)]
    found = found or [key for key in known if key.endswith((f"/{text}", f":{text}"))]
    found = found or [key for key in known if len(text) >= END_MIN and key.endswith(text)]
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} things that left the view are meant by {text!r:.80}",
            candidates=found[:CANDIDATES],
            hint="name one: " + ", ".join(found[:CANDIDATES]),
        )
    return found[0] if found else ""


def _by_key(store: StorePort, session: str, key: str) -> Recalled | None:
    """The content behind a whole key, if it has any."""
    prefix, _, name = key.partition(":")
    if prefix == "entry" and (match := re.fullmatch(r"@([0-9]{1,15})", name)):
        return _entry(store, session, key, int(match[1]))
    if prefix == "call":
        return _call(store, session, key, name)
    if prefix in RECALLED and name:
        return _record(store, session, key, RECALLED[prefix], name)
    if prefix in GROUPS and (match := re.fullmatch(r"t([0-9]{1,9})(?:\.\.t([0-9]{1,9}))?", name)):
        return _stretch(store, session, key, int(match[1]), int(match[2] or match[1]))
    return None


def _unknown(store: StorePort, session: str, key: str) -> NotFound:
    evicted = [entry.record for entry in store.entries(session, "evicted")]
    known = [record.key for record in evicted if isinstance(record, EvictedRecord)]
    for collection in EVICTED:
        known += [key_for(entry) for entry in store.entries(session, collection, limit=200)]
    near = difflib.get_close_matches(key, dict.fromkeys(known), NEAR, 0.5)
    hint = (
        f"near: {', '.join(near)}" if near else f"stator evicted {short(session)} lists what left"
    )
    return NotFound(f"nothing to recall by {key!r:.80}", hint=hint, session=session, key=key)


def _recalled(commit: Commit, key: str, **fields: Any) -> Recalled:
    return Recalled(
        key=key,
        session=commit.session,
        seq=commit.seq,
        turn=commit.turn,
        commit=commit.id,
        at=commit.when,
        actor=commit.actor,
        source=commit.provenance.source,
        trust=commit.provenance.trust,
        **fields,
    )


def _entry(store: StorePort, session: str, key: str, seq: int) -> Recalled | None:
    """The content of a commit: of a turn its prompt, else its output."""
    if not 0 < seq <= store.head(session).seq:
        return None
    commit = commit_at(store, session, seq)
    fields = ("input",) if commit.kind == "turn" else ("output", "input")
    name = next((field for field in fields if commit.has(field)), fields[0])
    return _content(store, session, commit, key, name)


def _content(store: StorePort, session: str, commit: Commit, key: str, name: str) -> Recalled:
    item = commit.content.get(name)
    if isinstance(item, Gone):
        return _recalled(commit, key, status=taken(store, session, item.by), what=commit.kind)
    return _recalled(commit, key, content=commit.value(name), what=_spoken(commit))


def _call(store: StorePort, session: str, key: str, name: str) -> Recalled | None:
    """What a call was asked, and the last that is known of it."""
    try:
        intent = find_call(store, name, session=session)
    except NotFound:
        return None
    row = last_attempt(store, session, intent)
    last = commit_at(store, session, row.outcome) if row and row.outcome else intent
    status: Recallable = "recallable"
    parts: dict[str, Any] = {"tool": intent.tool, "status": last.status}
    for label, commit, field in (("arguments", intent, "input"), ("output", last, "output")):
        item = commit.content.get(field)
        if isinstance(item, Gone):
            status = taken(store, session, item.by)
        elif item is not None and (label == "arguments" or last is not intent):
            parts[label] = commit.value(field)
    return _recalled(last, key, status=status, content=parts, what=_spoken(last))


def _record(
    store: StorePort, session: str, key: str, collection: str, name: str
) -> Recalled | None:
    """The current record under a key, or the last there was."""
    for seq in _places(store, session, key, collection, name):
        commit = commit_at(store, session, seq)
        if collection == "artifacts":
            return _content(store, session, commit, key, "input")
        record = _put(commit, key)
        if isinstance(record, ErasedRecord):
            return _recalled(commit, key, status=taken(store, session, record.erased))
        if record is not None:
            return _recalled(commit, key, content=_plain(record), what=_about(collection, record))
    return None


def _plain(record: Record) -> dict[str, Any]:
    """A record as the values it was made of: its own value, even an empty one, and every other field that is set."""
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    return {
        name: canon.from_plain(value)
        for name, value in fields.items()
        if name == "value" or value not in ("", [], {}, None)
    }


def _places(store: StorePort, session: str, key: str, collection: str, name: str) -> Iterator[int]:
    """Where a key was put: as it is now, as it was evicted, as it was last put."""
    entry = find_entry(store, session, collection, name)
    if entry is not None:
        yield entry.seq
    marked = find_entry(store, session, "evicted", key)
    held = getattr(marked.record, "seq", 0) if marked is not None else 0
    if marked is not None and 0 < held <= marked.seq:
        yield held
    for version in reversed(_versions(store, session, collection)):
        op = version.op
        if isinstance(op, Put) and (version.key == name or _names(collection, op, key)):
            yield version.seq


def _versions(store: StorePort, session: str, collection: str) -> list[Version]:
    head = store.head(session).seq
    return store.versions(session, after=0, upto=head, collections=(collection,))


def _names(collection: str, op: Put, key: str) -> bool:
    entry = Entry(collection, op.id, "", 0, 0, op.record)
    return collection in EVICTED and key_for(entry) == bounded(key)


def _stretch(store: StorePort, session: str, key: str, first: int, last: int) -> Recalled | None:
    """What left with a stretch of turns, each with the key it is recalled by; and where the list ends, if
    that is before the stretch does."""
    low, high = max(first - 1, 0), max(first, last)
    ends = [
        store.turns(session, after=low, upto=high, newest_first=n, limit=1) for n in (False, True)
    ]
    if not ends[0]:
        return None
    after, upto = ends[0][0].first - 1, ends[1][0].last
    rank = GROUPS.index(key.partition(":")[0])
    lines: list[dict[str, str]] = []
    while after < upto and len(lines) < STRETCH_MAX:
        page = store.commits(session, after=after, upto=upto, limit=PAGE, load=False)
        for commit in page:
            lines += _of_rank(commit, rank)
        after = page[-1].seq
    what = f"{len(lines)} things"
    if after < upto:
        what = f"the first {what}; what came after @{after} is not listed"
        lines.append(
            {"key": f"entry:@{after}", "what": f"the list ends at @{after}, the turns do not"}
        )
    return _recalled(page[-1], key, content=lines, what=what)


def _of_rank(commit: Commit, rank: int) -> Iterator[dict[str, str]]:
    """What of a commit leaves a view under keys of a rank."""
    for op in commit.delta:
        if isinstance(op, Put) and EVICTED.get(op.collection) == rank:
            entry = Entry(op.collection, op.id, "", commit.seq, commit.turn, op.record)
            if key := key_for(entry):
                yield {"key": key, "what": _about(op.collection, op.record)}
    by_user = commit.kind == "turn" or (commit.kind == "entry" and commit.actor == "user")
    if commit.kind in SPOKEN and rank == (1 if by_user else CHATTER):
        key = f"call:{commit.call}" if commit.call else f"entry:@{commit.seq}"
        yield {"key": key, "what": _spoken(commit)}
