"""Searches every session of a store, and keeps the index of words up to date.

The index is filled from the log by searches, never by recording. It knows words
and places; what is shown is read from the log, so nothing that was erased can be shown.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from stator.errors import (
    BadQuery,
    NotFound,
    StoreBusy,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreReadOnly,
)
from stator.model.log.commit import Commit
from stator.model.log.query import GONE, PAGE_MAX, SessionRow, check_limit, read
from stator.model.log.rewinds import rewind_of, stands, visible
from stator.model.records.tables import KINDS
from stator.model.sessions.lifecycle import lent_upto
from stator.model.values.ids import is_id
from stator.model.views.search import (
    Advance,
    Mark,
    SearchDocument,
    SearchQuery,
    Span,
    Stretch,
    Term,
    parse,
    path_words,
    snippet,
    within,
)
from stator.model.views.search_text import document, said_in
from stator.runtime.base.context import Context
from stator.runtime.base.pages import commits
from stator.runtime.base.project_flags import TRASH, marked
from stator.runtime.views import reflog
from stator.runtime.views.ranges import seqs_of
from stator.runtime.views.refs import find_session
from stator.store.port import Index, IndexLost, StorePort

ROUNDS = 3
"""How often a search looks for what was appended while it read: writers may never stop."""
BATCH_COMMITS, BATCH_CHARACTERS = 2000, 2_000_000
"""What is put into the index in one transaction, so that others get their turn."""
TRIES = 5
"""How often a search begins again with an index that was found broken, or that another process emptied."""
READ_AT_ONCE = 200
"""Commits that are held in memory for what is shown of them."""
SPARE = 20
"""Matches asked for beyond those wanted: some may be in the trash."""

Progress = Callable[[str, int, int], None]
"""(what is done, how much of it, of how much)."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that matches, and what of it does."""

    session: str
    name: str
    agent: str
    project: str
    turn: int
    seq: int
    kind: str
    at: int
    """When it happened."""
    snippet: str
    """Part of what it says, on one line."""
    matched: list[Span] = []
    """Which stretches of the snippet matched: from, to, in characters."""
    tool: str = ""
    rewound: bool = False
    """The session was gone back from there: it is in the log, and not in the state."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How many matches there are, and where."""

    sessions: list[tuple[str, int]]
    """The sessions that have some, by id, each with how many: the one with the best match first."""
    is_whole: bool
    """Whether all were counted."""

    @property
    def matches(self) -> int:
        return sum(many for _, many in self.sessions)


def search(
    store: StorePort,
    context: Context,
    words: str,
    *,
    project: str | None = None,
    agent: str | None = None,
    tool: str | None = None,
    path: str | None = None,
    session: str | None = None,
    kinds: Sequence[str] = (),
    since: int = 0,
    until: int = 0,
    limit: int = 20,
    any_word: bool = False,
    fresh: bool = True,
    progress: Progress | None = None,
) -> list[Hit]:
    """What matches, the best first."""
    check_limit(limit)
    query = _query(
        store, context, words, project=project, agent=agent, tool=tool, path=path, session=session,
        kinds=kinds, since=since, until=until, any_word=any_word,
    )  # fmt: skip
    return _asked(
        store,
        context,
        lambda index, is_fresh: _answer(
            store, index, query, limit, fresh=fresh or is_fresh, progress=progress
        ),
    )


def search_counted(
    store: StorePort,
    context: Context,
    words: str,
    *,
    limit: int,
    progress: Progress | None = None,
    **chosen: Any,
) -> tuple[list[Hit], Spread]:
    """The best matches, and how all of them are spread over the sessions: the index is asked once for both."""
    check_limit(limit)
    query = _query(store, context, words, **chosen)

    def answer(index: Index, _: bool) -> tuple[list[Hit], Spread]:
        found = _found(store, index, query, PAGE_MAX, fresh=True, progress=progress)
        counted = Counter(session for session, _ in found)
        spread = Spread(sessions=list(counted.items()), is_whole=len(found) < PAGE_MAX)
        return list(_hits(store, found[:limit], query)), spread

    return _asked(store, context, answer)


Answered = TypeVar("Answered")


