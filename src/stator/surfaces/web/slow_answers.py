"""Lets a page answer although its question takes long: the first one after much was recorded, which fills an index.

Such a question is asked in a thread of its own. A page waits a moment for the answer; if there is none, it shows what
the index holds already and how far it is, and asks again later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

PATIENCE_S = 3.0
"""How long a page waits for an answer."""
TURNS = 3
"""How often a page waits for the question of another one of the same index."""

Answer = TypeVar("Answer")


class IndexProgress(NamedTuple):
    """How many sessions of those that an index lacked it has by now."""

    done: int
    of: int


class SlowAnswers:
    """Questions that may take long, one at a time for each index."""

    def __init__(self, patience: float = PATIENCE_S) -> None:
        self.patience = patience
        self._lock = threading.Lock()
        self._asked: dict[str, _AskedOnce] = {}
        self._progress: dict[str, IndexProgress] = {}

    def soon(self, index: str, ask: Callable[[], Answer]) -> Answer | None:
        """The answer; None if it takes long. An error of the question is raised."""
        for _ in range(TURNS):
            with self._lock:
                question = self._asked.get(index)
                is_mine = question is None or question.is_done
                if question is None or question.is_done:
                    question = self._asked[index] = _AskedOnce(ask)
            if not question.wait(self.patience):
                return None
            if is_mine:
                found: Answer = question.answer()
                return found
        return None

    def reports(self, index: str) -> Callable[[str, int, int], None]:
        """Where a question reports how far it is."""

        def report(_what: str, done: int, of: int) -> None:
            self._progress[index] = IndexProgress(done, of)

        return report

    def progress(self, index: str) -> IndexProgress | None:
        """How far the question is that was asked last; None where that is not known."""
        return self._progress.get(index)


class _AskedOnce:
    """A question that is being asked."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask
        self._found: Any = None
        self._error: Exception | None = None
        self._done = threading.Event()
        threading.Thread(target=self._run, name="stator index", daemon=True).start()

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self, seconds: float) -> bool:
        return self._done.wait(seconds)

    def answer(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._found

    def _run(self) -> None:
        try:
            self._found = self._ask()
        except (
            Exception
        ) as error:  # it is raised where the answer is wanted, or nobody wants it any more
            self._error = error
        finally:
            self._done.set()
