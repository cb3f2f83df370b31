"""A loop you cannot change: give it another dispatch function, and its calls are recorded.

The loop is anthropic_before.py, unchanged. It keeps its own messages and asks its own model, so a run
after a crash asks the model again; but what was paid is not paid again.
"""

from __future__ import annotations

import stator
from anthropic_before import run
from scripted import Anthropic
from shop import EFFECTS, PROMPT, dispatch

if __name__ == "__main__":
    with stator.open("pay-invoice", agent="shop") as s, s.turn(PROMPT) as t:
        answer = run(Anthropic(), PROMPT, s.wrap(dispatch, effects=EFFECTS))
        t.say(answer)
    print(answer)
