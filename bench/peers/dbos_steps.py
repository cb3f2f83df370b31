"""DBOS: a turn is a workflow, each call and the answer a step, whose results its system database keeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID

from bench.peers.base import FULL, Peer, check_durability, package_versions
from bench.workload import Turn

_turn: list[Turn] = []
"""The turn that is being run: a step finds its result here, as it would find it in the world."""


@DBOS.step()
def call(number: int, name: str, given: str) -> str:
    return _turn[0]["tools"][number]["output"]


@DBOS.step()
def answer() -> dict[str, Any]:
    return {"text": _turn[0]["assistant"], "delta": _turn[0]["delta"]}


@DBOS.workflow()
def run_turn(prompt: str) -> str:
    for number, made in enumerate(_turn[0]["tools"]):
        call(number, made["name"], made["input"])
    answer()
    return "ok"


class DbosSteps(Peer):
    name = "DBOS"
    version = package_versions("dbos", "psycopg")
    note = (
        "A turn is a workflow with four steps. It records a step when it has run: fewer transactions than 8, no "
        "intents, no state, no diff."
    )
    durabilities = frozenset({FULL})

    def open(self, directory: Path, durability: str = FULL, **options: Any) -> None:
        check_durability(self, durability)
        url = options["url"].replace("postgresql://", "postgresql+psycopg://")
        config: Any = {
            "name": "bench",
            "system_database_url": url,
            "run_admin_server": False,
            "log_level": "ERROR",
        }
        self._dbos = DBOS(config=config)
        DBOS.launch()

    def append(self, session: str, turn: Any) -> None:
        _turn[:] = [turn]
        with SetWorkflowID(f"{session}-{turn['turn']}"):
            run_turn(turn["user"])

    def close(self) -> None:
        DBOS.destroy()

    def files(self) -> Sequence[Path]:
        return []