def _asked(
    store: StorePort, context: Context, answer: Callable[[Index, bool], Answered]
) -> Answered:
    """What an index answers. Where it cannot be written, one in memory does, which must be filled first."""
    if context.index is None:
        raise StoreError("this store has no search index", hint="connect to it: stator.connect")
    try:
        with context.index(store, True) as index:
            assert index is not None
            return answer(index, False)
    except (StoreFull, StoreFailed, StoreReadOnly) as error:
        warnings.warn(
            f"the search index cannot be written ({error.what}); the answer is complete, but the whole"
            " log had to be read for it",
            RuntimeWarning,
            stacklevel=4,
        )
    # The log can still be read where nothing can be written. If it is the log that fails, that is raised here.
    with context.index(store, True, on_disk=False) as index:
        assert index is not None
        return answer(index, True)


def _query(
    store: StorePort,
    context: Context,
    words: str,
    *,
    project: str | None = None,
    agent: str | None = None,
    tool: str | None = None,
    path: str | None = None,
    session: str | None = None,
    kinds: Sequence[str] = (),
    since: int = 0,
    until: int = 0,
    any_word: bool = False,
) -> SearchQuery:
    terms, without = parse(words)
    return SearchQuery(
        terms=terms,
        any_term=any_word,
        without=without,
        project=project,
        agent=agent,
        tool=tool,
        path=path_words(path) if path is not None else (),
        kinds=_kinds(kinds),
        stretches=_stretches(store, context, session) if session is not None else (),
        since=since,
        until=until,
    )


def _answer(
    store: StorePort,
    index: Index,
    query: SearchQuery,
    limit: int,
    *,
    fresh: bool,
    progress: Progress | None,
) -> list[Hit]:
    found = _found(store, index, query, limit, fresh=fresh, progress=progress)
    return list(_hits(store, found, query))


def _kinds(given: Sequence[str]) -> tuple[str, ...]:
    for name in given:
        if name not in KINDS:
            raise BadQuery(f"no kind of commit {name!r:.40}", hint=", ".join(sorted(KINDS)))
    return tuple(dict.fromkeys(given))


def _stretches(store: StorePort, context: Context, name: str) -> tuple[Stretch, ...]:
    """A session's log: its own commits, and those of its lineage where they are; of its id with `:t5` or `:t4..t5`,
    only that part."""
    id, _, span = name.partition(":")
    if not is_id(id, "session"):
        id, span = name, ""
    row = find_session(store, id, project=context.project or None)
    lent = [Stretch(part.session, part.after, part.upto) for part in row.record.lineage]
    whole = [*lent, Stretch(row.id, lent_upto(row.record.lineage))]
    return tuple(within(whole, *seqs_of(store, row.id, span)) if span else whole)


# -- finding --------------------------------------------------------------------------------------

Match = tuple[str, int]
"""A commit that matches: its session and its seq."""


def _found(
    store: StorePort,
    index: Index,
    query: SearchQuery,
    limit: int,
    *,
    fresh: bool,
    progress: Progress | None,
) -> list[Match]:
    """At most `limit` matches; from an index that is made again if the one that was there was lost."""
    for _ in range(TRIES):
        try:
            if fresh:
                catch_up(store, index, progress=progress)
            return _matches(store, index, query, limit)
        except IndexLost:
            fresh = True
    raise StoreBusy("other processes keep rebuilding the search index", hint="try again")


def _matches(store: StorePort, index: Index, query: SearchQuery, limit: int) -> list[Match]:
    wanted = limit + SPARE
    while True:
        places = index.find(query, limit=wanted)
        found = list(_present(store, places))[:limit]
        if len(found) == limit or len(places) < wanted:
            return found
        wanted *= 4


def _present(store: StorePort, places: Sequence[Match]) -> Iterator[Match]:
    """Those in sessions that are there and not in the trash."""
    if not places:
        return
    heads = store.heads({session: 0 for session, _ in places})
    trash = marked(store, TRASH)
    gone = {session for session, mark in trash.items() if heads.get(session) == mark.head}
    for session, seq in places:
        if session not in gone and seq <= heads.get(session, GONE):
            yield session, seq


def _hits(store: StorePort, found: Sequence[Match], query: SearchQuery) -> Iterator[Hit]:
    for start in range(0, len(found), READ_AT_ONCE):
        part = found[start : start + READ_AT_ONCE]
        known = _read_matches(store, part)
        for session, seq in part:
            if session in known and seq in known[session].commits:  # else purged since it was found
                yield from _hit(known[session], seq, query)


