"""OpenAI Agents SDK: Runner with a function tool and an SQLiteSession on a file; run again with the
same session and the same input. (Its `RunState` resumes a run that stopped for an approval; one that
died has none to give.)"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from bench.victims import common

KINDS = {"function_call": "call", "function_call_output": "result"}


class Script(Model):
    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        given = kwargs.get("input", args[1] if len(args) > 1 else [])
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        text = common.think(
            [{"what": KINDS.get(i.get("type", ""), "prompt"), "text": json.dumps(i)} for i in items]
        )
        output: list[Any] = [
            ResponseFunctionToolCall(
                type="function_call",
                call_id="call_1",
                name="pay",
                arguments=json.dumps(common.ASK),
            )
        ]
        if text:
            said = ResponseOutputText(type="output_text", text=text, annotations=[])
            output = [
                ResponseOutputMessage(
                    id="m", type="message", role="assistant", status="completed", content=[said]
                )
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def session() -> SQLiteSession:
    return SQLiteSession("pay", "agent.db")


def run() -> str:
    set_tracing_disabled(True)
    agent = Agent(name="payer", model=Script(), tools=[function_tool(common.pay)])
    done = Runner.run_sync(
        agent, common.PROMPT, session=session(), run_config=RunConfig(tracing_disabled=True)
    )
    return str(done.final_output)


def kept() -> list[str]:
    items = asyncio.run(session().get_items())
    return [f"item {i['type']}: {i['name']}" for i in items if i.get("type") == "function_call"]


if __name__ == "__main__":
    common.main(run, run, kept)
