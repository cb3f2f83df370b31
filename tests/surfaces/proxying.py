"""Drives `stator proxy` in tests: sends messages, reads answers, and reads what was recorded."""

from __future__ import annotations

import json
import os
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import stator
from stator.runtime.facade.view import SessionView
from stator.surfaces.proxy.recorder import PendingWrite, ProxyRecorder
from stator.surfaces.proxy.session import choose
from stator.surfaces.proxy.stdio import StdioOptions, StdioProxy
from waiting import is_readable

SERVER = Path(__file__).parent / "servers" / "scripted.py"
COMMAND = [sys.executable, "-S", "-E", str(SERVER)]


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(id: Any, tool: str, _meta: Any = None, **arguments: Any) -> dict[str, Any]:
    more = {"_meta": _meta} if _meta else {}
    return request(id, "tools/call", name=tool, arguments=arguments, **more)


def notice(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def text(answer: dict[str, Any]) -> str:
    found: str = answer["result"]["content"][0]["text"]
    return found


class Reader:
    """Reads lines from a pipe as they arrive."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._waiting = b""

    def line(self) -> bytes:
        """The next line; b"" at the end."""
        while b"\n" not in self._waiting:
            assert is_readable(self._source), "no answer came"
            chunk = os.read(self._source, 65_536)
            if not chunk:
                break
            self._waiting += chunk
        line, mark, self._waiting = self._waiting.partition(b"\n")
        return line + mark


class Client:
    """A client with a proxy in this process, in front of a real server."""

    def __init__(
        self, store: Path, *, session: str = "", command: list[str] | None = None, **options: Any
    ) -> None:
        self.said: list[str] = []
        self.store = stator.connect(store, project="shop")
        self.run_id = self.store.context.mint("run")
        chosen = choose(self.store, session, "test", self.run_id)
        self.recording = ProxyRecorder(
            self.store, chosen.open_recorder,
            server="test", run=self.run_id[-8:], shared=chosen.shared, say=self.said.append,
        )  # fmt: skip
        source, self._in = os.pipe()
        self._out, out = os.pipe()
        self._reader = Reader(self._out)
        self._fds = [source, out]
        self.code: int | None = None
        self._proxy = StdioProxy(
            command or COMMAND, self.recording, StdioOptions(**options), say=self.said.append,
            source=source, out=out,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.code = self._proxy.run()
        os.close(self._fds[1])

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()
        self.store.close()

    def send(self, *messages: Any) -> None:
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            view = memoryview(data)
            while view:
                view = view[os.write(self._in, view) :]

    def line(self) -> bytes:
        return self._reader.line()

    def read(self) -> Any:
        line = self.line()
        assert line, "the proxy ended"
        return json.loads(line)

    def ask(self, message: Any) -> Any:
        self.send(message)
        return self.read()

    def end(self) -> list[bytes]:
        """Close the input, wait until the proxy has ended, and return its last output."""
        if self._in < 0:
            return []
        os.close(self._in)
        self._in = -1
        rest = []
        while line := self.line():
            rest.append(line)
        self._thread.join()
        self.recording.close()
        for fd in (self._out, self._fds[0]):
            os.close(fd)
        return rest

    def sync(self) -> None:
        """Wait until everything seen so far is recorded."""
        if self._in < 0:
            return
        done: Future[None] = Future()
        self.recording.put(PendingWrite(lambda recorder: [], done))
        done.result()

    @property
    def view(self) -> SessionView:
        """The session the proxy records in: the newest."""
        (row, *_) = [r for r in self.store.sessions(limit=5).rows if r.record.mode == "recorded"]
        return SessionView(self.store.port, row.id)

    def calls(self) -> list[tuple[str, str, str]]:
        """(tool, status, cause) of the calls, the oldest first."""
        self.sync()
        return [
            (row.tool.removeprefix("mcp__test__"), row.status, row.cause)
            for row in reversed(self.view.calls())
        ]

    def commits(self, *kinds: str) -> list[Any]:
        return [commit for commit in self.view.log() if commit.kind in kinds]

    def raws(self) -> list[str]:
        return [commit.known("input")["proxy"] for commit in self.commits("raw")]
