"""A long conversation with a real agent, and what its record must be like at any moment.

Nine prompts: calls one by one and at once, a failing one, a sub-agent, a megabyte in the transcript, a compaction,
a program that is killed inside a tool, and what comes after it.
"""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from threading import Lock
from typing import Any

import stator
from real.model import Line, Say, Script
from real.programs import Program
from stator.connect import worlds
from stator.hooks.hook_note import hook_note
from stator.importers import registry
from stator.importers.conversation import Report, import_conversation
from stator.importers.discover import discover
from stator.model.log.commit import Commit
from stator.model.log.edges import edges_of
from stator.model.log.query import SessionQuery
from stator.model.sessions.lifecycle import NOT_TOLD
from stator.runtime.facade.store import Store
from waiting import eventually

FULL = 199_000
"""Tokens after which an agent compacts; its window has 200,000."""
BUT_GEMINIS = 990_000
"""The same for Gemini CLI, which knows the window of its model."""
POSITIONS = ("mask", "outputs", "summarise", "seq")
"""What a compaction names by its position."""
KILLED = "killed"
COMPACTED = "compacted"
RESUMED = "resumed"
NAMES = (
    "planted", "at-once", "big", "delegated", COMPACTED, "after", KILLED, RESUMED, "last",
)  # fmt: skip

LOOKS_WITHOUT_INGESTER = ("big", "after", "last")
"""The prompts after which the record is looked at if nothing else takes in what hooks queue."""


def chapters_for(agent: Program) -> dict[str, list[Line]]:
    """What the model does at each prompt."""
    tools = agent.tools()
    full = tools.run("echo full")
    full.tokens = BUT_GEMINIS if agent.name == "gemini" else FULL
    delegated: list[Line] = [Say("There is no one to ask.")]
    if tools.delegate is not None:
        delegated = [tools.delegate("weed the beds [[weeds]]"), Say("The weeding began.")]
    told: dict[str, list[Line]] = {
        "planted": [tools.write("hello.txt", "hello\n"), tools.run("exit 3"), Say("Planted.")],
        "at-once": [
            [tools.run("echo one"), tools.run("exit 4"), tools.write("two.txt", "two\n")],
            tools.run("cat two.txt"),
            Say("All at once."),
        ],
        "big": [tools.big(), Say("A big garden.")],
        "delegated": delegated,
        "weeds": [tools.run("sleep 4; echo weeds > weeds.txt"), Say("No weeds left.")],
        COMPACTED: [full, Say("Compacted.")],
        "after": [tools.run("echo after"), Say("After it.")],
        KILLED: [tools.run("touch started; sleep 600"), Say("Never.")],
    }
    for name in NAMES:
        told.setdefault(name, [tools.run(f"echo {name}"), Say(f"This was {name}.")])
    return told


class WatchedConversation:
    """Holds a conversation with an agent, and looks at its record after prompts and while the agent works."""

    def __init__(self, agent: Program, script: Script, *, ingester: bool) -> None:
        self._agent = agent
        self._store = agent.work / ".stator" / "store.db"
        script.chapters = chapters_for(agent)
        self._looks_after = NAMES if ingester else LOOKS_WITHOUT_INGESTER
        if ingester:
            script.watch = self._watch
        else:
            agent.extra["STATOR_INGESTER"] = "off"
        self._one_at_a_time = Lock()
        self._shown: dict[str, dict[int, str]] = {}
        """Session → position → hash, as far as a reader was ever shown them."""
        self.looks = 0
        self.changed: list[str] = []
        """Positions that a reader was shown and that later held something else."""
        self.silent: list[str] = []
        """Commands that did not show the call in doubt when they had to."""
        self._is_asked_again = False

    def hold(self) -> None:
        for number, name in enumerate(NAMES):
            prompt = f"the garden, please [[{name}]]"
            if name == KILLED:
                self._kill(self._agent.command_again(prompt))
            elif name == COMPACTED and self._agent.tools().compacts_by_command:
                self._agent.continue_with("/compact")
            elif number == 0:
                self._agent.ask(prompt)
            else:
                self._agent.continue_with(prompt)
            if name in self._looks_after:
                self.look()

    def look(self) -> None:
        """Read the record as a user does, and compare it with what was shown before."""
        for row in self._rows("ls", "--everywhere"):
            commits = [one for one in self._rows("log", "--session", row["id"]) if "seq" in one]
            self._compare(row["id"], {one["seq"]: one["hash"] for one in commits})

    def _watch(self, chapter: str) -> None:
        """Look while the agent waits for the model."""
        if chapter == RESUMED and not self._is_asked_again:
            self._is_asked_again = True
            self._look_for_the_lost_call("after the resume")
        with stator.connect(self._store) as store:
            for row in store.port.sessions(SessionQuery(), limit=100).rows:
                commits = store.port.commits(row.id, limit=10_000, load=False)
                self._compare(row.id, {one.seq: one.hash for one in commits})

    def _compare(self, session: str, now: dict[int, str]) -> None:
        with self._one_at_a_time:
            self.looks += 1
            before = self._shown.setdefault(session, {})
            self.changed += [
                f"{session} @{seq}"
                for seq, hash in now.items()
                if before.setdefault(seq, hash) != hash
            ]
            # A look of another thread may have begun earlier and end later: it sees less, and nothing else.
            if now and sorted(now) != list(range(1, len(now) + 1)):
                self.changed.append(f"{session} has a gap")

    def _kill(self, command: list[str]) -> None:
        process = self._agent.start_command(command)
        eventually((self._agent.work / "started").exists)
        if KILLED in self._looks_after:
            self.look()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._look_for_the_lost_call("after the kill")

    def _look_for_the_lost_call(self, when: str) -> None:
        """Ask every command that shows open calls."""
        in_doubt = {
            "calls": bool(self._rows("calls", "--everywhere", "--status", "in doubt")),
            "state": "in doubt" in self._agent.stator("state", "-c", "calls", "--json"),
            "show": "in doubt" in self._agent.stator("show").lower(),
            "top": any(row["waiting"] for row in self._rows("top", "--all")),
        }
        self.silent += [f"{name} {when}" for name, is_shown in in_doubt.items() if not is_shown]

    def _rows(self, *words: str) -> list[dict[str, Any]]:
        shown = self._agent.stator(*words, "--json")
        return [json.loads(line) for line in shown.splitlines() if line.strip()]


