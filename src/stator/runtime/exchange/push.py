"""Pushes projects of one's own store to a store that others read: one way, and redacted.

Content that the rules about secrets find is left out, as from a bundle, and so is what contains a text that the user
names. What was written under these rules already is not scanned again. What arrives is marked as imported there.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stator.errors import InvalidInput
from stator.model.exchange.bundle_redaction import Sieve
from stator.model.records.types import SessionRecord
from stator.runtime.base.context import Context
from stator.runtime.bundles.redaction_marks import redacted_upto
from stator.runtime.bundles.selection import bundled
from stator.runtime.bundles.transfer import admit
from stator.runtime.exchange.choice import SessionToSend, of_projects
from stator.runtime.exchange.delivery import REFUSALS
from stator.runtime.exchange.fetched import FetchedSessions
from stator.runtime.exchange.import_marks import mark_imported
from stator.runtime.exchange.send import Progress, Sender, left_there
from stator.runtime.exchange.sent import LeftHere, SentReport, SentSession
from stator.runtime.views.project_state import forget_in_indexes
from stator.store.port import StorePort

CAME_FROM_THERE = "it was made from a session that is there, which has its commits"


def push(
    source: StorePort,
    target: StorePort,
    context: Context,
    projects: Sequence[str],
    *,
    into: str | None = None,
    redact: Sequence[str] = (),
    forks: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> SentReport:
    """Send the sessions of some projects that the other store lacks, and what it lacks of the others. `forks`: those
    that diverged there become forks there, as an import of their bundle would make them."""
    from stator.model.log.redact import Redactor

    if not projects:
        raise InvalidInput("there is no project to push", hint="name one", path="$.projects")

    def sieve(one: SessionToSend) -> Sieve:
        return Sieve(
            redactor=Redactor(one.id.encode()),
            words=redact,
            upto=one.seq,
            clean=redacted_upto(source, one.id),
        )

    sender = Sender(source, target, into=into, sieves=sieve, dry_run=dry_run, progress=progress)
    chosen = of_projects(source, projects)
    sessions = sender.send(chosen.going, lambda going: mark_imported(target, context, going))
    came_back = [one for one in sessions if one.fate == "refused" and one.is_known]
    sessions = [one for one in sessions if one not in came_back]
    if forks:
        sessions = [
            _as_fork(source, target, context, one, redact, dry_run)
            if one.fate == "diverged" and not one.held_back
            else one
            for one in sessions
        ]
    forget_in_indexes(target, context, [one.session for one in sessions if one.erasures])
    return SentReport(
        source=source.info().url,
        target=target.info().url,
        sessions=sessions,
        commits=sum(one.commits for one in sessions),
        verified=sender.verified,
        purged=left_there(source, target, projects),
        skipped=[
            *_staying(chosen.busy, "it is driven now, and no turn of it has ended"),
            *_staying(chosen.trashed, "it is in the trash"),
            *(LeftHere(session=o.session, name=o.name, why=CAME_FROM_THERE) for o in came_back),
        ],
        dry_run=dry_run,
    )


def _staying(records: Sequence[SessionRecord], why: str) -> list[LeftHere]:
    return [LeftHere(session=one.id, name=one.name, why=why) for one in records]


def _as_fork(
    source: StorePort,
    target: StorePort,
    context: Context,
    one: SentSession,
    redact: Sequence[str],
    dry_run: bool,
) -> SentSession:
    """Send a session that diverged there as a fork of the one that is there, or continue such a fork."""
    try:
        with FetchedSessions(source, bundled(source, [one.session]), redact=redact) as fetched:
            imported = admit(target, context, fetched, dry_run=dry_run)
    except REFUSALS as refusal:
        return replace(one, fate="refused", why=refusal.what, hint=refusal.hint or "")
    end = fetched.end
    brought = next(made for made in imported.sessions if made.session == one.session)
    return replace(
        one,
        fate="same" if brought.fate in ("same", "longer here") else "fork",
        name=brought.name,
        into=brought.into,
        project=brought.project,
        commits=brought.commits,
        withheld=end.withheld if end is not None else 0,
        secrets=end.secrets if end is not None else 0,
        why="",
    )
