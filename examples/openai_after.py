"""The same loop through Stator, which reads the model's arguments and answers its calls itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import stator
from scripted import OpenAI
from shop import EFFECTS, OPENAI_TOOLS, PROMPT, dispatch


def run(client: Any, prompt: str, dispatch: Callable[[str, dict[str, Any]], Any]) -> str:
    with stator.open("pay-invoice", agent="shop") as s, s.turn(prompt) as t:
        while True:
            response = t.model(
                client.chat.completions.create,
                model="gpt",
                tools=OPENAI_TOOLS,
                messages=t.messages("openai-chat"),
            )
            message = response.choices[0].message
            if not message.tool_calls:
                return str(message.content)
            t.results(response, dispatch, effects=EFFECTS)


if __name__ == "__main__":
    print(run(OpenAI(), PROMPT, dispatch))
