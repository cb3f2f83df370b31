"""A scripted agent of three turns that dies at a given point and can be run again.

Everything that can kill it is here: the store's `append` and the tools are wrapped in the process
that is to die. Each tool's effect is one line in a file, on disk before the tool returns.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

import stator
import stator.aio
from stator.connect import connect
from stator.errors import ApprovalNeeded, NotDone
from stator.runtime.driving.call import Intent
from stator.store.postgres import PostgresStore
from stator.store.sqlite import SqliteStore

TURNS = 3
STYLES = ("model", "parallel", "hand", "reworded", "keyed")
"""Who asks for the calls: a recorded model (in order, or all at once), or the program itself, with
words that stay, words that change from run to run, and words that change under a `key=`."""
POLICIES = ("read", "idempotent", "write", "settled", "reconciled", "by key", "approved")
"""What the tool `act` declares: also a write whose doubts a person settles before the next run, one
that can say what became of it, by its arguments or by its idempotency key, and one that a person has
to approve."""
DEFINITIONS = [
    {"name": name, "description": name, "input_schema": {"type": "object"}}
    for name in ("look", "act", "put", "note")
]


class World:
    """Effects of tools: one line each in a file that every later process reads."""

    def __init__(self, path: str) -> None:
        self._path = path

    def did(self, *what: Any) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(descriptor, (json.dumps(what) + "\n").encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def all(self) -> list[list[Any]]:
        path = Path(self._path)
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def count(self, *what: Any) -> int:
        return sum(line[: len(what)] == list(what) for line in self.all())


class Fuse:
    """Counts the points a program passes, and kills it at one of them."""

    def __init__(self, point: int | None) -> None:
        self._point = point
        self._lock = threading.Lock()
        self.passed: list[str] = []
        self.turn = 0

    def at(self, where: str) -> float:
        with self._lock:
            if len(self.passed) == self._point:
                os.kill(os.getpid(), signal.SIGKILL)
                signal.pause()  # in another thread the signal may take a moment
            self.passed.append(f"{self.turn}: {where}")
        return 0.0

    def watch_appends(self) -> None:
        """Every append of this process, to any store, has a point before it and one after."""
        SqliteStore.append = self._around(SqliteStore.append)  # type: ignore[method-assign]
        PostgresStore.append = self._around(PostgresStore.append)  # type: ignore[method-assign]

    def _around(self, append: Callable[..., Any]) -> Callable[..., Any]:

        def appended(store: Any, session: str, drafts: Sequence[Any], **options: Any) -> Any:
            what = " + ".join(f"{d.kind} {d.tool}".strip() for d in drafts)
            self.at(f"before {what}")
            commits = append(store, session, drafts, **options)
            self.at(f"after {what}")
            return commits

        return appended


class Tools:
    """The tools of the script, for one policy and one kind of API."""

    def __init__(self, world: World, fuse: Fuse, policy: str, *, awaited: bool) -> None:
        self._world, self._fuse, self._awaited = world, fuse, awaited
        self.look = self._tool("look", self._look, effect="read")
        self.act = self._act(policy)
        self.put = self._tool("put", self._put, effect="idempotent")
        self.note = stator.tool(self._note, name="note")  # a plain function in either API
        self.by_name = {tool.name: tool for tool in (self.look, self.act, self.put, self.note)}

    def _tool(self, name: str, function: Callable[..., Any], **options: Any) -> Any:
        made = function
        if self._awaited:

            async def made(n: int, text: str) -> Any:
                await asyncio.sleep(0)
                return function(n=n, text=text)

        return stator.tool(made, name=name, **options)

    def _act(self, policy: str) -> Any:
        if policy in ("read", "idempotent", "write", "settled"):
            return self._tool("act", self._try, effect="write" if policy == "settled" else policy)
        if policy == "approved":
            return self._tool("act", self._try, approve=True)
        if policy == "reconciled":
            return self._tool("act", self._try, reconcile=self._by_arguments)
        made: Any = self._keyed
        if self._awaited:

            async def made(n: int, text: str, idempotency_key: str) -> Any:
                return self._keyed(n, text, idempotency_key)

        return stator.tool(made, name="act", reconcile=self._by_key)

    def _effect(self, name: str, n: int, *more: Any) -> str:
        self._fuse.at(f"in {name}, before its effect")
        self._world.did(name, n, *more)
        self._fuse.at(f"in {name}, after its effect")
        return f"{name} {n}"

    def _look(self, n: int, text: str) -> str:
        return self._effect("look", n)

    def _put(self, n: int, text: str) -> str:
        return self._effect("put", n)

    def _note(self, n: int, text: str) -> str:
        return self._effect("note", n)

    def _try(self, n: int, text: str) -> str:
        """Raise NotDone at the first attempt, so that there is a second."""
        self._refuse_once(n)
        return self._effect("act", n)

    def _keyed(self, n: int, text: str, idempotency_key: str) -> str:
        self._refuse_once(n)
        return self._effect("act", n, idempotency_key)

    def _refuse_once(self, n: int) -> None:
        if not self._world.count("tried", n):
            self._world.did("tried", n)
            self._fuse.at("in act, before it refuses")
            raise NotDone("not yet")

    def _by_arguments(self, intent: Intent) -> Any:
        self._fuse.at("in reconcile")
        done = self._world.count("act", intent.arguments["n"])
        return ("done", "found") if done else "not_done"

    def _by_key(self, intent: Intent) -> str:
        self._fuse.at("in reconcile")
        done = self._world.count("act", intent.arguments["n"], intent.key)
        return "done" if done else "not_done"


class Model:
    """A model whose answers follow from the messages, worded differently each time."""

    def __init__(self, world: World, fuse: Fuse, words: str) -> None:
        self._world, self._fuse, self._words = world, fuse, words

    def ask(self, *, messages: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        n = self._fuse.turn
        prompts = [at for at, message in enumerate(messages) if is_prompt(message)]
        place = sum(message["role"] == "assistant" for message in messages[prompts[-1] :])
        self._fuse.at("in the model")
        self._world.did("asked", n, place)
        self._fuse.at("the model has answered")
        wanted = (["look", "act"], ["put", "note"], [])[place]
        content: list[dict[str, Any]] = [{"type": "text", "text": self._words}]
        content += [
            {"type": "tool_use", "id": f"tu_{n}_{name}", "name": name,
             "input": {"n": n, "text": self._words}}
            for name in wanted
        ]  # fmt: skip
        reason = "tool_use" if wanted else "end_turn"
        return {"role": "assistant", "content": content, "stop_reason": reason}


def is_prompt(message: dict[str, Any]) -> bool:
    """Whether a message is a turn's prompt, not results or notes."""
    content = message["content"]
    words = [content] if isinstance(content, str) else [block.get("text") for block in content]
    return message["role"] == "user" and any(
        isinstance(word, str) and word.startswith("task ") for word in words
    )


