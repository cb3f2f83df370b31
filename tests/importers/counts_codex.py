"""Counts turns, calls, results and tokens in raw Codex files, without the importer."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def count(path):
    """Count one rollout."""
    turns, calls, results = set(), set(), set()
    tokens: list[tuple[dict[str, int], dict[str, int]]] = []
    events = records = bare = 0
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if not isinstance(value, dict):
            continue
        payload = value.get("payload", value)
        kind = payload.get("type") if isinstance(payload, dict) else None
        if value.get("type") == "token_usage_record":
            records += payload["usage"]["total_tokens"]
        elif kind == "item_completed" and payload["item"]["type"] == "UserMessage":
            turns.add(payload["turn_id"])
        elif kind == "user_message":
            events += 1
        elif kind == "token_count" and payload.get("info"):
            spent = payload["info"]["total_token_usage"], payload["info"]["last_token_usage"]
            if not tokens or tokens[-1] != spent:
                tokens.append(spent)
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            calls.add(payload["call_id"])
        elif kind in ("function_call_output", "custom_tool_call_output"):
            results.add(payload["call_id"])
        elif kind == "message" and "payload" not in value and payload.get("role") == "user":
            bare += 1
    return {
        "turns": len(turns) or events or bare,
        "calls": len(calls),
        "results": len(results),
        "tokens": records or sum(last["total_tokens"] for _, last in tokens),
    }


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, count(name))
