"""Counts SWE-agent's prompts and actions in raw files, without the importer."""

from __future__ import annotations

import json
import sys


def count(path):
    """Count the user messages before the first answer, and the actions."""
    with open(path, encoding="utf-8") as file:
        whole = json.load(file)
    roles = [m["role"] for m in whole["history"] if not m.get("is_demo")]
    actions = [m for m in whole["history"] if m["role"] == "assistant" and m.get("action")]
    return {"turns": roles[: roles.index("assistant")].count("user"), "calls": len(actions)}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, count(name))
