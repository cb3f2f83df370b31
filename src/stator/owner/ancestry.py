"""Finds out whether this process runs below a driver or below an agent, by the processes above it.

A hint, not a proof: a process that forks twice has no such ancestors, and an environment can be emptied. It catches
what happens by itself: a shell that an agent started, and all that is started from there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

DEPTH_MAX = 128
AGENTS = frozenset(
    "claude claude-code codex gemini gemini-cli cursor cursor-agent opencode opencode-ai aider goose amp crush cline "
    "openhands sweagent mini-swe-agent qwen qwen-code copilot kiro-cli droid auggie".split()
)
"""Programs that run commands which a model asks for."""
INTERPRETERS = ("node", "bun", "deno", "python", "uv", "ruby")
VARIABLES = {
    "CLAUDECODE": "agent claude",
    "CLAUDE_CODE_ENTRYPOINT": "agent claude",
    "CODEX_SANDBOX": "agent codex",
    "CODEX_SANDBOX_NETWORK_DISABLED": "agent codex",
    "CODEX_THREAD_ID": "agent codex",
    "GEMINI_CLI": "agent gemini",
    "CURSOR_AGENT": "agent cursor",
    "OPENCODE": "agent opencode",
    "STATOR_CALL": "a call of a session",
    "STATOR_RUN": "a run",
    "STATOR_SESSION": "a program of a session",
}
"""What agents, and our own commands, set for the programs they start."""
MODULES = "node_modules"


class Process(NamedTuple):
    """A process as the system lists it."""

    pid: int
    parent: int
    words: tuple[str, ...]
    """Its program and its arguments."""


def below(marked: Mapping[int, str], environ: Mapping[str, str]) -> str:
    """What this process runs below: one of the marked processes (this one included), else an agent by its name, else
    what a variable of the environment says. Empty if nothing is found."""
    above = list(ancestors(os.getpid()))
    for process in above:
        if process.pid in marked:
            return marked[process.pid]
    for process in above[1:]:
        if name := agent_name(process.words):
            return f"agent {name}, process {process.pid}"
    for variable, what in VARIABLES.items():
        if environ.get(variable):
            return f"{what} (${variable})"
    return ""


def started_by(marked: Mapping[int, str]) -> str:
    """The nearest of the marked processes above this one, in words; empty if none of them started it."""
    above = [process.pid for process in ancestors(os.getpid())][1:]
    return next((marked[pid] for pid in above if pid in marked), "")


def ancestors(pid: int) -> Iterator[Process]:
    """A process and those above it, nearest first."""
    listed = None if os.path.exists("/proc/self/stat") else _listed()
    for _ in range(DEPTH_MAX):
        found = _from_proc(pid) if listed is None else listed.get(pid)
        if found is None:
            return
        yield found
        pid = found.parent


def agent_name(words: tuple[str, ...]) -> str:
    """The agent that a command line starts; empty if it is none that is known."""
    if not words:
        return ""
    program = _stem(words[0])
    if program in AGENTS:
        return program
    if not program.startswith(INTERPRETERS):
        return ""
    for word in words[1:]:
        if word.startswith("-"):
            continue
        parts = word.split("/")
        packages = parts[parts.index(MODULES) + 1 :] if MODULES in parts else []
        return next((name for name in [_stem(word), *packages] if name in AGENTS), "")
    return ""


def _stem(path: str) -> str:
    name = os.path.basename(path).lstrip("-")
    return name.rsplit(".", 1)[0] if name.endswith((".js", ".mjs", ".cjs", ".py", ".exe")) else name


def _from_proc(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            name, _, rest = file.read().partition(b"(")[2].rpartition(b")")
        parent = int(rest.split()[1])
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            line = file.read(4096)
    except (OSError, ValueError, IndexError):
        return None
    words = [os.fsdecode(word) for word in line.split(b"\0")[:8] if word]
    # A program may write its name into its command line, as one word with spaces.
    called = agent_name((os.fsdecode(name),))
    return Process(pid, parent, (called,) if called else tuple(words))


def _listed() -> dict[int, Process]:
    """Every process, where there is no /proc; empty where `ps` cannot be asked either."""
    import subprocess  # mostly there is /proc

    try:
        done = subprocess.run(
            ["/bin/ps", "-axo", "pid=,ppid=,command="],
            capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = [line.split(None, 2) for line in os.fsdecode(done.stdout).splitlines()]
    return {
        int(row[0]): Process(int(row[0]), int(row[1]), tuple(row[2].split()[:8]))
        for row in rows
        if len(row) == 3 and row[0].isdecimal() and row[1].isdecimal()
    }
