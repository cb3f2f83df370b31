"""Lists what happened while an agent was away: what others recorded since, and whether git has moved."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from stator.errors import NotFound, StatorError
from stator.model.brief.sections import BriefItem, Tell, Topic
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.records.tables import BOOKKEEPING, CONTRIBUTIONS, KINDS, NEWS, record_text
from stator.model.records.text import prompt_text, value_text
from stator.runtime.brief.labels import Labels
from stator.runtime.files import git as worktree
from stator.runtime.views.refs import Point
from stator.store.port import StorePort

SCAN = 300
"""Commits that are looked through before the asker's own run began."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Away:
    """What happened since the last run of a session, or since a position."""

    def __init__(self, store: StorePort, labels: Labels, run: str, began: int, root: str) -> None:
        """`run` is the asker's own, `began` the seq it began at, `root` the folder the session's files are in."""
        newest = labels.newest
        self._store, self._newest, self._id = store, newest, newest.session
        self._labels = labels
        self._run, self._began, self._root = run, began, root

    def topic(self, since: str | None, at: Callable[[str], Point]) -> Topic:
        """What others did since the last run, or everything since a position; and a position that is not there."""
        start, tells = self._left(), list[Tell]()
        if since is not None:
            found = self._known(since, at)
            if found is None:
                tells.append(functools.partial(_gap, since))
            else:
                start = found
                tells.append(functools.partial(self._since, found))
        tells += self._git()
        if start is None:
            return Topic(tells=tells)
        wanted = [c for c in self._between(start) if self._is_news(c, whole=since is not None)]
        self._labels.ask(commit.seq for commit in wanted)
        tells += [functools.partial(self._news, commit.seq) for commit in wanted]
        cut = not self._newest.is_whole and self._newest.commits[0].seq > start + 1
        return Topic(tells=tells, total=len(tells) + cut, exact=not cut)

    def _known(self, since: str, at: Callable[[str], Point]) -> int | None:
        """The seq of a position, if it is in this log."""
        try:
            point = at(since)
        except NotFound:
            return None
        lent = {part.session: part.upto for part in self._newest.row.record.lineage}
        inside = point.session == self._id or point.seq <= lent.get(point.session, -1)
        return point.seq if inside else None

    def _left(self) -> int | None:
        """Where the last run that is not the asker's own ended."""
        if self._newest.row.record.mode != "driven":
            return None
        for commit in self._before():
            if commit.run and commit.run != self._run:
                return commit.seq
        return None

    def _before(self) -> Iterator[Commit]:
        """Commits before the asker's own run, the newest first."""
        upto = self._began - 1 if self._began else self._newest.head.seq
        known = [commit for commit in self._newest.read if commit.seq <= upto]
        yield from known
        if not known and upto > 0:
            yield from self._store.commits(
                self._id, upto=upto, newest_first=True, limit=SCAN, load=False
            )

    def _between(self, start: int) -> list[Commit]:
        """The newest commits since, and those from before the asker's own run began."""
        found = [commit for commit in self._newest.read if commit.seq > start]
        if start < self._began and (not found or found[-1].seq > self._began):
            found += self._store.commits(
                self._id, after=start, upto=self._began, newest_first=True, limit=SCAN, load=False
            )
        return found

    def _is_news(self, commit: Commit, *, whole: bool) -> bool:
        if commit.run and commit.run == self._run:
            return False
        if not commit.run and commit.kind in CONTRIBUTIONS:
            return True
        return whole and commit.kind in NEWS

    def _since(self, start: int) -> BriefItem:
        commits = self._newest.head.seq - start
        return BriefItem(text="", mark=f"since @{start}: {commits:,} commit{'s' * (commits != 1)}")

    def _news(self, seq: int) -> BriefItem:
        commit = self._newest.loaded(seq)
        assert commit is not None
        by = value_text(commit.known("principal", ""))
        text = joined(said_by(commit), by and f"by {by}", by=", ")
        item = BriefItem(
            text=text,
            mark=commit.kind.replace("_", " ") if commit.kind in KINDS else "commit",
            note=joined(f"@{seq}", _day(commit.when)),
            source=self._newest.label(commit),
            seq=seq,
        )
        return self._labels.on(item)

    def _git(self) -> list[Tell]:
        """Where the work tree was when the last turn ended, if it is elsewhere now."""
        ends = (commit for commit in self._newest.read if commit.kind in ("turn", "turn_end"))
        end = next(ends, None) if self._root else None
        if end is None or end.kind != "turn_end" or not end.has("input"):
            return []
        try:
            found = end.known("input")
        except StatorError:
            return []
        then = found.get("git") if isinstance(found, Mapping) else None
        now = worktree.place(self._root) if isinstance(then, Mapping) else None
        if now is None or not isinstance(then, Mapping) or _at(then) == _at(now):
            return []
        return [
            lambda: BriefItem(
                text=f"{_at(then)} → {_at(now)}", mark="git has moved:", source="file"
            )
        ]


def joined(*parts: str, by: str = ", ") -> str:
    return by.join(part for part in parts if part)


def _gap(since: str) -> BriefItem:
    return BriefItem(
        text=since,
        mark="a gap: the expected head",
        note="is not in this log; what you remember from there may not be on record",
    )


def said_by(commit: Commit) -> str:
    """What a commit says: its records, what was asked, or what it is about."""
    if commit.kind == "turn":
        return prompt_text(commit.known("input", ""))
    told = [
        record_text(op.record)
        for op in commit.delta
        if isinstance(op, Put) and op.collection not in BOOKKEEPING
    ]
    return "; ".join(told) or joined(
        commit.tool, commit.status, commit.cause and f"({commit.cause})", by=" "
    )


def _at(git: Mapping[str, Any]) -> str:
    return f"{git.get('branch') or 'detached'}@{str(git.get('head'))[:12]}"


def _day(when: int) -> str:
    """The day of a commit, in UTC; nothing for a time that no calendar has."""
    try:
        return f"{EPOCH + timedelta(microseconds=when):%Y-%m-%d}"
    except OverflowError:
        return ""


def minute(when: int) -> str:
    """A time in UTC; nothing for one that no calendar has."""
    try:
        return f"{EPOCH + timedelta(microseconds=when):%Y-%m-%d %H:%M} UTC"
    except OverflowError:
        return ""
