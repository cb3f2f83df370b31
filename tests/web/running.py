"""The service of a store, running in a thread of the test."""

from __future__ import annotations

import socket
import threading
from typing import Any

import uvicorn

from stator.runtime.facade.store import Store
from stator.surfaces import loopback
from stator.surfaces.http.access import Access
from stator.surfaces.http.guard import ENTER
from stator.surfaces.http.served import Served
from stator.surfaces.web.inspector import application
from stator.surfaces.web.slow_answers import SlowAnswers


class RunningInspector:
    """The service of one store on a free port, in a thread of the test."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._listener: socket.socket = loopback.bind(0)
        port = loopback.port_of(self._listener)
        self.address = f"http://127.0.0.1:{port}"
        drawn = iter(range(1, 1 << 20))
        self.access = Access(port, lambda size: next(drawn).to_bytes(size))
        served = Served(store=store, address=self.address, place="the test's store")
        self.slow_answers = SlowAnswers()
        self.app = application(served, self.access, port, self.slow_answers)
        config = uvicorn.Config(self.app, log_level="error", ws="none", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],))

    def __enter__(self) -> RunningInspector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        self._listener.close()

    @property
    def cookie(self) -> Any:
        """What a browser that came through a link has."""
        value = self.access.enter(self.access.new_link())
        assert value is not None
        return {"name": self.access.cookie_name, "value": value, "url": self.address}

    @property
    def link(self) -> str:
        return f"{self.address}{ENTER}?link={self.access.new_link()}"
