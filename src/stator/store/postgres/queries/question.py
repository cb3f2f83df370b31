"""Questions about sessions: generators that yield statements, are sent their rows, and return an answer.

So several questions are asked in one round trip (`answer_all`), and one that needs the rows of a first statement to
ask a second takes two.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from stator.errors import NotFound
from stator.store.postgres.connection import READ, Connections, Rows, Statement

Answer = TypeVar("Answer")


class StatementBatch(Sequence[Statement]):
    """Statements that are sent together; `last` if the question asks nothing after them."""

    def __init__(self, *asked: Statement, last: bool = True) -> None:
        self._asked = asked
        self.last = last

    def __len__(self) -> int:
        return len(self._asked)

    def __getitem__(self, place: Any) -> Any:
        return self._asked[place]


Question = Generator[StatementBatch, list[Rows], Answer]


def answer_all(connections: Connections, questions: Sequence[Question[Any]]) -> list[Any]:
    """The answers, from one snapshot; in the place of one to what is not found, that error."""
    answers: list[Any] = [None] * len(questions)
    waiting: dict[int, StatementBatch] = {}

    def advance(n: int, rows: list[Rows] | None) -> None:
        waiting.pop(n, None)
        try:
            # A generator that has not begun can be sent nothing.
            waiting[n] = next(questions[n]) if rows is None else questions[n].send(rows)
        except StopIteration as done:
            answers[n] = done.value
        except NotFound as error:
            answers[n] = error

    for n in range(len(questions)):
        advance(n, None)
    if not waiting:
        return answers
    with connections.transaction(READ) as db:
        while waiting:
            order = list(waiting)
            asked = [statement for n in order for statement in waiting[n]]
            sizes = [len(waiting[n]) for n in order]
            last = all(waiting[n].last for n in order)
            rows = db.ask(*asked, commit=last)
            start = 0
            for n, size in zip(order, sizes, strict=True):
                advance(n, rows[start : start + size])
                start += size
        if not last:
            db.ask(commit=True)
    return answers


def answer(connections: Connections, question: Question[Answer]) -> Answer:
    (given,) = answer_all(connections, [question])
    if isinstance(given, NotFound):
        raise given
    return given  # type: ignore[no-any-return]
