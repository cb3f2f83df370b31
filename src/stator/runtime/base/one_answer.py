"""A store for one question: what was read once is not read again, and sets are read ahead in one call.

A question asks its store in several places, for commits and entries that another place has read already. Each call of
the port may be a round trip, so that the whole set is read where it is known, and the others take theirs from it. It
lives as long as the question: what is recorded later does not change its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar, cast

from stator.errors import NotFound
from stator.model.log.commit import Commit, Large
from stator.model.log.query import NEWEST, Page, Read, SessionRow, TurnRow, check_limits
from stator.model.log.rewinds import rewind_tags
from stator.model.records.types import Entry, chosen
from stator.model.values.ids import is_id
from stator.runtime.base.pages import named_commits
from stator.store.port import StorePort

REMEMBERED = frozenset(("info", "head", "calls", "versions"))
"""Reads whose answer to the same arguments is kept."""

Worked = TypeVar("Worked")


class OneAnswer:
    """See `store.port` for what each method promises; everything else is the store's own."""

    def __init__(self, store: StorePort) -> None:
        self.below = store
        self._known: dict[Any, Any] = {}
        self._entries: dict[tuple[str, int | None, str], tuple[list[Entry], int | None]] = {}
        """By session, seq and collection: its newest live records, and how many were asked for (None: all)."""
        self._commits: dict[tuple[str, int], Commit | None] = {}
        self._turns: dict[tuple[str, int], TurnRow] = {}
        self._ids: dict[tuple[str, str], int] = {}
        """By session and id: the seq of a commit; 0 if it is not there."""
        self._rewinds: dict[tuple[str, int | None], set[int]] = {}
        """By session and up to which seq: where there are rewinds, or may be."""
        self._newest: dict[str, int] = {}
        self._rows: dict[str, SessionRow | NotFound] = {}
        self._owners: dict[str, tuple[str, int]] = {}
        """By the id of a commit that was read: whose it is, and its seq."""
        self._worked_out: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.below, name)
        return self._remembering(name, found) if name in REMEMBERED else found

    def _remembering(self, name: str, read: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **options: Any) -> Any:
            slot = _slot(name, args, options)
            if slot not in self._known:
                self._known[slot] = read(*args, **options)
            found = self._known[slot]
            if isinstance(found, NotFound):
                raise found.with_traceback(None)
            return list(found) if isinstance(found, list) else found

        return asked

    def once(self, name: str, work: Callable[[], Worked]) -> Worked:
        """What is worked out once for this question."""
        if name not in self._worked_out:
            self._worked_out[name] = work()
        found: Worked = self._worked_out[name]
        return found

    # -- several reads ----------------------------------------------------------------------------

    def ahead(self, *reads: Read) -> None:
        """Read in one call what is going to be asked for in these words, as far as it was not read yet."""
        left = {_slot(one.method, one.args, one.options): one for one in map(_plain, reads)}
        wanted = [one for slot, one in left.items() if not self._is_read(slot, one)]
        if wanted:
            for one, answer in zip(wanted, self.below.together(*wanted), strict=True):
                self._take(one, answer)

    def is_read(self, one: Read) -> bool:
        """Whether a read is answered without asking the store."""
        plain = _plain(one)
        return self._is_read(_slot(plain.method, plain.args, plain.options), plain)

    def _is_read(self, slot: Any, one: Read) -> bool:
        options, first = one.options, one.args[0]
        if one.method == "session":
            row = self._rows.get(first)
            return row is not None and (
                not options.get("counted") or isinstance(row, NotFound) or row.counts is not None
            )
        if one.method == "entries" and _is_whole(options):
            limits = check_limits(one.args[1:], options["limit"])
            return all(self._holds(first, options["at"], *each) for each in limits.items())
        if one.method == "commits" and options["seqs"] is not None:
            return all(self._has(first, seq, load=options["load"]) for seq in options["seqs"])
        if one.method == "commits" and options["upto"] is not None:
            after: int = options["after"]
            upto: int = options["upto"]
            return self._unread(first, after, upto, load=options["load"]) <= after < upto - 1
        return slot in self._known or (one.method == "locate" and first in self._owners)

    def _take(self, one: Read, answer: Any) -> None:
        """Know the answer to a read."""
        options, first = one.options, one.args[0]
        if one.method == "session":
            self._rows[first] = answer
            return
        if isinstance(answer, NotFound):
            self._known[_slot(one.method, one.args, options)] = answer
            return
        if one.method == "entries" and _is_whole(options):
            self._keep_entries(
                first, options["at"], check_limits(one.args[1:], options["limit"]), answer
            )
            return
        if one.method == "commits" and options["seqs"] is not None:
            self._commits.update(
                ((first, seq), None) for seq in options["seqs"] if (first, seq) not in self._commits
            )
        self._known[_slot(one.method, one.args, options)] = answer
        if one.method == "commits":
            self._keep(first, answer)
            self._keep_newest(first, options, answer)
        elif one.method == "turns":
            self._turns.update(((first, row.turn), row) for row in answer)
        elif one.method == "sessions":
            self._keep_rows(answer)

    # -- sessions ---------------------------------------------------------------------------------

    def session(self, session: str, *, counted: bool = False) -> SessionRow:
        row = self._rows.get(session)
        if row is None or (counted and isinstance(row, SessionRow) and row.counts is None):
            row = self._rows[session] = self.below.session(session, counted=counted)
        if isinstance(row, NotFound):
            raise row.with_traceback(None)
        return row

    def sessions(self, *args: Any, **options: Any) -> Page[SessionRow]:
        found: Page[SessionRow] = self._remembering("sessions", self.below.sessions)(
            *args, **_SESSIONS | options
        )
        self._keep_rows(found)
        return found

    def _keep_rows(self, page: Page[SessionRow]) -> None:
        for row in page.rows:
            self._rows.setdefault(row.id, row)

    def row_read(self, session: str) -> SessionRow | None:
        """The row of a session, if it was read."""
        row = self._rows.get(session)
        return row if isinstance(row, SessionRow) else None

    # -- turns ------------------------------------------------------------------------------------

    def turns(
        self, session: str, *, after: int = 0, upto: int | None = None, **options: Any
    ) -> list[TurnRow]:
        if not options and upto == after + 1 and (session, upto) in self._turns:
            return [self._turns[session, upto]]
        read = self._remembering("turns", self.below.turns)
        found: list[TurnRow] = read(session, after=after, upto=upto, **options)
        self._turns.update(((session, row.turn), row) for row in found)
        return found

    # -- commits ----------------------------------------------------------------------------------

    def commits(
        self,
        session: str,
        *,
        after: int = 0,
        upto: int | None = None,
        seqs: Collection[int] | None = None,
        ids: Collection[str] | None = None,
        rewinds: bool = False,
        newest_first: bool = False,
        limit: int = 1000,
        load: bool = True,
        **options: Any,
    ) -> list[Commit]:
        named = seqs is not None or ids is not None or rewinds
        if not named and upto is not None and not options:
            unread = self._unread(session, after, upto, load=load)
            page = range(after + 1, min(upto, after + limit) + 1)
            if unread <= after:
                seqs = range(after + 1, upto + 1)
            elif not newest_first and all(self._has(session, seq, load=load) for seq in page):
                seqs = page
            elif unread < upto and not newest_first:
                first = self.commits(session, after=after, upto=unread, limit=limit, load=load)
                known = (self._commits[session, seq] for seq in range(unread + 1, upto + 1))
                return [*first, *islice(filter(None, known), limit - len(first))]
        how = {"newest_first": newest_first, "limit": limit, "load": load, **options}
        if options or (seqs is None and not named):
            how |= {"ids": ids, "rewinds": rewinds} if ids is not None or rewinds else {}
            read = self._remembering("commits", self.below.commits)
            where = {"after": after, "upto": upto, "seqs": seqs}
            found: list[Commit] = read(session, **where, **how)
            self._keep(session, found)
            self._keep_newest(session, where | how, found)
            return found
        self._read_named(session, set(seqs or ()), set(ids or ()), upto, rewinds=rewinds, load=load)
        wanted = {self._newest.get(session, 0) if seq == NEWEST else seq for seq in seqs or ()}
        wanted |= {self._ids[session, identifier] for identifier in ids or ()}
        wanted |= self._rewinds[session, upto] if rewinds else set()
        in_order = sorted(wanted, reverse=newest_first)
        known = (
            self._commits.get((session, seq))
            for seq in in_order
            if after < seq and (upto is None or seq <= upto)
        )
        return [commit for commit in known if commit is not None][:limit]

    def has_id(self, session: str, identifier: str) -> bool:
        """Whether a commit of a session was read that has this id."""
        return bool(self._ids.get((session, identifier)))

    def read_upto(self, session: str, upto: int) -> list[Commit]:
        """The commits of a session from its first on that were read, without a gap, up to a seq."""
        found: list[Commit] = []
        for seq in range(1, upto + 1):
            commit = self._commits.get((session, seq))
            if commit is None:
                break
            found.append(commit)
        return found

    def know_newest(self, session: str, newest: list[Commit], most: int) -> None:
        """Know the newest commits of a session, as they are read without their blobs."""
        how = {"newest_first": True, "limit": most, "load": False}
        options = {"after": 0, "upto": None, "seqs": None, **how}
        self._known[_slot("commits", (session,), options)] = newest
        self._keep(session, newest)
        self._keep_newest(session, options, newest)

    def _keep_newest(
        self, session: str, options: Mapping[str, Any], found: Sequence[Commit]
    ) -> None:
        """Know which commit is the newest, where a read began with it."""
        plain = options.keys() <= _COMMITS.keys() and options["seqs"] is None
        if plain and options["newest_first"] and options["upto"] is None and found:
            self._newest.setdefault(session, found[0].seq)

    def _read_named(
        self,
        session: str,
        seqs: set[int],
        ids: set[str],
        upto: int | None,
        *,
        rewinds: bool,
        load: bool,
    ) -> None:
        """Read those of the named commits that were not read yet, in one call."""
        if rewinds and self._holds(session, upto, "tags", None):  # they say where the rewinds are
            tags = rewind_tags(self._entries[session, upto, "tags"][0])
            self._rewinds[session, upto] = {seq + 1 for seq, _ in tags}
        asks = rewinds and (session, upto) not in self._rewinds
        seqs |= self._rewinds.get((session, upto), set()) if rewinds else set()
        if NEWEST in seqs and session in self._newest:
            seqs = seqs - {NEWEST} | {self._newest[session]}
        left = {seq for seq in seqs if not self._has(session, seq, load=load)}
        unknown = {
            one
            for one in ids
            if (session, one) not in self._ids
            or not self._has(session, self._ids[session, one], load=load)
        }
        if not left and not unknown and not asks:
            return
        found = named_commits(
            self.below, session, left, ids=unknown, rewinds=asks, upto=upto, load=load
        )
        self._commits.update(
            ((session, seq), None) for seq in left if (session, seq) not in self._commits
        )
        self._ids.update(((session, one), 0) for one in unknown if (session, one) not in self._ids)
        self._keep(session, found)
        if NEWEST in left:
            self._newest[session] = found[-1].seq if found else 0
        if asks:
            self._rewinds[session, upto] = {c.seq for c in found if c.kind == "rewind"}

    def _unread(self, session: str, after: int, upto: int, *, load: bool) -> int:
        """The last commit of a range that was not read yet: those behind it need not be read again. Of a range of one,
        none: it is read by its seq."""
        if upto - after <= 1:
            return after
        return next(
            (seq for seq in range(upto, after, -1) if not self._has(session, seq, load=load)), after
        )

    def _has(self, session: str, seq: int, *, load: bool) -> bool:
        if (session, seq) not in self._commits:
            return False
        commit = self._commits[session, seq]
        return commit is None or not load or not _is_cut(commit)

    def _keep(self, session: str, commits: Iterable[Commit]) -> None:
        for commit in commits:
            known = self._commits.get((session, commit.seq))
            if known is None or _is_cut(known):
                self._commits[session, commit.seq] = commit
                self._ids[session, commit.id] = commit.seq
                self._owners[commit.id] = commit.session, commit.seq

    def locate(self, text: str, session: str | None = None) -> list[tuple[str, int]]:
        seq = self._ids.get((session, text), 0) if session is not None else 0
        commit = self._commits.get((session or "", seq))
        if commit is not None:
            return [(commit.session, seq)]
        known = self._located(text, session)
        if known is not None:
            return known
        found: list[tuple[str, int]] = self._remembering("locate", self.below.locate)(text, session)
        return found

    def _located(self, text: str, session: str | None) -> list[tuple[str, int]] | None:
        """The one place of a whole id, where it is known in the store; for a session, if its row says which logs it
        continues. None: that has to be asked."""
        if not is_id(text, "commit"):
            return None
        slot = _slot("locate", (text, None), {})
        places = [self._owners[text]] if text in self._owners else self._known.get(slot)
        if places is None or session is None:
            return places
        row = self._rows.get(session)
        if not places:
            return []
        if not isinstance(row, SessionRow):
            return None
        ends = {part.session: part.upto for part in row.record.lineage}
        return [
            (owner, seq) for owner, seq in places if owner == session or seq <= ends.get(owner, 0)
        ]

    # -- entries ----------------------------------------------------------------------------------

    def entries(
        self,
        session: str,
        *collections: str,
        at: int | None = None,
        limit: int | Mapping[str, int] | None = None,
        keys: Collection[str] | None = None,
        prefix: str = "",
    ) -> list[Entry]:
        limits = check_limits(collections, limit)
        whole = keys is None and not prefix
        left = {
            name: most
            for name, most in limits.items()
            if not self._holds(session, at, name, most if whole else None)
        }
        if left and not whole:
            some: list[Entry] = self._remembering("entries", self.below.entries)(
                session, *limits, at=at, limit=limit, keys=keys, prefix=prefix
            )
            return some
        if left:
            self._read_entries(session, at, left)
        return [
            entry
            for name, most in limits.items()
            for entry in chosen(self._entries[session, at, name][0], keys, prefix)[:most]
        ]

    def derive(
        self,
        collection: str,
        place: tuple[str, int],
        other: tuple[str, int],
        gone: Collection[str],
        put_back: Iterable[Entry],
    ) -> None:
        """Know a collection at one position from what is known at another: without the records that are `gone`, with
        those that are `put_back`."""
        if self._holds(*place, collection, None) or not self._holds(*other, collection, None):
            return
        left = [one for one in self._entries[(*other, collection)][0] if one.id not in gone]
        found = sorted([*left, *put_back], key=lambda entry: -entry.seq)
        self._entries[(*place, collection)] = (found, None)

    def _holds(self, session: str, at: int | None, collection: str, most: int | None) -> bool:
        """Whether that many records of a collection were read."""
        if (session, at, collection) not in self._entries:
            return False
        found, asked = self._entries[session, at, collection]
        return asked is None or len(found) < asked or (most is not None and most <= asked)

    def _read_entries(self, session: str, at: int | None, limits: Mapping[str, int | None]) -> None:
        most = {name: limit for name, limit in limits.items() if limit is not None}
        found = self.below.entries(session, *limits, at=at, limit=most or None)
        self._keep_entries(session, at, limits, found)

    def _keep_entries(
        self,
        session: str,
        at: int | None,
        limits: Mapping[str, int | None],
        found: Sequence[Entry],
    ) -> None:
        for name, limit in limits.items():
            own = [entry for entry in found if entry.collection == name]
            self._entries[session, at, name] = (own, limit)


