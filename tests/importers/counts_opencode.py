"""Counts opencode's sessions, prompts and calls in raw files, without the importer."""

from __future__ import annotations

import json
import sqlite3
import sys


def of_export(path):
    with open(path, encoding="utf-8") as file:
        whole = json.load(file)
    messages = whole["messages"]
    return {
        "sessions": 1,
        "turns": sum(message["info"]["role"] == "user" for message in messages),
        "calls": sum(part["type"] == "tool" for message in messages for part in message["parts"]),
    }


def of_run(path):
    with open(path, encoding="utf-8") as file:
        told = [json.loads(line) for line in file if line.strip()]
    return {
        "sessions": len({one["sessionID"] for one in told}),
        "turns": 0,
        "calls": sum(one["type"] == "tool_use" for one in told),
    }


def of_database(path):
    """Count conversations, prompts and calls; copies in forks do not count again."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        (sessions,) = db.execute("select count(*) from session").fetchone()
        asked = {
            (made, words)
            for made, words in db.execute(
                "select json_extract(message.data, '$.time.created'), part.data from message"
                " join part on message_id = message.id"
                " where json_extract(message.data, '$.role') = 'user'"
            )
        }
        called = {
            name
            for (name,) in db.execute(
                "select json_extract(data, '$.callID') from part"
                " where json_extract(data, '$.type') = 'tool'"
            )
        }
    finally:
        db.close()
    return {"sessions": sessions, "turns": len(asked), "calls": len(called)}


def count(path):
    with open(path, "rb") as file:
        begin = file.read(16)
    if begin.startswith(b"SQLite"):
        return of_database(path)
    return of_run(path) if str(path).endswith(".jsonl") else of_export(path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, count(name))
