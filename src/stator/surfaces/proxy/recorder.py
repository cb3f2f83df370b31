"""Records what a proxy sees, in one thread that writes to the store.

Other threads queue a write and continue; only for the intent of a call do they wait until it is on disk.
Writes that are queued together are written together, in order, so that a tool's definition is recorded before
its first call.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Literal

from stator.errors import StatorError
from stator.model.exchange.items import (
    Began,
    Called,
    Ended,
    Flagged,
    Item,
    Offered,
    Returned,
    Unknown,
)
from stator.model.log.commit import Source
from stator.model.log.query import SessionQuery
from stator.model.log.shown_text import without_secrets
from stator.model.records.types import Effect, ToolRecord
from stator.model.values.escape import visible
from stator.runtime.facade.store import Store
from stator.runtime.ingest.recorder import Recorder
from stator.surfaces.proxy.classify import (
    CallResult,
    RpcResponse,
    call_result,
    decode_raw,
    excerpt,
    task_result,
)
from stator.surfaces.proxy.definitions import ListedTool, definitions
from stator.surfaces.proxy.frames import LongMessage

CLAIM_US = 10_000_000
"""A hook may record a call before the proxy sees it: the longest time between the two, in µs."""
PINNED_SESSIONS_MAX = 50
"""Newest sessions of the project that are searched for earlier digests of a tool."""
TASKS_MAX = 1_000
USES_MAX = 100_000
"""Maximum number of client-given call ids that are remembered, to detect one that is used twice."""
LINGER_S = 0.003
BATCH_MAX = 500
"""Maximum number of writes in one transaction."""

Say = Callable[[str], None]
UnansweredStatus = Literal["timeout", "cancelled", "error"]


@dataclass(slots=True, eq=False)
class ProxiedCall:
    """A tool call that passes through the proxy."""

    tool: str
    """Its name on the server, without the prefix."""
    input: Any
    at: int
    request: str
    use: str = ""
    """The client's own id for the call, if it gives one."""
    id: str = ""
    effect: Effect = "write"
    source: Source = "tool"
    attempt: int = 1
    status: str = ""
    """"" until the intent is recorded."""
    done: Future[None] = field(default_factory=Future)
    """Done when the intent is on disk, or could not be written."""


@dataclass(slots=True, eq=False)
class PendingWrite:
    """Items to be recorded, built in the writing thread."""

    make: Callable[[Recorder], list[Item]]
    done: Future[None] | None = None
    _items: list[Item] | None = None

    def items(self, recorder: Recorder) -> list[Item]:
        """Return the items; they are built once, even if they have to be written again."""
        if self._items is None:
            self._items = self.make(recorder)
        return self._items


