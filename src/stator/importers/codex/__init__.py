"""Reads Codex's rollouts and the output of `codex exec --json`."""