def imported(agent: Program, into: Path) -> Store:
    """A new store with the transcripts of the conversations that hooks recorded, and all that is beside them."""
    fresh = stator.connect(into)
    with stator.connect(agent.work / ".stator" / "store.db") as store:
        rows = store.port.sessions(SessionQuery(), limit=100).rows
        paths = {hook_note(store.port, row.id).transcript for row in rows} - {""}
    folders = sorted({Path(path).parent for path in paths})
    for one in discover(folders, formats=[registry.load(agent.name)]).candidates:
        context = worlds(fresh.port)(one.found.conversation.cwd)
        import_conversation(fresh.port, context, one.format, one.found, Report(), at_rest=True)
    return fresh


def record_of(store: Store, source: str) -> dict[str, list[list[Any]]]:
    """Session → its commits that come from the source, with everything that must be equal."""
    found = {}
    for row in store.port.sessions(SessionQuery(), limit=100).rows:
        commits = store.port.commits(row.id, limit=10_000)
        told = [one for one in commits if one.origin is not None and one.origin[0] == source]
        told = [one for one in told if not _is_lifecycle(one)]
        found[row.id] = [_as_row(commit, told) for commit in told]
    return found


def landed(store: Store) -> list[str]:
    """The kinds of what only hooks have told."""
    rows = store.port.sessions(SessionQuery(), limit=100).rows
    commits = [one for row in rows for one in store.port.commits(row.id, limit=10_000, load=False)]
    return [commit.kind for commit in commits if NOT_TOLD in commit.cause]


def _as_row(commit: Commit, told: list[Commit]) -> list[Any]:
    content = {name: commit.known(name) for name in sorted(commit.content) if name != "principal"}
    if commit.kind == "compaction":  # starts and ends are between the others: positions differ
        content = {name: _without_positions(value, told) for name, value in content.items()}
    edges = [edge.id or [one.id for one in told if edge.holds(one)] for edge in edges_of(commit)]
    return [
        commit.id, commit.turn, commit.kind, commit.status, commit.tool, commit.call, commit.actor,
        commit.effect, commit.attempt, commit.cause, commit.happened, content, edges,
    ]  # fmt: skip


def _without_positions(value: Any, told: list[Commit], key: str = "") -> Any:
    """A value of a compaction, with the commits up to a position in place of the position."""
    if isinstance(value, dict):
        return {
            _without_positions(name, told): _without_positions(part, told, name)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [_without_positions(part, told, key) for part in value]
    if isinstance(value, str):
        return re.sub(r"@(\d+)", lambda found: f"@{_reached(int(found[1]), told)}", value)
    return _reached(value, told) if key in POSITIONS and isinstance(value, int) else value


def _reached(seq: int, told: list[Commit]) -> str:
    return next((one.id for one in reversed(told) if one.seq <= seq), "")


def _is_lifecycle(commit: Commit) -> bool:
    """Whether only hooks know it, or the transcript never told it."""
    return commit.kind in ("open", "run", "resume", "pause") or NOT_TOLD in commit.cause
