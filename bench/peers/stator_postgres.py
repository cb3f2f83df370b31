"""Stator over PostgreSQL, through the same public API as over SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import stator
from bench.peers.base import FULL, package_versions
from bench.peers.ours import Stator
from stator.connect import connect
from stator.store import postgres  # noqa: F401 - so that "after imports" is after this one too


class StatorPostgres(Stator):
    name = "stator, PostgreSQL"
    version = f"{stator.__version__}, {package_versions('psycopg', 'msgspec')}"

    def open(self, directory: Path, durability: str = FULL, **options: Any) -> None:
        """`url` is that of a database, `tenant` whose part of it."""
        tenant = options.get("tenant", "bench")
        self._store = connect(options["url"], durability=durability, tenant=tenant, project="bench")  # type: ignore[arg-type]
        self._store.context = replace(self._store.context, root=str(directory))
        self._sessions = {}
        self._views = {}

    def files(self) -> Sequence[Path]:
        return []
