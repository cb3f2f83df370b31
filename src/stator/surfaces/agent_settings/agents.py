"""Describes the settings each agent needs and the files they belong in. Data and pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from stator.errors import InvalidInput

HOOK = "stator-hook"
"""The hook program; entries of ours are recognised by its name."""
SERVER = "stator"
"""The name of our MCP server in an agent's settings."""

Scope = Literal["project", "user"]
Kind = Literal["json", "toml"]


class Programs(msgspec.Struct, frozen=True):
    """The two programs an agent starts, as they appear on a command line."""

    hook: str
    stator: str
    store: str = ""
    """The store given to them; "" means the nearest one to the agent's working folder."""

    def hook_command(self, agent: str) -> str:
        """Return the shell command that starts the hook."""
        parts = [quoted(self.hook), agent]
        if self.store:
            parts += ["--store", quoted(self.store)]
        return " ".join(parts)

    @property
    def server(self) -> dict[str, Any]:
        """The command and the arguments that start the MCP server."""
        more = ["--store", self.store] if self.store else []
        return {"command": self.stator, "args": ["mcp", *more]}


class WantedSettings(msgspec.Struct, frozen=True):
    """What one settings file must contain: hooks by the agent's event names, and our MCP server."""

    path: Path
    kind: Kind = "json"
    hooks: dict[str, dict[str, Any]] = {}
    server: dict[str, Any] = {}
    servers_key: str = "mcpServers"
    new_file: dict[str, Any] = {}
    """What a new file must contain besides."""


class Agent(msgspec.Struct, frozen=True):
    """An agent that can run hooks."""

    name: str
    events: tuple[str, ...]
    flat: bool = False
    """Whether an event lists its hooks directly, instead of in groups."""
    timeout: int = 10
    """In the agent's own unit: seconds or milliseconds."""
    note: str = ""
    """What the user must still do."""


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
    """Return an agent by its name."""
    if name not in AGENTS:
        raise InvalidInput(f"unknown agent {name!r:.40}", path="$.agent", hint=", ".join(AGENTS))
    return AGENTS[name]


def hooks_of(agent: Agent, programs: Programs) -> dict[str, dict[str, Any]]:
    """Return the entry for each event."""
    command = programs.hook_command(agent.name)
    one: dict[str, Any] = {"type": "command", "command": command, "timeout": agent.timeout}
    if agent.flat:
        return {event: {"command": command} for event in agent.events}
    return {event: {"hooks": [one]} for event in agent.events}


def wanted_settings(
    agent: Agent,
    programs: Programs,
    scope: Scope,
    *,
    root: Path,
    home: Path,
    environ: Mapping[str, str],
    shared: bool = False,
) -> list[WantedSettings]:
    """Return the settings files of an agent and what each must contain."""
    hooks, server = hooks_of(agent, programs), programs.server
    parent = root if scope == "project" else home
    if agent is CLAUDE:
        folder = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
        if scope == "user":
            state = (
                folder / ".claude.json" if "CLAUDE_CONFIG_DIR" in environ else home / ".claude.json"
            )
            return [
                WantedSettings(folder / "settings.json", hooks=hooks),
                WantedSettings(state, server=server),
            ]
        name = "settings.json" if shared else "settings.local.json"
        return [
            WantedSettings(root / ".claude" / name, hooks=hooks),
            WantedSettings(root / ".mcp.json", server=server),
        ]
    if agent is CODEX:
        own = Path(environ.get("CODEX_HOME") or home / ".codex")
        folder = root / ".codex" if scope == "project" else own
        return [
            WantedSettings(folder / "hooks.json", hooks=hooks),
            WantedSettings(
                folder / "config.toml", "toml", server=server, servers_key="mcp_servers"
            ),
        ]
    if agent is GEMINI:
        return [WantedSettings(parent / ".gemini" / "settings.json", hooks=hooks, server=server)]
    folder = parent / ".cursor"
    return [
        WantedSettings(folder / "hooks.json", hooks=hooks, new_file={"version": 1}),
        WantedSettings(folder / "mcp.json", server=server),
    ]


def quoted(word: str) -> str:
    """Quote a word for a shell."""
    plain = word and all(c.isalnum() or c in "@%+=:,./-_" for c in word)
    return word if plain else "'" + word.replace("'", "'\"'\"'") + "'"
