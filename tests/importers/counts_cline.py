"""Counts Cline's prompts and calls in raw files, without the importer."""

from __future__ import annotations

import json
import sys


def count(path):
    """Count the texts that the user typed, and the blocks or tags that request a tool."""
    with open(path, encoding="utf-8") as file:
        messages = json.load(file)
    counted = {"turns": 0, "calls": 0}
    for message in messages:
        for block in message["content"]:
            words = block.get("text", "").lstrip()
            if message["role"] == "user":
                counted["turns"] += words.startswith(("<task>", "<feedback>", "<user_message>"))
            else:
                counted["calls"] += block["type"] == "tool_use"
                counted["calls"] += words.count("</execute_command>")
    return counted


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, count(name))
