"""What pages of the inspector cost for a session of N turns: `python -m bench.pages DIR [TURNS]`.

Prints JSON: for each page the CPU of the server in milliseconds (median of several requests, the first one apart), the
bytes and the elements. The session is the workload's, made once in DIR and used again.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import stator
from bench.peers.base import RELAXED
from bench.peers.ours import Stator
from bench.workload import Workload
from stator.surfaces.http.access import Access
from stator.surfaces.http.served import Served
from stator.surfaces.web.inspector import application

TURNS = 1_000
ASKS = 5
PORT = 8719
SESSION = "work"


def build(folder: Path, turns: int) -> None:
    """The workload's session, unless it is there."""
    if (folder / "done").exists():
        return
    peer = Stator()
    peer.open(folder, RELAXED)
    peer.new(SESSION)
    for turn in Workload(seed=1).turns(turns):
        peer.append(SESSION, turn)
    peer.leave(SESSION)
    peer.close()
    (folder / "done").touch()


async def get(app: Any, path: str, cookie: str) -> tuple[int, bytes]:
    """Ask the application without a network."""
    address, _, query = path.partition("?")
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": address,
        "raw_path": address.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(b"host", f"127.0.0.1:{PORT}".encode()), (b"cookie", cookie.encode())],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", PORT),
    }  # fmt: skip
    status, parts = 0, []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, b"".join(parts)


def addresses(session: str, turns: int) -> dict[str, str]:
    middle = turns // 2
    return {
        "needs you": "/",
        "sessions": "/sessions",
        "session, newest turns": f"/s/{session}",
        "session, turns in the middle": f"/s/{session}?before={middle}",
        "turn": f"/s/{session}/t{middle}",
        "strip at the head": f"/s/{session}/strip",
        "strip in the middle": f"/s/{session}/strip?at=t{middle}",
        "strip, one turn on": f"/s/{session}/strip?at=t{middle + 1}",
        "files": f"/s/{session}/files",
        "decisions": f"/s/{session}/decisions",
        "out of view": f"/s/{session}/evicted",
        "tree": f"/s/{session}/tree",
        "project": "/project",
        "cost": "/cost",
        "search": "/search?q=connection",
    }


def main(folder: Path, turns: int) -> None:
    build(folder, turns)
    (path,) = folder.glob("*.db")
    with stator.connect(path, project="bench") as store:
        drawn = iter(range(1, 1 << 20))
        access = Access(PORT, lambda size: next(drawn).to_bytes(size))
        served = Served(store=store, address=f"http://127.0.0.1:{PORT}", place="bench")
        app = application(served, access, PORT)
        cookie = f"{access.cookie_name}={access.enter(access.new_link())}"
        found = {}
        for name, address in addresses(store.read(SESSION).id, turns).items():
            times = []
            for _ in range(ASKS):
                began = time.process_time()
                status, body = asyncio.run(get(app, address, cookie))
                times.append((time.process_time() - began) * 1e3)
            found[name] = {
                "status": status,
                "first_ms": round(times[0], 1),
                "ms": round(median(times[1:]), 1),
                "bytes": len(body),
                "elements": len(re.findall(rb"<[a-zA-Z]", body)),
            }
    print(json.dumps({"turns": turns, "pages": found}, indent=1))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    main(target, int(sys.argv[2]) if len(sys.argv) > 2 else TURNS)
