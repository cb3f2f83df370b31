"""Gathers a brief from the state, the log and the disk, in reads that do not grow with the session.

Where something came from, what a call was asked to do and whether a file is still as it was are looked up
only for the lines that fit. No clock is read and no model asked.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from stator.model.brief import compose as briefs
from stator.model.brief import lines, requests
from stator.model.brief.sections import (
    Brief,
    BriefItem,
    BriefOpening,
    Gathered,
    Saying,
    SectionName,
    Target,
    Tell,
    Topic,
    told,
    unplaced_topic,
)
from stator.model.brief.story import NetFile, SessionStory, title
from stator.model.extraction import plans
from stator.model.log.delta import Put
from stator.model.records.tables import (
    BRIEFED,
    record_text,
)
from stator.model.records.text import arguments_text, recorded_text
from stator.model.records.types import (
    ArtifactRecord,
    CallRecord,
    Entry,
    ErasedRecord,
    EvictedRecord,
    FactRecord,
    PendingRecord,
    PlanRecord,
    RevisionRecord,
    SettingRecord,
)
from stator.model.values.ids import is_id, short
from stator.model.views import checked, open_calls
from stator.model.window.compaction import GROUPS_MAX, KEYS_MAX, RANKS, order
from stator.model.window.words import BYTES_PER_TOKEN, CountTokens
from stator.runtime.base.pages import find_entry
from stator.runtime.brief.away import Away, joined, minute, said_by
from stator.runtime.brief.labels import Labels, labelled, origin_words, resting
from stator.runtime.brief.newest import NewestCommits, asks_newest
from stator.runtime.brief.session_files import differences, touched_files
from stator.runtime.views.as_read import (
    for_one_answer,
    is_history,
    itself_asked,
    read_ahead,
    unplaced_in,
)
from stator.runtime.views.last_acts import acted
from stator.runtime.views.refs import Point, arguments_of, intent_of
from stator.runtime.views.trust.names import session_name_origin
from stator.store.port import StorePort

MODEL = "model"
"""The setting whose change a brief mentions."""
ITEMS_MAX = 500
AHEAD = 24
"""Records of one collection whose sources are read with the first: about as many as fit. Where more do, four times as
many are read next."""
JUDGED_MAX = 60
"""Records of one collection of which it is asked what they rest on: more than a brief has room for."""
EVICTED_MAX = len(RANKS) * (KEYS_MAX + GROUPS_MAX) + 1
"""Keys of one compaction that are ranked: more than one ever has."""
CHATTER = len(RANKS) - 1
"""The rank of messages that nobody has to be reminded of."""
_KEY = re.compile(r"[\w.:@/-]{1,120}")


class Here(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for a brief, and from where."""

    root: str = ""
    """The folder the session's files are in; empty where they are elsewhere, or not to be looked at."""
    run: str = ""
    """The asking driver's own run, and the seq it began at."""
    began: int = 0
    own: bool = False
    """Whether the asker is the session itself."""


def brief(
    store: StorePort,
    session: str,
    here: Here,
    at: Callable[[str], Point],
    *,
    max_tokens: int,
    target: Target,
    since: str | None,
    count_tokens: CountTokens | None,
) -> Brief:
    """The brief of a session; `at` says where a position is."""
    tokens = max_tokens if type(max_tokens) is int else 0
    gathered = _Gathering(for_one_answer(store), session, here, tokens).gather(since, at)
    return briefs.compose(gathered, max_tokens=max_tokens, target=target, count_tokens=count_tokens)


