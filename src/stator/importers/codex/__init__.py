"""Codex: its rollouts, the output of `codex exec --json`, and its tools."""
