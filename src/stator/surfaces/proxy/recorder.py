"""The one thread that writes to the store, and what those who pass messages on ask of it.

They hand over work and go on; only for an intent do they wait until it is on disk. What is handed over
together is written together, in the order it came, so what was offered is known before it is called.
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
from stator.model.log.query import SessionQuery
from stator.model.records.types import Effect, ToolRecord
from stator.model.values.escape import visible
from stator.runtime.base.paging import commit_at
from stator.runtime.facade.store import Store
from stator.runtime.ingest.recorder import Recorder
from stator.surfaces.proxy.classify import Answer, Told, inside, shown, task_told, told
from stator.surfaces.proxy.definitions import Definition, definitions
from stator.surfaces.proxy.framing import Long

CLAIM_US = 10_000_000
"""How long ago, at most, somebody else recorded the intent of the call that is seen here."""
EARLIER_MAX = 50
"""Sessions of the project, the newest, that are asked what a tool was there."""
TASKS_MAX = 1_000
USES_MAX = 100_000
"""Ids that calls were given by their client, to know one that is given twice."""
LINGER_S = 0.003
TOGETHER_MAX = 500
"""Things that are written in one transaction."""

Say = Callable[[str], None]
Unanswered = Literal["timeout", "cancelled", "error"]


@dataclass(slots=True, eq=False)
class Call:
    """A call as it goes by."""

    tool: str
    """As the server has it."""
    input: Any
    at: int
    request: str
    use: str = ""
    """The client's own id for it."""
    id: str = ""
    effect: Effect = "write"
    attempt: int = 1
    status: str = ""
    """"": not begun."""
    done: Future[None] = field(default_factory=Future)
    """Done when the intent is on disk."""


@dataclass(slots=True, eq=False)
class Work:
    """Something to be recorded."""

    make: Callable[[Recorder], list[Item]]
    done: Future[None] | None = None
    _items: list[Item] | None = None

    def items(self, recorder: Recorder) -> list[Item]:
        """What it comes to; worked out once, also where it has to be written again."""
        if self._items is None:
            self._items = self.make(recorder)
        return self._items