InForce = list[tuple[int, int]]


class _SessionMatches(msgspec.Struct, frozen=True):
    """What is read of one session to show its matches."""

    row: SessionRow
    commits: Mapping[int, Commit]
    in_force: InForce
    """The stretches of its log that count."""


def _read_matches(store: StorePort, found: Sequence[Match]) -> dict[str, _SessionMatches]:
    """What is shown of matches, by session: all in one call."""
    seqs: dict[str, list[int]] = {}
    for session, seq in found:
        seqs.setdefault(session, []).append(seq)
    answers = store.together(
        *(read("session", session) for session in seqs),
        *(read("commits", session, seqs=seqs[session], limit=PAGE_MAX) for session in seqs),
        *(read("commits", session, rewinds=True, load=False, limit=PAGE_MAX) for session in seqs),
    )
    many = len(seqs)
    known: dict[str, _SessionMatches] = {}
    for row, there, marks in zip(
        answers[:many], answers[many : 2 * many], answers[2 * many :], strict=True
    ):
        if any(isinstance(one, NotFound) for one in (row, there, marks)):
            continue
        rewinds = [rewind for one in marks if (rewind := rewind_of(one)) is not None]
        if len(marks) == PAGE_MAX:  # there are more
            rewinds = reflog.rewinds(store, row.id)
        known[row.id] = _SessionMatches(
            row, {one.seq: one for one in there}, visible(rewinds, row.head)
        )
    return known


def _hit(known: _SessionMatches, seq: int, query: SearchQuery) -> Iterator[Hit]:
    row, commit = known.row, known.commits[seq]
    part = snippet(_shown(commit, query), query.terms)
    # Erased since, or since it was indexed: that it matched must not be shown either.
    if not part.text:
        return
    yield Hit(
        session=row.id,
        name=row.record.name,
        agent=row.record.agent,
        project=row.record.project,
        turn=commit.turn,
        seq=commit.seq,
        kind=commit.kind,
        at=commit.when,
        snippet=part.text,
        matched=part.matched,
        tool=commit.tool,
        rewound=not stands(known.in_force, commit.seq),
    )


def _shown(commit: Commit, query: SearchQuery) -> Iterator[str]:
    """The texts of a commit of which a part is shown; numbers among the arguments of a call only if they are asked
    for: a timeout says nothing of what it did."""
    said = said_in(commit)
    if commit.kind != "call":
        return said
    asked = tuple(word for term in query.terms for word in term.words)
    return (text for text in said if not text.isdecimal() or text.startswith(asked))


# -- where words are ------------------------------------------------------------------------------

Places = dict[str, list[tuple[str, int]]]
"""Where something is: session and seq."""


class WordQuestion(msgspec.Struct, frozen=True):
    """Terms by name, and the kinds of commits that they are looked for in."""

    terms: Mapping[str, Term]
    kinds: Sequence[str]
    in_path: bool = False
    """Only in the paths that a commit is about."""


def places(
    store: StorePort,
    context: Context,
    questions: Sequence[WordQuestion],
    *,
    project: str,
    limit: int,
    behind_max: int,
) -> list[Places]:
    """For each question, where each of its terms is in commits of the kinds it names, the best `limit` of them. An
    index that lacks more than `behind_max` commits is asked as it is."""
    if context.index is None:
        raise StoreError("this store has no search index", hint="connect to it: stator.connect")
    with context.index(store, True) as index:
        assert index is not None
        for _ in range(TRIES):
            with suppress(IndexLost):
                _follow(store, index, behind_max)
                return [
                    {
                        name: index.find(
                            SearchQuery(
                                terms=(term,),
                                project=project,
                                kinds=tuple(one.kinds),
                                path=term.words if one.in_path else (),
                            ),
                            limit=limit,
                        )
                        for name, term in one.terms.items()
                    }
                    for one in questions
                ]
    raise StoreBusy("other processes keep rebuilding the search index", hint="try again")


def _follow(store: StorePort, index: Index, behind_max: int) -> None:
    """Put the newest sessions into the index that it lacks, as many as there is time for."""
    moved, gone = index.behind()
    if gone:
        index.drop(gone)
    left = behind_max
    for session in reversed(moved):
        try:
            left -= store.session(session).head - index.mark(session).seq
        except NotFound:
            continue
        if left < 0:
            break
        _tell(store, index, [session])
    index.scrub()


