"""Reads what the doses hold: what is in doubt and which session was before, and what bears on a first prompt.

The indexes of words and of what projects know say where to look; how much is read after that does not grow with the
store. An index that is far behind is asked as it is: an agent waits for the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from stator.errors import NotFound
from stator.model.brief import doses, relevance
from stator.model.brief.doses import Dose, ToldLine, ToldSession, age, key_in, session_about
from stator.model.brief.envelope import without_notes
from stator.model.brief.relevance import PromptSubject, SessionWeight
from stator.model.log.commit import Commit
from stator.model.log.query import CallQuery, SessionQuery, SessionRow
from stator.model.log.rewinds import stands, visible
from stator.model.log.shown_text import cut_short
from stator.model.records.tables import RECALLED, record_text
from stator.model.records.text import arguments_text, value_text
from stator.model.records.types import (
    CallRecord,
    DecisionRecord,
    FactRecord,
    FileRecord,
    PlanRecord,
)
from stator.model.values.ids import short
from stator.model.values.tokenizer import words
from stator.model.views.project_state import StateEntry
from stator.model.views.recap import SessionRecap, says_something, typed
from stator.model.views.search import Term
from stator.model.views.why import words_of
from stator.model.window.words import CountTokens
from stator.runtime.base.context import Context
from stator.runtime.base.pages import commit_at, matching
from stator.runtime.base.project_flags import Trash
from stator.runtime.brief.unverified import unverified
from stator.runtime.files import disk_check
from stator.runtime.views import project_state, search
from stator.runtime.views.as_read import for_one_answer, is_history, to_settle
from stator.runtime.views.reasons.recap import recap
from stator.runtime.views.reflog import rewinds
from stator.runtime.views.refs import arguments_of, intent_of
from stator.store.port import StorePort

SUBJECTS = (
    "open", "turn", "decision", "plan", "fact", "preference", "dead_end", "pending", "revision", "artifact",
)  # fmt: skip
"""Commits that say what a session is about."""
SPOKEN = ("entry", "compaction")
ROWS = 30
"""Sessions, from the newest, among which the one before is looked for."""
PLACES = 200
"""Commits with a word that are looked at, the best."""
DOCUMENTS, DOCUMENTS_EACH = 36, 14
"""Commits that are read for a prompt: altogether, and of one session."""
SESSIONS = 2
"""Sessions that are told of."""
NEAR = 0.6
"""The part of the best session's weight that another one needs."""
PASSAGES = 12
STOPPED = 3
ENTRIES = 60
"""Entries of a collection that are compared with a prompt, the newest."""
STEPS = 8
PATHS = 8
FEW = 5
DISK_BYTES = 1_000_000
"""Bytes of files that are read to see whether they changed."""
BEHIND = 4000
"""Commits that a search index may be behind and is brought up to date first."""
ERROR_MAX = 400
TEXTS = frozenset(
    "plan prompt description command message query pattern summary body title question explanation result".split()
)
"""Arguments of tools that are written to be read."""
TAIL = 4
"""Parts of a path that are shown of one elsewhere."""
MEMORY = "memory/"
LEFT_OUT = ("working_set", "candidates")
WAITING = ("in doubt", "awaiting approval")
MARKS = {
    "decisions": "decided:",
    "facts": "fact:",
    "preferences": "preference:",
    "dead_ends": "does not work:",
    "plan": "open:",
    "pending": "pending:",
    "artifacts": "artifact:",
    "revisions": "revision:",
}
KEYS = {collection: prefix for prefix, collection in RECALLED.items()}


# -- when a session starts ------------------------------------------------------------------------


class Starting(msgspec.Struct, frozen=True, kw_only=True):
    """The session that a start dose is for."""

    session: str
    """Its id, whether or not it is in the store yet."""
    resumed: bool = False
    """It has a past of its own: it was resumed, compacted or forked."""
    has_handle: bool = False
    """It was given its handle before, and still has it in its view."""


