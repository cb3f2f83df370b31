"""The same loop through Stator: shorter, and killed while it pays, it does not pay twice.

Run it again after a crash and it continues the interrupted turn. If the outcome of the payment is not
known, the payment is not made again; the model is informed that the outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import stator
from scripted import Anthropic
from shop import ANTHROPIC_TOOLS, EFFECTS, PROMPT, dispatch


def run(client: Any, prompt: str, dispatch: Callable[[str, dict[str, Any]], Any]) -> str:
    with stator.open("pay-invoice", agent="shop") as s, s.turn(prompt) as t:
        while True:
            response = t.model(
                client.messages.create,
                model="claude",
                max_tokens=1024,
                tools=ANTHROPIC_TOOLS,
                messages=t.messages("anthropic"),
            )
            if response.stop_reason != "tool_use":
                return str(response.content[-1].text)
            t.results(response, dispatch, effects=EFFECTS)


if __name__ == "__main__":
    print(run(Anthropic(), PROMPT, dispatch))