# -- keeping up -----------------------------------------------------------------------------------


def catch_up(store: StorePort, index: Index, *, progress: Progress | None = None) -> None:
    """Put into the index what the log has gained since, and take out what is gone."""
    for _ in range(ROUNDS):
        moved, gone = index.behind()
        if gone:
            index.drop(gone)
        if not moved:
            break
        _tell(store, index, moved, progress)
    index.scrub()


def _tell(
    store: StorePort, index: Index, sessions: Sequence[str], progress: Progress | None = None
) -> None:
    batch: list[Advance] = []
    weight = 0.0
    for done, session in enumerate(sessions):
        if progress is not None:
            progress("reading sessions", done, len(sessions))
        for advance in _advances(store, session, index.mark(session)):
            batch.append(advance)
            weight += _weight(advance)
            if weight >= 1:
                index.put(batch)
                batch, weight = [], 0.0
    if batch:
        index.put(batch)


def _weight(advance: Advance) -> float:
    """How much of a batch it fills."""
    size = sum(len(one.body) for one in advance.documents)
    return (1 + len(advance.documents)) / BATCH_COMMITS + size / BATCH_CHARACTERS


def _advances(store: StorePort, session: str, mark: Mark) -> Iterator[Advance]:
    """What a session's own log holds after a mark; all of it, where the mark does not belong to that log, or
    where content was erased since."""
    try:
        row = store.session(session)
    except NotFound:
        return
    low = lent_upto(row.record.lineage)
    anew = mark.seq > 0 and not _goes_on(store, row, mark)
    before = mark
    after = low if anew or not mark.seq else mark.seq
    size = 0
    documents: list[SearchDocument] = []
    for commit in commits(store, session, after=after, upto=row.head):
        found = document(commit)
        if found is not None:
            documents.append(found)
            size += len(found.body)
        if size >= BATCH_CHARACTERS or commit.seq == row.head:
            updated = row.updated if commit.seq == row.head else commit.at
            to = Mark(commit.seq, updated, commit.hash)
            yield _advance(row, before, to, documents, anew)
            before, documents, size, anew = to, [], 0, False


def _advance(
    row: SessionRow, before: Mark, after: Mark, documents: list[SearchDocument], anew: bool
) -> Advance:
    return Advance(
        session=row.id,
        project=row.record.project,
        agent=row.record.agent,
        before=before,
        after=after,
        documents=documents,
        anew=anew,
    )


def _goes_on(store: StorePort, row: SessionRow, mark: Mark) -> bool:
    """Whether a log continues from a mark, and nothing before it was erased since."""
    if mark.seq > row.head:
        return False
    for commit in commits(store, row.id, after=mark.seq - 1, upto=row.head, load=False):
        if commit.seq == mark.seq and commit.hash != mark.hash:
            return False
        if commit.seq > mark.seq and commit.kind == "erasure":
            return False
    return True


def forget(store: StorePort, context: Context, sessions: Iterable[str]) -> bool:
    """Let the index, if there is one, know of these sessions only what is still there; False if that, or
    overwriting what it knew, is left to the next search.

    What it never indexed it need not forget.
    """
    if context.index is None:
        return True
    concerned = set(sessions)
    try:
        for _ in range(TRIES):
            with suppress(IndexLost), context.index(store, False) as index:
                return index is None or _forget(store, index, concerned)
        return False
    except StoreError:  # what it is about was done; that the index is behind, the next search sees
        return False


def _forget(store: StorePort, index: Index, sessions: set[str]) -> bool:
    moved, gone = index.behind()
    if gone:
        index.drop(gone)
    known = {session for session in sessions if index.mark(session).seq}
    # Who just now reads one for the first time must not bring in what it read before.
    index.put([_touched(session) for session in sessions - known])
    _tell(store, index, [session for session in moved if session in known])
    return index.scrub()


def _touched(session: str) -> Advance:
    """The mark of a session that is to be reindexed from the start: see `Index.put`."""
    return Advance(
        session=session,
        project="",
        agent="",
        before=Mark(),
        after=Mark(hash="touched"),
        documents=[],
    )
