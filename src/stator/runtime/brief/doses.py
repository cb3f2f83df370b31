"""Reads what an agent is given with its first prompt: what the project knows about it, or nothing.

Of the sessions that are about it: what they were asked, how they ended, what they know and their lines about it.
Of other sessions: what they know about it. What the agent loads itself is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stator.model.brief import doses, relevance
from stator.model.brief.doses import Dose, ToldLine, ToldSession, age, key_in, session_about
from stator.model.brief.envelope import without_notes
from stator.model.brief.lines import HAPPENED
from stator.model.brief.relevance import PromptSubject, SessionWeight
from stator.model.log.query import CallQuery
from stator.model.records.tables import RECALLED, record_text
from stator.model.records.text import arguments_text
from stator.model.records.types import (
    CallRecord,
    DecisionRecord,
    Entry,
    FactRecord,
    FileRecord,
    PlanRecord,
)
from stator.model.values.ids import short
from stator.model.views.project_state import OPEN, StateEntry
from stator.model.views.recap import SessionRecap, says_something, typed
from stator.model.views.why import settled_by, words_of
from stator.model.window.words import CountTokens
from stator.runtime.base.context import Context
from stator.runtime.base.pages import commit_at, commits_at
from stator.runtime.brief.relevant import Bearing
from stator.runtime.brief.start import worked_in
from stator.runtime.files import disk_check
from stator.runtime.views import project_state
from stator.runtime.views.as_read import for_one_answer, is_history
from stator.runtime.views.reasons.recap import recap
from stator.runtime.views.refs import arguments_of, intent_of
from stator.runtime.views.trust.names import file_name_origins, session_name_origin
from stator.runtime.views.trust.unverified import unverified
from stator.store.port import StorePort

SESSIONS = 2
"""Sessions that a dose is about, at most."""
WORK = 3
"""Sessions that one piece of work is followed through, from the newest back."""
NEAR = 0.6
"""The part of the best session's weight that another one needs."""
PASSAGES = 20
STOPPED = 3
ENTRIES = 60
"""Entries of a collection that are compared with a prompt, the newest."""
STEPS = 8
PATHS = 8
FEW = 5
DISK_BYTES = 1_000_000
"""Bytes of files that are read to see whether they changed."""
TAIL, TAIL_BYTES = 4, 58
"""Parts of a path that are shown of one elsewhere, at most, and how long they may be together."""
SETTLED_LOOKED = 200
"""Calls of a session, the newest, among which those are looked for that were settled."""
MEMORY = "memory/"
LEFT_OUT = ("working_set", "candidates")
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
    telling = _Telling(store, for_one_answer(seen), context, own)
    sessions, others = telling.told(subject)
    return doses.prompt_dose(sessions, others, max_tokens=max_tokens, count_tokens=count_tokens)


