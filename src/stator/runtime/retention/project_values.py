"""Records what holds for a whole project, or for the user in every project, and what no longer does.

Both are a person's word: a program that an agent started is refused. What is recorded goes to the project's own
session; what is true of the user to a session of the same kind in the user's own store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from stator.errors import InvalidInput, NotFound, NotProven
from stator.model.calls.sources import hosts
from stator.model.calls.web_calls import fetched_hosts
from stator.model.log.commit import Change, Commit, Draft, Provenance, Upsert
from stator.model.records.tables import collection_named
from stator.model.records.types import (
    CandidateRecord,
    DeadEndRecord,
    DecisionRecord,
    FactRecord,
    ForgottenRecord,
    PreferenceRecord,
    Record,
    SessionRecord,
)
from stator.model.values import canon
from stator.model.views.knowledge import Value
from stator.model.views.project_state import HeldKey, StateEntry
from stator.model.views.taint import RESULTS, Judge
from stator.runtime.base import project_session
from stator.runtime.base.arguments import text
from stator.runtime.base.context import Context
from stator.runtime.base.ownership import require_own
from stator.runtime.base.pages import commit_at
from stator.runtime.views import derivation
from stator.runtime.views.project_state import ask, project_state, user_state
from stator.runtime.views.refs import intent_of
from stator.store.port import ProjectIndex, StorePort

USER = project_session.USER_PROJECT
FORGOTTEN_MAX = 10_000
"""Entries that are looked at when everything from a host is forgotten."""
A_PERSON = "what holds for a whole project is a person's word"


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """A key whose values no longer hold."""

    collection: str
    key: str
    session: str
    """The session that recorded the newest of them."""
    commit: str
    upto: int


@contextmanager
def own_session(
    store: StorePort, context: Context, project: str, user: bool
) -> Iterator[tuple[StorePort, SessionRecord]]:
    """Where what holds for a project, or for the user, is recorded."""
    if not user:
        yield store, SessionRecord(id="", name="", project=project)
        return
    with context.user_store(store, True) as users:
        yield users or store, SessionRecord(id="", name="", project=USER)


def _say(
    store: StorePort,
    context: Context,
    record: SessionRecord,
    kind: str,
    changes: Sequence[Change],
    why: str,
) -> Commit:
    """Append a person's word to the session that is a project's own."""
    require_own(store, "record what holds for a project")
    if below := context.below(store):
        raise NotProven(
            f"this program runs below {below}: {A_PERSON}",
            hint="use another terminal, one that no agent started",
        )
    own = project_session.own(store, context, record)
    draft = Draft(
        id=context.mint("commit"),
        session=own.id,
        kind=kind,
        actor="user",
        principal=context.principal,
        provenance=Provenance("user", "verified"),
        changes=tuple(changes),
        why=why,
    )
    return store.append(own.id, [draft], barrier=True)[0]


def prefer(
    store: StorePort, context: Context, project: str, name: str, value: Any, *, user: bool, why: str
) -> str:
    """Record a preference for a project or for the user; the id of its commit."""
    record = PreferenceRecord(name=text(name, "name"), value=value)
    if not record.name.strip():
        raise InvalidInput("a preference needs a name", path="$.name")
    with own_session(store, context, project, user) as (where, own):
        return _say(where, context, own, "preference", [Upsert("preferences", record)], why).id


def confirm(
    store: StorePort, context: Context, project: str, ref: str, *, user: bool, why: str
) -> tuple[str, CandidateRecord]:
    """Record what a candidate says as what it would become; the id of the commit, and the candidate."""
    found = [
        entry
        for entry in project_state(store, context, project, limit=FORGOTTEN_MAX)["candidates"]
        if isinstance(entry.record, CandidateRecord) and _is_named(entry, ref)
    ]
    if len(found) != 1:
        many = f"{len(found)} candidates match" if found else "no candidate matches"
        raise NotFound(
            f"{many} {ref!r:.80}", hint="stator state --project -c candidates lists them"
        )
    candidate = found[0].record
    assert isinstance(candidate, CandidateRecord)
    kind, record = _confirmed(candidate)
    reason = why or f"confirmed: {candidate.quote}"
    with own_session(store, context, project, user) as (where, own):
        changes = [Upsert(candidate.collection, record)]
        return _say(where, context, own, kind, changes, reason).id, candidate


def _confirmed(candidate: CandidateRecord) -> tuple[str, Record]:
    """The kind of commit and the record that a candidate becomes. One without a value says what its quote says."""
    value = candidate.quote if candidate.value is None else canon.from_plain(candidate.value)
    said = value if isinstance(value, str) else str(value)
    if candidate.collection == "facts":
        return "fact", FactRecord(name=candidate.name, value=value)
    if candidate.collection == "decisions":
        return "decision", DecisionRecord(topic=candidate.name, what=said, by="user")
    if candidate.collection == "dead_ends":
        return "dead_end", DeadEndRecord(what=candidate.name, why=said)
    return "preference", PreferenceRecord(name=candidate.name, value=value)


def _is_named(entry: StateEntry, ref: str) -> bool:
    """Whether a person means an entry: by its key, the name in it, or the end of its commit's id."""
    last = entry.key.rpartition("\n")[2]
    ends = len(ref) >= 4 and entry.commit.endswith(ref.removeprefix("k_"))
    collection, _, name = ref.partition(":")
    of_collection = collection_named(collection) == entry.collection and name == last
    return ref in (entry.key, last) or of_collection or ends