class Recording:
    """What one run of the proxy records."""

    def __init__(
        self,
        store: Store,
        opened: Callable[[str], Recorder],
        *,
        server: str,
        run: str,
        shared: bool,
        say: Say,
    ) -> None:
        """`opened` begins the session, given what the client calls itself; `shared`: others record in
        it too."""
        self._store = store.port
        self._clock = store.context.clock
        self._opened = opened
        self._server = server
        self._run = run
        self._shared = shared
        self._say = say
        self.client = ""
        self.lost = 0
        """Things that could not be recorded."""
        self._recorder: Recorder | None = None
        self._known: dict[str, Definition] = {}
        self._pinned: dict[str, str] | None = None
        self._tasks: dict[str, Call] = {}
        self._claimed: dict[str, None] = {}
        self._numbers = itertools.count(1)
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="stator proxy", daemon=True)
        self._thread.start()

    # -- what is asked of it ----------------------------------------------------------------------

    def put(self, *works: Work) -> None:
        for work in works:
            self._queue.put(work)

    def begin(self, call: Call) -> None:
        """Record the intent of a call; `call.done` says when that is on disk."""
        self.put(Work(lambda recorder: self._begin(recorder, call), call.done))

    def again(self, call: Call, cause: str) -> None:
        """Record that an attempt failed and another begins; `call.done` as in `begin`."""
        call.done = Future()
        at = self.now()
        self.put(Work(lambda recorder: self._again(call, cause, at), call.done))

    def answered(self, call: Call, answer: Answer) -> Work:
        """How a call ended, by its answer."""
        at = self.now()
        return Work(lambda recorder: self._ended(call, told(answer), at))

    def unread(self, call: Call, long: Long) -> Work:
        """That a call was answered by more than is read."""
        at, known = self.now(), Told("ok", f"{long.size} bytes, not read", _described(long))
        return Work(lambda recorder: self._ended(call, known, at))

    def failed(self, call: Call, cause: str) -> Work:
        """That a call had no effect, and why that is known."""
        at, known = self.now(), Told("error", cause, {"error": "not done", "message": cause})
        return Work(lambda recorder: self._ended(call, known, at))

    def unanswered(self, call: Call, cause: str, otherwise: Unanswered) -> Work:
        """That nobody will say how a call ended: in doubt, unless it only reads."""
        at = self.now()
        return Work(lambda recorder: self._unanswered(call, cause, otherwise, at))

    def offered(self, answer: Answer) -> Work:
        """What tools there are."""
        at = self.now()
        return Work(lambda recorder: self._offered(recorder, answer, at))

    def task(self, task: str, answer: Answer) -> Work:
        """What somebody was told who asked how a task stands."""
        at = self.now()
        return Work(lambda recorder: self._task(task, answer, at))

    def raw(self, why: str, data: bytes | Long) -> Work:
        """Something that is kept as it is: nobody knows what it means."""
        at = self.now()
        kept = _described(data) if isinstance(data, Long) else {"text": shown(data, 4_096)}
        item = Unknown(id=self._id("raw"), at=at, raw={"proxy": why, **kept})
        return Work(lambda recorder: [item])

    def flag(self, name: str, on: str, why: str) -> Work:
        """Something a person should look at; it is said at once, too."""
        items = self._flagged(name, on, why, self.now())
        return Work(lambda recorder: items)

    def close(self) -> None:
        """Write what is left and end."""
        self._queue.put(None)
        self._thread.join()
        if self.lost:
            self._say(f"{self.lost} things could not be recorded")

    def now(self) -> int:
        return self._clock()

    # -- in the thread ----------------------------------------------------------------------------

    def _serve(self) -> None:
        ended = False
        while not ended:
            works, ended = self._gather()
            self._write(works)
        if self._recorder is not None and not self._shared:
            self._write([Work(lambda recorder: [Ended(id=self._id("end"), at=self.now())])])

    def _gather(self) -> tuple[list[Work], bool]:
        """What is to be written together, and whether it is the last.

        What nobody waits for lets what comes next pass first: the message that brought it is just being
        passed on, and an intent that follows at once is written with it.
        """
        works: list[Work] = []
        work = self._queue.get()
        while work is not None:
            works.append(work)
            if len(works) == TOGETHER_MAX:
                return works, False
            wanted = any(one.done is not None for one in works)
            try:
                work = self._queue.get_nowait() if wanted else self._queue.get(timeout=LINGER_S)
            except Empty:
                return works, False
        return works, True

    def _write(self, works: list[Work]) -> None:
        """Write them together; where that fails, each by itself, so that one cannot take others along."""
        if not works:
            return
        try:
            recorder = self._ready()
            for work in works:
                for item in work.items(recorder):
                    recorder.take(item)
            recorder.flush(barrier=False)
        except Exception as error:
            if self._recorder is not None:
                self._recorder.forget()
            if len(works) > 1:
                for work in works:
                    self._write([work])
                return
            self._refused(works[0], error)
        else:
            for work in works:
                if work.done is not None and not work.done.done():
                    work.done.set_result(None)

    def _refused(self, work: Work, error: Exception) -> None:
        if work.done is not None:
            work.done.set_exception(error)
            return
        self.lost += 1
        what = error if isinstance(error, StatorError) else f"{type(error).__name__}: {error}"
        self._say(f"could not be recorded: {visible(str(what)[:300])}")

    def _ready(self) -> Recorder:
        if self._recorder is None:
            self._recorder = self._opened(self.client)
            if not self._shared:
                self._recorder.take(
                    Began(id=self._id("begin"), at=self.now(), how=f"proxy of {self._server}")
                )
            self._recorder.flush(barrier=False)  # it is there before anything is asked of it
        return self._recorder

    def _begin(self, recorder: Recorder, call: Call) -> list[Item]:
        known = self._known.get(call.tool)
        call.effect = known.effect if known else "write"
        call.id = (
            call.id
            or self._taken(call.use)
            or self._claim(recorder, call)
            or self._id(call.request)
        )
        call.status = "started"
        tool, made = self._named(call.tool), call.input
        return [Called(id=call.id, at=call.at, tool=tool, input=made, effect=call.effect)]

    def _again(self, call: Call, cause: str, at: int) -> list[Item]:
        ended = _returned(
            call, Told("error", cause, {"error": "not answered", "message": cause}), at
        )
        call.attempt = ended.attempt + 1
        return [
            ended,
            Called(
                id=call.id, at=at, tool=self._named(call.tool), input=call.input,
                effect=call.effect, attempt=call.attempt,
            ),
        ]  # fmt: skip

    def _ended(self, call: Call, known: Told, at: int) -> list[Item]:
        if call.status not in ("started", "in doubt"):
            # it is settled that nobody waited for it; what came is kept
            late = {"proxy": "late answer", "call": call.id, "answer": known.output}
            return [Unknown(id=self._id("raw"), at=at, raw=late)]
        if known.task and len(self._tasks) < TASKS_MAX:
            self._tasks[known.task] = call
        call.input = None  # it is on record, and may be large
        item = _returned(call, known, at)
        call.status = known.status
        return [item]

    def _unanswered(self, call: Call, cause: str, otherwise: Unanswered, at: int) -> list[Item]:
        if call.status != "started":
            return []
        # one that may be done twice may still have been done: only of a read is it no matter
        status = otherwise if call.effect == "read" else "in doubt"
        call.status = status
        return [
            Returned(
                id=call.id, at=at, status=status, cause=cause, source="system",
                output={"error": status, "message": cause}, attempt=call.attempt,
            )
        ]  # fmt: skip

    def _task(self, task: str, answer: Answer, at: int) -> list[Item]:
        call, known = self._tasks.get(task), task_told(answer)
        if call is None or known is None:
            return []
        self._tasks.pop(task)
        return self._ended(call, known, at)

    def _offered(self, recorder: Recorder, answer: Answer, at: int) -> list[Item]:
        result = inside(answer.result) if answer.result is not None else None
        news: dict[str, Definition] = {}
        items: list[Item] = []
        changed: list[str] = []
        for name, found in definitions(result).items():
            before = self._before(recorder, name)
            self._known[name] = found
            if before == found.digest:
                continue
            news[self._named(name)] = found
            if before:
                changed.append(self._named(name))
                why = f"{self._named(name)}: {before} is {found.digest} now"
                items += self._flagged("tool definition changed", self._named(name), why, at)
            if found.suspicion:
                why = f"{self._named(name)}: {found.suspicion}"
                items += self._flagged("tool description", self._named(name), why, at)
        if news:
            made = Offered(
                id=self._id("tools"), at=at,
                tools={name: found.digest for name, found in news.items()},
                definitions=[found.whole for found in news.values()], changed=tuple(changed),
            )  # fmt: skip
            items.insert(0, made)
        return items

    def _flagged(self, name: str, on: str, why: str, at: int) -> list[Item]:
        self._say(f"{name}: {visible(why)}")
        return [Flagged(id=self._id("flag"), at=at, name=name, on=on, why=why)]

    def _before(self, recorder: Recorder, name: str) -> str:
        """The digest a tool was pinned with: in this run, in this session, in this project."""
        if name in self._known:
            return self._known[name].digest
        if self._pinned is None:
            self._pinned = self._earlier(recorder.session)
        return self._pinned.get(self._named(name), "")

    def _earlier(self, session: str) -> dict[str, str]:
        """Digests by tool, as this session has them, else the newest of the project that does."""
        project = self._store.session(session).record.project
        query = SessionQuery(project=project, mode="recorded")
        rows = self._store.sessions(query, limit=EARLIER_MAX).rows
        found: dict[str, str] = {}
        for known in dict.fromkeys([session, *(row.id for row in rows)]):
            for entry in self._store.entries(known, "tools"):
                if isinstance(entry.record, ToolRecord) and entry.record.definition:
                    found.setdefault(entry.record.name, entry.record.definition)
        return found

    def _claim(self, recorder: Recorder, call: Call) -> str:
        """The id of the call that somebody else, a hook, has just seen begin."""
        if not self._shared:
            return ""
        for foreign, known in recorder.open_calls().items():
            same = known.tool in (call.tool, self._named(call.tool)) and not known.doubtful
            if not same or foreign in self._claimed or call.at - known.at > CLAIM_US:
                continue
            for _, seq in self._store.locate(known.call[2:], recorder.session):
                intent = commit_at(self._store, recorder.session, seq)
                if intent.kind == "call" and intent.known("input") == call.input:
                    return self._taken(foreign)
        return ""

    def _taken(self, id: str) -> str:
        """That id, which is a call's from now on; "" if it is another's: that one's intent is not its."""
        if not id or id in self._claimed:
            return ""
        self._claimed[id] = None
        if len(self._claimed) > USES_MAX:
            del self._claimed[next(iter(self._claimed))]
        return id

    def _named(self, tool: str) -> str:
        return f"mcp__{self._server}__{tool}"

    def _id(self, what: str) -> str:
        return f"proxy/{self._run}/{what}/{next(self._numbers)}"


def _returned(call: Call, known: Told, at: int) -> Returned:
    return Returned(
        id=call.id,
        at=at,
        status=known.status,
        cause=known.cause,
        output=known.output,
        attempt=call.attempt,
    )


def _described(long: Long) -> dict[str, Any]:
    return {"size": long.size, "sha256": long.digest, "text": shown(long.head)}
