"""A program that drives a session of hundreds of turns through a small window, and may be killed at a turn."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from stator.connect import connect

TURNS = 800
WINDOW = 4_000


def reply(n: int) -> dict[str, Any]:
    ask = {"type": "tool_use", "id": f"tu_{n}", "name": "read", "input": {"path": f"src/{n}.py"}}
    return {"role": "assistant", "content": [ask], "stop_reason": "tool_use"}


def main(path: str, killed_at: int) -> None:
    with connect(path, project="test", durability="relaxed") as store, store.open("long") as s:
        for n in range(TURNS):
            with s.turn(f"look at file {n}") as t:
                said = t.model(
                    lambda messages, n=n: reply(n),
                    messages=t.messages("anthropic", max_tokens=WINDOW),
                )
                if n == killed_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                t.results(
                    said, {"read": lambda path: f"{path}: " + "x" * 1_400}, effects={"read": "read"}
                )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
