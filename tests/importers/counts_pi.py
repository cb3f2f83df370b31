"""Counting pi's prompts and calls by themselves: no code of the importer is used."""

from __future__ import annotations

import json
import sys


def count(path):
    """Prompts, calls and places where a second entry follows another, in one file."""
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
