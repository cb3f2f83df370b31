"""Turns on recording in a real agent."""

from __future__ import annotations

from real.programs import Program


def switch_on(agent: Program) -> None:
    # Codex loads no hooks of a folder it does not trust
    scope = ["--user"] if agent.name == "codex" else []
    agent.stator("init", agent.name, "--yes", *scope)