def start_dose(store: StorePort, context: Context, starting: Starting) -> Dose:
    """What a session is told when it starts."""
    store = for_one_answer(store)
    if starting.resumed:
        lines = list(_own_lines(store, starting.session))
        if starting.has_handle and not lines:
            return Dose(kind="start")
        return doses.start_dose(lines, "" if starting.has_handle else starting.session)
    lines = list(_open_calls(store, context))
    previous = next(_people(store, context, starting.session), None)
    if previous is not None:
        about = session_about(
            previous.record.agent, age(context.clock(), previous.updated), _ended(store, previous)
        )
        lines.append(
            ToldLine(
                texts=(previous.record.name,),
                limit=doses.NAME_BYTES,
                rank=2,
                mark="the session before this one, which may be unrelated:",
                note=f"{short(previous.id)} ({about})",
                session=previous.id,
            )  # fmt: skip
        )
    return doses.start_dose(lines, starting.session)


def _open_calls(store: StorePort, context: Context) -> Iterator[ToldLine]:
    """What is in doubt in the project and what waits for a person, with the command for it."""
    for status, mark, command in (
        ("in doubt", "in doubt, it may or may not have happened:", "settle"),
        ("awaiting approval", "waits for a person:", "approve"),
    ):
        query = CallQuery(project=context.project, statuses=(status,))
        found = [
            row
            for row in store.calls(query, limit=ROWS).rows
            if row.status == status
            and (status != "in doubt" or not is_history(store, row.session, row.outcome or row.seq))
        ]
        if found:
            more = f" (and {len(found) - 1} more: stator top)" if len(found) > 1 else ""
            call = short(found[0].call)
            yield ToldLine(
                texts=(found[0].tool,), mark=mark, limit=60, rank=int(command == "approve"),
                note=f"in {short(found[0].session)}: stator {command} {call}{more}",
                session=found[0].session,
            )  # fmt: skip


def _own_lines(store: StorePort, session: str) -> Iterator[ToldLine]:
    """What concerns a session that continues: its own calls in doubt, and what left its view."""
    try:
        store.session(session)
    except NotFound:
        return
    if doubtful := to_settle(store, session):
        more = f" (and {len(doubtful) - 1} more: stator calls)" if len(doubtful) > 1 else ""
        call = short(doubtful[-1].call)
        yield ToldLine(
            texts=(doubtful[-1].tool,), mark="in doubt, your call may or may not have happened:",
            note=f"{call}: check it, then stator settle {call}{more}", limit=60, session=session,
        )  # fmt: skip
    evicted = store.counts(session).live.get("evicted", 0)
    if evicted:
        yield ToldLine(
            texts=(), rank=1, session=session,
            mark=f"{evicted:,} things left your view when it was compacted: stator evicted {short(session)}"
            " lists them, stator recall KEY gives one back",
        )  # fmt: skip


def _people(store: StorePort, context: Context, own: str) -> Iterator[SessionRow]:
    """Sessions of the project that people worked in, the newest first, without this one."""
    trash = Trash(store)
    for row in islice(matching(store, SessionQuery(project=context.project)), ROWS):
        record = row.record
        is_child = record.parent is not None and record.parent.kind == "child"
        if record.mode == "project" or record.adopted or is_child or not row.turns:
            continue
        if row.id != own and row not in trash:
            yield row


def _ended(store: StorePort, row: SessionRow) -> str:
    """How a session ended, in a few words, from its last turn alone."""
    last = store.turns(row.id, newest_first=True, limit=1)
    status = last[0].status if last else ""
    if row.shown == "active":
        return "still at work"
    if row.shown == "interrupted" or status in ("interrupted", "aborted", "cancelled"):
        return "interrupted"
    if status == "error":
        return "its last turn failed"
    return "ended" if status else "stopped in the middle of a turn"


# -- with the first prompt ------------------------------------------------------------------------


def prompt_dose(
    store: StorePort,
    context: Context,
    prompt: str,
    *,
    seen: StorePort,
    own: str = "",
    max_tokens: int = doses.PROMPT_TOKENS,
    count_tokens: CountTokens | None = None,
) -> Dose:
    """What of the project bears on a prompt; an empty dose if nothing does. `seen`: the store as readers see it; `own`:
    the session that asks."""
    subject = relevance.subject_of(prompt)
    if subject.is_empty and not subject.follows:
        return Dose(kind="prompt")
    reading = _Reading(store, for_one_answer(seen), context, own)
    sessions, others = reading.told(subject)
    return doses.prompt_dose(sessions, others, max_tokens=max_tokens, count_tokens=count_tokens)


