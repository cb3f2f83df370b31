"""Counts turns, calls, results and tokens in raw Gemini CLI chats, without the importer."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def count(path):
    """Count one chat."""
    turns, calls, results, tokens = set(), {}, set(), {}
    text = Path(path).read_text(encoding="utf-8")
    try:
        messages = json.loads(text)["messages"]
    except ValueError:
        messages = [json.loads(line) for line in text.splitlines()]
    for message in messages:
        if message.get("type") == "user":
            content = message["content"]
            said = content if isinstance(content, str) else content[0].get("text")
            if said and not said.startswith("<session_context>"):
                turns.add(message["id"])
        elif message.get("type") == "gemini":
            tokens[message["id"]] = (message.get("tokens") or {}).get("total", 0)
            for call in message.get("toolCalls", []):
                calls[message["id"], call["id"]] = call["name"]
                if call["status"] in ("success", "error", "cancelled"):
                    results.add((message["id"], call["id"]))
    return {
        "turns": len(turns),
        "calls": len(calls),
        "results": len(results),
        "tokens": sum(tokens.values()),
    }


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, count(name))
