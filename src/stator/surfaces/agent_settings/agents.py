"""Describes the settings each agent needs and the files they belong in. Data and pure functions."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

HOOK = "stator-hook"
"""The hook program; entries of ours are recognised by its name."""
HANDOVER = "--handover"
"""The argument with which the hook asks for handovers."""
SERVER = "stator"
"""The name of our MCP server in an agent's settings."""

Scope = Literal["project", "user"]
BriefMode = Literal["off", "start", "full"]
BRIEFS: dict[BriefMode, str] = {
    "off": "it is told nothing",
    "start": "it is told what is in doubt when a session starts",
    "full": "it is told what is in doubt when a session starts, and with the first prompt what bears on it",
}
"""What an agent is given, in words."""
Kind = Literal["json", "toml", "file"]
PLUGINS = Path(__file__).parents[2] / "plugins"
"""What agents load from us; it ships with the package."""
PLUGIN_MARK = "// Stator's plugin for opencode"
"""How our plugin's file begins."""
PLUGIN_COMMAND = 'const COMMAND = ["stator-hook", "opencode"]'
"""The line of the plugin that names the program it starts."""


class Programs(msgspec.Struct, frozen=True):
    """The two programs an agent starts, as they appear on a command line."""

    hook: str
    stator: str
    store: str = ""
    """The store given to them; "" means the nearest one to the agent's working folder."""
    brief: BriefMode = "full"
    """What the agent is given: nothing, at the start of a session, or also with the first prompt."""
    handover: bool = False
    """Whether the agent is asked for a handover when it stops."""

    def hook_command(self, agent: str) -> str:
        """Return the shell command that starts the hook."""
        return " ".join([quoted(self.hook), *map(quoted, self.hook_arguments(agent))])

    def hook_arguments(self, agent: str) -> list[str]:
        """The arguments of the hook; what is the default is left out."""
        store = ["--store", self.store] if self.store else []
        brief = [f"--brief={self.brief}"] if self.brief != "full" else []
        return [agent, *store, *brief, *([HANDOVER] if self.handover else [])]

    @property
    def server(self) -> dict[str, Any]:
        """The command and the arguments that start the MCP server."""
        more = ["--store", self.store] if self.store else []
        return {"command": self.stator, "args": ["mcp", *more]}

    @property
    def bare(self) -> Programs:
        """The programs by name alone, for files that a team shares: each member's PATH finds them."""
        return Programs(HOOK, "stator", brief=self.brief, handover=self.handover)


class WantedSettings(msgspec.Struct, frozen=True):
    """What one settings file must contain: hooks by the agent's event names, and our MCP server."""

    path: Path
    kind: Kind = "json"
    hooks: dict[str, dict[str, Any]] = {}
    server: dict[str, Any] = {}
    servers_key: str = "mcpServers"
    new_file: dict[str, Any] = {}
    """What a new file must contain besides."""
    content: str = ""
    """A file that is wholly ours: all of it."""
    mark: str = ""
    """How a file that is wholly ours begins."""
    folders: int = 1
    """How many folders above the file are the agent's own."""
    is_shared: bool = False
    """Whether a team commits this file; then it names no folder of one member's machine."""


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
OPENCODE = Agent(
    "opencode",
    (),
    note="takes effect when opencode starts next; its plugin reports what it does",
)
AGENTS: dict[str, Agent] = {
    agent.name: agent for agent in (CLAUDE, CODEX, GEMINI, CURSOR, OPENCODE)
}


def known_agents(name: str) -> str:
    """The agents there are, and the one that was probably meant."""
    near = [known for known in AGENTS if name and (known.startswith(name) or name in known)]
    near = near or difflib.get_close_matches(name, AGENTS, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"{meant}known agents: {', '.join(AGENTS)}"


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
    is_shared = scope == "project"
    if agent is CLAUDE and scope == "project" and not shared:
        # its own file for one member's settings, which git ignores
        hooks = hooks_of(agent, programs)
        programs = programs.bare
        local = WantedSettings(root / ".claude" / "settings.local.json", hooks=hooks)
        return [
            local,
            WantedSettings(root / ".mcp.json", server=programs.server, folders=0, is_shared=True),
        ]
    programs = programs.bare if is_shared else programs
    hooks, server = hooks_of(agent, programs), programs.server
    parent = root if scope == "project" else home
    found: list[WantedSettings]
    if agent is CLAUDE and scope == "user":
        folder = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
        named = "CLAUDE_CONFIG_DIR" in environ
        state = folder / ".claude.json" if named else home / ".claude.json"
        found = [
            WantedSettings(folder / "settings.json", hooks=hooks),
            WantedSettings(state, server=server, folders=0),
        ]
    elif agent is CLAUDE:
        found = [
            WantedSettings(root / ".claude" / "settings.json", hooks=hooks),
            WantedSettings(root / ".mcp.json", server=server, folders=0),
        ]
    elif agent is CODEX:
        own = Path(environ.get("CODEX_HOME") or home / ".codex")
        folder = root / ".codex" if scope == "project" else own
        found = [
            WantedSettings(folder / "hooks.json", hooks=hooks),
            WantedSettings(
                folder / "config.toml", "toml", server=server, servers_key="mcp_servers"
            ),
        ]
    elif agent is GEMINI:
        found = [WantedSettings(parent / ".gemini" / "settings.json", hooks=hooks, server=server)]
    elif agent is OPENCODE:
        config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
        found = _opencode_files(programs, root if scope == "project" else config, scope)
    else:
        folder = parent / ".cursor"
        found = [
            WantedSettings(folder / "hooks.json", hooks=hooks, new_file={"version": 1}),
            WantedSettings(folder / "mcp.json", server=server),
        ]
    return [msgspec.structs.replace(file, is_shared=is_shared) for file in found]


def _opencode_files(programs: Programs, folder: Path, scope: Scope) -> list[WantedSettings]:
    """The plugin, and the settings in which opencode lists MCP servers."""
    names = (
        "opencode.json",
        "opencode.jsonc",
        ".opencode/opencode.json",
        ".opencode/opencode.jsonc",
    )
    places = [folder / name for name in names]
    settings = next((place for place in places if place.is_file()), places[0])
    plugins = folder / ".opencode" / "plugins" if scope == "project" else folder / "plugins"
    command = [programs.hook, *programs.hook_arguments("opencode")]
    text = (PLUGINS / "opencode" / "stator.js").read_text(encoding="utf-8")
    shown = json.dumps(command, ensure_ascii=False)
    more = ["--store", programs.store] if programs.store else []
    server = {"type": "local", "command": [programs.stator, "mcp", *more], "enabled": True}
    return [
        WantedSettings(
            plugins / "stator.js", "file", mark=PLUGIN_MARK, folders=2,
            content=text.replace(PLUGIN_COMMAND, f"const COMMAND = {shown}"),
        ),
        WantedSettings(
            settings, server=server, servers_key="mcp", folders=int(settings.parent != folder or scope == "user"),
            new_file={"$schema": "https://opencode.ai/config.json"},
        ),
    ]  # fmt: skip


def quoted(word: str) -> str:
    """Quote a word for a shell."""
    plain = word and all(c.isalnum() or c in "@%+=:,./-_" for c in word)
    return word if plain else "'" + word.replace("'", "'\"'\"'") + "'"