_SESSIONS: dict[str, Any] = {"cursor": None, "limit": 100}
_TURNS: dict[str, Any] = {"after": 0, "upto": None}
_ENTRIES: dict[str, Any] = {"at": None, "limit": None, "keys": None, "prefix": ""}
_COMMITS: dict[str, Any] = {
    "after": 0, "upto": None, "seqs": None, "newest_first": False, "limit": 1000, "load": True,
}  # fmt: skip
_DEFAULTS = {
    "sessions": _SESSIONS, "turns": _TURNS, "entries": _ENTRIES, "commits": _COMMITS,
}  # fmt: skip
"""What is asked for where the options do not say it: the same question has one slot."""


def _plain(one: Read) -> Read:
    """A read in the words under which its answer is kept."""
    args = (*one.args, None) if one.method == "locate" and len(one.args) == 1 else one.args
    return Read(one.method, args, _DEFAULTS.get(one.method, {}) | one.options)


def _slot(name: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> tuple[str, str, str]:
    return name, repr(args), repr(sorted(options.items()))


def _is_whole(options: Mapping[str, Any]) -> bool:
    """Whether entries are read regardless of their keys."""
    return options["keys"] is None and not options["prefix"]


def _is_cut(commit: Commit) -> bool:
    """Whether some of its content was left in blobs."""
    return any(isinstance(item, Large) for item in commit.content.values())


def one_answer(store: StorePort) -> StorePort:
    """The store for one question."""
    return store if isinstance(store, OneAnswer) else cast("StorePort", OneAnswer(store))


def knowing_newest(
    store: StorePort, session: str, newest: Sequence[Commit], most: int
) -> StorePort:
    """The store for one question about a session whose `most` newest commits were read, without their blobs."""
    known = OneAnswer(store)
    if newest:
        known.know_newest(session, list(newest), most)
    return cast("StorePort", known)


def reading(store: StorePort) -> OneAnswer | None:
    """The store for one question that this one is, or asks; None if nothing is kept."""
    below = store if isinstance(store, OneAnswer) else getattr(store, "below", store)
    return below if isinstance(below, OneAnswer) else None


def ahead(store: StorePort, *reads: Read) -> None:
    """Read in one call what a question is going to ask for; nothing where a store keeps no answers."""
    found = reading(store)
    if found is not None:
        found.ahead(*reads)


def head_seq(store: StorePort, session: str) -> int:
    """The seq of a session's head: of its row, where a question has read that."""
    row = _row_read(store, session)
    return store.head(session).seq if row is None else row.head


def is_row_read(store: StorePort, session: str) -> bool:
    """Whether a question has read the row of a session."""
    return _row_read(store, session) is not None


def _row_read(store: StorePort, session: str) -> SessionRow | None:
    found = reading(store)
    return None if found is None else found.row_read(session)


def store_itself(store: StorePort) -> StorePort:
    """The store itself, where that is one for a question."""
    return store.below if isinstance(store, OneAnswer) else store
