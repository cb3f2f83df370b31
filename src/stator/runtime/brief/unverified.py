"""Says which commits rest on something that nobody vouches for, and where that came from."""

from __future__ import annotations

from collections.abc import Iterable

from stator.runtime.views.trust.untrusted import TaintReader
from stator.store.port import StorePort


def unverified(store: StorePort, session: str, seqs: Iterable[int]) -> dict[int, str]:
    """Of these commits of a session, those that rest on an untrusted root: seq → from where, such as "web:a.example",
    "a bundle" or "a foreign store". The log is read once, up to the last of them."""
    asked = sorted(set(seqs))
    if not asked:
        return {}
    stream = TaintReader(store).begin(session)
    stream.advance(asked[-1])
    found = {seq: stream.taint.at(seq) for seq in asked}
    return {seq: rooted.origin for seq, rooted in found.items() if rooted is not None}
