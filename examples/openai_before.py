"""An ordinary tool loop for OpenAI's chat completions, and all that copy them: see openai_after.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from scripted import OpenAI
from shop import OPENAI_TOOLS, PROMPT, dispatch


def run(client: Any, prompt: str, dispatch: Callable[[str, dict[str, Any]], Any]) -> str:
    messages: list[Any] = [{"role": "user", "content": prompt}]
    while True:
        response = client.chat.completions.create(
            model="gpt", tools=OPENAI_TOOLS, messages=messages
        )
        message = response.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return str(message.content)
        for call in message.tool_calls:
            try:
                arguments = json.loads(call.function.arguments)
                content = str(dispatch(call.function.name, arguments))
            except Exception as error:
                content = f"{type(error).__name__}: {error}"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


if __name__ == "__main__":
    print(run(OpenAI(), PROMPT, dispatch))
