"""What each agent is to be told, and in which files it looks for that. Data and pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from stator.errors import InvalidInput

HOOK = "stator-hook"
"""Our small program; by its name our entries are known again."""
SERVER = "stator"
"""What our MCP server is called in an agent's settings."""

Scope = Literal["project", "user"]
Kind = Literal["json", "toml"]


class Programs(msgspec.Struct, frozen=True):
    """The two programs an agent is to start, as a command line names them."""

    hook: str
    stator: str
    store: str = ""
    """The store they are told to use; "": the nearest to where the agent works."""

    def hook_command(self, agent: str) -> str:
        """One line for a shell, which is how agents start hooks."""
        parts = [quoted(self.hook), agent]
        if self.store:
            parts += ["--store", quoted(self.store)]
        return " ".join(parts)

    @property
    def server(self) -> dict[str, Any]:
        """The MCP server, as a program with arguments."""
        more = ["--store", self.store] if self.store else []
        return {"command": self.stator, "args": ["mcp", *more]}


class Wanted(msgspec.Struct, frozen=True):
    """What is to stand in one file: hooks by the agent's name for the moment, and our MCP server."""

    path: Path
    kind: Kind = "json"
    hooks: dict[str, dict[str, Any]] = {}
    server: dict[str, Any] = {}
    servers_key: str = "mcpServers"
    base: dict[str, Any] = {}
    """What the file must hold besides, where it is new."""


class Agent(msgspec.Struct, frozen=True):
    """An agent that can be told to run hooks."""

    name: str
    moments: tuple[str, ...]
    flat: bool = False
    """Whether a hook stands by itself, or in a list within a group."""
    timeout: int = 10
    """In the agent's own unit."""
    note: str = ""
    """What its user must still do."""


CLAUDE = Agent(
    "claude-code",
    (
        "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure",
        "PermissionDenied", "PreCompact", "PostCompact", "SubagentStart", "SubagentStop", "Stop",
        "SessionEnd",
    ),
    note="takes effect when Claude Code starts next; it asks once whether to use the MCP server",
)  # fmt: skip
CODEX = Agent(
    "codex",
    (
        "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PreCompact", "PostCompact",
        "SubagentStart", "SubagentStop", "Stop", "SessionEnd",
    ),
    note="Codex runs hooks only once you trust them: type /hooks in it, and review ours",
)  # fmt: skip
GEMINI = Agent(
    "gemini",
    ("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd"),
    timeout=10_000,
    note="takes effect when Gemini CLI starts next",
)
CURSOR = Agent(
    "cursor",
    (
        "sessionStart", "beforeSubmitPrompt", "preToolUse", "postToolUse", "afterFileEdit",
        "afterShellExecution", "preCompact", "postCompact", "subagentStart", "stop", "sessionEnd",
    ),
    flat=True,
    note="not verified with the program itself: look whether stator ls shows a session afterwards",
)  # fmt: skip
AGENTS: dict[str, Agent] = {agent.name: agent for agent in (CLAUDE, CODEX, GEMINI, CURSOR)}


def agent_of(name: str) -> Agent:
    """The agent of that name."""
    if name not in AGENTS:
        raise InvalidInput(f"unknown agent {name!r:.40}", path="$.agent", hint=", ".join(AGENTS))
    return AGENTS[name]


def hooks_of(agent: Agent, programs: Programs) -> dict[str, dict[str, Any]]:
    """The entry for each moment."""
    command = programs.hook_command(agent.name)
    one: dict[str, Any] = {"type": "command", "command": command, "timeout": agent.timeout}
    if agent.flat:
        return {moment: {"command": command} for moment in agent.moments}
    return {moment: {"hooks": [one]} for moment in agent.moments}


def wanted(
    agent: Agent,
    programs: Programs,
    scope: Scope,
    *,
    root: Path,
    home: Path,
    environ: Mapping[str, str],
    shared: bool = False,
) -> list[Wanted]:
    """The files of an agent and what is to stand in each."""
    hooks, server = hooks_of(agent, programs), programs.server
    base = root if scope == "project" else home
    if agent is CLAUDE:
        folder = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
        if scope == "user":
            state = (
                folder / ".claude.json" if "CLAUDE_CONFIG_DIR" in environ else home / ".claude.json"
            )
            return [Wanted(folder / "settings.json", hooks=hooks), Wanted(state, server=server)]
        name = "settings.json" if shared else "settings.local.json"
        return [
            Wanted(root / ".claude" / name, hooks=hooks),
            Wanted(root / ".mcp.json", server=server),
        ]
    if agent is CODEX:
        own = Path(environ.get("CODEX_HOME") or home / ".codex")
        folder = root / ".codex" if scope == "project" else own
        return [
            Wanted(folder / "hooks.json", hooks=hooks),
            Wanted(folder / "config.toml", "toml", server=server, servers_key="mcp_servers"),
        ]
    if agent is GEMINI:
        return [Wanted(base / ".gemini" / "settings.json", hooks=hooks, server=server)]
    folder = base / ".cursor"
    return [
        Wanted(folder / "hooks.json", hooks=hooks, base={"version": 1}),
        Wanted(folder / "mcp.json", server=server),
    ]


def quoted(word: str) -> str:
    """A word as a shell takes it."""
    plain = word and all(c.isalnum() or c in "@%+=:,./-_" for c in word)
    return word if plain else "'" + word.replace("'", "'\"'\"'") + "'"
