"""Counts OpenHands' conversations, prompts and calls in raw files, without the importer."""

from __future__ import annotations

import json
import sys

ABOUT_ITSELF = ("message", "condensation", "change_agent_state", "system", "recall", "null")


def flat(listed):
    for one in listed:
        yield from one if isinstance(one, list) else [one]


def of(listed):
    actions = [one for one in flat(listed) if one.get("action")]
    asked = [one for one in actions if one["action"] == "message"]
    return {
        "sessions": 1,
        "turns": sum(one.get("source", "user") == "user" for one in asked),
        "calls": sum(one["action"] not in ABOUT_ITSELF for one in actions),
    }


def count(path):
    with open(path, encoding="utf-8") as file:
        if str(path).endswith(".json"):
            found = [of(json.load(file))]
        else:
            found = [of(json.loads(line)["history"]) for line in file]
    return {name: sum(one[name] for one in found) for name in ("sessions", "turns", "calls")}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, count(name))
