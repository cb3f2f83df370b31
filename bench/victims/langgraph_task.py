"""LangGraph's functional API: the payment in a `@task`, as its page on durable execution advises for
side effects; SqliteSaver, durability="sync"; resumed by `invoke(None, config)`."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task

from bench.victims import common

CONFIG: Any = {"configurable": {"thread_id": "pay"}}


@task
def model(items: list[dict[str, str]]) -> str:
    return common.think(items)


@task
def pay(to: str, cents: int) -> str:
    return common.pay(to, cents)


def agent(saver: SqliteSaver) -> Any:
    @entrypoint(checkpointer=saver)
    def run(prompt: str) -> str:
        items = [{"what": "prompt", "text": prompt}]
        while not (said := model(items).result()):
            items = [*items, {"what": "call", "text": "pay"}]
            items = [*items, {"what": "result", "text": pay("ACME", 4200).result()}]
        return str(said)

    return run


def invoke(given: str | None) -> str:
    with SqliteSaver.from_conn_string("agent.db") as saver:
        return str(agent(saver).invoke(given, CONFIG, durability="sync"))


def start() -> str:
    return invoke(common.PROMPT)


def resume() -> str:
    return invoke(None)


def kept() -> list[str]:
    with SqliteSaver.from_conn_string("agent.db") as saver:
        found = saver.get_tuple(CONFIG)
        writes = found.pending_writes or [] if found is not None else []
        return [f"write {value!r:.60}" for _, _, value in writes if "paid" in str(value)]


if __name__ == "__main__":
    common.main(start, resume, kept)