class Plain:
    """The synchronous API with the asynchronous interface, so that one script is enough."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)

        async def later(*args: Any, **kwargs: Any) -> Any:
            return found(*args, **kwargs)

        return later if callable(found) else found

    def turn(self, prompt: str) -> Plain:
        return Plain(self.inner.turn(prompt))

    async def __aenter__(self) -> Plain:
        self.inner.__enter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        self.inner.__exit__(*exc)


class Script:
    """The agent: three turns, each with a read, a write of two attempts, an idempotent call and a plain
    write."""

    def __init__(
        self,
        talk: Any,
        tools: Tools,
        model: Model,
        fuse: Fuse,
        world: World,
        style: str,
        words: str,
    ) -> None:
        self._talk = talk
        self._tools, self._model, self._fuse = tools, model, fuse
        self._style, self._words = style, words
        self._world = world

    async def run(self, session: Any) -> None:
        for n in range(1, TURNS + 1):
            self._fuse.turn = n
            async with session.turn(f"task {n}") as t:
                await (
                    self._looped(t) if self._style in ("model", "parallel") else self._hand(t, n)
                )
            self._fuse.at("between turns")
        self._fuse.turn = 0

    async def _looped(self, t: Any) -> None:
        while True:
            messages = await t.messages("anthropic")
            check_anthropic(messages)
            r = await t.model(self._model.ask, tools=DEFINITIONS, model="m", messages=messages)
            self._fuse.at("the answer is here, nothing is called")
            if r["stop_reason"] != "tool_use":
                return
            await t.results(r, self._tools.by_name, parallel=self._style == "parallel")

    async def _hand(self, t: Any, n: int) -> None:
        tools = self._tools
        words = self._say(t, n)
        for tool in (tools.look, tools.act, tools.put, tools.note):
            named = tool.using(key=f"{tool.name} {n}") if self._style == "keyed" else tool
            outcome = await t.try_call(named, n=n, text=words)
            if outcome.status == "in doubt":
                self._talk.say({"told": [tool.name, n]})
            elif outcome.status == "denied":
                assert self._style == "reworded", outcome  # the original call was settled as done
            else:
                assert outcome.ok, outcome
        await t.fact(f"done {n}", True)

    def _say(self, t: Any, n: int) -> str:
        """The text of a turn: different each time, until the turn has ended."""
        if t.reused:
            return str([line[2] for line in self._world.all() if line[:2] == ["words", n]][-1])
        self._world.did("words", n, self._words)
        return self._words


def check_anthropic(messages: list[dict[str, Any]]) -> None:
    """Assert what Anthropic requires; it refuses two messages of one role in a row, a call without its
    result, a result without its call, and an id used twice."""
    assert messages[0]["role"] == "user"
    open_ids: set[str] = set()
    seen: set[str] = set()
    for before, message in zip([None, *messages], messages, strict=False):
        assert before is None or before["role"] != message["role"], messages
        content = message["content"]
        blocks = [] if isinstance(content, str) else content
        assert content, messages
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert set(results) == open_ids, (results, open_ids)
        assert len(results) == len(open_ids)
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert not seen & set(asked)
        assert len(set(asked)) == len(asked)
        seen |= set(asked)
        open_ids = set(asked)
    assert not open_ids


def play(
    talk: Any, path: str, effects: str, policy: str, style: str, api: str, run: int,
    point: int | None,
) -> dict[str, Any]:  # fmt: skip
    """Run the script once, until its end, its death at a point, or a need for approval."""
    fuse, world = Fuse(point), World(effects)
    words = "first words" if run == 0 or style == "hand" else "other words"
    fuse.watch_appends()
    tools = Tools(world, fuse, policy, awaited=api == "async")
    script = Script(talk, tools, Model(world, fuse, words), fuse, world, style, words)
    store = connect(path, project="test", durability="relaxed")
    # No time passes between attempts; the wait is a crash point like any other.
    store.context = msgspec.structs.replace(store.context, jitter=lambda: fuse.at("in backoff"))

    def report(session: Any) -> None:
        recovery = session.recovery
        doubts = [[doubt.tool, doubt.arguments["n"]] for doubt in recovery.in_doubt]
        talk.say({"interrupted": recovery.interrupted, "in doubt": doubts})

    async def looped() -> None:
        async with stator.aio.AsyncStore(store) as opened, opened.open("main") as session:
            report(session._sync)
            await script.run(session)

    async def plain() -> None:
        async with Plain(store.open("main")) as session:
            report(session.inner)
            await script.run(session)

    needed = ""
    try:
        if api == "async":
            asyncio.run(looped())
        else:
            finish(plain())
    except ApprovalNeeded as error:
        needed = error.ids["call"]
    return {"points": fuse.passed, "needs": needed}


def finish(work: Any) -> None:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits")


# -- one call and another process -----------------------------------------------------------------


def act_when_told(talk: Any, path: str, effects: str, reconcile: str) -> dict[str, Any]:
    """Drive a session into a write that waits for a message before its effect; returns the outcome."""
    world = World(effects)

    @stator.tool(name="act", reconcile=(lambda intent: reconcile) if reconcile else None)
    def act() -> str:
        talk.say("in act")
        talk.hear()
        world.did("act")
        return "done"

    with connect(path, project="test") as store:
        session = store.open("main")
        with session.turn("one") as turn:
            outcome = turn.try_call(act)
        return {"status": outcome.status, "replayed": outcome.replayed}


def calls_until_paused(talk: Any, path: str, effects: str) -> dict[str, Any]:
    """Make one call per message, until another process asks for a pause."""
    world = World(effects)

    @stator.tool
    def act(n: int) -> str:
        world.did("act", n)
        return "done"

    made = []
    with connect(path, project="test") as store:
        try:
            with store.open("main") as session, session.turn("one") as turn:
                for n in range(1, 4):
                    talk.say("ready")
                    talk.hear()
                    made.append(turn.try_call(act, n=n).replayed)
        except stator.Paused as paused:
            return {"made": made, "paused": paused.reason}
    return {"made": made, "paused": ""}
