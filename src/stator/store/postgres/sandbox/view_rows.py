"""Fills the views of `stator sql` from a server, page by page, in one snapshot.

The server is asked for the columns it has, of the sessions and places that a query names. What is packed in a commit is
unpacked here, and read only where a query uses it. Rows are those of a session's own log, as in the SQLite store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any

from stator.model.log.commit import Large
from stator.model.values.ids import from_bytes
from stator.store.postgres.connection import Rows, Transaction
from stator.store.postgres.session_row import MAX_SEQ
from stator.store.postgres.text import unpacked
from stator.store.rows import content_of, envelope_of
from stator.store.sandbox.commit_reader import CONTENTS, MICRO, UNITS, CommitReader
from stator.store.sandbox.view_tables import Bounds, View

PAGE = 2000
TURNS = 500
"""Turns that are summed up together, of any sessions."""
BLOBS_BYTES = 4 * 1024 * 1024
"""About how much is read together of what is kept beside the log."""
USED = {"tokens", "cached", "cost_usd"}
CONTENT_OF = {"summary": "output_summary", "text": "text", **{name: name for name in CONTENTS}}
"""Column → the content that it shows."""
RECORD_VIEWS = {
    "files": ("files", False, ("path", "op", "before", "after")),
    "decisions": ("decisions", False, ("topic", "what", "why", "supersedes")),
    "revisions": ("revisions", True, ("sha", "subject", "branch", "pushed")),
    "spend": ("spend", True, ("unit", "amount")),
}
"""View → the collection it shows, whether only what is in force, and the members of a record that are its columns."""

Values = dict[str, Any]
Keyed = tuple[Values, tuple[Any, ...]]
"""The columns of a row by name, and what distinguishes the row from others."""


class PostgresRows:
    """Reads in a transaction."""

    def __init__(self, db: Transaction) -> None:
        self._db = db
        self._blobs = _Blobs(db)
        self._commit = CommitReader(self._blobs.get)
        self._fill: dict[str, Callable[[Collection[str], Bounds | None], Iterator[Keyed]]] = {
            "sessions": self._sessions,
            "commits": self._commits,
            "turns": self._turns,
            "calls": self._calls,
            "records": self._records,
            "state": self._state,
        }

    def ordinal(self, identifier: bytes) -> int | None:
        found = self._db.one("sql_session", id=identifier)
        return None if found is None else int(found[0])

    def rows(
        self, view: View, columns: Collection[str], bounds: Bounds | None
    ) -> Iterator[tuple[Any, ...]]:
        if view.name in RECORD_VIEWS:
            filled = self._members(view.name, bounds)
        else:
            filled = self._fill[view.name](columns, bounds)
        names = view.names
        for values, key in filled:
            values.setdefault("cost_computed", 0)  # the log has only what was recorded
            yield (*map(values.get, names), *key)

    def _pages(
        self, name: str, bounds: Bounds | None, place: dict[str, int], **values: Any
    ) -> Iterator[Rows]:
        """Pages of a statement; `place` says at which number of a row what is that it is continued after."""
        after = dict.fromkeys(place, -1)
        s, low, high = bounds or (None, 0, MAX_SEQ)
        while True:
            found = self._db.many(
                name, **{"s": s, "low": low, "high": high, "limit": PAGE, **after, **values}
            )
            yield found
            if len(found) < PAGE:
                return
            after = {word: found[-1][number] for word, number in place.items()}

    # -- the log ----------------------------------------------------------------------------------

    def _commits(self, columns: Collection[str], bounds: Bounds | None) -> Iterator[Keyed]:
        contents = [name for name in CONTENT_OF if name in columns]
        load = bool(contents or {"actor", "happened", *USED} & set(columns))
        named = bool({"session", "id", "hash"} & set(columns))
        place = {"after_s": 0, "after": 2}
        for page in self._pages("sql_log", bounds, place, load=load, named=named):
            if contents:
                self._blobs.expect(row[12] for row in page)
            for s, owner, seq, identifier, hashed, kind, turn, at, *plain, body in page:
                tool, status, effect, cause = map(_text, plain)
                values = {
                    "seq": seq,
                    "kind": _text(kind),
                    "turn": turn,
                    "at": at,
                    "tool": tool,
                    "status": status,
                    "effect": effect,
                    "cause": cause,
                }
                if named:
                    values["session"] = from_bytes(owner, "session")
                    values["id"] = from_bytes(identifier, "commit")
                    values["hash"] = hashed.hex()
                if load:
                    values["actor"] = self._commit.field(body, "actor")
                    values["happened"] = self._commit.field(body, "happened")
                    values |= self._contents(body, contents)
                    values |= self._used(body) if USED & set(columns) else {}
                yield values, (s, seq)

    def _contents(self, body: bytes | None, columns: Collection[str]) -> Values:
        return {name: self._commit.content(body, CONTENT_OF[name]) for name in columns}

    def _used(self, body: bytes | None) -> Values:
        """What a commit used; what was read from a cache is counted apart."""
        tokens, cached, cost = (self._commit.used(body, what) for what in UNITS)
        return {"tokens": _less(tokens, cached), "cached": cached, "cost_usd": cost}

    def _bodies(self, places: Collection[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
        """The bodies of commits, by session and seq."""
        asked = sorted(set(places))
        rows = self._db.many("sql_bodies", ss=[s for s, _ in asked], seqs=[seq for _, seq in asked])
        return {(s, seq): body for s, seq, body in rows}

    # -- calls ------------------------------------------------------------------------------------

    def _intents(self, bounds: Bounds | None) -> Iterator[Rows]:
        return self._pages("sql_calls", bounds, {"after_s": 0, "after": 2})

    def _calls(self, columns: Collection[str], bounds: Bounds | None) -> Iterator[Keyed]:
        asked = [name for name in ("input", "input_hash", "why") if name in columns]
        ended = [name for name in ("output", "summary") if name in columns]
        load = bool(asked or ended or {"happened", "took"} & set(columns))
        for page in self._intents(bounds):
            bodies: dict[tuple[int, int], bytes] = {}
            if load:
                places = {(row[0], seq) for row in page for seq in (row[2], row[9]) if seq}
                bodies = self._bodies(places)
            if asked or ended:
                self._blobs.expect(bodies[place] for place in sorted(bodies))
            for s, owner, seq, call, tool, effect, attempt, turn, at, last, status, cause in page:
                first, end = bodies.get((s, seq)), bodies.get((s, last))
                values = {
                    "session": from_bytes(owner, "session"),
                    "seq": seq,
                    "call": f"c_{(call or b'').hex()}",
                    "tool": _text(tool),
                    "effect": _text(effect),
                    "status": _text(status) or "started",
                    "recorded": _text(status) or "started",
                    "cause": _text(cause),
                    "attempt": attempt,
                    "outcome": last or 0,
                    "turn": turn,
                    "at": at,
                    "happened": self._commit.field(first, "happened"),
                    **self._contents(first, asked),
                    **self._contents(end, ended),
                }
                values["took"] = _less(self._commit.field(end, "happened"), values["happened"])
                yield values, (s, seq)

    # -- turns ------------------------------------------------------------------------------------

    def _turns(self, columns: Collection[str], bounds: Bounds | None) -> Iterator[Keyed]:
        found: Iterator[Values] = self._marked(bounds)
        within = bounds
        if bounds is not None:
            turns = list(found)
            found = iter(turns)
            within = (
                bounds._replace(low=turns[0]["first"], high=turns[-1]["last"]) if turns else bounds
            )
        calls = _ByTurn(chain.from_iterable(self._intents(within)), 2)
        used = _ByTurn(
            chain.from_iterable(self._pages("sql_used", within, {"after_s": 0, "after": 1})), 1
        )
        asked = set(columns)
        while together := list(islice(found, TURNS)):
            if {"calls", "failed"} & asked:
                self._count(together, calls)
            if USED & asked:
                for one in together:
                    for row in used.rows(one):
                        _add(one, self._used(row[2]))
            if {"prompt", "happened", "ended"} & asked:
                self._say(together, prompts="prompt" in asked)
            for one in together:
                yield one, (one["s"], one["turn"])

    def _marked(self, bounds: Bounds | None) -> Iterator[Values]:
        """Turns, from the commits that begin and end them: a turn lasts until the next of its session begins."""
        wider = bounds and bounds._replace(high=bounds.high + 1)
        place = {"after_s": 0, "after_turn": 2, "after": 3}
        pages = self._pages("sql_marks", wider, place)
        earlier: Values | None = None
        for (s, turn), group in groupby(chain.from_iterable(pages), key=itemgetter(0, 2)):
            rows = list(group)
            (_, owner, _, first, _, _, at, head), last = rows[0], rows[-1]
            if earlier is not None:
                if earlier["s"] == s:
                    earlier["last"] = first - 1
                yield earlier
            earlier = {
                "s": s, "session": from_bytes(owner, "session"), "turn": turn, "first": first, "last": head,
                "at": at, "status": "" if last[4] == "turn" else _text(last[5]),
            }  # fmt: skip
        if earlier is not None and (bounds is None or earlier["turn"] <= bounds.high):
            yield earlier

    def _count(self, turns: Sequence[Values], calls: _ByTurn) -> None:
        """How many calls turns have, and how many of them failed."""
        for one in turns:
            statuses = [_text(row[10]) or "started" for row in calls.rows(one)]
            one["calls"] = len(statuses)
            one["failed"] = sum(status not in ("ok", "started") for status in statuses)

    def _say(self, turns: Sequence[Values], *, prompts: bool) -> None:
        """When turns began and ended, and what they were asked."""
        bodies = self._bodies({(one["s"], one[end]) for one in turns for end in ("first", "last")})
        firsts = [bodies.get((one["s"], one["first"])) for one in turns]
        if prompts:
            self._blobs.expect(firsts)
        for one, first in zip(turns, firsts, strict=True):
            one["prompt"] = self._commit.content(first, "prompt") if prompts else None
            one["happened"] = self._commit.field(first, "happened")
            one["ended"] = self._commit.field(bodies.get((one["s"], one["last"])), "happened")

    # -- records ----------------------------------------------------------------------------------

    def _versions(
        self,
        bounds: Bounds | None,
        *,
        collection: str | None = None,
        live: bool = False,
        load: bool = True,
    ) -> Iterator[Keyed]:
        place = {"after_s": 0, "after": 4, "after_n": 5}
        asked = {"collection": collection, "live": live, "load": load}
        for page in self._pages("sql_rec", bounds, place, **asked):
            self._blobs.expect(row[9] for row in page)
            for s, owner, project, name, seq, n, turn, put, identifier, body in page:
                values = {
                    "s": s,
                    "session": from_bytes(owner, "session"),
                    "project": _text(project),
                    "collection": name,
                    "seq": seq,
                    "turn": turn,
                    "op": "put" if put else "drop",
                    "id": _text(identifier),
                    "record": self._commit.put(body, n),
                }
                yield values, (s, name, seq, n)

    def _records(self, columns: Collection[str], bounds: Bounds | None) -> Iterator[Keyed]:
        return self._versions(bounds, load="record" in columns)

    def _state(self, columns: Collection[str], bounds: Bounds | None) -> Iterator[Keyed]:
        return self._versions(bounds, live=True, load="record" in columns)

    def _members(self, view: str, bounds: Bounds | None) -> Iterator[Keyed]:
        """Records of one collection, with members of them as columns."""
        collection, live, members = RECORD_VIEWS[view]
        found = self._versions(bounds, collection=collection, live=live)
        for values, key in found:
            if values["record"] is not None:
                record = json.loads(values["record"])
                yield values | {name: _member(record.get(name)) for name in members}, key

    # -- sessions ---------------------------------------------------------------------------------

    def _sessions(self, columns: Collection[str], bounds: Bounds | None) -> Iterator[Keyed]:
        for page in self._pages("sql_sessions", bounds, {"after_s": 0}):
            sessions = [row[0] for row in page]
            spent = self._spent(sessions) if USED & set(columns) else {}
            asked: dict[int, Any] = {}
            if "asked" in columns:
                firsts: dict[int, bytes] = dict(self._db.many("sql_firsts", ss=sessions))
                self._blobs.expect(firsts.values())
                asked = {s: self._commit.content(body, "prompt") for s, body in firsts.items()}
            for s, identifier, name, project, agent, mode, status, created, updated, turns in page:
                units = spent.get(s, {})
                cost = units.get(UNITS["cost"])
                values = {
                    "id": from_bytes(identifier, "session"),
                    "name": _text(name),
                    "project": _text(project),
                    "agent": _text(agent),
                    "mode": _text(mode),
                    "status": _text(status),
                    "created": created,
                    "updated": updated,
                    "turns": turns,
                    "tokens": _less(units.get(UNITS["tokens"]), units.get(UNITS["cached"])),
                    "cached": units.get(UNITS["cached"]),
                    "cost_usd": None if cost is None else cost / MICRO,
                    "asked": asked.get(s),
                }
                yield values, (s,)

    def _spent(self, sessions: Sequence[int]) -> dict[int, dict[str, Any]]:
        """By session and unit, what was used."""
        found: dict[int, dict[str, Any]] = {}
        rows = self._db.many("sql_spent", ss=sessions, limit=PAGE)
        self._blobs.expect(row[2] for row in rows)
        for s, n, body in rows:
            record = json.loads(self._commit.put(body, n) or "{}")
            found.setdefault(s, {})[record.get("unit")] = record.get("amount")
        return found


class _ByTurn:
    """Rows that begin with a session's number, in the order of sessions and seqs, for turns in the same order."""

    def __init__(self, rows: Iterator[tuple[Any, ...]], seq: int) -> None:
        self._rows = rows
        self._seq = seq
        """At which number of a row its seq is."""
        self._next: tuple[Any, ...] | None = None

    def rows(self, turn: Values) -> Iterator[tuple[Any, ...]]:
        """Those of one turn; what is before it is passed over."""
        s, first, last = turn["s"], turn["first"], turn["last"]
        while row := self._next or next(self._rows, None):
            place = row[0], row[self._seq]
            if place > (s, last):
                self._next = row
                return
            self._next = None
            if place >= (s, first):
                yield row


