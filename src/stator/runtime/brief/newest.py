"""Reads what a brief needs of a session's log: its newest commits, in one read, and the little before that matters.

A brief costs the same whatever the length of the session. What lies before the newest commits is known by the state,
by the summary of a compaction and by the first request.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from stator.model.brief.story import PersonRequest, SessionStory, story
from stator.model.log.commit import Commit, Large
from stator.model.log.delta import Put
from stator.model.log.query import PAGE_MAX, Read, SessionRow, read
from stator.model.log.rewinds import Rewind, Stretch, rewind_tags, stands, visible
from stator.model.records.types import Entry
from stator.model.values.ids import is_id, retype
from stator.runtime.base.one_answer import ahead
from stator.runtime.base.pages import commits_at, counts_of, named_commits
from stator.runtime.base.project_session import asks_known
from stator.runtime.base.provenance import imported_upto
from stator.runtime.views import reflog
from stator.runtime.views.as_read import itself_asked
from stator.runtime.views.derivation import asks_children
from stator.runtime.views.last_acts import asks_last_act
from stator.runtime.views.trust.outside import brought_in
from stator.runtime.views.trust.unverified import known_upto, reads_log, unverified
from stator.store.port import StorePort

WINDOW = 600
"""The newest commits that are read."""
BEGINNING = 8
"""The first commits, in which the first request is looked for."""
ENDING = 4
"""Commits at the end whose results are loaded too: nobody may have said yet what they show."""
LARGE_MAX = 3
"""Texts that lie outside of their commits and are loaded."""


def asks_newest(session: str) -> list[Read]:
    """What is read of every session that a brief is about."""
    return [
        read("session", session, counted=True),
        read("head", session),
        read("commits", session, newest_first=True, limit=WINDOW, load=False),
        asks_last_act(session),
        read("turns", session, limit=1),
        asks_children(session),
    ]


class NewestCommits:
    """The newest commits of a session, and what is looked up of others."""

    def __init__(self, store: StorePort, session: str, sources: Collection[int] = ()) -> None:
        """`sources`: other commits that will be asked for."""
        self._store, self.session = store, session
        self.counts = counts_of(store, session)
        self.row: SessionRow = store.session(session)
        self.head = store.head(session)
        page = store.commits(session, newest_first=True, limit=WINDOW, load=False)
        self.is_whole = not page or page[-1].seq <= 1
        self._read_others(1 if self.is_whole else page[-1].seq, sources)
        self.imported = imported_upto(store, self.row.record)
        self.rewinds: list[Rewind] = self._known_rewinds()
        self.stretches: list[Stretch] | None = (
            list(visible(self.rewinds, self.head.seq)) if self.rewinds else None
        )
        """The stretches of the log that are in force; None if it was never rewound."""
        self.read: Sequence[Commit] = page
        """The newest first, what was rewound too."""
        self._by_seq = {commit.seq: commit for commit in page}
        self._intents = {c.call: c for c in reversed(page) if c.kind == "call"}
        shown = [*self._compaction(page), *reversed(page)]
        self.commits = self._with_texts([c for c in shown if self.counts_for(c.seq)])
        self.source = functools.cache(self._look_up_source)

    def _read_others(self, first: int, sources: Collection[int]) -> None:
        """Read in one call what else is needed, of the commits before the `first` of the newest: all of them where
        what they rest on is found out from the log."""
        asked = [asks_known(self.row.record)]
        if reads_log(self._store, self.session, self.head.seq):
            asked += [
                read("commits", self.session, after=after, upto=min(after + PAGE_MAX, first - 1),
                     limit=PAGE_MAX, load=False)
                for after in range(0, first - 1, PAGE_MAX)
            ]  # fmt: skip
        elif first > 1:
            tags = itself_asked(self._store).entries(self.session, "tags")
            wanted = {
                *range(1, BEGINNING + 1),
                *(seq + 1 for seq, _ in rewind_tags(tags)),
                *sources,
            }
            wanted.add(known_upto(self._store, self.session))
            seqs = sorted(seq for seq in wanted if 0 < seq < first)
            asked.append(read("commits", self.session, seqs=seqs, limit=PAGE_MAX, load=False))
        ahead(self._store, *asked)

    def _known_rewinds(self) -> list[Rewind]:
        return reflog.rewinds(self._store, self.session) if self.counts.live.get("tags") else []

    def _compaction(self, page: Sequence[Commit]) -> list[Commit]:
        """The last compaction, if it is before the newest commits: its summary is about those before it."""
        if self.is_whole or any(commit.kind == "compaction" for commit in page):
            return []
        live = self.counts.live.get("evicted")
        newest = self._store.entries(self.session, "evicted", limit=1) if live else []
        found = [self._read(entry.seq, load=False) for entry in newest]
        return [commit for commit in found if commit is not None]

    def counts_for(self, seq: int) -> bool:
        """Whether a commit was not rewound since."""
        return self.stretches is None or stands(self.stretches, seq)

    def as_made(self, entries: Sequence[Entry]) -> list[Entry]:
        """Entries, those that a rewind put back with the place where they were made: a rewind makes nothing. One whose
        commit is not among the newest stays at the rewind, whose label is unknown."""
        if not self.rewinds:
            return list(entries)
        return [self._made(entry) for entry in entries]

    def _made(self, entry: Entry) -> Entry:
        target = {one.seq: one.to for one in self.rewinds}
        seq, turn = entry.seq, entry.turn
        while seq in target:
            earlier = (
                one for one in self._puts[entry.collection, entry.id] if one[0] <= target[seq]
            )
            found = next(earlier, None)
            if found is None:
                break
            seq, turn = found
        return msgspec.structs.replace(entry, seq=seq, turn=turn)

    @functools.cached_property
    def _puts(self) -> Mapping[tuple[str, str], list[tuple[int, int]]]:
        """By collection and id of a record, the seqs and turns at which the newest commits put it, the newest first."""
        found: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        for commit in self.read:
            for op in commit.delta:
                if isinstance(op, Put):
                    found[op.collection, op.id].append((commit.seq, commit.turn))
        return found

    def _with_texts(self, commits: list[Commit]) -> list[Commit]:
        """The same, with the newest long requests, answers and summaries loaded, and the results at the end."""
        end = len(commits) - ENDING
        long = [
            commit.seq
            for place, commit in enumerate(commits)
            if (_is_spoken(commit) or (place >= end and commit.kind == "outcome"))
            and any(isinstance(i, Large) for i in commit.content.values())
        ][-LARGE_MAX:]
        loaded = {c.seq: c for c in commits_at(self._store, self.session, long)}
        return [loaded.get(commit.seq, commit) for commit in commits]

    # -- single commits ---------------------------------------------------------------------------

    def learn(self, seqs: Iterable[int]) -> None:
        """Read commits together that are going to be asked for one by one."""
        left = [seq for seq in seqs if seq not in self._by_seq]
        for commit in commits_at(self._store, self.session, left, load=False):
            self._by_seq[commit.seq] = commit

    def has(self, seq: int) -> bool:
        """Whether a commit was read."""
        return seq in self._by_seq

    def commit(self, seq: int) -> Commit | None:
        """A commit, with its content as far as that is at hand."""
        return self._by_seq.get(seq) or self._read(seq, load=False)

    def loaded(self, seq: int) -> Commit | None:
        """A commit with all of its content."""
        known = self._by_seq.get(seq)
        if known is not None and not any(isinstance(i, Large) for i in known.content.values()):
            return known
        return self._read(seq, load=True)

    def _read(self, seq: int, *, load: bool) -> Commit | None:
        found = self._store.commits(self.session, after=seq - 1, upto=seq, limit=1, load=load)
        return found[0] if found and seq > 0 else None

    def learn_intents(self, calls: Iterable[str]) -> None:
        """Read together the commits that began calls, as far as they are not among the newest."""
        left = [
            retype(call, "commit")
            for call in calls
            if is_id(call, "call") and call not in self._intents
        ]
        for commit in named_commits(self._store, self.session, ids=left) if left else ():
            if commit.kind == "call":
                self._intents.setdefault(commit.call, commit)

    def intent(self, call: str) -> Commit | None:
        """The commit that began a call, if it was read."""
        return self._intents.get(call)

    def _look_up_source(self, seq: int) -> str:
        commit = self.commit(seq)
        return "unknown" if commit is None else self.label(commit)

    def label(self, commit: Commit) -> str:
        """Where a commit came from; nothing where that is a verified user."""
        if commit.seq <= self.imported:
            return "import"
        if commit.kind == "rewind":
            return "unknown"
        source = commit.provenance
        if source.source == "user" and source.trust == "verified":
            return ""
        # What a contributor records, a person or a program that acts for one.
        return "user" if commit.actor == "user" else source.source

    # -- what they tell ---------------------------------------------------------------------------

    def story(self) -> SessionStory:
        """What happened. A result that came from outside is from the web, whatever its tool."""
        found = story(self.commits)
        came = self.reported([deed.ended for deed in found.deeds if deed.ended])
        if not came:
            return found
        deeds = [
            msgspec.structs.replace(deed, source="web") if deed.ended in came else deed
            for deed in found.deeds
        ]
        return msgspec.structs.replace(found, deeds=deeds)

    def first_requests(self) -> list[PersonRequest]:
        """Requests at the beginning of a log that is longer than what was read."""
        if self.is_whole:
            return []
        page = self._store.commits(self.session, upto=BEGINNING, limit=BEGINNING, load=False)
        for commit in page:
            self._by_seq.setdefault(commit.seq, commit)
            if commit.kind == "call":
                self._intents.setdefault(commit.call, commit)
        return story([c for c in page if self.counts_for(c.seq)]).asked

    def unverified(self, seqs: Sequence[int]) -> dict[int, str]:
        """Of these commits, those that rest on something that nobody vouches for, and from where."""
        return unverified(self._store, self.session, seqs) if seqs else {}

    def reported(self, seqs: Sequence[int]) -> dict[int, str]:
        """Of these results, those whose own content came from outside, such as a sub-agent's report of a page."""
        found = [commit for seq in seqs if (commit := self.commit(seq)) is not None]
        return brought_in(self._store, self.session, found, self.intent) if found else {}


def _is_spoken(commit: Commit) -> bool:
    return commit.kind in ("turn", "compaction") or (
        commit.kind == "entry" and commit.actor == "model"
    )