class _Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a recorded text."""

    text: str
    session: str
    seq: int
    turn: int
    source: str
    weight: float
    places: frozenset[int] = frozenset()
    """The lines of its commit that it holds."""


class _Reading:
    """Reads what bears on one prompt."""

    def __init__(self, port: StorePort, store: StorePort, context: Context, own: str) -> None:
        self._port, self._store, self._context, self._own = port, store, context, own
        self._shingles: frozenset[str] | None = None
        self._rows: dict[str, SessionRow | None] = {}
        self._trash = Trash(store)
        self._in_force: dict[str, list[tuple[int, int]]] = {}
        self._passages: dict[str, list[_Passage]] = {}
        self._disk_left = DISK_BYTES

    def told(self, subject: PromptSubject) -> tuple[list[ToldSession], list[ToldLine]]:
        previous = next(_people(self._store, self._context, self._own), None)
        if previous is None:
            return [], []
        weights, subject = self._weights(subject)
        chosen = [one.session for one in weights if relevance.bears(one, subject)]
        best = weights[0].rank if weights else 0.0
        ranks = {one.session: one.rank for one in weights}
        chosen = [one for one in chosen if ranks[one] >= NEAR * best][:SESSIONS]
        note = ""
        if subject.follows:
            chosen = chosen[:1]
            if not chosen:
                note = (
                    "the previous session"
                    if subject.is_empty
                    else "the previous session; it may be unrelated"
                )
                chosen = [previous.id]
        state = self._state()
        sessions = [self._session(one, subject, state, note) for one in chosen]
        others = self._others(subject, state, chosen)
        return self._judged(sessions, others)

    # -- which sessions ---------------------------------------------------------------------------

    def _weights(self, subject: PromptSubject) -> tuple[list[SessionWeight], PromptSubject]:
        """What sessions have of a prompt, most first; and the prompt, with less weight for common words."""
        if subject.is_empty:
            return [], subject
        about, spoken, named, loose = self._places(subject)
        having = {
            word: len({session for session, _ in (*about.get(word, ()), *spoken.get(word, ()))})
            for word in subject.words
        }
        everyone = {
            session for found in (*about.values(), *spoken.values()) for session, _ in found
        }
        subject = relevance.reweighed(subject, having, len(everyone))
        self._read(subject, [about, spoken, named, loose])
        sessions = {
            session
            for found in (about, spoken, named, loose)
            for places in found.values()
            for session, _ in places
        }
        weights = [self._weight(one, subject, about, named) for one in sessions if self._row(one)]
        best: dict[str, SessionWeight] = {}
        for one in sorted(weights, key=lambda one: (-one.rank, one.session)):
            parent = self._parent(one.session)
            best.setdefault(parent, msgspec.structs.replace(one, session=parent))
        return sorted(
            best.values(), key=lambda one: (-one.rank, -self._updated(one.session))
        ), subject

    def _places(self, subject: PromptSubject) -> list[search.Places]:
        """Where the words are: in what sessions are about, and in what was said; where the names are: in what sessions
        are about or as files of calls, and anywhere."""
        terms = {word: Term((word,), prefix=len(word) >= 4) for word in subject.words}
        lasts = {name.rpartition("/")[2] for name in subject.names}
        names = {name: Term(tuple(words(name))) for name in {*subject.names, *lasts} if words(name)}
        files = {name: term for name, term in names.items() if relevance.is_file(name)}
        about, spoken, named, touched, loose = search.places(
            self._port,
            self._context,
            [
                search.WordQuestion(terms, SUBJECTS),
                search.WordQuestion(terms, SPOKEN),
                search.WordQuestion(names, SUBJECTS),
                search.WordQuestion(files, ("call",), in_path=True),
                search.WordQuestion(names, (*SPOKEN, "call", "outcome")),
            ],
            project=self._context.project,
            limit=PLACES,
            behind_max=BEHIND,
        )
        both = {name: [*named[name], *touched.get(name, [])] for name in names}
        return [about, spoken, both, loose]

    def _weight(
        self, session: str, subject: PromptSubject, about: search.Places, named: search.Places
    ) -> SessionWeight:
        lines = self._passages.get(session, [])
        has = {
            word for word in subject.words if any(one == session for one, _ in about.get(word, ()))
        }
        names = 0.0
        for name in subject.names:
            last = name.rpartition("/")[2]
            if any(one == session for one, _ in named.get(name, ())):
                names += relevance.name_weight(name)
            elif last != name and any(one == session for one, _ in named.get(last, ())):
                names += min(relevance.BASENAME, relevance.name_weight(last))
        return SessionWeight(
            session=session,
            line=max((one.weight for one in lines), default=0.0),
            subject=sum(subject.words[word] for word in has) + names,
            names=names,
        )

    def _read(self, subject: PromptSubject, found: Sequence[search.Places]) -> None:
        """Read the commits that have most of a prompt, and keep their lines."""
        weights: dict[tuple[str, int], float] = {}
        for places in found:
            for word, where in places.items():
                for place in where:
                    weights[place] = weights.get(place, 0.0) + subject.words.get(
                        word, relevance.NAME
                    )
        each: dict[str, int] = {}
        read = 0
        for (session, seq), _ in sorted(weights.items(), key=lambda one: (-one[1], one[0])):
            if read >= DOCUMENTS:
                break
            if each.get(session, 0) >= DOCUMENTS_EACH or self._row(session) is None:
                continue
            each[session] = each.get(session, 0) + 1
            read += 1
            self._read_one(subject, session, seq)

    def _read_one(self, subject: PromptSubject, session: str, seq: int) -> None:
        if not stands(self._stretches(session), seq):
            return
        commit = commit_at(self._store, session, seq)
        source, text = _said(commit)
        if not text:
            return
        kept = self._passages.setdefault(session, [])
        whole = without_notes(text)
        for place, end, text in relevance.passages_of(whole):
            if (weight := relevance.weigh(subject, text)) > 0:
                kept.append(
                    _Passage(
                        text=text,
                        session=session,
                        seq=seq,
                        turn=commit.turn,
                        source=source,
                        weight=weight,
                        places=frozenset(range(place, end)),
                    )  # fmt: skip
                )

    def _stretches(self, session: str) -> list[tuple[int, int]]:
        if session not in self._in_force:
            row = self._row(session)
            head = 0 if row is None else row.head
            self._in_force[session] = visible(rewinds(self._store, session), head)
        return self._in_force[session]

    def _row(self, session: str) -> SessionRow | None:
        """A session that may be told of: here, not in the trash, of this project, and not the one that asks."""
        if session not in self._rows:
            try:
                row = self._store.session(session)
            except NotFound:
                self._rows[session] = None
            else:
                is_left_out = (
                    row.id == self._own or row in self._trash or row.record.mode == "project"
                )
                self._rows[session] = None if is_left_out or row.record.adopted else row
        return self._rows[session]

    def _parent(self, session: str) -> str:
        """The session whose sub-agent one is; itself if it is none."""
        row = self._row(session)
        parent = None if row is None else row.record.parent
        if parent is not None and parent.kind == "child" and self._row(parent.session) is not None:
            return parent.session
        return session

    def _updated(self, session: str) -> int:
        row = self._row(session)
        return 0 if row is None else row.updated

    # -- what of them -----------------------------------------------------------------------------

    def _state(self) -> list[StateEntry]:
        """What the project knows, without what agents load or keep themselves."""
        state = project_state.project_state(
            self._port, self._context, self._context.project, limit=ENTRIES
        )
        state = project_state.with_user(self._port, self._context, state)
        return [
            entry
            for name, entries in state.collections.items()
            if name not in LEFT_OUT
            for entry in entries
            if not entry.key.startswith(MEMORY) and entry.session != self._own
        ]

    def _session(
        self, session: str, subject: PromptSubject, state: Sequence[StateEntry], note: str
    ) -> ToldSession:
        (found,) = recap(self._store, sessions=[session])
        row = self._store.session(session)
        when = age(self._context.clock(), row.updated) if found.times_known else ""
        ended = "; ".join(_plain_ending(found))
        branch = row.record.labels.get("branch", "")
        lines = [
            *self._asked(found, session),
            *self._entries(session, subject, state),
            *self._plan(session, subject),
            *self._open(session),
            *self._last_words(found, subject),
            *self._files(session, subject),
            *self._lines(session, subject),
        ]
        did = "; ".join(found.did)
        if did or branch:
            lines.insert(1, ToldLine(
                texts=(branch,) if branch else (), mark=f"{did}{'; on branch' if branch else ''}",
                rank=3, limit=80, session=session,
            ))  # fmt: skip
        return ToldSession(
            session=short(session),
            name=found.name,
            about=", ".join(filter(None, [session_about(found.agent, when, ended), note])),
            lines=[line for line in lines if not self._is_loaded(line)],
        )

    def _asked(self, found: SessionRecap, session: str) -> Iterator[ToldLine]:
        """What it was asked first and last."""
        if found.asked:
            yield ToldLine(
                texts=(found.asked,), mark="asked:", source="user", rank=1, limit=280,
                session=session, key="",
            )  # fmt: skip
        for turn in self._store.turns(session, newest_first=True, limit=FEW):
            prompt = typed(
                without_notes(words_of(commit_at(self._store, session, turn.first), "input"))
            )
            if turn.turn != found.asked_turn and says_something(prompt):
                yield ToldLine(
                    texts=(prompt,), mark="asked last:", source="user", rank=4, limit=240,
                    session=session, key=f"{short(session)}:entry:@{turn.first}",
                )  # fmt: skip
                break

    def _entries(
        self, session: str, subject: PromptSubject, state: Sequence[StateEntry]
    ) -> Iterator[ToldLine]:
        """What the project knows by this session: all of it if the prompt continues it, else what bears on it."""
        weighed = [
            (relevance.weigh(subject, f"{one.key} {record_text(one.record)}"), one)
            for one in state
            if one.session == session and one.collection != "plan"
        ]
        for weight, entry in sorted(weighed, key=lambda one: -one[0]):
            if weight > 0 or subject.follows:
                yield self._entry(entry, 2 if entry.collection != "revisions" else 5)

    def _others(
        self, subject: PromptSubject, state: Sequence[StateEntry], told: Sequence[str]
    ) -> list[ToldLine]:
        """What other sessions know that bears on a prompt."""
        found = []
        for entry in state:
            text = f"{entry.key} {record_text(entry.record)}"
            names = sum(relevance.names_in(text, subject.names).values())
            weight = SessionWeight(
                session=entry.session, line=relevance.weigh(subject, text), names=names
            )
            if (
                entry.session not in told
                and not subject.follows
                and relevance.bears(weight, subject)
            ):
                found.append((weight.line, entry))
        found.sort(key=lambda one: -one[0])
        lines = [self._entry(entry, 2, whose=True) for _, entry in found[:STEPS]]
        return [line for line in lines if not self._is_loaded(line)]

    def _entry(self, entry: StateEntry, rank: int, *, whose: bool = False) -> ToldLine:
        record = entry.record
        mark = MARKS.get(entry.collection, f"{entry.collection}:")
        source = entry.source
        if isinstance(record, DecisionRecord):
            source = record.by or source
        if isinstance(record, FactRecord) and record.verified:
            mark = "verified fact:"
        notes = [self._freshness(entry)]
        if entry.conflicts:
            notes.append("another session says otherwise")
        if whose:
            notes.append(f"{age(self._context.clock(), entry.happened)}")
        session = short(entry.session)
        prefix = KEYS.get(entry.collection, "")
        return ToldLine(
            texts=(record_text(record),), mark=mark, source=source, rank=rank, limit=260,
            note=f"({', '.join(filter(None, notes))})" if any(notes) else "",
            key=key_in(session, f"{prefix}:{entry.key}" if prefix else "\n", entry.seq),
            session=entry.session, unverified=getattr(entry, "unverified", "") or "",
        )  # fmt: skip

    def _freshness(self, entry: StateEntry) -> str:
        """Whether a file that an entry is about changed on disk since."""
        root = self._context.root
        for path, digest in entry.anchors if root else ():
            found = disk_check.compare(root, path, digest, self._disk_left) if digest else None
            if found is not None:
                self._disk_left -= found.read
                if found.said in ("changed on disk since", "gone from disk"):
                    return "changed since" if "changed" in found.said else "its file is gone"
        return ""

    def _plan(self, session: str, subject: PromptSubject) -> Iterator[ToldLine]:
        """The steps that are open, and those that are said to be done and were not checked."""
        entries = self._store.entries(session, "plan", limit=ENTRIES)
        steps = [one for one in reversed(entries) if isinstance(one.record, PlanRecord)]
        roots = self._roots(session, {one.seq for one in steps})
        groups: dict[tuple[int, str], list[str]] = {}
        for one in steps:
            status = str(getattr(one.record, "status", ""))
            if status in ("pending", "in_progress", "blocked", "claimed"):
                rank = 4 if status == "claimed" else 2
                groups.setdefault((rank, roots.get(one.seq, "")), []).append(one.record.step)  # type: ignore[attr-defined]
        for (rank, root), found in groups.items():
            mark = "open steps:" if rank == 2 else "claimed done, unchecked:"
            more = f"and {len(found) - STEPS} more" if len(found) > STEPS else ""
            yield ToldLine(
                texts=tuple(found[:STEPS]), mark=mark, source="model", rank=rank, limit=560,
                note=more, session=session, unverified=root,
            )  # fmt: skip

    def _open(self, session: str) -> Iterator[ToldLine]:
        """What it was doing when it stopped: calls that have no outcome."""
        entries = self._store.entries(session, "calls", limit=FEW)
        for entry in entries[:STOPPED]:
            record = entry.record
            if not isinstance(record, CallRecord) or record.elsewhere:
                continue
            intent = intent_of(self._store, session, record.call)
            yield ToldLine(
                texts=(arguments_text(record.tool, arguments_of(intent)),), source="model", rank=3,
                mark="no result is recorded of its call" if record.status != "in doubt" else "in doubt:",
                limit=300, session=session, key=f"{short(session)}:call:{short(record.call)}",
            )  # fmt: skip

    def _last_words(self, found: SessionRecap, subject: PromptSubject) -> Iterator[ToldLine]:
        if found.said:
            said = words_of(commit_at(self._store, found.session, found.said_seq))
            yield ToldLine(
                texts=(without_notes(said).strip(),), mark="last words:", source="model",
                rank=3 if subject.follows else 5, limit=1300 if subject.follows else 600,
                session=found.session, key=f"{short(found.session)}:entry:@{found.said_seq}",
            )  # fmt: skip

    def _files(self, session: str, subject: PromptSubject) -> Iterator[ToldLine]:
        """Files that were skipped, and those that were changed, the newest."""
        records = [
            one.record
            for one in self._store.entries(session, "files", limit=ENTRIES)
            if isinstance(one.record, FileRecord)
        ]
        skipped = [one.path for one in records if one.op == "skipped"]
        changed = [one for one in records if one.op not in ("skipped", "read")]
        named = [one.path for one in records if relevance.names_in(one.path, subject.names)]
        if skipped:
            yield _paths("skipped:", skipped, session, 2)
        if named:
            yield _paths("files of that name it touched:", named, session, 2)
        if read := [one.path for one in records if one.op == "read"]:
            yield _paths("files it read:", read, session, 7)
        if changed:
            shown = [f"{one.path} ({one.op})" for one in changed]
            yield _paths("changed files:", shown, session, 4 if subject.follows else 6)

    def _lines(self, session: str, subject: PromptSubject) -> Iterator[ToldLine]:
        """Lines of what was said that have most of a prompt, one of each commit first."""
        found = [
            one
            for each, lines in self._passages.items()
            if self._parent(each) == session
            for one in lines
        ]
        found.sort(key=lambda one: (-one.weight, one.session, -one.seq, min(one.places)))
        least = 0.4 * found[0].weight if found else 0.0
        seen: dict[tuple[str, int], frozenset[int]] = {}
        told = 0
        for one in found:
            known = seen.get((one.session, one.seq), frozenset())
            if one.weight < least or told >= PASSAGES or one.places & known:
                continue
            seen[one.session, one.seq] = known | one.places
            told += 1
            yield ToldLine(
                texts=(one.text,), mark=f"t{one.turn}:", source=one.source, rank=4 + (told > 4),
                limit=330, session=one.session, key=f"{short(one.session)}:entry:@{one.seq}",
            )  # fmt: skip

    def _is_loaded(self, line: ToldLine) -> bool:
        """Whether the agent loads what a line says itself."""
        if not line.texts:
            return False
        if self._shingles is None:
            self._shingles = relevance.shingles(self._context.instructions())
        return relevance.is_said_in(self._shingles, " ".join(line.texts))

    # -- what rests on what nobody vouches for ----------------------------------------------------

    def _judged(
        self, sessions: list[ToldSession], others: list[ToldLine]
    ) -> tuple[list[ToldSession], list[ToldLine]]:
        """The same, with the untrusted root that a line rests on."""
        everything = [line for one in sessions for line in one.lines]
        wanted: dict[str, set[int]] = {}
        for line in everything:
            if not line.unverified and line.source != "user" and (seq := _place(line)):
                wanted.setdefault(line.session, set()).add(seq)
        roots = {session: self._roots(session, seqs) for session, seqs in wanted.items()}

        def judged(line: ToldLine) -> ToldLine:
            root = roots.get(line.session, {}).get(_place(line), "")
            return msgspec.structs.replace(line, unverified=root) if root else line

        told = [
            msgspec.structs.replace(one, lines=list(map(judged, one.lines))) for one in sessions
        ]
        return told, others

    def _roots(self, session: str, seqs: set[int]) -> dict[int, str]:
        """Of commits of a session, those that rest on an untrusted root, and where it came from."""
        return unverified(self._port, session, seqs, self._context)


def _place(line: ToldLine) -> int:
    """The commit that a line was read from, as its key names it; 0 if it names none."""
    place = line.key.rpartition(":entry:@")[2]
    return int(place) if place.isdigit() else 0


def _plain_ending(found: SessionRecap) -> list[str]:
    """How a session ended, without what is told by itself."""
    return [one for one in found.ended if not one.startswith(("in doubt", "waiting"))]


def _paths(mark: str, found: Sequence[str], session: str, rank: int) -> ToldLine:
    more = f"and {len(found) - PATHS} more" if len(found) > PATHS else ""
    return ToldLine(
        texts=tuple(_tail(path) for path in found[:PATHS]),
        mark=mark,
        rank=rank,
        limit=480,
        note=more,
        session=session,
    )


def _tail(path: str) -> str:
    """The end of a path that is not below the project's folder."""
    parts = path.split("/")
    return (
        path if not path.startswith("/") or len(parts) <= TAIL else "…/" + "/".join(parts[-TAIL:])
    )


def _said(commit: Commit) -> tuple[str, str]:
    """Whose words a commit is, and the words; nothing of what programs put into a conversation."""
    if commit.kind == "turn":
        return ("user" if commit.actor == "user" else "model"), typed(words_of(commit, "input"))
    if commit.kind == "entry":
        return "model", words_of(commit) if commit.actor == "model" else ""
    if commit.kind == "compaction":
        said = commit.known("input")
        return "model", str(said.get("summary") or "") if isinstance(said, Mapping) else ""
    if commit.kind == "artifact":
        said = commit.known("input")
        return commit.provenance.source, said if isinstance(said, str) else ""
    if commit.kind == "call":
        given = commit.known("input")
        items = given.items() if isinstance(given, Mapping) else ()
        texts = [str(value) for name, value in items if name in TEXTS and isinstance(value, str)]
        return "model", "\n".join(texts)
    if commit.kind == "outcome" and commit.status == "error":
        output = commit.known("output")
        said = output.get("message", "") if isinstance(output, Mapping) else output
        return "tool", f"{commit.tool} failed: {cut_short(value_text(said), ERROR_MAX)}"
    return "", ""
