"""The names that agents give the moments at which they run hooks. Imports nothing: the hook must start fast."""

from __future__ import annotations

STARTS = frozenset(("SessionStart", "sessionStart"))
ENDS = frozenset(("SessionEnd", "sessionEnd"))
PROMPTS = frozenset(("UserPromptSubmit", "BeforeAgent"))
"""Hooks with a prompt, whose answer an agent hands to its model. Cursor's is not known to do that."""
BEFORE_CALLS = frozenset(("PreToolUse", "BeforeTool", "preToolUse"))
AFTER_CALLS = frozenset(("PostToolUse", "AfterTool", "postToolUse"))
STOPS = frozenset(("Stop", "stop", "AfterAgent"))
"""The agent has answered and waits."""
COMPACTS = frozenset(("PreCompact", "preCompact", "PostCompact", "postCompact", "PreCompress"))
