"""Says which commits rest on something that nobody vouches for, and where that came from."""

from __future__ import annotations

from collections.abc import Iterable

from stator.model.calls.sources import hosts
from stator.model.views.taint import PathStep
from stator.runtime.base.pages import commit_at
from stator.runtime.views.derivation import behind, judge_of
from stator.runtime.views.refs import intent_of
from stator.store.port import StorePort

NOT_KNOWN = "not known: too much lies behind it"


def unverified(store: StorePort, session: str, seqs: Iterable[int]) -> dict[int, str]:
    """Of these commits of a session, those that rest on an untrusted root: seq → from where, such as "web:a.example",
    "a bundle" or "a foreign store"."""
    judge = judge_of(store, session)
    found: dict[int, str] = {}
    for seq in set(seqs):
        commit = commit_at(store, session, seq, load=False)
        why = judge(commit)
        if why is None:
            continue
        if why:
            step = PathStep(session, seq, commit.id, commit.kind, commit.tool)
            found[seq] = origin(store, step, why)
            continue
        reached = behind(store, session, commit)
        if reached.path:
            found[seq] = origin(store, reached.path[0], reached.why)
        elif not reached.whole:
            found[seq] = NOT_KNOWN
    return found


def origin(store: StorePort, root: PathStep, why: str) -> str:
    """Where an untrusted root came from, in a word."""
    if why == "its store is foreign":
        return "a foreign store"
    if why == "it came with a bundle":
        return "a bundle"
    commit = commit_at(store, root.session, root.seq, load=False)
    intent = intent_of(store, root.session, commit.call) if commit.call else None
    named = [] if intent is None else hosts(intent.known("input"))
    return (
        f"web:{named[0]}" if named else f"{commit.provenance.source}:{commit.tool or commit.kind}"
    )
