"""Reads what reasons are made of, each thing once: turns, prompts, what is in force, and what is trusted."""

from __future__ import annotations

from collections.abc import Sequence

from stator.errors import NotFound
from stator.model.log.commit import Commit
from stator.model.log.edges import Edge
from stator.model.log.query import KeyTouch, SessionRow, TurnRow
from stator.model.log.rewinds import Stretch, stands, visible
from stator.model.log.shown_text import cut_short
from stator.model.values.ids import is_id, retype
from stator.model.views.taint import Edges, Judge, edges_in
from stator.model.views.why import Ground, Reason, WhyTurn, call_reason, words_of
from stator.runtime.base.pages import commit_at
from stator.runtime.base.project_flags import Trash
from stator.runtime.views.derivation import WEB, judge_of, origin_of, reach
from stator.runtime.views.reasons.left_out import LeftOutReasons
from stator.runtime.views.reflog import rewinds
from stator.runtime.views.refs import intent_of
from stator.store.port import StorePort

LOOKED_MAX = 600
"""Commits that one answer reads to find out what is trusted."""
GROUNDS_MAX = 5
"""Single commits that a reason is said to be made from."""
GROUND_TEXT = 200
ORDERED_MAX = 60
"""Sessions that are put in the order of their last use."""


class Lookup:
    """What one answer has read so far. It looks in one session, in a project, or everywhere."""

    def __init__(self, store: StorePort, *, project: str | None, session: str | None) -> None:
        self.store = store
        self.project = project
        self.session = session
        self.folder = ""
        """The project's folder on this machine, for files as they are on disk."""
        self.hunks = False
        """Whether the changed lines of edits are wanted."""
        self._trash = Trash(store)
        self._left_out = LeftOutReasons(store)
        self._rows: dict[str, SessionRow | None] = {}
        self._turns: dict[tuple[str, int], TurnRow | None] = {}
        self._prompts: dict[tuple[str, int], Commit | None] = {}
        self._in_force: dict[str, list[Stretch]] = {}
        self.trust = TrustReader(store)

    # -- sessions ---------------------------------------------------------------------------------

    def row(self, session: str) -> SessionRow | None:
        """A session that is here and that may be shown; None if it is not, or in the trash."""
        if session not in self._rows:
            try:
                row = self.store.session(session)
            except NotFound:
                self._rows[session] = None
            else:
                self._rows[session] = None if row in self._trash else row
        return self._rows[session]

    def is_asked(self, session: str) -> bool:
        """Whether a session is one that is looked in."""
        row = self.row(session)
        if row is None:
            return False
        if self.session is not None:
            own = self.store.session(self.session).record
            return session in (own.id, *(part.session for part in own.lineage))
        return self.project is None or row.record.project == self.project

    def touches(self, collection: str, key: str, limit: int) -> list[KeyTouch]:
        """Who touched a key where it is looked for: those of the session used last first, the newest of each first.
        Ask `stands` whether one was rewound since."""
        if not key:
            return []
        found = self.store.touches(
            collection, key, session=self.session, project=self.project, limit=limit
        )
        owners = dict.fromkeys(touch.session for touch in found)
        if (
            not 1 < len(owners) <= ORDERED_MAX
        ):  # else the order of the store is kept: by when sessions were made
            return found
        used = {owner: row.updated for owner in owners if (row := self.row(owner)) is not None}
        return sorted(found, key=lambda touch: -used.get(touch.session, 0))

    def stands(self, session: str, seq: int) -> bool:
        """Whether a commit is in force, in a session that may be shown."""
        if self.row(session) is None:
            return False
        owner = self.session or session
        if owner not in self._in_force:
            self._in_force[owner] = visible(rewinds(self.store, owner), self.store.head(owner).seq)
        return stands(self._in_force[owner], seq)

    def left_out(self, session: str, seq: int) -> str:
        """Why a record does not count for its project, in words; empty if it does, or if only one session is asked."""
        return "" if self.session is not None else self._left_out.why(session, seq)

    # -- turns ------------------------------------------------------------------------------------

    def turn(self, session: str, turn: int) -> TurnRow | None:
        """A turn of a session."""
        if (session, turn) not in self._turns:
            rows = self.store.turns(session, after=turn - 1, upto=turn) if turn > 0 else []
            self._turns[session, turn] = rows[0] if rows else None
        return self._turns[session, turn]

    def prompt(self, session: str, turn: int) -> Commit | None:
        """The commit that began a turn."""
        if (session, turn) not in self._prompts:
            row = self.turn(session, turn)
            self._prompts[session, turn] = (
                None if row is None else commit_at(self.store, session, row.first)
            )
        return self._prompts[session, turn]

    def group(self, session: str, turn: int, reasons: Sequence[Reason], about: str = "") -> WhyTurn:
        """Reasons of one turn, under its prompt, in the order they happened. The time is that of the last one of the
        kind that it is `about`, else of the last one that is no revision."""
        row, prompt = self.row(session), self.prompt(session, turn)
        meant = [each for each in reasons if each.kind == about]
        meant = meant or [each for each in reasons if each.kind != "revision"] or [*reasons]
        return WhyTurn(
            session=session,
            name="" if row is None else row.record.name,
            turn=turn,
            at=max(each.at for each in meant),
            asked="" if prompt is None else words_of(prompt, "input"),
            reasons=sorted(reasons, key=lambda reason: reason.seq),
            times_known=row is None or row.has_times,
        )

    def commit(self, session: str, seq: int) -> Commit:
        return commit_at(self.store, session, seq)


