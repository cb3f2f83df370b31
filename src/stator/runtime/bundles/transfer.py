"""Exports sessions to a file, and imports them from one.

Exporting reads, and needs neither the lease nor a key. Importing is one transaction: every commit is checked
against its hash and every head against the manifest before anything becomes visible. A local session is
continued or left as it is; where both have new commits, the imported one becomes a fork. Nothing is ever overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import groupby
from typing import Protocol, get_args

import msgspec

from stator.errors import (
    BrokenChain,
    Conflict,
    ErasesHere,
    IdReused,
    InvalidInput,
)
from stator.model.exchange import bundle
from stator.model.exchange.bundle import (
    Bundled,
    End,
    Header,
    Manifest,
)
from stator.model.exchange.bundle_redaction import Sieve
from stator.model.exchange.packed import Packed
from stator.model.exchange.redaction_mark import RedactionMark
from stator.model.log import chain
from stator.model.log.commit import (
    Commit,
    Draft,
    Erase,
    Gone,
    Provenance,
    Upsert,
)
from stator.model.records.types import SessionRecord
from stator.runtime.base import project_session
from stator.runtime.base.context import Context
from stator.runtime.base.erased_keys import with_kept_keys
from stator.runtime.base.provenance import mark
from stator.runtime.bundles import selection
from stator.runtime.bundles.claims import Claims
from stator.runtime.bundles.encryption import SALT_BYTES, new_lock
from stator.runtime.bundles.file import BundleReader, BundleWriter
from stator.runtime.bundles.reconcile import ReconcilePlan, plan
from stator.runtime.bundles.redaction_marks import keep_marks, marked, redacted_upto
from stator.runtime.bundles.report import (
    ErasedHere,
    Erasures,
    Imported,
    ImportedSession,
    Losses,
    Tally,
    erases_here,
)
from stator.runtime.bundles.selection import bundled, family
from stator.runtime.views.project_state import forget_in_indexes
from stator.store.port import StorePort

DIGEST = bundle.DIGEST_BYTES
FAMILY = frozenset({"child", "fork", "retry", "import"})
"""How one session can come of another."""
TRIES = 3

Progress = Callable[[str, int, int], None]
"""(what is done, how much of it, of how much)."""


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle was made of."""

    path: str
    bytes: int
    commits: int
    logical: int
    """Bytes of content, before compression."""
    sessions: list[Bundled]
    withheld: int = 0
    """Content items that were left out."""
    secrets: int = 0
    """Of those, the ones that hold what the rules about secrets know."""
    locked: bool = False


# -- export ---------------------------------------------------------------------------------------


