"""Collects what a replay needs: the sealed commits of a session, from a store, a fixture, or in hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from stator.errors import Ambiguous, InvalidInput, NotFound
from stator.model.calls.expectations import child_sessions
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.log.rewinds import rewind_of, stands, visible
from stator.model.records.types import SessionRecord
from stator.runtime.views.session import SessionReader
from stator.store.port import StorePort


class Source:
    """The sealed commits of a session, its ancestors and its children."""

    def __init__(self, logs: Iterable[Sequence[Commit]], main: str = "") -> None:
        self.logs: dict[str, list[Commit]] = {}
        for log in logs:
            for commit in log:
                self.logs.setdefault(commit.session, []).append(commit)
        if not self.logs:
            raise InvalidInput("there are no commits to replay")
        self.main = _wanted(self.logs, main)
        self._by_turn: dict[tuple[str, int], list[Commit]] = defaultdict(list)
        for session, own in self.logs.items():
            for commit in own:
                self._by_turn[session, commit.turn].append(commit)

    def turn(self, session: str, number: int) -> list[Commit]:
        """The commits of a turn, and those after it and before the next."""
        return self._by_turn[session, number]

    def record(self, session: str) -> SessionRecord:
        return _record(self.logs[session][0])

    @property
    def turns(self) -> int:
        """The number of its last turn."""
        return max(commit.turn for commit in self.logs[self.main])


def own_rewinds(log: Sequence[Commit]) -> list[Commit]:
    """Where the program of a session went back in it."""
    runs = {commit.run for commit in log if commit.kind in ("run", "resume")}
    return [commit for commit in log if rewind_of(commit) and commit.run in runs]


def left_by_others(log: Sequence[Commit]) -> set[int]:
    """Turns that another program undid with a rewind: the replayed program does not reach them."""
    known = {commit.seq: one for commit in log if (one := rewind_of(commit))}
    others = known.keys() - {commit.seq for commit in own_rewinds(log)}
    if not others:
        return set()
    rewinds = list(known.values())
    now = visible(rewinds, log[-1].seq)
    found: set[int] = set()
    for seq in others:
        before, after = visible(rewinds, known[seq].left), visible(rewinds, known[seq].to)
        found |= {
            commit.turn
            for commit in log
            if commit.kind == "turn"
            and stands(before, commit.seq)
            and not stands(after, commit.seq)
            and not stands(now, commit.seq)
        }
    return found


def load_fixture(path: str | Path, passphrase: str | None = None) -> list[list[Commit]]:
    """The sessions a bundle holds, verified; nothing in it is executed."""
    from stator.runtime.bundles import transfer

    return transfer.read_commits(str(path), passphrase)


def gather(store: StorePort, session: str) -> Source:
    """Everything a replay of a session needs."""
    logs = [list(SessionReader(store, session).log())]
    for found in logs:
        for child in child_sessions(found):
            try:
                logs.append(list(SessionReader(store, child).log()))
            except NotFound:
                continue  # purged, or never begun: reported when the program reaches it
    return Source(logs, session)


def _wanted(logs: Mapping[str, Sequence[Commit]], wanted: str) -> str:
    """The session to replay; by default the one that is neither a child nor only included as a fork's parent."""
    records = {session: _record(log[0]) for session, log in logs.items()}
    if wanted:
        found = [s for s, r in records.items() if wanted in (s, r.name) or s.endswith(wanted)]
        if not found:
            raise NotFound(f"no session {wanted!r:.80} in this record")
        return found[0]
    upto: dict[str, int] = {}
    for record in records.values():
        for part in record.lineage:
            upto[part.session] = max(part.upto, upto.get(part.session, 0))
    own = [
        session
        for session, record in records.items()
        if record.parent is None or record.parent.kind != "child"
        if logs[session][-1].seq > upto.get(session, 0)
    ]
    if len(own) != 1:
        names = [records[session].name for session in own]
        raise Ambiguous("several sessions are in this record", candidates=names, hint="say which")
    return own[0]


def _record(first: Commit) -> SessionRecord:
    found = (op.record for op in first.delta if isinstance(op, Put))
    record = next((record for record in found if isinstance(record, SessionRecord)), None)
    if record is None or first.kind not in ("open", "fork"):
        raise InvalidInput(f"session {first.session} has no first commit in this record")
    return record
