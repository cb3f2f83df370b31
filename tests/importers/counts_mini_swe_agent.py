"""Counts mini-swe-agent's prompts and commands in raw files, without the importer."""

from __future__ import annotations

import json
import sys


def count(path):
    """Count one prompt, and each answer's fenced command or tool calls."""
    with open(path, encoding="utf-8") as file:
        whole = json.load(file)
    messages = whole if isinstance(whole, list) else whole["messages"]
    said = [message for message in messages if message["role"] == "assistant"]
    fenced = sum(m["content"].count("\n```") == 1 or m["content"].count("```") == 2 for m in said)
    called = sum(len(m.get("tool_calls") or []) for m in said)
    return {"turns": 1, "calls": called or fenced}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, count(name))
