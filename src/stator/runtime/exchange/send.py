"""Sends chosen sessions to another store: compares, delivers, and compares again.

Above the port, so between any two stores. Nothing there is overwritten: a log that both stores have is continued, one
that diverged is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from stator.errors import Conflict, ForeignStore, IdReused, InvalidInput, StatorError
from stator.model.log.query import Page, Read, SessionQuery, read
from stator.model.records.types import SessionRecord
from stator.runtime.base import project_flags
from stator.runtime.exchange.choice import SessionToSend
from stator.runtime.exchange.delivery import Delivery, SentPart, Sieves
from stator.runtime.exchange.heads import AT_ONCE, Standing, compare
from stator.runtime.exchange.import_marks import Placed
from stator.runtime.exchange.sent import LeftThere, SentSession
from stator.store.port import StorePort

Progress = Callable[[str, int, int], None]
"""(what is done, how much of it, of how much)."""
DIVERGED = "both stores have commits that the other one lacks"


class Sender:
    """Sends sessions from one store to another."""

    def __init__(
        self,
        source: StorePort,
        target: StorePort,
        *,
        into: str | None = None,
        sieves: Sieves | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """`into`: the project of sessions that are new there, instead of their own. `sieves` leave content out."""
        check_stores(source, target)
        self._source, self._target, self._into = source, target, into
        self._sieves, self._dry_run, self._progress = sieves, dry_run, progress
        self._done = self._total = 0
        self._refused: dict[str, StatorError] = {}
        self._delivered: dict[str, SentPart] = {}
        self.verified = 0

    def send(
        self, chosen: Sequence[SessionToSend], mark: Callable[[list[Placed]], None]
    ) -> list[SentSession]:
        """Send sessions; `mark` first notes in the other store that they come from elsewhere."""
        standings = compare(self._source, self._target, chosen)
        self._total += sum(one.new for one in standings)
        self._check_new([one.one for one in standings if one.fate == "new"])
        going = [one for one in standings if one.new and one.one.id not in self._refused]
        if going and not self._dry_run:
            mark([(one.one, self._place(one)) for one in going])
        self._deliver(going)
        again = standings if self._dry_run else compare(self._source, self._target, chosen)
        self.verified += sum(not self._dry_run and one.fate == "same" for one in again)
        return [self._sent(before, after) for before, after in zip(standings, again, strict=True)]

    def _deliver(self, going: Sequence[Standing]) -> None:
        delivery = Delivery(
            self._source,
            self._target,
            sieves=self._sieves,
            sent=self._moved,
            dry_run=self._dry_run,
        )
        for one in going:
            delivery.send(one, self._place(one))
        delivery.flush()
        self._refused |= delivery.refused
        self._delivered |= delivery.delivered

    def _place(self, standing: Standing) -> str:
        """The project that a session has in the other store: one that is there stays where it is."""
        there = standing.project
        return self._project(standing.one) if there is None else there

    def _project(self, one: SessionToSend) -> str:
        return one.record.project if self._into is None else self._into

    def _moved(self, name: str, commits: int) -> None:
        self._done += commits
        if self._progress is not None:
            self._progress(f"sending {name}", self._done, self._total)

    def _sent(self, before: Standing, after: Standing) -> SentSession:
        one = before.one
        refusal = self._refused.get(one.id)
        done = self._delivered.get(one.id, SentPart())
        fate, why, hint = before.fate, "", ""
        if refusal is not None:
            fate, why, hint = "refused", refusal.what, refusal.hint or ""
        elif not self._dry_run and before.new and after.fate not in ("same", "longer there"):
            fate, why = "refused", "it did not arrive whole: its log there is another one"
        elif fate == "diverged":
            why = DIVERGED
        new = 0 if refusal is not None and self._dry_run else done.commits
        return SentSession(
            session=one.id,
            name=one.record.name,
            project=self._place(before),
            fate=fate,
            seq=one.seq,
            commits=new if refusal is None else max(after.there - before.there, 0),
            erasures=done.erasures,
            withheld=done.withheld,
            secrets=done.secrets,
            held_back=one.held_back,
            is_own=one.record.mode == "project",
            is_known=isinstance(refusal, IdReused),
            why=why,
            hint=hint,
        )

    # -- what is new there ------------------------------------------------------------------------

    def _check_new(self, new: Sequence[SessionToSend]) -> None:
        """Refuse sessions that would take the place of another one there, or that were purged there."""
        gone = purged_in(self._target) if new else {}
        for one in new:
            if one.id in gone:
                self._refused[one.id] = Conflict(
                    f"session {one.record.name!r:.80} was purged from the other store and does not come back",
                    session=one.id,
                )
        for start in range(0, len(new), AT_ONCE):
            some = new[start : start + AT_ONCE]
            asked = [(one, question) for one in some for question in self._questions(one)]
            answers = self._target.together(*(question for _, question in asked))
            for (one, question), page in zip(asked, answers, strict=True):
                if isinstance(page, Page) and any(row.id != one.id for row in page.rows):
                    self._refused.setdefault(one.id, self._taken(one, question))

    def _questions(self, one: SessionToSend) -> list[Read]:
        record = one.record
        queries = [
            SessionQuery(name=record.name, project=self._project(one), tenant=record.tenant),
            *(
                SessionQuery(alias=(alias[0], alias[1]), tenant=record.tenant)
                for alias in record.aliases
            ),
        ]
        return [read("sessions", query, limit=1) for query in queries]

    def _taken(self, one: SessionToSend, question: Read) -> Conflict:
        query: SessionQuery = question.args[0]
        if one.record.mode == "project":
            return Conflict(
                f"project {query.project!r:.80} has holds, preferences and retention of its own there",
                hint="they stay as they are; marks of imported sessions are carried",
                session=one.id,
            )
        if query.alias is not None:
            return Conflict(
                f"another session there records the conversation {query.alias[1]!r:.80}",
                hint="that one stays; to have both, send this one to a store of its own",
                session=one.id,
            )
        return Conflict(
            f"another session is called {one.record.name!r:.80} there",
            hint="send it into another project with --into (into=)",
            session=one.id,
        )


def check_stores(source: StorePort, target: StorePort) -> None:
    """Refuse to send from a store that is not this user's own: what it says would become the user's word."""
    if source.ownership.foreign:
        raise ForeignStore(
            f"{source.info().url} {source.ownership.foreign}: its sessions are not sent on",
            hint="stator pull brings one of its sessions into your store, marked as imported",
            store=source.info().url,
        )
    if source is target or is_same(source, target):
        raise InvalidInput("both are the same store", hint="name two stores")


def is_same(one: StorePort, other: StorePort) -> bool:
    """Whether two connections lead to one store. Two tenants of a server have one URL, and are two stores."""
    here, there = one.info(), other.info()
    return here.url == there.url != "memory:" and here.id == there.id


def purged_in(store: StorePort) -> dict[str, SessionRecord]:
    """The sessions that were purged from a store, each with the project's session that says so."""
    found: dict[str, SessionRecord] = {}
    for row in project_flags.project_sessions(store):
        for entry in store.entries(row.id, "flags", prefix=f"{project_flags.PURGED}\n"):
            found[str(getattr(entry.record, "on", ""))] = row.record
    return found


def left_there(
    source: StorePort, target: StorePort, projects: Collection[str] | None = None
) -> list[LeftThere]:
    """The sessions that were purged from one store and are still in the other."""
    gone = {
        session
        for session, own in purged_in(source).items()
        if projects is None or own.project in projects
    }
    if not gone:
        return []
    # One that came back in a bundle was purged, and is in both.
    here = source.heads({}, others=True)
    present = [session for session in target.heads({}, others=True) if session in gone - {*here}]
    records = [target.session(session).record for session in present]
    return [LeftThere(session=r.id, name=r.name, project=r.project) for r in records]
