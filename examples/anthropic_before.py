"""An ordinary tool loop for Anthropic's API. It works until the process dies; see anthropic_after.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scripted import Anthropic
from shop import ANTHROPIC_TOOLS, PROMPT, dispatch


def run(client: Any, prompt: str, dispatch: Callable[[str, dict[str, Any]], Any]) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    while True:
        response = client.messages.create(
            model="claude", max_tokens=1024, tools=ANTHROPIC_TOOLS, messages=messages
        )
        messages.append({"role": "assistant", "content": response.content})
        if response.stop_reason != "tool_use":
            return str(response.content[-1].text)
        results = []
        for block in response.content:
            if block.type != "tool_use":
                continue
            try:
                content, failed = str(dispatch(block.name, block.input)), False
            except Exception as error:
                content, failed = f"{type(error).__name__}: {error}", True
            results.append(
                {
                    "type": "tool_result",
                    "tool_use_id": block.id,
                    "content": content,
                    "is_error": failed,
                }
            )
        messages.append({"role": "user", "content": results})


if __name__ == "__main__":
    print(run(Anthropic(), PROMPT, dispatch))
