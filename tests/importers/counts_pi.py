"""Counts pi's prompts and calls in raw files, without the importer."""

from __future__ import annotations

import json
import sys


def count(path):
    """Count prompts, calls, and entries that are the second child of their parent."""
    counted = {"turns": 0, "calls": 0, "forks": 0}
    followed = set()
    with open(path, encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            message = entry.get("message") or {}
            counted["turns"] += message.get("role") == "user"
            if message.get("role") == "assistant":
                counted["calls"] += sum(b["type"] == "toolCall" for b in message["content"])
            if "parentId" in entry:
                counted["forks"] += entry["parentId"] in followed
                followed.add(entry["parentId"])
    return counted


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, count(name))
