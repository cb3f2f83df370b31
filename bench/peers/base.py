"""What the benchmark asks of a store: one small interface, ours and every peer behind it.

A peer lives in a subprocess of its own. Calls are timed from outside, around the method. A measure
a peer has no means for returns `NotImplemented` and is printed as "–". A measure that only works
because code written here reads everything the peer stored is left out of `native` and is printed
with a "*".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Protocol

from bench.workload import Delta, Turn

# Each maps the workload's collections (files, decisions, plan) to records by path, topic, step; a
# peer may use keys of its own and add collections, but the number of records is checked.
States = Any  # a Mapping[str, Mapping], or NotImplemented
Diffs = Any  # a Mapping[str, Collection], or NotImplemented

FULL, BARRIER, RELAXED = "full", "barrier", "relaxed"
READS = frozenset({"state", "state_at", "diff", "files_last", "fork", "list_sessions"})


class Peer(Protocol):
    """A store under measurement. Subclass it: methods that are not overridden mean "no means"."""

    name: ClassVar[str]
    version: ClassVar[str]
    """Of the library, and of SQLite where it uses one."""
    note: ClassVar[str]
    """One sentence: what is stored how, and what the API could not do."""
    native: ClassVar[frozenset[str]] = frozenset()
    """Which of READS the peer's own API answers."""
    durabilities: ClassVar[frozenset[str]] = frozenset({FULL})
    """`full`: each of the 8 transactions is fsynced. `barrier` (ours): fsynced before a write's
    effect and at turn end. `relaxed`: survives a killed process, not a power cut."""

    # ---- writing

    def open(self, directory: Path, durability: str = FULL, **options: Any) -> None:
        """Open the store in `directory`, making it if need be. Reopening after `close` works.

        Imports belong to the module's top: "after imports" is measured from here.
        Options: `redaction=False` (ours only).
        """

    def new(self, session: str) -> None:
        """Make an empty session with this name."""

    def prepare(self, turn: Turn) -> Any:
        """What `append` gets; not timed. For the raw limits only (bytes made beforehand)."""
        return turn

    def append(self, session: str, turn: Any) -> None:
        """One turn in 8 durable transactions: prompt; 3 × intent and outcome; answer with state.

        Also called in a process that did not create the session: then it resumes it first.
        """

    def leave(self, session: str) -> None:
        """Done writing this session for now: drop handles, release the lease."""

    def close(self) -> None:
        """Leave every session and close the store; what can be checkpointed is."""

    def files(self) -> Sequence[Path]:
        """The files whose size counts, valid after `close` (the main file, not the WAL)."""
        raise NotImplementedError

    # ---- reading

    def state(self, session: str) -> States:
        """The whole state at head."""
        return NotImplemented

    def state_at(self, session: str, turn: int) -> States:
        """The whole state at the end of a turn."""
        return NotImplemented

    def diff(self, session: str, turn: int) -> Diffs:
        """What `turn` changed, against the end of the turn before; by collection."""
        return NotImplemented

    def files_last(self, session: str, n: int) -> Any:
        """Paths touched in the last n turns: a sorted list of strings."""
        return NotImplemented

    def fork(self, session: str, turn: int) -> Any:
        """A durable fork at the end of `turn`; each call makes another one."""
        return NotImplemented

    def list_sessions(self, limit: int) -> Any:
        """The most recently used sessions: a sequence of at most `limit`, newest first."""
        return NotImplemented


class Stator(Peer, Protocol):
    """What `bench.peers.ours.Stator` adds, because its promises are finer than any peer's."""

    def hot(self, session: str) -> Mapping[str, Any]:
        """What a resuming agent needs: counts of all collections and the hot page.

        {"counts": {collection: number of records in the whole state}, and the records of plan,
        pending, calls, preferences, and the latest 200 of decisions and of files}.
        """

    def hot_at(self, session: str, turn: int) -> Mapping[str, Any]:
        """The hot page as it was at the end of `turn`; same shape, `counts` optional."""

    def brief(self, session: str) -> int:
        """Make a brief of the default size; its tokens."""

    def full_state(self, session: str) -> int:
        """Load every collection into Python objects; returns the bytes decoded, uncompressed."""

    def cli_log(self, session: str) -> tuple[list[str], dict[str, str]]:
        """Arguments after `stator`, and environment, for `stator log` of this session."""


# ---- shared by peers -------------------------------------------------------------------------


def package_versions(*names: str) -> str:
    return ", ".join(f"{name} {_package_version(name)}" for name in names)


def _package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "?"


def check_durability(peer: Peer, durability: str) -> None:
    if durability not in peer.durabilities:
        raise ValueError(f"{peer.name} has no durability {durability!r}")


def delta_diff(delta: Delta) -> Diffs:
    """A turn's recorded changes, by collection of the state."""
    return {"files": delta["files"], "decisions": delta["decision"], "plan": delta["plan"]}


def states_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> Diffs:
    """The records that differ between two whole states."""
    return {
        name: {key: value for key, value in after[name].items() if before[name].get(key) != value}
        for name in ("files", "decisions", "plan")
    }


def recent_files(state: Mapping[str, Any], n: int) -> list[str]:
    """Paths of a whole state that its last n turns touched."""
    files = state["files"]
    last = max((record["turn"] for record in files.values()), default=0)
    return sorted(path for path, record in files.items() if record["turn"] > last - n)
