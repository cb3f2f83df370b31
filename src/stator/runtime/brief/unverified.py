"""Says which commits rest on something that nobody vouches for, and where that came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from stator.errors import StoreError
from stator.model.log.commit import Commit
from stator.model.values.ids import is_id, retype
from stator.model.views.taint import RESULTS, PathStep
from stator.model.views.untrusted import NOT_KNOWN, Rooted, SessionTaint
from stator.runtime.base.context import Context
from stator.runtime.base.pages import commit_at
from stator.runtime.views import project_state
from stator.runtime.views.derivation import children_at, judge_of, origin_of
from stator.runtime.views.refs import intent_of
from stator.runtime.views.trust.untrusted import TaintReader
from stator.store.port import IndexLost, StorePort

READ_MAX = 20_000
"""Commits that are read where no index is at hand. What lies behind more is not trusted."""
FEW = 500
"""Commits that are read sooner than an index is asked."""


def unverified(
    store: StorePort, session: str, seqs: Iterable[int], context: Context | None = None
) -> dict[int, str]:
    """Of these commits of a session, those that rest on an untrusted root: seq → from where, such as "web:a.example",
    "a bundle" or "a foreign store". A long log is not read for it: the index of projects knows it. Only where there
    is neither a `context` nor a store that was opened to be read (`AsRead`), the log is all there is."""
    asked = sorted(set(seqs))
    if not asked:
        return {}
    taint = None if asked[-1] <= FEW else _indexed(store, session, asked[-1], context)
    if taint is None or taint.upto < asked[-1]:
        if taint is None and asked[-1] > READ_MAX:
            return dict.fromkeys(asked, NOT_KNOWN)
        stream = TaintReader(store).begin(session, taint)
        stream.advance(asked[-1])
        taint = stream.taint
    found = {seq: taint.at(seq) for seq in asked}
    return {seq: rooted.origin for seq, rooted in found.items() if rooted is not None}


def brought_in(
    store: StorePort,
    session: str,
    results: Iterable[Commit],
    intent: Callable[[str], Commit | None] | None = None,
) -> dict[int, str]:
    """Of these results of a session's calls, by their seqs, those whose own content came from outside: what a tool fetched, and what a sub-agent
    reported that rests on such a thing. Not what a tool of this machine gave, whatever the model had read before it
    asked for it. `intent` gives the commit of a call where that is at hand."""
    asked = intent or (lambda call: intent_of(store, session, call))
    reader = TaintReader(store)
    judge = judge_of(store, session, asked)
    children = children_at(store, session)
    found: dict[int, str] = {}
    for commit in results:
        if why := judge(commit):
            found[commit.seq] = origin_of(commit, why, asked)
        elif why is not None and commit.kind in RESULTS:
            rooted = next(_reports(store, session, commit, children, reader), None)
            found |= {} if rooted is None else {commit.seq: rooted.origin}
    return found


def _reports(
    store: StorePort,
    session: str,
    commit: Commit,
    children: Mapping[int, list[str]],
    reader: TaintReader,
) -> Iterator[Rooted]:
    """What the sub-agents that worked for a call rest on."""
    answers = [item for item in commit.inputs if isinstance(item, str) and is_id(item)]
    for answer in answers:
        known = reader.named(retype(answer, "commit"))
        if known is not None and known[1] is not None:
            yield known[1]
    if children:
        for _, place in store.locate(retype(commit.call, "commit"), session)[:1]:
            reports = (reader.anywhere(child) for child in children.get(place, []))
            for rooted in filter(None, reports):
                yield Rooted(0, f"a sub-agent's report of {rooted.origin}")


def _indexed(
    store: StorePort, session: str, upto: int, context: Context | None
) -> SessionTaint | None:
    """What the index of projects knows of a session; None if there is none and the log is short enough to read, or
    if the session does not count there."""
    below, context = (store, context) if context is not None else _reading(store)
    if context is None or context.project_index is None:
        return None
    try:
        with context.project_index(below, False) as index:
            is_there = index is not None
        if not is_there and upto <= READ_MAX:
            return None
        taint = project_state.ask(below, context, lambda index: index.taint(session))
    except (StoreError, IndexLost):  # a busy or a broken index: the log itself answers
        return None
    return taint if taint is not None and taint.upto else None


def _reading(store: StorePort) -> tuple[StorePort, Context | None]:
    """The store and the context of a store that was opened to be read."""
    found: tuple[StorePort, Context] | None = getattr(store, "asked_in", None)
    return found or (store, None)


def origin(store: StorePort, root: PathStep, why: str) -> str:
    """Where an untrusted root that a walk reached came from, in a word."""
    commit = commit_at(store, root.session, root.seq, load=False)
    return origin_of(commit, why, lambda call: intent_of(store, root.session, call))