def forget(
    store: StorePort, context: Context, project: str, ref: str, *, user: bool, why: str
) -> list[Forgotten]:
    """Let the values of a key no longer hold: those recorded until now. What is recorded later holds again."""
    if user:
        entries = user_state(store, context, limit=FORGOTTEN_MAX).collections
    else:
        entries = project_state(store, context, project, limit=FORGOTTEN_MAX).collections
    found = [one for each in entries.values() for one in each if _is_named(one, ref)]
    if not found:
        raise NotFound(
            f"{'you' if user else 'the project'} know{'' if user else 's'} nothing called {ref!r:.80}",
            hint=f"stator state --{'user' if user else 'project'} lists what is known",
        )
    if len({(one.collection, one.key) for one in found}) > 1:
        named = ", ".join(f"{one.collection}:{one.key}" for one in found[:8])
        raise InvalidInput(
            f"{ref!r:.80} is the name of {len(found)} entries", hint=f"say which one: {named}"
        )
    # Not only what holds now: another value may lie in a fork that is adopted later, or in the trash.
    now = context.clock()
    values = [
        (one.collection, one.key, one.session, one.commit, max(one.happened, now)) for one in found
    ]
    return _forget(store, context, project, values, user=user, why=why)


def _forget(
    store: StorePort,
    context: Context,
    project: str,
    values: Iterable[tuple[str, str, str, str, int]],
    *,
    user: bool,
    why: str,
) -> list[Forgotten]:
    found = [
        Forgotten(collection=name, key=key, session=session, commit=commit, upto=upto)
        for name, key, session, commit, upto in values
    ]
    if found:
        changes = [
            Upsert(
                "forgotten",
                ForgottenRecord(collection=one.collection, name=one.key, upto=one.upto),
            )
            for one in found
        ]
        with own_session(store, context, project, user) as (where, own):
            _say(where, context, own, "forget", changes, why)
    return found


def forget_from(
    store: StorePort, context: Context, project: str, host: str, *, why: str
) -> list[Forgotten]:
    """Let everything no longer hold that was made from what a host said."""
    wanted = host.lower()

    def collect(index: ProjectIndex) -> list[Value]:
        settled = index.settled(project, limit=FORGOTTEN_MAX)
        return [value for entries, _ in settled.values() for one in entries for value in _all(one)]

    reached: dict[str, bool] = {}
    upto: dict[tuple[str, str], Value] = {}
    for value in ask(store, context, collect):
        if value.commit not in reached:
            reached[value.commit] = _rests_on(store, value, wanted)
        at = value.collection, value.key
        if reached[value.commit] and (at not in upto or value.happened > upto[at].happened):
            upto[at] = value
    values = [
        (one.collection, one.key, one.session, one.commit, one.happened) for one in upto.values()
    ]
    return _forget(store, context, project, values, user=False, why=why)


def _all(one: HeldKey) -> list[Value]:
    return [one.value, *one.conflicts, *one.earlier]


def _rests_on(store: StorePort, value: Value, host: str) -> bool:
    """Whether a value was made from what a host said."""
    try:
        commit = commit_at(store, value.session, value.seq, load=False)
    except (NotFound, IndexError):  # purged since
        return False
    reached = derivation.behind(store, value.session, commit, _from_host(host))
    return bool(reached.path) or (not reached.whole and bool(value.unverified))


def _from_host(host: str) -> Callable[[StorePort, str], Judge]:
    """Decides whether a commit is a result of a call to a host."""

    def of_session(store: StorePort, session: str) -> Judge:
        def judge(commit: Commit) -> str | None:
            if commit.kind not in RESULTS or not commit.call:
                return ""
            intent = intent_of(store, session, commit.call)
            given = None if intent is None else intent.known("input")
            said = [] if intent is None else [*hosts(given), *fetched_hosts(intent.tool, given)]
            return f"it came from {host}" if host in said else ""

        return judge

    return of_session
