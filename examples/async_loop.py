"""The loop on asyncio: the same names, awaited. Tools may be coroutines, plain functions, or both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import stator
from scripted import AsyncAnthropic
from shop import ANTHROPIC_TOOLS, PROMPT, pay, read_file, write_file


async def pay_later(to: str, cents: int) -> str:
    await asyncio.sleep(0)  # in place of a request to the bank
    return pay(to, cents)


TOOLS: dict[str, Callable[..., Any]] = {
    "read_file": stator.tool(read_file, effect="read"),
    "write_file": stator.tool(write_file, effect="idempotent", files="path"),
    "pay": stator.tool(pay_later, effect="write", timeout_s=30),
}


async def run(client: Any, prompt: str) -> str:
    async with (
        stator.aio.connect() as store,
        store.open("pay-invoice", agent="shop") as s,
        s.turn(prompt) as t,
    ):
        while True:
            response = await t.model(
                client.messages.create,
                model="claude",
                max_tokens=1024,
                tools=ANTHROPIC_TOOLS,
                messages=await t.messages("anthropic"),
            )
            if response.stop_reason != "tool_use":
                return str(response.content[-1].text)
            await t.results(response, TOOLS, parallel=True)


if __name__ == "__main__":
    print(asyncio.run(run(AsyncAnthropic(), PROMPT)))
