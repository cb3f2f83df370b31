"""Counting Cline's prompts and calls by themselves: no code of the importer is used."""

from __future__ import annotations

import json
import sys


def count(path):
    """Texts that the user typed, and blocks or tags that ask for a tool."""
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
