"""Runs the real agents, from npm, each with its own home and folder and a scripted model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from real.model import Line, Say, Script, Tool

HERE = Path(__file__).parent
MEGABYTE = "".join(f"a row of roses, number {n}\n" for n in range(45_000))
QUIET = {
    "LANG": "C.UTF-8",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "GEMINI_TELEMETRY_ENABLED": "false",
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
}
"""No agent may connect to anything but the model on loopback."""


def installed(folder: Path) -> Path:
    """Return the folder with the programs: $STATOR_AGENTS, else a folder into which they are installed once."""
    given = os.environ.get("STATOR_AGENTS")
    if given:
        return Path(given)
    if (folder / "node_modules" / ".package-lock.json").exists():
        return folder
    shutil.copy(HERE / "package.json", folder)
    subprocess.run(
        ["npm", "install", "--no-fund", "--no-audit"], cwd=folder, check=True, timeout=900
    )
    return folder


@dataclass
class GardenTools:
    """How an agent writes a file, runs a command, asks a sub-agent; and which call fills its window."""

    write: Callable[[str, str], Tool]
    run: Callable[[str], Tool]
    big: Callable[[], Line]
    """Calls that add a megabyte to the transcript."""
    delegate: Callable[[str], Tool] | None = None
    compacts_by_command: bool = False
    """Whether a prompt compacts the conversation; otherwise it is its size."""


@dataclass
class Program:
    """One agent in a folder, with the model it talks to."""

    name: str
    programs: Path
    work: Path
    home: Path
    url: str
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        ours = Path(sys.executable).parent
        path = f"{self.programs / 'node_modules' / '.bin'}:{ours}:/usr/bin:/bin"
        return {**QUIET, "HOME": str(self.home), "PATH": path, **self.extra}

    def stator(self, *words: str) -> str:
        """Return the output of our command line in the agent's folder."""
        done = subprocess.run(
            [str(Path(sys.executable).parent / "stator"), *words],
            cwd=self.work, env=self.environment, capture_output=True, text=True, timeout=60,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    def command(self, prompt: str, *more: str) -> list[str]:
        return [
            str(self.programs / "node_modules" / ".bin" / self.program),
            *self.words(prompt),
            *more,
        ]

    def ask(self, prompt: str, *more: str) -> str:
        """Give the agent a task and wait until it is done."""
        return self.run(self.command(prompt, *more))

    def continue_with(self, prompt: str) -> str:
        """Give the agent a task in its last conversation and wait until it is done."""
        return self.run(self.command_again(prompt))

    def run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self.work, env=self.environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, prompt: str, *more: str) -> subprocess.Popen[bytes]:
        """Give the agent a task without waiting."""
        return self.start_command(self.command(prompt, *more))

    def start_command(self, command: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, cwd=self.work, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip

    program = ""

    def prepare(self) -> None:
        """Configure the address of the model."""

    def words(self, prompt: str) -> list[str]:
        raise NotImplementedError

    def script(self) -> Script:
        """Return a script: write a file, run a command that fails, answer."""
        raise NotImplementedError

    def again(self, prompt: str) -> list[str]:
        """The words that continue the last conversation."""
        raise NotImplementedError

    def tools(self) -> GardenTools:
        """The agent's tools, as a long conversation needs them."""
        raise NotImplementedError

    def command_again(self, prompt: str) -> list[str]:
        path = self.programs / "node_modules" / ".bin" / self.program
        return [str(path), *self.again(prompt)]


class Claude(Program):
    program = "claude"

    def prepare(self) -> None:
        self.extra |= {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": "sk-fake"}

    def words(self, prompt: str) -> list[str]:
        return ["-p", prompt, "--model", "claude-fake-1", "--allowedTools", "Write,Bash,Task,Agent"]

    def again(self, prompt: str) -> list[str]:
        return [*self.words(prompt), "--continue"]

    def tools(self) -> GardenTools:
        def write(name: str, text: str) -> Tool:
            return Tool("Write", {"file_path": str(self.work / name), "content": text})

        return GardenTools(
            write=write,
            run=lambda command: Tool("Bash", {"command": command, "description": "x"}),
            big=lambda: write("big.txt", MEGABYTE),
            delegate=lambda prompt: Tool(
                "Agent",
                {
                    "description": "weed", "prompt": prompt, "subagent_type": "general-purpose",
                    "run_in_background": True,
                },
            ),
            compacts_by_command=True,
        )  # fmt: skip

    def script(self) -> Script:
        path = str(self.work / "hello.txt")
        return Script(
            [
                Tool("Write", {"file_path": path, "content": "hello\n"}),
                Tool("Bash", {"command": "exit 3", "description": "fail"}),
                Say("Written; the command failed with 3."),
            ]
        )


class Codex(Program):
    program = "codex"

    def prepare(self) -> None:
        self.extra |= {"FAKE_KEY": "sk-fake"}
        folder = self.home / ".codex"
        folder.mkdir(exist_ok=True)
        provider = (
            f'name="fake"\nbase_url="{self.url}/v1"\nwire_api="responses"\nenv_key="FAKE_KEY"\n'
        )
        (folder / "config.toml").write_text(
            'model="fake-1"\nmodel_provider="fake"\n[analytics]\nenabled=false\n'
            f"[model_providers.fake]\n{provider}"
        )

    flags = (
        "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
        "--dangerously-bypass-hook-trust", "-c", "model_context_window=200000",
        "-c", "model_auto_compact_token_limit=150000",
    )  # fmt: skip

    def words(self, prompt: str) -> list[str]:
        return ["exec", *self.flags, prompt]

    def again(self, prompt: str) -> list[str]:
        return ["exec", *self.flags, "resume", "--last", prompt]

    def tools(self) -> GardenTools:
        def run(command: str) -> Tool:
            return Tool("exec_command", {"cmd": command})

        # an argument of a program has at most 128 KB, and Codex passes a command twice
        rows = [MEGABYTE[at : at + 60_000] for at in range(0, len(MEGABYTE), 60_000)]
        return GardenTools(
            write=lambda name, text: run(f"printf '%s' '{text}' > {name}"),
            run=run,
            big=lambda: [run(f": '{row}'") for row in rows],
        )

    def script(self) -> Script:
        return Script(
            [
                Tool("exec_command", {"cmd": "echo hello > hello.txt"}),
                Tool("exec_command", {"cmd": "exit 3"}),
                Say("Written; the command failed with 3."),
            ]
        )


class Gemini(Program):
    program = "gemini"

    def prepare(self) -> None:
        self.extra |= {"GOOGLE_GEMINI_BASE_URL": self.url, "GEMINI_API_KEY": "fake"}
        folder = self.home / ".gemini"
        folder.mkdir(exist_ok=True)
        settings = {
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "security": {"auth": {"selectedType": "gemini-api-key"}},
        }
        (folder / "settings.json").write_text(json.dumps(settings))

    def words(self, prompt: str) -> list[str]:
        return ["-p", prompt, "--yolo", "-m", "gemini-2.5-pro"]

    def again(self, prompt: str) -> list[str]:
        return [*self.words(prompt), "--resume", "latest"]

    def tools(self) -> GardenTools:
        def write(name: str, text: str) -> Tool:
            return Tool("write_file", {"file_path": str(self.work / name), "content": text})

        return GardenTools(
            write=write,
            run=lambda command: Tool("run_shell_command", {"command": command, "description": "x"}),
            big=lambda: write("big.txt", MEGABYTE),
        )

    def script(self) -> Script:
        path = str(self.work / "hello.txt")
        return Script(
            [
                Tool("write_file", {"file_path": path, "content": "hello\n"}),
                Tool("run_shell_command", {"command": "exit 3", "description": "fail"}),
                Say("Written; the command failed with 3."),
            ]
        )


class OpenCode(Program):
    program = "opencode"

    def prepare(self) -> None:
        # at its first start in a folder it installs what plugins need: from the registry only once in a test run
        self.extra |= {"npm_config_cache": str(self.programs / "npm-cache")}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "fake",
            "options": {"baseURL": f"{self.url}/v1", "apiKey": "fake"},
            "models": {"fake-1": {"name": "fake", "limit": {"context": 200_000, "output": 8_000}}},
        }
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "provider": {"fake": provider},
            "model": "fake/fake-1",
            "small_model": "fake/fake-1",
            "permission": {"bash": "allow", "edit": "allow"},
        }
        (self.work / "opencode.json").write_text(json.dumps(settings))

    def words(self, prompt: str) -> list[str]:
        return ["run", prompt]

    def again(self, prompt: str) -> list[str]:
        return ["run", "-c", prompt]

    def tools(self) -> GardenTools:
        def write(name: str, text: str) -> Tool:
            return Tool("write", {"filePath": str(self.work / name), "content": text})

        return GardenTools(
            write=write,
            run=lambda command: Tool("bash", {"command": command, "description": "x"}),
            big=lambda: write("big.txt", MEGABYTE),
            delegate=lambda prompt: Tool(
                "task", {"description": "weed", "prompt": prompt, "subagent_type": "general"}
            ),
        )

    def script(self) -> Script:
        path = str(self.work / "hello.txt")
        return Script(
            [
                Tool("write", {"filePath": path, "content": "hello\n"}),
                Tool("bash", {"command": "exit 3", "description": "fail"}),
                Say("Written; the command failed with 3."),
            ]
        )


PROGRAMS: dict[str, type[Program]] = {
    "claude-code": Claude,
    "codex": Codex,
    "gemini": Gemini,
    "opencode": OpenCode,
}
