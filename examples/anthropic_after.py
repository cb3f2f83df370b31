"""The same loop through Stator: shorter, and a kill -9 anywhere in it pays nobody twice.

Run it again after a crash and it goes on where it was. A payment that nobody can vouch for is told
to the model as that, and is not made again.
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
