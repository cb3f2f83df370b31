"""Stator: the same program is run again. `PROBE=1`: the tool can look into the ledger."""

from __future__ import annotations

import os
from typing import Any

import stator
from bench.victims import common


def in_ledger(intent: Any) -> str:
    line = f"{intent.arguments['to']} {intent.arguments['cents']}\n"
    return "done" if common.LEDGER.exists() and line in common.LEDGER.read_text() else "not_done"


def model(*, messages: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
    blocks = [block for message in messages for block in message["content"]]
    kinds = {"text": "prompt", "tool_use": "call", "tool_result": "result"}
    text = common.think(
        [{"what": kinds[b["type"]], "text": str(b.get("content") or b.get("text"))} for b in blocks]
    )
    if text:
        return {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
    ask = {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": common.ASK}
    return {"content": [ask], "stop_reason": "tool_use"}


def run() -> str:
    probe = in_ledger if os.environ.get("PROBE") else None
    tools = {"pay": stator.tool(common.pay, effect="write", reconcile=probe)}
    with stator.open("pay", store="agent.db") as s, s.turn(common.PROMPT) as t:
        while True:
            r = t.model(model, messages=t.messages("anthropic"))
            if r.stop_reason != "tool_use":
                return str(r.content[0].text)
            t.results(r, tools)


def kept() -> list[str]:
    with stator.connect("agent.db", read_only=True) as store:
        return [f"call {call.tool}: {call.status}" for call in store.read("pay").calls(tool="pay")]


if __name__ == "__main__":
    common.main(run, run, kept)
