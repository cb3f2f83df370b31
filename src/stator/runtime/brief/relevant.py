"""Finds which sessions of a project, and which lines of their messages, are about a prompt.

The index of words says where to look; how much is read after that does not grow with the store. An index that is far
behind is asked as it is: an agent waits for the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from stator.errors import NotFound
from stator.model.brief import relevance
from stator.model.brief.envelope import without_notes
from stator.model.brief.relevance import PromptSubject, SessionWeight
from stator.model.log.commit import Commit
from stator.model.log.query import SessionRow
from stator.model.log.rewinds import stands, visible
from stator.model.log.shown_text import cut_short
from stator.model.records.text import value_text
from stator.model.values.tokenizer import words
from stator.model.views.recap import typed
from stator.model.views.search import Term
from stator.model.views.why import words_of
from stator.runtime.base.context import Context
from stator.runtime.base.pages import commit_at
from stator.runtime.base.project_flags import Trash
from stator.runtime.views import search
from stator.runtime.views.reflog import rewinds
from stator.store.port import StorePort

SUBJECTS = (
    "open", "turn", "decision", "plan", "fact", "preference", "dead_end", "pending", "revision", "artifact",
)  # fmt: skip
"""Commits that say what a session is about."""
SPOKEN = ("entry", "compaction")
DONE = frozenset((*SUBJECTS, *SPOKEN, "call", "outcome", "file")) - {"open", "turn"}
"""Commits that show that something came of a request."""
FEWEST = 12
"""A session with more commits is one in which something was done."""
PLACES = 200
"""Commits with a word that are looked at, the best."""
DOCUMENTS, DOCUMENTS_EACH = 60, 36
"""Commits that are read for a prompt: altogether, and of one session."""
BEHIND = 4000
"""Commits that a search index may be behind and is updated first."""
ERROR_MAX = 400
TEXTS = frozenset(
    "plan prompt description command message query pattern summary body title question explanation result".split()
)
"""Arguments of tools that are written to be read."""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a recorded text."""

    text: str
    session: str
    seq: int
    turn: int
    source: str
    weight: float
    places: frozenset[int] = frozenset()
    """The lines of its commit that it holds."""


class Bearing:
    """Finds the sessions and the lines that are about one prompt."""

    def __init__(self, port: StorePort, store: StorePort, context: Context, own: str) -> None:
        self._port, self._store, self._context, self._own = port, store, context, own
        self._rows: dict[str, SessionRow | None] = {}
        self._trash = Trash(store)
        self._in_force: dict[str, list[tuple[int, int]]] = {}
        self._bare: dict[str, bool] = {}
        self.passages: dict[str, list[Passage]] = {}

    def weights(self, subject: PromptSubject) -> tuple[list[SessionWeight], PromptSubject]:
        """What sessions have of a prompt, most first; and the prompt, with less weight for common words."""
        if subject.is_empty:
            return [], subject
        about, spoken, named, loose = map(self._without_bare, self._places(subject))
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
        weights = [self._weight(one, subject, about, named) for one in sessions if self.row(one)]
        best: dict[str, SessionWeight] = {}
        for one in sorted(weights, key=lambda one: (-one.rank, one.session)):
            parent = self.parent(one.session)
            best.setdefault(parent, msgspec.structs.replace(one, session=parent))
        return sorted(
            best.values(), key=lambda one: (-one.rank, -self._updated(one.session))
        ), subject

    def _places(self, subject: PromptSubject) -> list[search.Places]:
        """Where the words are: in what sessions are about, and in messages; where the names are: in what sessions
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
        lines = self.passages.get(session, [])
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
            if each.get(session, 0) >= DOCUMENTS_EACH or self.row(session) is None:
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
        kept = self.passages.setdefault(session, [])
        whole = without_notes(text)
        for place, end, text in relevance.passages_of(whole):
            if (weight := relevance.weigh(subject, text)) > 0:
                kept.append(
                    Passage(
                        text=text,
                        session=session,
                        seq=seq,
                        turn=commit.turn,
                        source=source,
                        weight=weight,
                        places=frozenset(range(place, end)),
                    )
                )

    def _stretches(self, session: str) -> list[tuple[int, int]]:
        if session not in self._in_force:
            row = self.row(session)
            head = 0 if row is None else row.head
            self._in_force[session] = visible(rewinds(self._store, session), head)
        return self._in_force[session]

    def row(self, session: str) -> SessionRow | None:
        """A session that may be shown: here, not in the trash, of this project, and not the one that asks."""
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

    def _without_bare(self, places: search.Places) -> search.Places:
        return {
            word: [one for one in found if not self._is_bare(one[0])]
            for word, found in places.items()
        }

    def _is_bare(self, session: str) -> bool:
        """Whether a session holds requests and nothing that came of them: a prompt that was typed again."""
        if session not in self._bare:
            row = self.row(session)
            self._bare[session] = (
                row is not None
                and row.head <= FEWEST
                and not any(
                    commit.kind in DONE and (commit.kind != "entry" or commit.actor != "user")
                    for commit in self._store.commits(session, limit=FEWEST)
                )
            )
        return self._bare[session]

    def parent(self, session: str) -> str:
        """The session whose sub-agent one is; itself if it has no parent."""
        row = self.row(session)
        parent = None if row is None else row.record.parent
        if parent is not None and parent.kind == "child" and self.row(parent.session) is not None:
            return parent.session
        return session

    def _updated(self, session: str) -> int:
        row = self.row(session)
        return 0 if row is None or not row.has_times else row.updated


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