class _Gathering:
    def __init__(self, store: StorePort, session: str, here: Here, tokens: int) -> None:
        self._store, self._id, self._here = store, session, here
        self._items = max(1, min(ITEMS_MAX, 20 + tokens // 15))
        self._bytes = max(tokens, 1) * BYTES_PER_TOKEN
        self._read_ahead()
        self._newest = NewestCommits(store, session, self._sources())
        (self._row,), self._head = acted(store, [self._newest.row]), self._newest.head
        self._entries = functools.cache(self._look_up_entries)
        self._folder = ""
        self._labels = Labels(self._newest)
        self._ahead = AHEAD

    def gather(self, since: str | None, at: Callable[[str], Point]) -> Gathered:
        story = self._newest.story()
        asked = [*self._newest.first_requests(), *story.asked]
        files = self._files(story)
        on_disk = differences(files, self._here.root)
        calls = self._calls()
        last, said = lines.last_sayings(story), lines.earlier_sayings(story)
        seqs = {entry.seq for name in JUDGED for entry in self._entries(name)[:JUDGED_MAX]}
        named, named_at = title(story.deeds)
        asked_about = {
            *seqs,
            *(request.seq for request in asked),
            *(saying.seq for saying in last),
            *([story.summary.seq] if story.summary else []),
        }
        labels = self._labels
        labels.ask({*asked_about, *(one.seq for one in said)})
        labels.ask(seq for deed in story.deeds for seq in (deed.seq, deed.ended))
        labels.ask(one.first for one in files)
        labels.ask(entry.seq for entry in self._entries("revisions"))
        self._folder = labels.folder(files)
        doubtful = {seq: where for seq, where in labels.known.items() if seq in asked_about}
        reports = [saying.seq for saying in said if saying.source != "model"]
        outside = labels.known | self._newest.reported(reports)
        self._sources_ahead()
        listed = {record.call for record in calls}
        topics: dict[SectionName, Topic] = {
            **{name: self._live(name, row.note, doubtful) for name, row in BRIEFED.items()},
            "goal": self._goal(asked, story, doubtful),
            "facts": self._facts(doubtful),
            "plan": self._plan(doubtful),
            "artifacts": self._artifacts(story, doubtful),
            "revisions": self._revisions(last),
            "files": self._file_lines(
                functools.partial(lines.changed_items, is_whole=self._newest.is_whole),
                files,
                on_disk,
            ),
            "read": self._file_lines(lines.read_items, files, on_disk),
            "pending": self._pending(doubtful),
            "model": self._model(),
            "evicted": self._evicted(),
            "checks": told(labels.all_on(lines.check_items(story, self._folder))),
            "failed": told(labels.all_on(lines.failed_items(story, self._folder))),
            "lessons": told(labels.all_on(lines.lesson_items(story, self._folder))),
            "open": told(labels.all_on(lines.open_items(story, self._folder, listed))),
            "did": told(labels.all_on(lines.call_items(story, self._folder))),
            "settled": told(labels.all_on(lines.settled_items(story, self._folder))),
            "in_doubt": self._told_calls(
                [record for record in calls if record.status == "in doubt"], "stator settle"
            ),
            "waiting": self._told_calls(
                [record for record in calls if open_calls.waits(record)], "stator approve"
            ),
            "unplaced": unplaced_topic(unplaced_in(self._store, self._id), self._items),
            "away": Away(
                self._store, labels, self._here.run, self._here.began, self._here.root
            ).topic(since, at),
            "unverified": self._unverified(doubtful, story),
        }
        return Gathered(
            session=self._id,
            name=named or self._row.record.name,
            name_origin=origin_words(
                labels.known.get(named_at, "")
                if named
                else session_name_origin(self._store, self._row)
            ),
            head=self._head,
            topics=topics,
            opening=self._opening(story, files),
            last=[resting(saying, doubtful) for saying in last],
            said=[resting(saying, outside) for saying in said],
            showed=[resting(saying, labels.known) for saying in lines.results(story, self._folder)],
        )

    def _read_ahead(self) -> None:
        """Read in one call what a brief asks of the state."""
        whole = ("calls", "tags", "trust")
        limits = dict.fromkeys(SOURCED, self._items)
        limits["evicted"] = EVICTED_MAX
        if not self._here.own:
            limits["evicted"] = 1
        read_ahead(self._store, self._id, *limits, *whole, limit=limits, also=asks_newest(self._id))

    def _sources(self) -> set[int]:
        """The commits that say where the first records of each collection came from, and what of calls is open."""
        limits = dict.fromkeys(SOURCED, min(AHEAD, self._items)) | {"evicted": 1}
        entries = itself_asked(self._store).entries(self._id, *limits, "calls", limit=limits)
        return {entry.seq for entry in entries}

    def _sources_ahead(self) -> None:
        """Read in one call the commits that say where the first records of each collection came from."""
        entries = [entry for name in SOURCED for entry in self._entries(name)[: self._ahead]]
        self._newest.learn({entry.seq for entry in entries})

    def _source(self, entry: Entry) -> str:
        """Where a record came from. If that was not read yet, it is read together with what the next lines need."""
        if not self._newest.has(entry.seq):
            place = self._entries(entry.collection).index(entry)
            self._ahead = max(4 * self._ahead, place + 1)
            self._sources_ahead()
        return self._newest.source(entry.seq)

    def _look_up_entries(self, collection: str) -> list[Entry]:
        """The live records of a collection, the newest first; asked for only if there are any."""
        if not self._newest.counts.live.get(collection):
            return []
        found = self._store.entries(self._id, collection, limit=self._items)
        return self._newest.as_made(found)

    # -- the opening ------------------------------------------------------------------------------

    def _opening(self, story: SessionStory, files: Sequence[NetFile]) -> BriefOpening:
        record, shown = self._row.record, self._row.shown
        sentences = lines.ended(
            story,
            at_work=shown == "active" and not self._here.own,
            unfinished=shown == "interrupted",
        )
        if story.deeds or files:
            sentences.append(lines.changed(files))
        if self._newest.is_whole and (never := lines.unchecked(story, files)):
            sentences.append(never)
        return BriefOpening(
            own=self._here.own,
            agent=record.agent,
            used=minute(self._row.used) if self._row.has_times else "at an unknown time",
            ended=sentences,
            about=[
                ("branch", record.labels.get("branch", "")),
                ("folder", self._folder),
                ("forked from", record.labels.get("forked from", "")),
            ],
        )

    # -- the state --------------------------------------------------------------------------------

    def _live(
        self, collection: str, note: Callable[[Any], str], doubtful: Mapping[int, str]
    ) -> Topic:
        """Records of a collection, the newest first."""
        entries = self._entries(collection)
        return self._topic(
            collection,
            entries,
            lambda entry: self._told(entry, note=joined(f"t{entry.turn}", note(entry.record))),
            doubtful,
        )

    def _topic(
        self,
        collection: str,
        chosen: Sequence[Entry],
        tell: Callable[[Entry], BriefItem],
        doubtful: Mapping[int, str],
        title: str = "",
    ) -> Topic:
        """Chosen entries of those that were read, and how many there are altogether; without what rests on something
        that nobody vouches for."""
        entries = self._entries(collection)
        kept = [entry for entry in chosen if entry.seq not in doubtful]
        tells = [functools.partial(_unless_erased, tell, entry) for entry in kept]
        cut = len(entries) >= self._items
        known = self._newest.counts.live.get(collection, 0)
        total = max(known - (len(entries) - len(tells)), len(tells))
        return Topic(tells=tells, total=total if cut else len(tells), title=title)

    def _told(self, entry: Entry, *, mark: str = "", note: str = "") -> BriefItem:
        return BriefItem(
            text=record_text(entry.record),
            mark=mark,
            note=note,
            source=self._source(entry),
            seq=entry.seq,
        )

    def _facts(self, doubtful: Mapping[int, str]) -> Topic:
        """Those that were verified first."""
        ordered = sorted(self._entries("facts"), key=lambda entry: not _is_verified(entry))
        return self._topic(
            "facts",
            ordered,
            lambda entry: self._told(
                entry,
                mark="verified" if _is_verified(entry) else "unverified",
                note=f"t{entry.turn}",
            ),
            doubtful,
        )

    def _plan(self, doubtful: Mapping[int, str]) -> Topic:
        """What is claimed to be done, and what is to be done, in order; of what is done, only how much."""
        entries = sorted(self._entries("plan"), key=checked.in_plan)
        shown = [entry for entry in entries if _status(entry) not in ("done", "dropped")]
        done = sum(_status(entry) == "done" for entry in entries)
        title = (
            f"{BRIEFED['plan'].title} ({done:,} step{'s' * (done != 1)} done and checked)"
            if done
            else ""
        )
        return self._topic(
            "plan",
            shown,
            lambda entry: self._told(
                entry,
                mark=_status(entry).replace("_", " "),
                note=_bracketed(checked.reason(entry.record)),
            ),
            doubtful,
            title,
        )

    def _artifacts(self, story: SessionStory, doubtful: Mapping[int, str]) -> Topic:
        """Documents; not a plan whose work is in a revision since, in a session that ended with the agent's answer."""
        revised = max((entry.seq for entry in self._entries("revisions")), default=0)
        chosen = [
            entry
            for entry in self._entries("artifacts")
            if not (
                story.answered
                and isinstance(entry.record, ArtifactRecord)
                and entry.record.name == plans.NAME
                and entry.seq < revised
            )
        ]
        note = BRIEFED["artifacts"].note
        return self._topic(
            "artifacts",
            chosen,
            lambda entry: self._told(entry, note=joined(f"t{entry.turn}", note(entry.record))),
            doubtful,
        )

    def _pending(self, doubtful: Mapping[int, str]) -> Topic:
        """What is intended; a call to settle is listed among the calls."""
        chosen = [entry for entry in self._entries("pending") if not _is_to_settle(entry)]
        return self._topic(
            "pending", chosen, lambda entry: self._told(entry, note=f"t{entry.turn}"), doubtful
        )

    def _revisions(self, said: Sequence[Saying]) -> Topic:
        """Revisions that no later one replaced."""
        kept = [
            (entry.record, entry.seq)
            for entry in self._entries("revisions")
            if isinstance(entry.record, RevisionRecord) and not entry.record.replaced
        ]
        items = lines.revision_items(kept, " ".join(saying.text for saying in said))
        return told(self._labels.all_on(self._labels.sourced(items)))

    def _model(self) -> Topic:
        """The model and the one before it, where it changed lately; other settings are not the next session's. The
        model of an agent's own program is the choice of who runs it."""
        if self._row.record.mode == "recorded":
            return Topic(tells=[])
        found = [
            (commit, op)
            for commit in self._newest.commits
            for op in commit.delta
            if isinstance(op, Put)
            and isinstance(op.record, SettingRecord)
            and op.record.name == MODEL
        ]
        if not found or not found[-1][1].was:
            return Topic(tells=[])
        commit, op = found[-1]
        if len(found) > 1:
            before: Any = found[-2][1].record
        else:
            entry = find_entry(self._store, self._id, "settings", MODEL, at=commit.seq - 1)
            before = entry.record if entry else None
        text = " → ".join(
            recorded_text(getattr(record, "value", "(erased)")) for record in (before, op.record)
        )
        return told(
            [
                BriefItem(
                    text=text,
                    note=f"t{commit.turn}",
                    source=self._newest.label(commit),
                    seq=commit.seq,
                )
            ]
        )

    def _evicted(self) -> Topic:
        """What left the view of the agent that asks, what matters most first; never messages alone."""
        if not self._here.own or not self._newest.counts.live.get("evicted"):
            return Topic(tells=[])
        # All of one seq: the newest few are not those that matter.
        entries = self._store.entries(self._id, "evicted", limit=EVICTED_MAX)
        ranked = [entry for entry in sorted(entries, key=_rank) if _rank(entry)[0] < CHATTER]
        self._labels.ask(
            entry.record.seq
            for entry in ranked[: self._items]
            if isinstance(entry.record, EvictedRecord)
        )
        self._newest.learn(
            entry.record.seq for entry in ranked[:AHEAD] if isinstance(entry.record, EvictedRecord)
        )
        tells = [
            functools.partial(_unless_erased, self._told_evicted, entry)
            for entry in ranked[: self._items]
        ]
        return Topic(tells=tells, total=len(ranked))

    def _told_evicted(self, entry: Entry) -> BriefItem:
        record = entry.record
        assert isinstance(record, EvictedRecord)
        held = self._newest.commit(record.seq)
        what = "" if held is None else said_by(held)
        item = BriefItem(
            text=what or record.key,
            note=f"{short(self._id)}:{record.key}" if _is_plain_key(record.key) else "",
            source=self._newest.source(record.seq),
            seq=record.seq,
        )
        return self._labels.on(item)

    def _unverified(self, doubtful: Mapping[int, str], story: SessionStory) -> Topic:
        """What rests on something that nobody vouches for: quoted, with what it claims to be and where it is from."""
        entries = [
            entry for name in JUDGED for entry in self._entries(name) if entry.seq in doubtful
        ]
        items = [
            BriefItem(
                text=record_text(entry.record),
                mark=f"claimed {entry.collection.replace('_', ' ')}, from {origin_words(doubtful[entry.seq])}:",
                source=self._source(entry),
                seq=entry.seq,
            )
            for entry in sorted(entries, key=lambda entry: -entry.seq)
            if not isinstance(entry.record, ErasedRecord)
        ]
        items += lines.web_items(story, self._bytes // 2)
        origins = list(dict.fromkeys(origin_words(where) for where in doubtful.values()))
        return told(
            items,
            title=f"Unverified, from {', '.join(origins[:3]) or 'the web'}: nobody vouches for it",
        )

    # -- files ------------------------------------------------------------------------------------

    def _files(self, story: SessionStory) -> list[NetFile]:
        known = () if self._newest.is_whole else self._entries("files")
        return touched_files(story, known, self._newest.counts_for)

    def _file_lines(
        self,
        listing: Callable[..., list[BriefItem]],
        files: Sequence[NetFile],
        on_disk: Callable[[NetFile], str],
    ) -> Topic:
        """Lines of files; those whose names came from elsewhere have lines of their own, after the others."""
        return told(
            [
                labelled(item, origin)
                for origin, group in self._labels.by_origin(files).items()
                for item in self._labels.sourced(listing(group, self._folder, on_disk))
            ]
        )

    # -- calls ------------------------------------------------------------------------------------

    def _calls(self) -> list[CallRecord]:
        """Calls without a known outcome that a person or the next agent has to do with, the newest first."""
        if not self._newest.counts.live.get("calls"):
            return []
        found = [
            entry.record
            for entry in self._store.entries(self._id, "calls")
            if isinstance(entry.record, CallRecord)
            and (
                open_calls.waits(entry.record)
                or (
                    entry.record.status == "in doubt"
                    and not entry.record.elsewhere
                    and not is_history(self._store, self._id, entry.seq)
                )
            )
        ]
        self._newest.learn_intents([record.call for record in found])
        return sorted(found, key=lambda record: (record.since, record.call), reverse=True)

    def _told_calls(self, records: Sequence[CallRecord], command: str) -> Topic:
        tells: list[Tell] = [
            functools.partial(self._told_call, record, command) for record in records[: self._items]
        ]
        return Topic(tells=tells, total=len(records))

    def _told_call(self, record: CallRecord, command: str) -> BriefItem:
        intent = self._newest.intent(record.call) or intent_of(self._store, self._id, record.call)
        call = short(record.call) if is_id(record.call, "call") else "c_?"
        turn = f"t{intent.turn}, " if intent is not None else ""
        item = BriefItem(
            text=joined(arguments_text(record.tool, arguments_of(intent)), record.cause, by=" — "),
            note=f"{turn}{command} {short(self._id)}:{call}",
            source=self._newest.label(intent) if intent is not None else "unknown",
            seq=intent.seq if intent is not None else 0,
        )
        return self._labels.on(item)

    # -- the goal ---------------------------------------------------------------------------------

    def _goal(
        self, asked: Sequence[Any], story: SessionStory, doubtful: Mapping[int, str]
    ) -> Topic:
        """The newest request that says something, the first, and those between; what the last turn was left with. What
        an agent asked of its sub-agent may rest on what it had read."""

        def source(seq: int) -> str:
            found = self._newest.source(seq)
            if seq not in doubtful:
                return found
            return f"{found or 'agent'}, rests on {origin_words(doubtful[seq])}"

        items = requests.request_items(asked, source, story)
        if not items and story.turn:
            items = [BriefItem(text="", mark="(no prompt on record)", seq=0)]
        if story.ended in ("interrupted", "aborted") and story.cause:
            left = BriefItem(
                text=story.cause, mark="it was left with", source="system", seq=self._head.seq,
                seqs=tuple(deed.ended for deed in story.deeds if deed.turn == story.turn),
            )  # fmt: skip
            items.insert(1, self._labels.on(left))
        return told(items, in_order=True)


# -- our words ------------------------------------------------------------------------------------

SOURCED = (*BRIEFED, "revisions")
"""Collections whose lines say where a record came from."""
JUDGED = tuple(name for name in BRIEFED if name not in ("files", "evicted"))
"""Collections of which nothing is told that rests on what nobody vouches for."""


def _bracketed(words: str) -> str:
    return f"({words})" if words else ""


def _unless_erased(tell: Callable[[Entry], BriefItem], entry: Entry) -> BriefItem:
    if isinstance(entry.record, ErasedRecord):
        return BriefItem(text="", mark=f"(erased by @{entry.record.erased})", seq=entry.seq)
    return tell(entry)


def _is_verified(entry: Entry) -> bool:
    return isinstance(entry.record, FactRecord) and entry.record.verified


def _status(entry: Entry) -> str:
    return str(entry.record.status) if isinstance(entry.record, PlanRecord) else ""


def _is_to_settle(entry: Entry) -> bool:
    record = entry.record
    verb, _, call = (
        record.what.partition(" ") if isinstance(record, PendingRecord) else ("", "", "")
    )
    return verb == "settle" and is_id(call, "call")


def _rank(entry: Entry) -> tuple[int, int, int, str]:
    record = entry.record
    return order(record) if isinstance(record, EvictedRecord) else (0, 0, 0, "")


def _is_plain_key(key: str) -> bool:
    """Whether a key can be given as it is: recorded text could be anything."""
    return _KEY.fullmatch(key) is not None