class _Blobs:
    """Contents that are kept beside the log, read several at a time in the order in which they will be asked for."""

    def __init__(self, db: Transaction) -> None:
        self._db = db
        self._expected: dict[bytes, int] = {}
        """Digest → size."""
        self._held: dict[bytes, bytes] = {}

    def expect(self, bodies: Collection[bytes | None] | Iterator[bytes | None]) -> None:
        """What these commits hold will be asked for."""
        self._expected = {
            item.digest: item.size
            for body in bodies
            if body is not None
            for item in content_of(envelope_of(body)).values()
            if isinstance(item, Large)
        }

    def get(self, digest: bytes) -> bytes | None:
        if digest not in self._held:
            together, size = {digest: None}, self._expected.pop(digest, 0)
            while self._expected and size < BLOBS_BYTES:
                other = next(iter(self._expected))
                size += self._expected.pop(other)
                together[other] = None
            self._held = dict(self._db.many("sql_blobs", digests=list(together)))
        return self._held.get(digest)


def _text(text: str | None) -> str:
    return unpacked(text) if text else ""


def _less(one: Any, other: Any) -> Any:
    """A difference; of something that is not known, neither is this."""
    return None if one is None else one - (other or 0)


def _add(values: Values, used: Values) -> None:
    """Add what a commit used. A sum of nothing is NULL, so that unknown is not 0."""
    for name, amount in used.items():
        if amount is not None:
            values[name] = (values.get(name) or 0) + amount


def _member(value: Any) -> Any:
    """A member of a record as SQLite's `->>` gives it."""
    if isinstance(value, bool):
        return int(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
