"""LangGraph with PostgresSaver: the graph of `langgraph_saver`, checkpointed into PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row

from bench.peers.base import FULL, check_durability, package_versions
from bench.peers.langgraph_saver import LangGraphDelta, LangGraphFull


class LangGraphPostgresFull(LangGraphFull):
    name = "LangGraph PostgresSaver, full"
    version = package_versions("langgraph", "langgraph-checkpoint-postgres", "psycopg")
    durabilities = frozenset({FULL})

    def open(self, directory: Path, durability: str = FULL, **options: Any) -> None:
        check_durability(self, durability)
        # As its documentation connects.
        self._db: Any = psycopg.connect(
            options["url"], autocommit=True, prepare_threshold=0, row_factory=dict_row
        )
        self._saver: Any = PostgresSaver(self._db)
        self._saver.setup()
        self._updates: Iterator[dict[str, Any]] = iter(())
        self._graph = self._compile()

    def files(self) -> Sequence[Path]:
        return []


class LangGraphPostgresDelta(LangGraphDelta, LangGraphPostgresFull):
    name = "LangGraph PostgresSaver, delta"
    version = LangGraphPostgresFull.version
    open = LangGraphPostgresFull.open
    files = LangGraphPostgresFull.files
