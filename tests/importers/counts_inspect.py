"""Counts Inspect's samples, prompts and calls in raw logs, without the importer."""

from __future__ import annotations

import json
import sys
import zipfile


def samples(path):
    if str(path).endswith(".eval"):
        with zipfile.ZipFile(path) as log:
            return [json.loads(log.read(n)) for n in log.namelist() if n.startswith("samples/")]
    with open(path, encoding="utf-8") as file:
        return json.load(file).get("samples", [])


def count(path):
    """Count samples, user messages, and calls that were requested or have a result."""
    counted = {"sessions": 0, "turns": 0, "calls": 0}
    for sample in samples(path):
        counted["sessions"] += 1
        calls = set()
        for message in sample["messages"]:
            counted["turns"] += message["role"] == "user"
            calls |= {call["id"] for call in message.get("tool_calls") or []}
            calls |= {message["tool_call_id"]} if message["role"] == "tool" else set()
        counted["calls"] += len(calls)
    return counted


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, count(name))
