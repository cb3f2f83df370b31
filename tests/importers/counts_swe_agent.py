"""Counts SWE-agent's prompts and actions in raw files, without the importer."""

from __future__ import annotations

import json
import sys


def count(path):
    """Count the user messages before the first answer, and the actions. A run that is over may have actions in its
    trajectory after the last answer in its history: there, the last one submits."""
    with open(path, encoding="utf-8") as file:
        whole = json.load(file)
    roles = [m["role"] for m in whole["history"] if not m.get("is_demo")]
    actions = [m for m in whole["history"] if m["role"] == "assistant" and m.get("action")]
    is_over = bool(whole.get("info", {}).get("exit_status"))
    more = whole.get("trajectory", [])[roles.count("assistant") :] if is_over else []
    calls = len(actions) + len(more)
    return {"turns": roles[: roles.index("assistant")].count("user"), "calls": calls}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, count(name))
