"""Matches responses to the open requests of a connection and decides whether to pass them on.

One `PendingRequests` exists per connection; it holds the client's requests by id. It does no I/O: it
inspects messages and returns the writes that record them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from stator.model.exchange.items import CLAUDE_CALL
from stator.model.log.shown_text import cut_short
from stator.surfaces.proxy.classify import (
    CALL,
    CANCELLED,
    LIST,
    NotAMessage,
    RpcNotification,
    RpcRequest,
    RpcResponse,
    classify,
    client_name,
    edge_id,
    excerpt,
    id_text,
    member,
    text_of,
)
from stator.surfaces.proxy.frames import LongMessage
from stator.surfaces.proxy.recorder import (
    PendingWrite,
    ProxiedCall,
    ProxyRecorder,
    UnansweredStatus,
)

PENDING_MAX = 20_000
"""Maximum number of open requests that are remembered: a server that never answers must not fill the memory."""
ANSWERED_MAX = 10_000
"""Maximum number of answered ids that are remembered, to detect a second response."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request that was passed on to the server."""

    id: str
    method: str
    call: ProxiedCall | None = None
    task: str = ""
    """The id of the task it asks about, if it does."""
    data: bytes = b""
    """The line it arrived in, kept only if it may have to be sent again."""
    answered_by_proxy: bool = False
    """Whether the proxy has answered it in place of the server."""
    cancelled: bool = False
    """Whether the client has cancelled it."""


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """What is remembered of an answered request: not its contents."""

    method: str
    call: str = ""


@dataclass(slots=True)
class Outgoing:
    """What a message, or a batch, from the client contains."""

    requests: list[PendingRequest] = field(default_factory=list)
    writes: list[PendingWrite] = field(default_factory=list)
    """To be recorded once the bytes are passed on."""
    handshake: bool = False
    """Whether it belongs to the handshake of older protocol revisions."""

    @property
    def calls(self) -> list[ProxiedCall]:
        return [one.call for one in self.requests if one.call is not None]


@dataclass(slots=True)
class Incoming:
    """What a message, or a batch, from the server contains."""

    forward: bool = True
    writes: list[PendingWrite] = field(default_factory=list)
    answered: list[PendingRequest] = field(default_factory=list)


