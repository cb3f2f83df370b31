"""Counting SWE-agent's prompts and actions by themselves: no code of the importer is used."""

from __future__ import annotations

import json
import sys


def count(path):
    """Messages of the user's before the first answer, and actions."""
    with open(path, encoding="utf-8") as file:
        whole = json.load(file)
    roles = [m["role"] for m in whole["history"] if not m.get("is_demo")]
    actions = [m for m in whole["history"] if m["role"] == "assistant" and m.get("action")]
    return {"turns": roles[: roles.index("assistant")].count("user"), "calls": len(actions)}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, count(name))
