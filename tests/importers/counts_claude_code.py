"""Counts sessions, prompts, calls and results in raw Claude Code transcripts.

It uses no code of the importer, so that both cannot share a mistake.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ASIDE = (
    "<command-name>",
    "<bash-input>",
    "<bash-std",
    "<local-command-",
    "Caveat: The messages below",
    "<task-notification>",
    "<system-reminder>",
    "[Request interrupted by user",
)


def claude_code(paths: Iterable[Path]) -> dict[str, int]:
    """Count each thing once, although forks contain copies."""
    sessions: set[str] = set()
    prompts: set[str] = set()
    calls: set[str] = set()
    results: set[str] = set()
    for path in paths:
        if path.name.startswith("agent-acompact-"):
            continue
        for text in path.read_text(encoding="utf-8").splitlines():
            said = json.loads(text)
            if said.get("type") not in ("user", "assistant") or "sessionId" not in said:
                continue
            agent = said.get("agentId", "?") if said.get("isSidechain") else ""
            sessions.add(f"{said['sessionId']}/{agent}")
            content = said.get("message", {}).get("content")
            blocks = (
                [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
            )
            calls |= {block["id"] for block in blocks if block["type"] == "tool_use"}
            found = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
            results |= found
            if said["type"] == "user" and not found and is_prompt(said, content):
                prompts.add(said["uuid"])
    return {
        "sessions": len(sessions),
        "prompts": len(prompts),
        "calls": len(calls),
        "results": len(results),
    }


def is_prompt(said: dict[str, Any], content: Any) -> bool:
    text = content if isinstance(content, str) else "".join(b.get("text", "") for b in content)
    return not (said.get("isMeta") or said.get("isCompactSummary") or text.startswith(ASIDE))
