"""`python -m bench.crash`: killed while it pays, then resumed as each framework says. Who pays twice?

The same agent is written for every framework in `bench/victims`, with the same scripted model and the
same tool, which appends a line to a ledger. A real process is killed with SIGKILL inside the tool,
just after (or just before) the line is on disk; then another process resumes. `--write` keeps the
table in bench/RESULTS-crash.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import stator
from bench.victims import common

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "RESULTS-crash.md"
WHERE = {"after": "just after the money moved", "before": "just before the money moved"}


@dataclass(frozen=True)
class Victim:
    """A framework, the program written for it, and how that is resumed."""

    label: str
    program: str
    packages: tuple[str, ...]
    resumed: str
    probe: bool = False

    def versions(self) -> str:
        if not self.packages:
            return f"stator {stator.__version__}"
        return ", ".join(f"{package} {version(package)}" for package in self.packages)


VICTIMS = (
    Victim("Stator", "ours", (), "run again"),
    Victim("Stator, tool with a probe", "ours", (), "run again; `reconcile` is asked", probe=True),
    Victim(
        "LangGraph, ToolNode",
        "langgraph_graph",
        ("langgraph", "langgraph-checkpoint-sqlite"),
        "`invoke(None, config)`, SqliteSaver, durability sync",
    ),
    Victim(
        "LangGraph, @task",
        "langgraph_task",
        ("langgraph", "langgraph-checkpoint-sqlite"),
        "`invoke(None, config)`, SqliteSaver, durability sync",
    ),
    Victim(
        "OpenAI Agents SDK",
        "openai_agents",
        ("openai-agents",),
        "`Runner.run` again, same SQLiteSession",
    ),
)


@dataclass
class Seen:
    """What became of one victim."""

    kept: list[str]
    """What its own storage says of the payment, between the crash and the resume."""
    told: bool
    """Whether the model was told that the outcome is unknown."""
    paid: int
    answer: str


def attempt(victim: Victim, where: str) -> Seen:
    """Kill it there, resume it, and count."""
    with tempfile.TemporaryDirectory(prefix="stator-crash-") as folder:
        died = _run(victim, "start", folder, CRASH=where)
        if died.returncode != -signal.SIGKILL:
            raise RuntimeError(f"{victim.label} was not killed: {died.stderr[-2000:]}")
        kept = json.loads(_check(victim, "look", folder))
        answer = _check(victim, "resume", folder).strip().splitlines()[-1]
        ledger, shown = Path(folder) / common.LEDGER, Path(folder) / common.SHOWN
        return Seen(
            kept=kept,
            told=common.DOUBT in shown.read_text(),
            paid=len(ledger.read_text().splitlines()) if ledger.exists() else 0,
            answer=answer,
        )


def _run(victim: Victim, mode: str, folder: str, **env: str) -> Any:
    command = [sys.executable, "-m", f"bench.victims.{victim.program}", mode]
    probe = {"PROBE": "1"} if victim.probe else {}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STATOR")}
    return subprocess.run(
        command,
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), **probe, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _check(victim: Victim, mode: str, folder: str) -> str:
    done = _run(victim, mode, folder)
    if done.returncode:
        raise RuntimeError(f"{victim.label}, {mode}: {done.stderr[-2000:]}")
    return str(done.stdout)


# ── the table ────────────────────────────────────────────────────────────────────────────────────


def row(victim: Victim, seen: Seen) -> tuple[str, ...]:
    paid = f"{seen.paid} ×" + (" **twice**" if seen.paid > 1 else "")
    kept = "; ".join(seen.kept) or "nothing"
    return victim.label, paid, "yes" if seen.told else "no", kept, seen.answer


def table(rows: list[tuple[str, ...]]) -> str:
    heads = ("", "paid", "model told it is unknown", "kept of the call", "what it answers")
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def present() -> list[Victim]:
    found = []
    for victim in VICTIMS:
        try:
            victim.versions()
            found.append(victim)
        except PackageNotFoundError as missing:
            print(f"left out, not installed: {victim.label} ({missing})", file=sys.stderr)
    return found


def report() -> str:
    victims = present()
    parts = [
        "# Killed while it pays\n",
        "Written by `.venv-bench/bin/python -m bench.crash --write` "
        f"(Python {platform.python_version()}, {platform.system()}). An agent asks its model, the "
        "model asks for one payment, and the process is killed with SIGKILL inside the payment "
        "tool; a new process resumes it the documented way. Model and tool are the same for all: "
        "the model pays when it is shown no payment, is done when it is shown a result, and says "
        "so when it is told that nobody knows. The programs: [victims](victims).\n",
    ]
    for where, said in WHERE.items():
        print(f"killed {said} …", file=sys.stderr)
        rows = [row(victim, attempt(victim, where)) for victim in victims]
        parts += [f"## Killed {said}\n", table(rows) + "\n"]
    parts += [
        "## How to read it\n",
        "*After* is the case that costs money. A framework that runs the interrupted step again "
        "pays twice; one that lost the call pays twice because its model knows no better. "
        "*Before* is the price of caution: without a probe Stator does not know that nothing "
        "happened, so it does not pay, and says that somebody must look; the others pay, rightly, "
        "by doing what was wrong in the other case. From the outside the two cases look the same. "
        "A probe (`reconcile`) tells them apart.\n",
        "None of this is hidden by the others: LangGraph's page on durable execution asks for side "
        "effects that are idempotent, and there a tool must be. A bank that honours idempotency "
        "keys makes a second request harmless wherever both carry the same key; Stator hands one "
        "to a tool that takes it.\n",
        "## What was run\n",
        *(
            f"- {victim.label}: {victim.versions()}; resumed by {victim.resumed}"
            for victim in victims
        ),
        "",
    ]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.crash", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"keep it in bench/{RESULTS.name}")
    args = parser.parse_args()
    text = report()
    print(text)
    if args.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
