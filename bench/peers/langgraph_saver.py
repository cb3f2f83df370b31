"""LangGraph with SqliteSaver: a model–tool loop, a checkpoint per superstep, in two modes.

Full channels write every channel that changed, whole, into each checkpoint. Delta channels (beta)
write updates, and a whole value every 100th update.
"""

from __future__ import annotations

import itertools
import operator
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from bench.peers.base import (
    FULL,
    RELAXED,
    Diffs,
    Peer,
    States,
    check_durability,
    package_versions,
    recent_files,
    states_diff,
)
from bench.workload import Turn, empty, fold, records

try:
    from langgraph.channels.delta import DeltaChannel
except ImportError:  # an older LangGraph: only full channels
    DeltaChannel = None  # type: ignore[assignment,misc]

BUSY_SECONDS = 60
COLLECTIONS = ("files", "decisions", "plan")


def _merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {**old, **new}


def _reduce_all(reducer: Callable[[Any, Any], Any]) -> Callable[[Any, Sequence[Any]], Any]:
    """A delta channel's reducer gets a batch of updates; copy once, not per update."""

    def extend(old: list[Any], updates: Sequence[list[Any]]) -> list[Any]:
        return [*old, *itertools.chain.from_iterable(updates)]

    def merge(old: dict[str, Any], updates: Sequence[dict[str, Any]]) -> dict[str, Any]:
        new = dict(old)
        for update in updates:
            new.update(update)
        return new

    return merge if reducer is _merge else extend


def _full(kind: type, reducer: Callable[[Any, Any], Any]) -> Any:
    return Annotated[kind, reducer]


def _delta(kind: type, reducer: Callable[[Any, Any], Any]) -> Any:
    return Annotated[kind, DeltaChannel(_reduce_all(reducer))]


class LangGraphFull(Peer):
    name = "LangGraph SqliteSaver, full"
    version = (
        f"{package_versions('langgraph', 'langgraph-checkpoint-sqlite')}, "
        f"SQLite {sqlite3.sqlite_version}"
    )
    note = (
        "Nodes model and tool, 8 supersteps a turn with durability='sync'; the turn's number is "
        "put into checkpoint metadata to find it again. A fork is update_state on an old "
        "checkpoint, in the same thread. It lists checkpoints, not threads."
    )
    native = frozenset({"state", "state_at", "fork"})
    durabilities = frozenset({FULL, RELAXED})
    channel = staticmethod(_full)

    def open(self, directory: Path, durability: str = FULL, **options: Any) -> None:
        check_durability(self, durability)
        self._path = directory / "checkpoints.db"
        self._db = sqlite3.connect(self._path, timeout=BUSY_SECONDS, check_same_thread=False)
        if durability == RELAXED:
            self._db.execute("PRAGMA synchronous=NORMAL")
        self._saver = SqliteSaver(self._db)
        self._updates: Iterator[dict[str, Any]] = iter(())
        self._graph = self._compile()

    def append(self, session: str, turn: Turn) -> None:
        prompt, *rest = (_update(record) for record in records(turn))
        self._updates = iter(rest)
        config = {**_thread(session), "metadata": {"turn": turn["turn"]}}
        self._graph.invoke(prompt, config, durability="sync")

    def close(self) -> None:
        self._db.close()

    def files(self) -> Sequence[Path]:
        return [self._path]

    def state(self, session: str) -> States:
        return _collections(self._graph.get_state(_thread(session)).values)

    def state_at(self, session: str, turn: int) -> States:
        return _collections(self._snapshot(session, turn).values) if turn else empty()

    def diff(self, session: str, turn: int) -> Diffs:
        before, after = self.state_at(session, turn - 1), self.state_at(session, turn)
        return states_diff(before, after)

    def files_last(self, session: str, n: int) -> list[str]:
        return recent_files(self.state(session), n)

    def fork(self, session: str, turn: int) -> Any:
        config = self._snapshot(session, turn).config
        return self._graph.update_state(config, {"plan": {}}, as_node="model")

    def list_sessions(self, limit: int) -> Sequence[Any]:
        threads: dict[str, None] = {}
        for checkpoint in self._saver.list(None):
            threads[checkpoint.config["configurable"]["thread_id"]] = None
            if len(threads) == limit:
                break
        return list(threads)

    def _compile(self) -> Any:
        channels = {"messages": self.channel(list, operator.add)}
        channels |= {name: self.channel(dict, _merge) for name in COLLECTIONS}
        schema: Any = TypedDict("schema", channels)  # type: ignore[misc]
        graph: Any = StateGraph(schema)
        graph.add_node("model", lambda _: next(self._updates))
        graph.add_node("tool", lambda _: next(self._updates))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", _after_model, ["tool", END])
        graph.add_edge("tool", "model")
        return graph.compile(checkpointer=self._saver)

    def _snapshot(self, session: str, turn: int) -> Any:
        """The last checkpoint of a turn."""
        found = self._graph.get_state_history(_thread(session), filter={"turn": turn}, limit=1)
        return next(iter(found))


class LangGraphDelta(LangGraphFull):
    name = "LangGraph SqliteSaver, delta"
    channel = staticmethod(_delta)

    def __init__(self) -> None:
        if DeltaChannel is None:
            raise ImportError("this LangGraph has no DeltaChannel")


def _thread(session: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": session}}


def _update(record: dict[str, Any]) -> dict[str, Any]:
    """A record as a node's writes: a message, and with the answer the changed collections."""
    delta = record.pop("delta", None)
    update: dict[str, Any] = {"messages": [record]}
    return update | fold(empty(), delta, record["turn"]) if delta else update


def _after_model(values: dict[str, Any]) -> str:
    return "tool" if values["messages"][-1]["kind"] == "intent" else END


def _collections(values: dict[str, Any]) -> dict[str, Any]:
    return {name: values.get(name, {}) for name in COLLECTIONS}