class PendingRequests:
    """The open requests of one client, by id."""

    def __init__(self, recorder: ProxyRecorder) -> None:
        self._recorder = recorder
        self._pending: dict[str, deque[PendingRequest]] = {}
        self._answered: OrderedDict[str, AnsweredRequest] = OrderedDict()
        self._waiting_count = 0
        self._lock = threading.Lock()

    # -- from the client --------------------------------------------------------------------------

    def outgoing(self, data: bytes, *, keep: bool = False) -> Outgoing:
        """Inspect bytes from the client and begin to record the intents of its calls."""
        found = Outgoing()
        messages = classify(data) or [NotAMessage()]
        for message in messages:
            if isinstance(message, RpcRequest):
                found.handshake |= message.method == "initialize"
                found.requests.append(self._add_request(message, data if keep else b""))
            elif isinstance(message, RpcNotification):
                found.handshake |= message.method == "notifications/initialized"
                found.writes += self._handle_notification(message)
        if data.strip() and any(isinstance(message, NotAMessage) for message in messages):
            found.writes.append(self._recorder.raw("not understood, from the client", data))
        return found

    def _add_request(self, message: RpcRequest, data: bytes) -> PendingRequest:
        self._recorder.client = self._recorder.client or client_name(message)
        request = PendingRequest(message.id, message.method, data=data)
        if message.method == CALL:
            request.call = self._proxied_call(message)
            self._recorder.begin(request.call)
        elif message.method.startswith("tasks/"):
            request.task = text_of(message.params, "taskId")
        self.add(request)
        return request

    def add(self, request: PendingRequest) -> None:
        """Add a request that now waits for its response."""
        with self._lock:
            self._pending.setdefault(request.id, deque()).append(request)
            self._answered.pop(request.id, None)
            self._waiting_count += 1
            oldest = self._take_oldest() if self._waiting_count > PENDING_MAX else None
        if oldest is not None:
            cause = f"no answer, and {PENDING_MAX} requests since"
            self._recorder.put(*self.unanswered(oldest, cause, "error"))

    def _take_oldest(self) -> PendingRequest:
        """Remove and return the first request under the id that was used first."""
        id, waiting = next(iter(self._pending.items()))
        request = waiting.popleft()
        self._forget(id, waiting)
        return request

    def _forget(self, id: str, waiting: deque[PendingRequest]) -> None:
        """Update the count and the table after one request under an id was removed."""
        self._waiting_count -= 1
        if not waiting:
            del self._pending[id]

    def _proxied_call(self, message: RpcRequest) -> ProxiedCall:
        arguments = member(message.params, "arguments")
        return ProxiedCall(
            tool=text_of(message.params, "name") or "?",
            input={} if arguments is None else arguments,
            at=self._recorder.now(),
            request=cut_short(message.id, 100),
            use=cut_short(text_of(message.params, "_meta", CLAUDE_CALL), 200),
        )

    def _handle_notification(self, message: RpcNotification) -> list[PendingWrite]:
        if message.method != CANCELLED:
            return []
        request = self._first_waiting(id_text(member(message.params, "requestId")))
        if request is None or request.call is None:
            return []
        request.cancelled = True
        return [self._recorder.unanswered(request.call, "cancelled by the client", "cancelled")]

    def _first_waiting(self, id: str) -> PendingRequest | None:
        with self._lock:
            waiting = self._pending.get(id)
            return waiting[0] if waiting else None

    # -- from the server --------------------------------------------------------------------------

    def incoming(self, data: bytes, *, may_repeat: bool = False) -> Incoming | None:
        """Inspect bytes from the server; return None if they are not JSON.

        `may_repeat`: a resumed stream may repeat a response, which is then no second answer.
        """
        messages = classify(data)
        if messages is None:
            return None
        found, repeats = Incoming(), 0
        for message in messages:
            if isinstance(message, RpcResponse):
                repeats += not self._handle_response(message, data, found, may_repeat=may_repeat)
        if any(isinstance(message, NotAMessage) for message in messages):
            found.writes.append(self._recorder.raw("not understood, from the server", data))
        # a batch is passed on whole or held back whole: the proxy changes no bytes
        found.forward = not messages or repeats < len(messages)
        return found

    def _handle_response(
        self, response: RpcResponse, data: bytes, found: Incoming, *, may_repeat: bool
    ) -> bool:
        """Record a response; return whether the client should receive it."""
        request = self._match(response.id)
        recorder = self._recorder
        if request is None:
            earlier = self._answered.get(response.id)
            if earlier is not None and may_repeat:
                return True
            if earlier is not None:
                why = f"{earlier.method} {response.id}: {excerpt(data)}"
                found.writes.append(recorder.flag("answered twice", earlier.call, why))
                found.writes.append(recorder.raw("second answer", data))
                return False
            found.writes.append(recorder.raw("answer to nothing that was asked", data))
            return True
        found.answered.append(request)
        if request.call is not None:
            found.writes.append(recorder.answered(request.call, response))
        elif request.method == LIST:
            found.writes.append(recorder.offered(response))
        elif request.task:
            found.writes.append(recorder.task(request.task, response))
        return not request.answered_by_proxy

    def incoming_long(self, long: LongMessage) -> Incoming:
        """Inspect a message that was too long to decode."""
        id = edge_id(long.head, long.tail)
        request = self._match(id) if id is not None else None
        if request is None or request.call is None:
            return Incoming(
                writes=[self._recorder.raw("too long to be read, from the server", long)]
            )
        return Incoming(writes=[self._recorder.unread(request.call, long)], answered=[request])

    def _match(self, id: str) -> PendingRequest | None:
        """Remove and return the request that a response with this id answers; None if no request waits."""
        with self._lock:
            waiting = self._pending.get(id)
            if not waiting:
                return None
            request = waiting.popleft()
            self._forget(id, waiting)
            request.data = b""
            self._answered[id] = AnsweredRequest(
                request.method, request.call.id if request.call else ""
            )
            if len(self._answered) > ANSWERED_MAX:
                self._answered.popitem(last=False)
            return request

    # -- requests without a response --------------------------------------------------------------

    def withdraw(self, request: PendingRequest) -> bool:
        """Remove a request that will not be answered; return False if it was answered before."""
        with self._lock:
            waiting = self._pending.get(request.id)
            if not waiting or request not in waiting:
                return False
            waiting.remove(request)
            self._forget(request.id, waiting)
            return True

    def unanswered(
        self, request: PendingRequest, cause: str, status_if_read: UnansweredStatus
    ) -> list[PendingWrite]:
        """Return the writes that record a request without a response."""
        if request.call is None:
            return []
        return [self._recorder.unanswered(request.call, cause, status_if_read)]

    def is_waiting(self, request: PendingRequest) -> bool:
        """Whether a request still waits for its response."""
        with self._lock:
            return request in self._pending.get(request.id, ())

    def answer_instead(self, request: PendingRequest) -> bool:
        """Mark a request as answered by the proxy; return False if the server has answered it."""
        with self._lock:
            request.answered_by_proxy = request in self._pending.get(request.id, ())
            return request.answered_by_proxy

    def take_all(self) -> list[PendingRequest]:
        """Remove and return all requests that wait."""
        with self._lock:
            pending = [request for waiting in self._pending.values() for request in waiting]
            self._pending.clear()
            self._waiting_count = 0
            return pending

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
        return self._waiting_count