class _Telling:
    """Reads what is given of the sessions that are about one prompt."""

    def __init__(self, port: StorePort, store: StorePort, context: Context, own: str) -> None:
        self._port, self._store, self._context, self._own = port, store, context, own
        self._bearing = Bearing(port, store, context, own)
        self._shingles: frozenset[str] | None = None
        self._disk_left = DISK_BYTES

    def told(self, subject: PromptSubject) -> tuple[list[ToldSession], list[ToldLine]]:
        previous = next(worked_in(self._store, self._context, self._own), None)
        if previous is None:
            return [], []
        weights, subject = self._bearing.weights(subject)
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
            chosen = self._work(chosen[0])
        state = self._state()
        sessions = [self._session(one, subject, state, note) for one in chosen]
        others = self._others(subject, state, chosen)
        return self._judged(sessions, others)

    def _work(self, session: str) -> list[str]:
        """A session, and those before it that its own first request continued: together they are one piece of work."""
        rows = {row.id: row for row in worked_in(self._store, self._context, self._own)}
        found = [session]
        while len(found) < WORK and (now := rows.get(found[-1])) is not None:
            before = now.record.continues
            if not before and self._refers_back(now.id):
                earlier = [row for row in rows.values() if row.record.created < now.record.created]
                newest = max(earlier, key=lambda row: (row.record.created, row.id), default=None)
                before = "" if newest is None else newest.id
            if before not in rows or before in found:
                break
            found.append(before)
        return found

    def _refers_back(self, session: str) -> bool:
        """Whether the first request in a session continues something."""
        for turn in self._store.turns(session, limit=1):
            asked = words_of(commit_at(self._store, session, turn.first), "input")
            return relevance.subject_of(without_notes(asked)).follows
        return False

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
        when = age(self._context.clock(), found.at) if found.times_known else ""
        ended = "; ".join(_plain_ending(found))
        branch = row.record.labels.get("branch", "")
        lines = [
            *self._asked(found, session),
            *self._entries(session, subject, state),
            *self._plan(session, subject),
            *self._open(session),
            *self._settled(session),
            *self._last_words(found, subject),
            *self._files(session, subject),
            *self._lines(session, subject),
        ]
        tests, quiet = found.tests, msgspec.structs.replace(found, tests=None)
        did = "; ".join(one for one in quiet.did if one != "no calls")
        if did or branch:
            lines.insert(1, ToldLine(
                texts=(branch,) if branch else (), mark=f"{did}{'; on branch' if branch else ''}",
                rank=3, limit=80, session=session,
            ))  # fmt: skip
        if tests is not None:
            how = {"ok": "ok", "": "ran"}.get(tests.status, tests.status)
            lines.insert(2, ToldLine(
                texts=(tests.command,), mark=f"last tests {how}:", rank=3, limit=80,
                session=session, seq=tests.seq,
            ))  # fmt: skip
        return ToldSession(
            session=short(session),
            name=found.name,
            name_origin=session_name_origin(self._port, row, self._context),
            about=", ".join(filter(None, [session_about(found.agent, when, ended), note])),
            lines=[line for line in lines if not self._is_loaded(line)],
        )

    def _asked(self, found: SessionRecap, session: str) -> Iterator[ToldLine]:
        """What it was asked first and last."""
        if found.asked:
            first = self._store.turns(session, after=found.asked_turn - 1, upto=found.asked_turn)
            seq = first[0].first if first else 0
            yield ToldLine(
                texts=(found.asked,), mark="asked:", source=self._whose(session, seq), rank=1,
                limit=280, session=session, key="", seq=seq,
            )  # fmt: skip
        for turn in self._store.turns(session, newest_first=True, limit=FEW):
            prompt = typed(
                without_notes(words_of(commit_at(self._store, session, turn.first), "input"))
            )
            if turn.turn != found.asked_turn and says_something(prompt):
                yield ToldLine(
                    texts=(prompt,), mark="asked last:", source=self._whose(session, turn.first),
                    rank=4, limit=240, session=session, key=f"{short(session)}:entry:@{turn.first}",
                    seq=turn.first,
                )  # fmt: skip
                break

    def _whose(self, session: str, seq: int) -> str:
        """Whose words a request is: what an agent says that it was asked is its own word."""
        if not seq:
            return "user"
        source = commit_at(self._store, session, seq, load=False).provenance.source
        return source if source == "model" else "user"

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
            session=entry.session, unverified=entry.unverified, is_entry=True,
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
        """The steps that are open, and those that are claimed to be done and were not checked."""
        entries = self._store.entries(session, "plan", limit=ENTRIES)
        steps = [one for one in reversed(entries) if isinstance(one.record, PlanRecord)]
        roots = self._roots(session, {one.seq for one in steps})
        groups: dict[tuple[bool, str], list[str]] = {}
        for one in steps:
            assert isinstance(one.record, PlanRecord)
            status = str(one.record.status)
            if status in (*OPEN, "claimed"):
                group = status == "claimed", roots.get(one.seq, "")
                groups.setdefault(group, []).append(one.record.step)
        for (is_claimed, root), found in groups.items():
            mark = "claimed done, unchecked:" if is_claimed else "open steps:"
            rank = (4 if subject.follows else 7) if is_claimed else (2 if subject.follows else 4)
            more = f"and {len(found) - STEPS} more" if len(found) > STEPS else ""
            yield ToldLine(
                texts=tuple(found[:STEPS]), mark=mark, source="model", rank=rank, limit=560,
                note=more, session=session, unverified=root,
            )  # fmt: skip

    def _open(self, session: str) -> Iterator[ToldLine]:
        """What it was doing when it stopped: calls that have no outcome."""
        entries = self._store.entries(session, "calls", limit=FEW)
        last = self._store.turns(session, newest_first=True, limit=1)
        for entry in entries[:STOPPED]:
            record = entry.record
            if not isinstance(record, CallRecord) or record.elsewhere:
                continue
            is_old = is_history(self._store, session, entry.seq)
            if is_old and last and entry.seq < last[0].first:
                continue  # the session went on after it
            is_in_doubt = record.status == "in doubt" and not is_old
            intent = intent_of(self._store, session, record.call)
            yield ToldLine(
                texts=(arguments_text(record.tool, arguments_of(intent)),), source="model", rank=3,
                mark="in doubt:" if is_in_doubt else "no result is recorded of its call",
                limit=300, session=session, key=f"{short(session)}:call:{short(record.call)}",
                seq=intent.seq if intent is not None else 0,
            )  # fmt: skip

    def _settled(self, session: str) -> Iterator[ToldLine]:
        """Calls that were in doubt, and of which a person or the agent said since whether they happened."""
        rows = self._store.calls(CallQuery(session=session), limit=SETTLED_LOOKED).rows
        asked = [row for row in rows if row.outcome and row.cause and row.status in HAPPENED]
        ends = commits_at(self._store, session, [row.outcome for row in asked])
        settled = {one.seq: one for one in ends if one.kind == "settlement"}
        for row in [row for row in asked if row.outcome in settled][:FEW]:
            end, intent = settled[row.outcome], commit_at(self._store, session, row.seq)
            key = f"{short(session)}:call:{short(row.call)}"
            yield ToldLine(
                texts=(arguments_text(row.tool, arguments_of(intent)),), source="model", rank=2,
                mark=f"was in doubt and {HAPPENED[row.status].rstrip(';')}:", limit=300,
                session=session, key=key, seq=end.seq,
            )  # fmt: skip
            yield ToldLine(
                texts=(settled_by(end),), source="user" if end.actor == "user" else "model", rank=3,
                mark="who says so:", limit=300, session=session, key=key, seq=end.seq,
            )  # fmt: skip

    def _last_words(self, found: SessionRecap, subject: PromptSubject) -> Iterator[ToldLine]:
        if found.said:
            said = words_of(commit_at(self._store, found.session, found.said_seq))
            yield ToldLine(
                texts=(without_notes(said).strip(),), mark="last words:", source="model",
                rank=3 if subject.follows else 5, limit=1300 if subject.follows else 600,
                session=found.session, key=f"{short(found.session)}:entry:@{found.said_seq}",
                seq=found.said_seq,
            )  # fmt: skip

    def _files(self, session: str, subject: PromptSubject) -> Iterator[ToldLine]:
        """Files that were skipped, and those that were changed, the newest."""
        entries = self._store.entries(session, "files", limit=ENTRIES)
        yield from self._skipped(session, entries)
        roots = file_name_origins(self._port, session, entries, self._context)
        groups: dict[str, list[Entry]] = {}
        for one in entries:
            groups.setdefault(roots.get(one.seq, ""), []).append(one)
        for root, group in groups.items():
            for line in self._paths_in(group, session, subject):
                yield msgspec.structs.replace(line, unverified=root)

    def _paths_in(
        self, entries: Sequence[Entry], session: str, subject: PromptSubject
    ) -> Iterator[ToldLine]:
        records = [one.record for one in entries if isinstance(one.record, FileRecord)]
        changed = [one for one in records if one.op not in ("skipped", "read")]
        named = [one.path for one in records if relevance.names_in(one.path, subject.names)]
        if named:
            yield _paths("files of that name it touched:", named, session, 2)
        if read := [one.path for one in records if one.op == "read"]:
            yield _paths("files it read:", read, session, 7)
        if changed:
            shown = [f"{one.path} ({one.op})" for one in changed]
            yield _paths("changed files:", shown, session, 4 if subject.follows else 6)

    def _skipped(self, session: str, entries: Sequence[Entry]) -> Iterator[ToldLine]:
        """Files that were left alone, and why: the reason is the agent's words."""
        found = [
            (one.seq, one.record)
            for one in entries
            if isinstance(one.record, FileRecord) and one.record.op == "skipped"
        ]
        roots = self._roots(session, {seq for seq, _ in found})
        groups: dict[str, list[str]] = {}
        for seq, record in found:
            why = f" ({record.reason})" if record.reason else ""
            groups.setdefault(roots.get(seq, ""), []).append(f"{record.path}{why}")
        for root, paths in groups.items():
            line = _paths("skipped:", paths, session, 2)
            yield msgspec.structs.replace(line, unverified=root)

    def _lines(self, session: str, subject: PromptSubject) -> Iterator[ToldLine]:
        """Lines of messages that have most of a prompt, one of each commit first."""
        found = [
            one
            for each, lines in self._bearing.passages.items()
            if self._bearing.parent(each) == session
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
                seq=one.seq,
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
            if not line.unverified and line.seq:
                wanted.setdefault(line.session, set()).add(line.seq)
        roots = {session: self._roots(session, seqs) for session, seqs in wanted.items()}

        def judged(line: ToldLine) -> ToldLine:
            root = roots.get(line.session, {}).get(line.seq, "")
            return msgspec.structs.replace(line, unverified=root) if root else line

        told = [
            msgspec.structs.replace(one, lines=list(map(judged, one.lines))) for one in sessions
        ]
        return told, others

    def _roots(self, session: str, seqs: set[int]) -> dict[int, str]:
        """Of commits of a session, those that rest on an untrusted root, and where it came from."""
        return unverified(self._port, session, seqs, self._context)


def _plain_ending(found: SessionRecap) -> list[str]:
    """How a session ended, without what has a line of its own."""
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
    """The end of a path that is not below the project's folder, or that is long: its beginning says the least."""
    parts = path.split("/")
    if path.startswith("/") and len(parts) > TAIL:
        parts = ["…", *parts[-TAIL:]]
    while len("/".join(parts).encode()) > TAIL_BYTES and len(parts) > 2:
        parts = ["…", *parts[2 if parts[0] == "…" else 1 :]]
    return "/".join(parts)
