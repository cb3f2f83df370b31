"""What was asked on a connection and not yet answered: whose answer is this, and may it pass?

One book per connection: requests of a client by their ids. Nothing here reads or writes; messages are
looked at as they go by, and what is to be recorded of them is handed back as work.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from stator.surfaces.proxy.classify import (
    CALL,
    CANCELLED,
    CLAUDE_CALL,
    LIST,
    Answer,
    Notice,
    Request,
    Strange,
    classify,
    client_name,
    edge_id,
    id_text,
    member,
    shown,
    text_of,
)
from stator.surfaces.proxy.framing import Long
from stator.surfaces.proxy.recorder import (
    Call,
    Recording,
    Unanswered,
    Work,
)

PENDING_MAX = 20_000
"""Requests without an answer that are remembered; a server that never answers must not cost more."""
ANSWERED_MAX = 10_000
"""Ids that were answered, to know a second answer when it comes."""


@dataclass(slots=True, eq=False)
class Asked:
    """A request that was passed on."""

    id: str
    method: str
    call: Call | None = None
    task: str = ""
    """The task it asks after."""
    data: bytes = b""
    """The line it came in."""
    told: bool = False
    """Whether the client has been answered in the server's stead."""
    cancelled: bool = False
    """Whether the client has said that it waits no longer."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What is remembered of a request that was answered: not what was in it."""

    method: str
    call: str = ""


@dataclass(slots=True)
class Outgoing:
    """What is in some bytes from the client."""

    asked: list[Asked] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    """To be recorded once they are passed on."""
    handshake: bool = False
    """Whether it is part of how older revisions begin."""

    @property
    def calls(self) -> list[Call]:
        return [one.call for one in self.asked if one.call is not None]


@dataclass(slots=True)
class Incoming:
    """What is in some bytes from the server."""

    forward: bool = True
    works: list[Work] = field(default_factory=list)
    answered: list[Asked] = field(default_factory=list)


