"""Decides which results of calls came from outside by themselves, and from where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stator.model.log.commit import Commit
from stator.model.values.ids import is_id, retype
from stator.model.views.taint import RESULTS
from stator.model.views.untrusted import Rooted
from stator.runtime.views.derivation import children_at, judge_of, origin_of
from stator.runtime.views.refs import intent_of
from stator.runtime.views.trust.rounds import read_behind
from stator.runtime.views.trust.untrusted import TaintReader
from stator.store.port import StorePort


class OutsideJudge:
    """Decides about the commits of one session: what a tool fetched came from outside, and what a sub-agent reported
    that rests on such a thing. What a tool of this machine gave did not, whatever the model had read before it asked
    for it."""

    def __init__(
        self,
        store: StorePort,
        session: str,
        intent: Callable[[str], Commit | None] | None = None,
    ) -> None:
        """`intent` gives the commit of a call where that was read already."""
        self._store, self._id = store, session
        self._intent = intent or (lambda call: intent_of(store, session, call))
        self._judge = judge_of(store, session, self._intent)
        self._children = children_at(store, session)
        self._reader = TaintReader(store)

    def origin(self, commit: Commit) -> str:
        """Where the content of a commit came from; empty if it is from here, or a person vouches for it."""
        why = self._judge(commit)
        if why is None:
            return ""
        if why:
            return origin_of(commit, why, self._intent)
        if commit.kind not in RESULTS:
            return ""
        rooted = next(self._reports(commit), None)
        return "" if rooted is None else rooted.origin

    def _reports(self, commit: Commit) -> Iterator[Rooted]:
        """What the sub-agents that worked for a call rest on."""
        for item in commit.inputs:
            known = self._named(item) if isinstance(item, str) and is_id(item) else None
            if known is not None:
                yield known
        if self._children and commit.call:
            for child in self._children.get(self._place(commit.call), []):
                if (rooted := self._reader.anywhere(child)) is not None:
                    yield Rooted(0, f"a sub-agent's report of {rooted.origin}")

    def workers(self, results: Iterable[Commit]) -> Iterator[str]:
        """The sub-agents that worked for the calls of these results, as far as the calls are at hand."""
        for commit in results if self._children else ():
            intent = self._intent(commit.call) if commit.call else None
            yield from self._children.get(intent.seq, ()) if intent is not None else ()

    def _place(self, call: str) -> int:
        """The seq of the commit that began a call; 0 if there is none."""
        identifier = retype(call, "commit")
        intent = self._intent(call)
        if intent is not None and intent.id == identifier:
            return intent.seq
        return next((place for _, place in self._store.locate(identifier, self._id)), 0)

    def _named(self, identifier: str) -> Rooted | None:
        known = self._reader.named(retype(identifier, "commit"))
        return None if known is None else known[1]


def brought_in(
    store: StorePort,
    session: str,
    results: Iterable[Commit],
    intent: Callable[[str], Commit | None] | None = None,
) -> dict[int, str]:
    """Of these results of a session's calls, by their seqs, those whose own content came from outside."""
    results = list(results)
    judge = OutsideJudge(store, session, intent)
    read_behind(store, session, results, judge.workers(results))
    found = {commit.seq: judge.origin(commit) for commit in results}
    return {seq: origin for seq, origin in found.items() if origin}