class TrustReader:
    """Finds out what reasons rest on, within a number of commits for all of them."""

    def __init__(self, store: StorePort, most: int = LOOKED_MAX) -> None:
        self._store = store
        self._left = most
        self._judges: dict[str, Judge] = {}
        self._made: dict[str, Edges] = {}
        self._clean: dict[str, list[tuple[int, int]]] = {}
        """Ranges of sessions behind which nothing untrusted was found."""

    def of(self, commit: Commit) -> tuple[str, list[Ground]]:
        """Whether a commit is trusted, and what it was made from."""
        said = self._judge(commit)
        edges = self._edges(commit)
        grounds = [self._ground(commit.session, e) for e in _single(edges)]
        known = [ground for ground in grounds if ground is not None]
        if said is None:
            return "vouched", known
        if said:
            return "unverified", known
        wanted = [e for e in edges if not self._is_clean(commit.session, e)]
        if not wanted:
            return "", known
        if self._left <= 0:
            return "unknown", known
        found = reach(self._store, commit.session, wanted, most=self._left)
        self._left -= found.looked
        if found.path:
            root = found.path[0]
            ground = self._described(root.session, root.seq, found.why)
            if ground is not None and all(
                (g.session, g.seq) != (root.session, root.seq) for g in known
            ):
                known.append(ground)
            return "unverified", known
        if not found.whole:
            return "unknown", known
        ranges = [(edge.first, edge.last) for edge in wanted if edge.is_range]
        self._clean.setdefault(commit.session, []).extend(ranges)
        return "", known

    def _edges(self, commit: Commit) -> list[Edge]:
        if commit.session not in self._made:
            self._made[commit.session] = edges_in(self._store.session(commit.session).record)
        return self._made[commit.session](commit)

    def _judge(self, commit: Commit) -> str | None:
        if commit.session not in self._judges:
            self._judges[commit.session] = judge_of(self._store, commit.session)
        return self._judges[commit.session](commit)

    def _is_clean(self, session: str, edge: Edge) -> bool:
        ranges = self._clean.get(session, ())
        return edge.is_range and any(a <= edge.first and edge.last <= b for a, b in ranges)

    def _ground(self, session: str, edge: Edge) -> Ground | None:
        if not edge.id:
            return self._described(session, edge.first, None)
        if not is_id(edge.id):
            return None
        identifier = retype(edge.id, "commit")
        here = self._store.locate(identifier, session) or self._store.locate(identifier)
        return self._described(*here[0], None) if here else None

    def _described(self, session: str, seq: int, why: str | None) -> Ground | None:
        """A commit as a ground. `why` it is not trusted, if that is known already."""
        try:
            commit = commit_at(self._store, session, seq)
        except (NotFound, IndexError):
            return None
        said = self._judge(commit) if why is None else why
        intent = commit if commit.kind == "call" else None
        if commit.call and commit.kind in ("outcome", "settlement"):
            intent = intent_of(self._store, session, commit.call)
        if intent is not None:
            text = call_reason(intent).text
        elif commit.kind in ("turn", "entry"):
            text = words_of(commit, "input" if commit.kind == "turn" else "output")
        else:
            text = commit.tool
        return Ground(
            session=session,
            seq=seq,
            kind=commit.kind,
            text=cut_short(text, GROUND_TEXT),
            trust="vouched" if said is None else "unverified" if said else "",
            source=origin_of(commit, said, lambda call: intent) if said == WEB else said or "",
        )


def _single(edges: Sequence[Edge]) -> list[Edge]:
    return [edge for edge in edges if not edge.is_range][:GROUNDS_MAX]
