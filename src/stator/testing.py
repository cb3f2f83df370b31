"""For your own tests: a store in memory, a clock that you control, scripted models and tools, and replay.

    from stator.testing import replay

    def test_the_login_fix_still_goes_as_recorded():
        replay("tests/login.stator", agent).check()

With pytest, the fixture `stator_replay` does the same and fails with the report.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from stator.connect import context as real_context
from stator.connect import mint
from stator.errors import BadType
from stator.index_files import project_index, search_index
from stator.model.calls.expectations import Divergence
from stator.model.log.commit import Commit
from stator.model.records.types import Effect
from stator.model.window.reply import Reply
from stator.runtime.base.context import Context
from stator.runtime.driving.tools import Tool
from stator.runtime.facade.store import Store
from stator.runtime.facade.view import SessionView
from stator.runtime.replay import engine
from stator.runtime.replay.report import Replayed, Uncaptured
from stator.runtime.replay.sources import Source, gather, load_fixture
from stator.store.memory import MemoryStore

__all__ = [
    "Divergence",
    "FakeClock",
    "Replayed",
    "ScriptedModel",
    "ScriptedTool",
    "Uncaptured",
    "load_fixture",
    "memory_store",
    "replay",
    "stator_replay",
]

START = 1_750_000_000_000_000
"""Where a fake clock begins: 2025-06-15 15:06:40 UTC."""
Provider = Literal["anthropic", "openai", "openai-chat"]


class FakeClock:
    """A clock that moves only when the test moves it, or by `tick_s` at each reading. In µs since 1970."""

    def __init__(self, start: int = START, *, tick_s: float = 0.0) -> None:
        self.now = start
        self._tick = round(tick_s * 1_000_000)
        self._passed_s = 0.0

    def __call__(self) -> int:
        self.now += self._tick
        return self.now

    def advance(self, seconds: float) -> None:
        """Advance the clock; sleeping in a store with this clock does the same."""
        self.now += round(seconds * 1_000_000)
        self._passed_s += seconds

    def monotonic(self) -> float:
        """The seconds by which the clock was advanced, without those added by readings."""
        return self._passed_s


def memory_store(clock: FakeClock | None = None, *, project: str = "test", root: str = "") -> Store:
    """A store in memory for one test. Its time is that of `clock`; sleeping is instant."""
    time = FakeClock(tick_s=1.0) if clock is None else clock
    context = Context(
        clock=time,
        mint=mint,
        secret=os.urandom,
        sleep=time.advance,
        monotonic=time.monotonic,
        host="here",
        pid=1,
        program="test",
        principal="local:test",
        project=project,
        root=root,
        index=search_index,
        project_index=project_index,
    )
    return Store(MemoryStore(clock=time), context)


class ScriptedModel:
    """A model that gives scripted answers, in order, and fails when it has none left.

    An answer is text; a list of calls, as `("read_file", {"path": "a.py"})`; an exception, to be raised; or a
    dict, which is returned unchanged. It can be called directly, or like a client of the SDK: `messages.create`,
    `responses.create`, `chat.completions.create`. `asked` holds what it was sent.
    """

    def __init__(self, answers: Sequence[Any], *, provider: Provider = "anthropic") -> None:
        self._answers = list(answers)
        self._provider: Provider = provider
        self.asked: list[dict[str, Any]] = []
        self.messages = self.responses = self.chat = self.completions = self

    @property
    def left(self) -> int:
        """How many answers were not used."""
        return len(self._answers) - len(self.asked)

    def __call__(self, **request: Any) -> Any:
        if self.left <= 0:
            raise AssertionError(f"the model was asked more than {len(self._answers)} times")
        answer = self._answers[len(self.asked)]
        self.asked.append(request)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, dict):
            return Reply(answer)
        text, calls = (answer, []) if isinstance(answer, str) else ("", list(answer))
        return Reply(_SHAPES[self._provider](text, calls, len(self.asked)))

    create = __call__


def _anthropic(text: str, calls: list[tuple[str, Any]], turn: int) -> dict[str, Any]:
    said = [{"type": "text", "text": text}] if text else []
    asks = [
        {"type": "tool_use", "id": f"toolu_{turn}_{n}", "name": name, "input": dict(given)}
        for n, (name, given) in enumerate(calls)
    ]
    return {
        "role": "assistant",
        "content": [*said, *asks],
        "stop_reason": "tool_use" if asks else "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def _openai(text: str, calls: list[tuple[str, Any]], turn: int) -> dict[str, Any]:
    said = {"type": "message", "role": "assistant"}
    items = [{**said, "content": [{"type": "output_text", "text": text}]}] if text else []
    asks = [
        {
            "type": "function_call",
            "call_id": f"call_{turn}_{n}",
            "name": name,
            "arguments": _json(given),
        }
        for n, (name, given) in enumerate(calls)
    ]
    usage = {"input_tokens": 10, "output_tokens": 5}
    return {"output": [*items, *asks], "status": "completed", "usage": usage}


def _openai_chat(text: str, calls: list[tuple[str, Any]], turn: int) -> dict[str, Any]:
    asks = [
        {
            "id": f"call_{turn}_{n}",
            "type": "function",
            "function": {"name": name, "arguments": _json(given)},
        }
        for n, (name, given) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text or None, "tool_calls": asks or None}
    why = "tool_calls" if asks else "stop"
    return {
        "choices": [{"index": 0, "finish_reason": why, "message": message}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }


_SHAPES: dict[Provider, Callable[[str, list[tuple[str, Any]], int], dict[str, Any]]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "openai-chat": _openai_chat,
}


def _json(given: Any) -> str:
    import json

    return json.dumps(given)


class ScriptedTool(Tool[..., Any]):
    """A tool that gives scripted results, in order, and fails when it has none left.

    An answer that is an exception is raised. `calls` holds the arguments it was called with.
    """

    def __init__(
        self, name: str, answers: Sequence[Any], *, effect: Effect = "write", **options: Any
    ) -> None:
        self.calls: list[dict[str, Any]] = []
        self._answers = list(answers)
        super().__init__(self._answer, name=name, effect=effect, **options)

    def _answer(self, **given: Any) -> Any:
        if len(self.calls) >= len(self._answers):
            raise AssertionError(f"{self.name} was called more than {len(self._answers)} times")
        self.calls.append(given)
        answer = self._answers[len(self.calls) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def replay(
    source: Any,
    agent: engine.Agent,
    *,
    session: str | None = None,
    turns: str | None = None,
    strict: bool = False,
    passphrase: str | None = None,
) -> Replayed:
    """Drive an agent against recorded outcomes: no tool runs, no model is asked, the source is not changed.
    `source` is a session (`store.read("login")`), the path of a fixture that `stator export --fixture` made,
        or sealed commits. `agent` is a function of a session, or a coroutine function of one. `session` says which
        one of a fixture with several, `turns` which of its turns (`"t3..t5"`). `strict`: different decisions,
        facts and other records count as a divergence too. `passphrase` opens a fixture that is locked.
    """
    found = _source(source, session or "", passphrase)
    return engine.replay(found, agent, MemoryStore(), real_context(), turns=turns, strict=strict)


def checked_replay(fail: Callable[[str], Any]) -> Callable[..., Replayed]:
    """`replay`, which calls `fail` with the report where the agent diverges from its record."""

    def check(source: Any, agent: Any, **options: Any) -> Replayed:
        __tracebackhide__ = True
        replayed = replay(source, agent, **options)
        if not replayed.ok:
            fail(str(replayed))
        return replayed

    return check


with contextlib.suppress(ImportError):  # pytest is not needed for the rest
    import pytest

    @pytest.fixture
    def stator_replay() -> Any:
        """The fixture of `stator.pytest_plugin`, for a test suite that does not load plugins."""
        return checked_replay(lambda report: pytest.fail(report, pytrace=False))


def _source(source: Any, session: str, passphrase: str | None) -> Source:
    if isinstance(source, Source):
        return source
    if isinstance(source, SessionView):
        return gather(source._store, source.id)
    if isinstance(source, (str, os.PathLike)):
        return Source(load_fixture(Path(source), passphrase), session)
    commits = list(getattr(source, "commits", source))
    logs = [[item] if isinstance(item, Commit) else item for item in commits]
    if not all(isinstance(commit, Commit) for log in logs for commit in log):
        raise BadType("not a record", hint="a session, the path of a fixture, or commits")
    return Source(logs, session)
