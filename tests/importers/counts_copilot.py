"""Counts Copilot CLI's prompts and calls in raw files, without the importer."""

from __future__ import annotations

import json
import sys


def count(path):
    """Count what was typed or asked by an agent, the calls in the answers, and the sub-agents."""
    counted = {"sessions": 1, "turns": 0, "calls": 0}
    with open(path, encoding="utf-8") as file:
        for line in file:
            event = json.loads(line)
            data = event["data"]
            if event["type"] == "user.message":
                source = data.get("source", "user")
                counted["turns"] += source == "user" or source.startswith("agent")
            counted["calls"] += len(data.get("toolRequests", []))
            counted["sessions"] += event["type"] == "subagent.started"
    return counted


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, count(name))