def export(
    store: StorePort,
    context: Context,
    sessions: Sequence[str],
    path: str,
    *,
    tree: bool = False,
    redact: Sequence[str] = (),
    transcript: bool = True,
    passphrase: str | None = None,
    fixture: bool = False,
    replace: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write sessions, their children and what they were forked from to a file."""
    chosen = bundled(store, family(store, sessions, FAMILY if tree else frozenset({"child"})))
    header = Header(
        requires=[bundle.LOCKED] if passphrase is not None else [],
        optional=[bundle.FIXTURE] if fixture else [],
        lock=new_lock(context.secret(SALT_BYTES)) if passphrase is not None else None,
    )
    from stator.model.log.redact import Redactor

    total = sum(one.seq - one.after for one in chosen)
    commits = logical = withheld = secrets = 0
    marks: list[RedactionMark | None] = []
    with BundleWriter(path, header, passphrase or "", replace=replace) as file:
        by = f"stator {version('stator')}"
        manifest = Manifest(sessions=chosen, exporter=by, made=context.clock())
        file.add(bundle.MANIFEST, bundle.encode(manifest))
        for n, one in enumerate(chosen):
            sieve = Sieve(
                redactor=Redactor(one.id.encode()),
                words=redact,
                transcript=transcript,
                upto=one.seq,
                clean=redacted_upto(store, one.id),
            )
            for batch, size in selection.batches(store, one, sieve):
                file.add(bundle.BATCH, bundle.encode(bundle.Batch(n, batch)))
                commits, logical = commits + len(batch), logical + size
                if progress is not None:
                    progress(f"exporting {one.name}", commits, total)
            withheld, secrets = withheld + sieve.withheld, secrets + sieve.secrets
            marks.append(marked(store, one) if sieve.is_whole else None)
        end = End(commits=commits, withheld=withheld, secrets=secrets, redacted=marks)
        file.add(bundle.END, bundle.encode(end))
        file.finish()
    return Exported(
        path=path,
        bytes=file.size,
        commits=commits,
        logical=logical,
        sessions=chosen,
        withheld=withheld,
        secrets=secrets,
        locked=passphrase is not None,
    )


# -- reading --------------------------------------------------------------------------------------


def read_commits(path: str, passphrase: str | None = None) -> list[list[Commit]]:
    """The sessions of a bundle as their own commits, ancestors first, every hash checked."""
    with BundleReader(path, _given(passphrase)) as reader:
        return [list(_verified(commits)) for _, commits in _sessions(reader)]


def _given(passphrase: str | Callable[[], str] | None) -> Callable[[], str] | None:
    return passphrase if passphrase is None or callable(passphrase) else lambda: passphrase


def _packed(reader: Arriving) -> Iterator[tuple[Bundled, Iterator[Packed]]]:
    """Every session of the manifest with its commits as they are packed, in order."""
    listed = reader.manifest.sessions
    expected = 0
    for number, batches in groupby(reader.commits(), key=lambda found: found[0]):
        if number != expected or number >= len(listed):
            raise bundle.refuse("its sessions are not in the order of its manifest")
        expected += 1
        yield listed[number], (one for _, batch in batches for one in batch)
    if expected != len(listed):
        raise bundle.refuse("a session of its manifest is missing")


def _sessions(reader: Arriving) -> Iterator[tuple[Bundled, Iterator[Commit]]]:
    """Every session with its commits, each of them to be gone through to its end.

    A fork must follow a commit that came before it in the bundle.
    """
    hashes: dict[str, tuple[int, bytearray]] = {}
    for one, packed in _packed(reader):
        yield one, _linked(one, bundle.own_commits(one, packed), hashes)


def _linked(
    one: Bundled, commits: Iterator[Commit], hashes: dict[str, tuple[int, bytearray]]
) -> Iterator[Commit]:
    own = bytearray()
    hashes[one.id] = (one.after, own)
    for commit in commits:
        if not own and one.lineage:
            part = one.lineage[-1]
            after, known = hashes.get(part.session, (0, bytearray()))
            at = (part.upto - after - 1) * DIGEST
            if part.session == one.id or at < 0 or known[at : at + DIGEST].hex() != commit.prev:
                raise bundle.refuse(
                    f"session {one.id} does not continue the session it was forked from"
                )
        own += bytes.fromhex(commit.hash)
        yield commit


def _verified(commits: Iterator[Commit]) -> Iterator[Commit]:
    """The same commits, each checked against its hash and its predecessor."""
    last: Commit | None = None
    for commit in commits:
        expected = (commit.prev, commit.seq) if last is None else (last.hash, last.seq + 1)
        chain.must_follow(commit, *expected)
        yield commit
        last = commit


# -- import ---------------------------------------------------------------------------------------


def import_bundle(
    store: StorePort,
    context: Context,
    path: str,
    *,
    project: str | None = None,
    passphrase: str | Callable[[], str] | None = None,
    erasures: Erasures = "refuse",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Import the sessions of a bundle, all or none."""
    if erasures not in get_args(Erasures):
        raise InvalidInput(f"unknown erasures {erasures!r:.40}", path="$.erasures")
    moved = None if progress is None else lambda done, size: progress("importing", done, size)
    with BundleReader(path, _given(passphrase), progress=moved) as reader:
        imported = admit(
            store, context, reader, project=project, erasures=erasures, dry_run=dry_run
        )
        return msgspec.structs.replace(imported, locked=reader.header.lock is not None)


class Arriving(Protocol):
    """Sessions that come from elsewhere, as a bundle holds them; they can be gone through several times."""

    path: str
    size: int

    @property
    def manifest(self) -> Manifest:
        """Which sessions, and how far."""
        ...

    @property
    def end(self) -> End | None:
        """What was written, known when they were gone through."""
        ...

    def commits(self) -> Iterator[tuple[int, list[Packed]]]:
        """Their commits in batches, each with the place of its session in the manifest."""
        ...


def admit(
    store: StorePort,
    context: Context,
    reader: Arriving,
    *,
    project: str | None = None,
    erasures: Erasures = "refuse",
    dry_run: bool = False,
    names: Mapping[str, str] | None = None,
) -> Imported:
    """Take in sessions that come from elsewhere, all or none. `names`: what forks of sessions that diverged are to be
    called, by the id of the session."""

    def planned() -> list[ReconcilePlan]:
        listed = reader.manifest.sessions
        return plan(store, context, listed, lambda: _packed(reader), project, names or {})

    if dry_run:
        plans = planned()
        stream = _BundleStream(store, reader, plans, is_dry=True)
        for commit in stream:
            if any(place != (commit.session, commit.seq) for place in store.locate(commit.id)):
                raise _is_here_elsewhere(commit.id)
    else:
        plans, stream = _ingest(store, context, reader, planned, erasures)
        assert reader.end is not None
        keep_marks(store, plans, reader.end.redacted)
        _erase_shared(store, context, stream.left_to_erase)
        touched = {mine.session for mine, _ in stream.losses.items}
        forget_in_indexes(store, context, [*(one.into for one in plans), *touched])
    assert reader.end is not None
    return Imported(
        path=reader.path,
        bytes=reader.size,
        commits=sum(one.new for one in plans),
        sessions=[_brought(store, one, stream, dry_run) for one in plans],
        withheld=reader.end.withheld,
        dry_run=dry_run,
        names=[one.name for one in plans if one.fate in ("new", "fork")],
        erased=stream.erased,
    )


def _ingest(
    store: StorePort,
    context: Context,
    reader: Arriving,
    planned: Callable[[], list[ReconcilePlan]],
    erasures: Erasures,
) -> tuple[list[ReconcilePlan], _BundleStream]:
    """All of it in one transaction, with the marks that say where it came from.

    If a session was continued, marked or imported since the plan was made, the plan is made again.
    """
    for left in reversed(range(TRIES)):
        plans = planned()
        marks = _marks(store, context, plans)
        stream = _BundleStream(store, reader, plans, marks, erasures=erasures)
        try:
            store.ingest(stream, projects={one.into: one.project for one in plans})
            return plans, stream
        except IdReused as taken:
            raise _is_here_elsewhere(taken.ids["commit"]) from None
        except ErasesHere:
            raise
        except (BrokenChain, Conflict):
            if not left:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


def _is_here_elsewhere(commit: str) -> IdReused:
    """The refusal of a log that diverged from one of this store and became a fork in another store: its commits
    keep their ids there, and a store has each commit once."""
    return IdReused(
        f"commit {commit} of the bundle is already in this store, in another session",
        hint="nothing was imported; export the session it came from, or import this one with --store",
        commit=commit,
    )


def _erase_shared(
    store: StorePort, context: Context, left: Sequence[tuple[Commit, set[str]]]
) -> None:
    """Erase here what both logs share and what was erased there after they parted.

    The fork that came holds those erasures, but a session erases only what is its own. If the process is
    killed before this is done, importing again completes it.
    """
    for mine, names in left:
        change = Erase(seq=mine.seq, fields=tuple(sorted(names)))
        said = msgspec.to_builtins(change)
        draft = Draft(
            id=context.mint("commit"),
            session=mine.session,
            kind="erasure",
            actor="user",
            principal=context.principal,
            changes=(change,),
            input=with_kept_keys(store, context, mine.session, (change,), said),
            provenance=Provenance("import", "unverified"),
            why="it was erased where the bundle came from",
        )
        store.append(mine.session, [draft])


class _BundleStream:
    """The commits to take in, read and checked again each time they are asked for."""

    def __init__(
        self,
        store: StorePort,
        reader: Arriving,
        plans: Sequence[ReconcilePlan],
        marks: Sequence[Commit] = (),
        *,
        erasures: Erasures = "refuse",
        is_dry: bool = False,
    ) -> None:
        """`is_dry`: hold every commit against its hash, as the store does with those it takes, and refuse no
        erasure: it is only reported."""
        self._store = store
        self._reader = reader
        self._plans = plans
        self._marks = marks
        self._erasures = erasures
        self._is_dry = is_dry
        self.tallies: dict[str, Tally] = {}
        self.losses = Losses()
        self.left_to_erase: list[tuple[Commit, set[str]]] = []
        """Of logs that parted: what they share and was erased there. The store erases the rest as it takes it."""

    def __iter__(self) -> Iterator[Commit]:
        self.tallies, self.losses, self.left_to_erase = {}, Losses(), []
        claims = Claims(self._store)
        for one, (_, commits) in zip(self._plans, _sessions(self._reader), strict=True):
            taken = one.fate in ("new", "fast-forward") and one.graft is None
            found = commits if taken and not self._is_dry else _verified(commits)
            found = self._watched(one, found, claims)
            if one.graft is not None:
                yield from one.graft(found)
            else:
                yield from (commit for commit in found if taken)
        claims.finish()
        if self.losses.items and self._erasures == "refuse" and not self._is_dry:
            # The log that comes says that content is erased. Taken without that, it would not be true here.
            raise erases_here(self._reader.path, self.erased)
        yield from self._marks

    def _watched(
        self, one: ReconcilePlan, commits: Iterator[Commit], claims: Claims
    ) -> Iterator[Commit]:
        tally = self.tallies[one.one.id] = Tally()
        for commit in commits:
            if commit.seq > one.common:
                claims.take(one, commit)
                tally.take(commit)
            elif one.shared and any(isinstance(i, Gone) and i.by for i in commit.content.values()):
                self._compare(one, commit)
            yield commit

    def _compare(self, one: ReconcilePlan, theirs: Commit) -> None:
        """Note what is here of a shared commit and was erased there."""
        seq = theirs.seq + sum(cut < theirs.seq for cut in one.cuts)
        mine = self._store.commits(one.shared, after=seq - 1, upto=seq, limit=1)[0]
        gone = set[str]().union(*chain.erased_by(mine, theirs).values())
        gone = {
            name for name in chain.with_traces(gone) if isinstance(mine.content.get(name), bytes)
        }
        own = {chain.put_item(n) for n, op in enumerate(mine.delta) if op.collection == "session"}
        if gone & own:
            raise bundle.refuse(
                f"@{theirs.seq} of session {one.one.id} lacks the record of the session itself",
                session=one.one.id,
                seq=theirs.seq,
            )
        if gone:
            self.losses.add(mine, gone)
            if one.cuts and theirs.seq <= one.cuts[-1]:
                self.left_to_erase.append((mine, gone))

    @property
    def erased(self) -> list[ErasedHere]:
        sessions = {mine.session for mine, _ in self.losses.items}
        return self.losses.summed({id: self._store.session(id).record.name for id in sessions})


def _brought(
    store: StorePort, one: ReconcilePlan, stream: _BundleStream, dry_run: bool
) -> ImportedSession:
    head = one.one.hash
    seq = one.one.seq
    if not dry_run:
        found = store.head(one.into)
        head, seq = found.hash, found.seq
    return ImportedSession(
        session=one.one.id,
        name=one.name,
        fate=one.fate,
        into=one.into,
        project=one.project,
        commits=one.new,
        head=head,
        seq=seq,
        moved=one.one.project if one.one.project != one.project else "",
        carried=stream.tallies[one.one.id].carried,
    )


def _marks(store: StorePort, context: Context, plans: Sequence[ReconcilePlan]) -> list[Commit]:
    """The commits of the projects' own sessions that say what is imported."""
    brought = [one for one in plans if one.new]
    made: list[Commit] = []
    for tenant, project in dict.fromkeys((one.one.tenant, one.project) for one in brought):
        flags = [
            mark(one.into, one.one.hash, one.last, context.principal)
            for one in brought
            if (one.one.tenant, one.project) == (tenant, project)
        ]
        asked = SessionRecord(id="", name="", project=project, tenant=tenant)
        made += project_session.sealed(
            store, context, asked, "flag", [Upsert("flags", flag) for flag in flags]
        )
    return made