class Book:
    """Requests of one client, by id."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._pending: dict[str, deque[Asked]] = {}
        self._answered: OrderedDict[str, Answered] = OrderedDict()
        self._waiting_count = 0
        self._lock = threading.Lock()

    # -- from the client --------------------------------------------------------------------------

    def outgoing(self, data: bytes, *, keep: bool = False) -> Outgoing:
        """Look at what a client sends; the intents of its calls are being recorded from here on."""
        found = Outgoing()
        messages = classify(data) or [Strange()]
        for message in messages:
            if isinstance(message, Request):
                found.handshake |= message.method == "initialize"
                found.asked.append(self._ask(message, data if keep else b""))
            elif isinstance(message, Notice):
                found.handshake |= message.method == "notifications/initialized"
                found.works += self._noticed(message)
        if data.strip() and any(isinstance(message, Strange) for message in messages):
            found.works.append(self._recording.raw("not understood, from the client", data))
        return found

    def _ask(self, message: Request, data: bytes) -> Asked:
        self._recording.client = self._recording.client or client_name(message)
        asked = Asked(message.id, message.method, data=data)
        if message.method == CALL:
            asked.call = self._call(message)
            self._recording.begin(asked.call)
        elif message.method.startswith("tasks/"):
            asked.task = text_of(message.params, "taskId")
        self.enter(asked)
        return asked

    def enter(self, asked: Asked) -> None:
        """From here on, the request waits for its answer."""
        with self._lock:
            self._pending.setdefault(asked.id, deque()).append(asked)
            self._answered.pop(asked.id, None)
            self._waiting_count += 1
            oldest = self._oldest() if self._waiting_count > PENDING_MAX else None
        if oldest is not None:
            cause = f"no answer, and {PENDING_MAX} requests since"
            self._recording.put(*self.unanswered(oldest, cause, "error"))

    def _oldest(self) -> Asked:
        """Let go of the request that waits longest, as far as ids tell."""
        id, waiting = next(iter(self._pending.items()))
        asked = waiting.popleft()
        self._left(id, waiting)
        return asked

    def _left(self, id: str, waiting: deque[Asked]) -> None:
        """One of those that wait under an id does no longer."""
        self._waiting_count -= 1
        if not waiting:
            del self._pending[id]

    def _call(self, message: Request) -> Call:
        arguments = member(message.params, "arguments")
        return Call(
            tool=text_of(message.params, "name") or "?",
            input={} if arguments is None else arguments,
            at=self._recording.now(),
            request=message.id[:100],
            use=text_of(message.params, "_meta", CLAUDE_CALL)[:200],
        )

    def _noticed(self, message: Notice) -> list[Work]:
        if message.method != CANCELLED:
            return []
        asked = self._waiting(id_text(member(message.params, "requestId")))
        if asked is None or asked.call is None:
            return []
        asked.cancelled = True
        return [self._recording.unanswered(asked.call, "cancelled by the client", "cancelled")]

    def _waiting(self, id: str) -> Asked | None:
        with self._lock:
            waiting = self._pending.get(id)
            return waiting[0] if waiting else None

    # -- from the server --------------------------------------------------------------------------

    def incoming(self, data: bytes, *, again: bool = False) -> Incoming | None:
        """Look at what a server sends; None if it is not JSON. `again`: it may repeat what was said."""
        messages = classify(data)
        if messages is None:
            return None
        found, second = Incoming(), 0
        for message in messages:
            if isinstance(message, Answer):
                second += not self._answer(message, data, found, again=again)
        if any(isinstance(message, Strange) for message in messages):
            found.works.append(self._recording.raw("not understood, from the server", data))
        # a batch goes through whole or not at all: it is not ours to rewrite
        found.forward = not messages or second < len(messages)
        return found

    def _answer(self, answer: Answer, data: bytes, found: Incoming, *, again: bool) -> bool:
        """Take an answer in; whether the client should have it."""
        asked = self._settle(answer.id)
        recording = self._recording
        if asked is None:
            before = self._answered.get(answer.id)
            if before is not None and again:
                return True
            if before is not None:
                why = f"{before.method} {answer.id}: {shown(data)}"
                found.works.append(recording.flag("answered twice", before.call, why))
                found.works.append(recording.raw("second answer", data))
                return False
            found.works.append(recording.raw("answer to nothing that was asked", data))
            return True
        found.answered.append(asked)
        if asked.call is not None:
            found.works.append(recording.answered(asked.call, answer))
        elif asked.method == LIST:
            found.works.append(recording.offered(answer))
        elif asked.task:
            found.works.append(recording.task(asked.task, answer))
        return not asked.told

    def incoming_long(self, long: Long) -> Incoming:
        """The same for what was too long to be read."""
        id = edge_id(long.head, long.tail)
        asked = self._settle(id) if id is not None else None
        if asked is None or asked.call is None:
            return Incoming(
                works=[self._recording.raw("too long to be read, from the server", long)]
            )
        return Incoming(works=[self._recording.unread(asked.call, long)], answered=[asked])

    def _settle(self, id: str) -> Asked | None:
        """The request that an answer to that id answers; None if none waits."""
        with self._lock:
            waiting = self._pending.get(id)
            if not waiting:
                return None
            asked = waiting.popleft()
            self._left(id, waiting)
            asked.data = b""
            self._answered[id] = Answered(asked.method, asked.call.id if asked.call else "")
            if len(self._answered) > ANSWERED_MAX:
                self._answered.popitem(last=False)
            return asked

    # -- no answer --------------------------------------------------------------------------------

    def withdraw(self, asked: Asked) -> bool:
        """Take a request out that will not be answered; False if it was meanwhile."""
        with self._lock:
            waiting = self._pending.get(asked.id)
            if not waiting or asked not in waiting:
                return False
            waiting.remove(asked)
            self._left(asked.id, waiting)
            return True

    def unanswered(self, asked: Asked, cause: str, otherwise: Unanswered) -> list[Work]:
        """What is to be said of a request that stays without an answer."""
        if asked.call is None:
            return []
        return [self._recording.unanswered(asked.call, cause, otherwise)]

    def waits(self, asked: Asked) -> bool:
        """Whether a request is still without an answer."""
        with self._lock:
            return asked in self._pending.get(asked.id, ())

    def tell(self, asked: Asked) -> bool:
        """Answer a request in the server's stead; False if it was answered: nobody is told twice."""
        with self._lock:
            asked.told = asked in self._pending.get(asked.id, ())
            return asked.told

    def leave(self) -> list[Asked]:
        """Everything that waits, which it does no longer."""
        with self._lock:
            pending = [asked for waiting in self._pending.values() for asked in waiting]
            self._pending.clear()
            self._waiting_count = 0
            return pending

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return self._waiting_count