class ProxyRecorder:
    """Records what one run of the proxy sees.

    Methods that return a `PendingWrite` only build it; `put` queues it for the writing thread.
    """

    def __init__(
        self,
        store: Store,
        open_recorder: Callable[[str], Recorder],
        *,
        server: str,
        run: str,
        shared: bool,
        say: Say,
    ) -> None:
        """`open_recorder` opens the session, given the client's name; `shared`: other programs record in it
        too."""
        self._store = store.port
        self._clock = store.context.clock
        self._open_recorder = open_recorder
        self._server = server
        self._run = run
        self._shared = shared
        self._say = say
        self.client = ""
        self.lost = 0
        """Number of writes that failed and that no thread waited for."""
        self._recorder: Recorder | None = None
        self._tools: dict[str, ListedTool] = {}
        self._pinned: dict[str, str] | None = None
        self._tasks: dict[str, ProxiedCall] = {}
        self._claimed: dict[str, None] = {}
        self._numbers = itertools.count(1)
        self._queue: SimpleQueue[PendingWrite | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write_loop, name="stator proxy", daemon=True)
        self._thread.start()

    # -- called by other threads ------------------------------------------------------------------

    def put(self, *writes: PendingWrite) -> None:
        for write in writes:
            self._queue.put(write)

    def begin(self, call: ProxiedCall) -> None:
        """Record the intent of a call; `call.done` is done when it is on disk."""
        self.put(PendingWrite(lambda recorder: self._begin(recorder, call), call.done))

    def retry(self, call: ProxiedCall, cause: str) -> None:
        """Record that an attempt failed and another one begins; `call.done` works as in `begin`."""
        call.done = Future()
        at = self.now()
        self.put(PendingWrite(lambda recorder: self._retry(call, cause, at), call.done))

    def answered(self, call: ProxiedCall, response: RpcResponse) -> PendingWrite:
        """Record how a call ended, from its response."""
        at = self.now()
        return PendingWrite(lambda recorder: self._ended(call, call_result(response), at))

    def unread(self, call: ProxiedCall, long: LongMessage) -> PendingWrite:
        """Record that a response was too long to decode."""
        at, result = self.now(), CallResult("ok", f"{long.size} bytes, not read", _described(long))
        return PendingWrite(lambda recorder: self._ended(call, result, at))

    def failed(self, call: ProxiedCall, cause: str) -> PendingWrite:
        """Record that a call certainly had no effect, and why."""
        at, result = self.now(), CallResult("error", cause, {"error": "not done", "message": cause})
        return PendingWrite(lambda recorder: self._ended(call, result, at))

    def unanswered(
        self, call: ProxiedCall, cause: str, status_if_read: UnansweredStatus
    ) -> PendingWrite:
        """Record that a call has no response: it is in doubt, or `status_if_read` if it only reads."""
        at = self.now()
        return PendingWrite(lambda recorder: self._unanswered(call, cause, status_if_read, at))

    def offered(self, response: RpcResponse) -> PendingWrite:
        """Record the tools that a server lists."""
        at = self.now()
        return PendingWrite(lambda recorder: self._offered(recorder, response, at))

    def task(self, task: str, response: RpcResponse) -> PendingWrite:
        """Record the status of a task, if it ended the call that began it."""
        at = self.now()
        return PendingWrite(lambda recorder: self._task(task, response, at))

    def raw(self, why: str, data: bytes | LongMessage) -> PendingWrite:
        """Record a message that the proxy does not understand, as text."""
        at = self.now()
        kept = _described(data) if isinstance(data, LongMessage) else {"text": excerpt(data, 4_096)}
        item = Unknown(id=self._item_id("raw"), at=at, raw={"proxy": why, **kept})
        return PendingWrite(lambda recorder: [item])

    def flag(self, name: str, on: str, why: str) -> PendingWrite:
        """Record something a person should look at, and print it now."""
        items = self._flagged(name, on, why, self.now())
        return PendingWrite(lambda recorder: items)

    def close(self) -> None:
        """Write everything that is queued, then end the thread."""
        self._queue.put(None)
        self._thread.join()
        if self.lost:
            self._say(f"{self.lost} messages could not be recorded")

    def now(self) -> int:
        return self._clock()

    # -- in the writing thread --------------------------------------------------------------------

    def _write_loop(self) -> None:
        ended = False
        while not ended:
            writes, ended = self._next_batch()
            self._write(writes)
        # In a shared session another program, the agent, begins and ends; its hooks report that.
        if self._recorder is not None and not self._shared:
            self._write(
                [PendingWrite(lambda recorder: [Ended(id=self._item_id("end"), at=self.now())])]
            )

    def _next_batch(self) -> tuple[list[PendingWrite], bool]:
        """Return the writes to write together, and whether they are the last.

        A write that no thread waits for lingers a few milliseconds: writing now would compete with the
        message that is being passed on, and an intent that follows shares the transaction.
        """
        writes: list[PendingWrite] = []
        write = self._queue.get()
        while write is not None:
            writes.append(write)
            if len(writes) == BATCH_MAX:
                return writes, False
            awaited = any(one.done is not None for one in writes)
            try:
                write = self._queue.get_nowait() if awaited else self._queue.get(timeout=LINGER_S)
            except Empty:
                return writes, False
        return writes, True

    def _write(self, writes: list[PendingWrite]) -> None:
        """Write all in one transaction; if that fails, write each one alone: one bad write loses only itself."""
        if not writes:
            return
        try:
            recorder = self._opened_recorder()
            for write in writes:
                for item in write.items(recorder):
                    recorder.take(item)
            # In `barrier` mode only the intent of a write waits for the disk: a client waits for nothing else.
            recorder.flush(barrier=False)
        except Exception as error:
            if self._recorder is not None:
                # Else the items that failed would be written again with the next batch, and fail it too.
                self._recorder.forget()
            if len(writes) > 1:
                for write in writes:
                    self._write([write])
                return
            self._write_failed(writes[0], error)
        else:
            for write in writes:
                if write.done is not None and not write.done.done():
                    write.done.set_result(None)

    def _write_failed(self, write: PendingWrite, error: Exception) -> None:
        if write.done is not None:
            write.done.set_exception(error)
            return
        self.lost += 1
        what = error if isinstance(error, StatorError) else f"{type(error).__name__}: {error}"
        self._say(f"a message could not be recorded: {visible(without_secrets(str(what))[:300])}")

    def _opened_recorder(self) -> Recorder:
        if self._recorder is None:
            self._recorder = self._open_recorder(self.client)
            if not self._shared:
                self._recorder.take(
                    Began(id=self._item_id("begin"), at=self.now(), how=f"proxy of {self._server}")
                )
            self._recorder.flush(barrier=False)  # the session must exist before it is queried
        return self._recorder

    def _begin(self, recorder: Recorder, call: ProxiedCall) -> list[Item]:
        tool = self._tools.get(call.tool)
        call.effect = tool.effect if tool else "write"
        call.source = tool.source if tool else "tool"
        call.id = (
            call.id
            or self._claim_id(call.use)
            or self._id_from_hook(recorder, call)
            or self._item_id(call.request)
        )
        call.status = "started"
        return [
            Called(
                id=call.id, at=call.at, tool=self._full_name(call.tool), input=call.input,
                effect=call.effect,
            )
        ]  # fmt: skip

    def _retry(self, call: ProxiedCall, cause: str, at: int) -> list[Item]:
        ended = _returned(
            call, CallResult("error", cause, {"error": "not answered", "message": cause}), at
        )
        call.attempt = ended.attempt + 1
        return [
            ended,
            Called(
                id=call.id, at=at, tool=self._full_name(call.tool), input=call.input,
                effect=call.effect, attempt=call.attempt,
            ),
        ]  # fmt: skip

    def _ended(self, call: ProxiedCall, result: CallResult, at: int) -> list[Item]:
        if call.status not in ("started", "in doubt"):
            # the call is closed on record; keep the late response as a raw record
            late = {"proxy": "late answer", "call": call.id, "answer": result.output}
            return [Unknown(id=self._item_id("raw"), at=at, raw=late)]
        if result.task and len(self._tasks) < TASKS_MAX:
            self._tasks[result.task] = call
        call.input = None  # free it: it is on record, and may be large
        item = _returned(call, result, at)
        call.status = result.status
        return [item]

    def _unanswered(
        self, call: ProxiedCall, cause: str, status_if_read: UnansweredStatus, at: int
    ) -> list[Item]:
        if call.status != "started":
            return []
        # an idempotent call may have happened too; only for a read does it not matter
        status = status_if_read if call.effect == "read" else "in doubt"
        call.status = status
        return [
            Returned(
                id=call.id, at=at, status=status, cause=cause, source="system",
                output={"error": status, "message": cause}, attempt=call.attempt,
            )
        ]  # fmt: skip

    def _task(self, task: str, response: RpcResponse, at: int) -> list[Item]:
        call, result = self._tasks.get(task), task_result(response)
        if call is None or result is None:
            return []
        self._tasks.pop(task)
        return self._ended(call, result, at)

    def _offered(self, recorder: Recorder, response: RpcResponse, at: int) -> list[Item]:
        result = decode_raw(response.result) if response.result is not None else None
        new: dict[str, ListedTool] = {}
        items: list[Item] = []
        changed: list[str] = []
        for name, found in definitions(result).items():
            before = self._pinned_digest(recorder, name)
            self._tools[name] = found
            if before == found.digest:
                continue
            new[self._full_name(name)] = found
            if before:
                changed.append(self._full_name(name))
                why = f"{self._full_name(name)}: {before} is {found.digest} now"
                items += self._flagged("tool definition changed", self._full_name(name), why, at)
            if found.suspicion:
                why = f"{self._full_name(name)}: {found.suspicion}"
                items += self._flagged("tool description", self._full_name(name), why, at)
        if new:
            made = Offered(
                id=self._item_id("tools"), at=at,
                tools={name: found.digest for name, found in new.items()},
                definitions=[found.whole for found in new.values()], changed=tuple(changed),
            )  # fmt: skip
            items.insert(0, made)
        return items

    def _flagged(self, name: str, on: str, why: str, at: int) -> list[Item]:
        self._say(f"{name}: {visible(without_secrets(why))}")
        return [Flagged(id=self._item_id("flag"), at=at, name=name, on=on, why=why)]

    def _pinned_digest(self, recorder: Recorder, name: str) -> str:
        """Return the digest a tool was pinned with in this run, this session or this project."""
        if name in self._tools:
            return self._tools[name].digest
        if self._pinned is None:
            self._pinned = self._load_pinned(recorder.session)
        return self._pinned.get(self._full_name(name), "")

    def _load_pinned(self, session: str) -> dict[str, str]:
        """Load digests by tool: from this session, else from the newest session of the project that has one."""
        project = self._store.session(session).record.project
        query = SessionQuery(project=project, mode="recorded")
        rows = self._store.sessions(query, limit=PINNED_SESSIONS_MAX).rows
        found: dict[str, str] = {}
        for one in dict.fromkeys([session, *(row.id for row in rows)]):
            for entry in self._store.entries(one, "tools"):
                if isinstance(entry.record, ToolRecord) and entry.record.definition:
                    found.setdefault(entry.record.name, entry.record.definition)
        return found

    def _id_from_hook(self, recorder: Recorder, call: ProxiedCall) -> str:
        """Return the id under which a hook has just recorded the same call; "" if no hook has."""
        if not self._shared:
            return ""
        for seen in recorder.open_calls():
            same = seen.tool in (call.tool, self._full_name(call.tool)) and seen.input == call.input
            if same and seen.foreign not in self._claimed and call.at - seen.at <= CLAIM_US:
                return self._claim_id(seen.foreign)
        return ""

    def _claim_id(self, id: str) -> str:
        """Claim an id for one call; return "" if another call has it: each call needs its own intent."""
        if not id or id in self._claimed:
            return ""
        self._claimed[id] = None
        if len(self._claimed) > USES_MAX:
            del self._claimed[next(iter(self._claimed))]
        return id

    def _full_name(self, tool: str) -> str:
        return f"mcp__{self._server}__{tool}"

    def _item_id(self, what: str) -> str:
        return f"proxy/{self._run}/{what}/{next(self._numbers)}"


def _returned(call: ProxiedCall, result: CallResult, at: int) -> Returned:
    return Returned(
        id=call.id,
        at=at,
        status=result.status,
        cause=result.cause,
        output=result.output,
        source=call.source,
        attempt=call.attempt,
    )


def _described(long: LongMessage) -> dict[str, Any]:
    return {"size": long.size, "sha256": long.digest, "text": excerpt(long.head)}
