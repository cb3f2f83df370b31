"""A small coding agent whose session survives it, and the questions one can ask afterwards.

The model is a script (a plain list of requests); the tools are real and edit real files in a
temporary project. Everything the agent does goes through Stator. Then the same questions a person
would ask are put to the `stator` command. In the second act the agent (payment.py) is killed while it
pays, and run again by the same command.

    python examples/demo.py            run, show, clean up
    python examples/demo.py --keep     leave the project and its store, and say where they are
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import stator

# ── tools: ordinary functions; the decorator says what a call may do to the world ────────────────


@stator.tool(effect="read")
def list_files() -> list[str]:
    return sorted(path.name for path in Path().glob("*.py"))


@stator.tool(effect="read")
def read_file(path: str) -> str:
    return Path(path).read_text()


@stator.tool(effect="read")
def run_tests() -> dict[str, Any]:
    command = [sys.executable, "-B", "-m", "unittest", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return {"passed": done.returncode == 0, "summary": done.stderr.strip().splitlines()[-1]}


@stator.tool(effect="write")
def edit_file(path: str, old: str, new: str) -> dict[str, str]:
    file = Path(path)
    before = file.read_text() if file.exists() else ""
    if old not in before:
        raise ValueError(f"{path} does not contain {old!r}")
    after = before.replace(old, new, 1) if old else new
    file.write_text(after)
    return {"path": path, "before": digest(before), "after": digest(after)}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


# ── the loop: what any agent does, made durable ──────────────────────────────────────────────────

TOOLS = {tool.name: tool for tool in (list_files, read_file, run_tests, edit_file)}
Request = tuple[str, dict[str, Any]]
"""What the model asks for: a tool to run, or something to put on record."""


def run_turn(session: stator.Session[Any], prompt: str, script: list[Request]) -> None:
    """One turn: the model asks, the agent does, Stator remembers."""
    with session.turn(prompt) as turn:
        say(f"t{turn.number}", prompt)
        for name, given in script:
            if name in TOOLS:
                use_tool(turn, name, given)
            else:
                getattr(turn, name)(**given)  # decide, fact, plan, say, …: one typed commit each
                what = next(iter(given.values()))
                say("", f"{name}: {what if isinstance(what, str) else ', '.join(what)}")


def use_tool(turn: stator.Turn, name: str, given: dict[str, Any]) -> None:
    """Run a tool. Its intent is on disk before it runs, its outcome after; a failure is a value."""
    outcome = turn.try_call(TOOLS[name], **given)
    shown = given.get("path", "")
    if not outcome.ok:
        say("", f"{name} {shown}: {outcome.status}, {outcome.error}")
        turn.pend(f"look again at {shown}", why=outcome.error)
        use_tool(turn, "read_file", {"path": shown})  # what the model does when it is told
        turn.pend(f"look again at {shown}", done=True)
        return
    if name == "read_file":
        turn.file(shown, "read", after=digest(outcome.value))
    elif name == "edit_file":
        edit = outcome.value
        turn.file(**edit, op="modified" if edit["before"] else "created")
    summary = outcome.value["summary"] if name == "run_tests" else "ok"
    say("", f"{name} {shown}".rstrip() + f": {summary}")


# ── the story: a basket whose total is off by a cent ─────────────────────────────────────────────

BASKET = """\
def total(prices):
    return sum(prices)
"""
TESTS = """\
import unittest
from basket import total

class TotalTest(unittest.TestCase):
    def test_three_dimes(self):
        self.assertEqual(str(total(["0.10", "0.10", "0.10"])), "0.30")
"""
MONEY = """\
def to_cents(price):
    return int(price.replace(".", ""))

def to_text(cents):
    return f"{cents // 100}.{cents % 100:02}"
"""
NOTES = "Prices are text; sums are whole cents; money.py converts.\n"


def decide(what: str, why: str, over: tuple[str, ...], confidence: float) -> Request:
    return "decide", {
        "what": what, "topic": "money", "why": why, "over": over, "confidence": confidence,
    }  # fmt: skip


def edit(path: str, old: str, new: str) -> Request:
    return "edit_file", {"path": path, "old": old, "new": new}


STORY: list[tuple[str, list[Request]]] = [
    (
        "the basket's total is wrong: find out why",
        [
            ("list_files", {}),
            ("read_file", {"path": "basket.py"}),
            ("run_tests", {}),
            ("fact", {"name": "test command", "value": "python -m unittest -q", "verified": True}),
            ("plan", {"step": ["make the test pass", "keep money exact", "write it down"]}),
            ("say", {"said": "Prices are text, and total() adds them as they are."}),
        ],
    ),
    (
        "fix it",
        [
            decide("add floats and round", "smallest change", (), 0.5),
            edit("basket.py", "sum(prices)", "round(sum(map(float, prices)), 2)"),
            ("run_tests", {}),
            ("dead_end", {"what": "rounding floats", "why": "0.30 prints as 0.3"}),
            decide("use Decimal", "exact, and keeps the zeros", ("add floats and round",), 0.8),
            edit("basket.py", "round(sum(map(float, prices)), 2)", "sum(map(Decimal, prices))"),
            edit("basket.py", "def total", "from decimal import Decimal\n\n\ndef total"),
            ("run_tests", {}),
            ("plan", {"step": "make the test pass", "status": "done", "evidence": "1 test, OK"}),
            ("say", {"said": "Fixed with Decimal."}),
        ],
    ),
    (
        "the rest of the shop counts in cents: do the same here",
        [
            ("prefer", {"name": "money", "value": "whole cents", "why": "the user said so"}),
            edit("basket.py", "map(float, prices)", "map(to_cents, prices)"),  # not there any more
            decide("count whole cents", "as the rest of the shop does", ("use Decimal",), 0.95),
            edit("money.py", "", MONEY),
            edit("basket.py", "from decimal import Decimal", "from money import to_cents, to_text"),
            edit("basket.py", "sum(map(Decimal, prices))", "to_text(sum(map(to_cents, prices)))"),
            ("run_tests", {}),
            ("plan", {"step": "keep money exact", "status": "done"}),
            ("say", {"said": "Totals are whole cents now; money.py has the conversion."}),
        ],
    ),
    (
        "write down what you did",
        [
            ("read_file", {"path": "money.py"}),
            edit("NOTES.md", "", NOTES),
            ("artifact", {"name": "NOTES.md", "content": NOTES, "media_type": "text/markdown"}),
            ("plan", {"step": "write it down", "status": "done"}),
            ("say", {"said": "NOTES.md says how money is counted."}),
        ],
    ),
]

QUESTIONS = {
    "What happened?": "stator log",
    "Which files did the last five turns touch?": "stator files --last 5",
    "What did the last turn change?": "stator diff",
    "And the turn before it?": "stator diff t2..t3",
    "Why does this file look as it does?": "stator why basket.py",
    "Is all of this as it was written?": "stator verify",
}

# ── the second act: killed in the middle of a payment ────────────────────────────────────────────

PAYMENT = Path(__file__).resolve().with_name("payment.py")


def crash() -> None:
    """Kill an agent while it pays, run it again, and count what the bank has booked."""
    title("Act 2. Killed in the middle of a payment")
    Path("invoice.txt").write_text("ACME 4200\n")
    print("The tool has a probe: it can look into the bank's ledger for a payment of its own.")
    pay("", "after")
    pay("")
    print(f"\n  effects: {booked()}")
    ask("What is on record?", "stator log pay-acme")

    print("\nWithout a probe nobody knows, so nobody pays again: a person looks, and says.")
    Path("ledger.txt").unlink()
    pay(" --no-probe", "after")
    pay(" --no-probe")
    settle()
    pay(" --no-probe")
    print(f"\n  effects: {booked()}")


def pay(options: str, where: str = "") -> None:
    """Run the agent as a person would; `where` is where it is killed."""
    prompt = f"python payment.py{options}"
    print(f"\n{paint('32', '$ ' + prompt)}", flush=True)
    command = [sys.executable, str(PAYMENT), *options.split()]
    done = subprocess.run(command, env={**os.environ, "CRASH": where}, check=False)
    if done.returncode < 0:
        print(f"  Killed ({signal.Signals(-done.returncode).name})")


def booked() -> int:
    """Payments the bank has taken."""
    return len(Path("ledger.txt").read_text().splitlines())


def settle() -> None:
    """Say that the payment happened: a person has seen it in the ledger."""
    with stator.connect(".stator/store.db") as store:
        (call,) = store.read("pay-acme-blind").calls(status="in doubt")
    ask("The ledger has it. Say so:", f"stator settle c_{call.call[-8:]} --done")


# ── showing it ───────────────────────────────────────────────────────────────────────────────────

COLOUR = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def paint(code: str, text: str) -> str:
    return f"\033[{code}m{text}\033[0m" if COLOUR else text


def title(text: str) -> None:
    print(f"\n{paint('1', f'── {text} ' + '─' * (96 - len(text)))}\n")


def say(mark: str, text: str) -> None:
    print(f"{paint('1;36', f'{mark:>3}')} {text if mark else paint('2', '  ' + text)}")


def ask(question: str, command: str) -> None:
    """Show a command as a person would type it, and run it."""
    print(f"\n{paint('1', question)}\n{paint('32', '$ ' + command)}", flush=True)
    program, *words = command.split()
    beside = Path(sys.executable).with_name(program)
    found = str(beside) if beside.exists() else program
    subprocess.run([found, *words], env={**os.environ, "STATOR_PAGER": "cat"}, check=True)


def demo() -> None:
    """In the current folder: make a small project, let the agent work on it, then ask."""
    Path("basket.py").write_text(BASKET)
    Path("test_basket.py").write_text(TESTS)
    if shutil.which("git"):
        subprocess.run(["git", "init", "-q"], check=True)
    title("Act 1. An agent works; every line is on disk before the next")
    with (
        stator.connect(".stator/store.db") as store,
        store.open("fix-basket", agent="demo") as session,
    ):
        for prompt, script in STORY:
            run_turn(session, prompt, script)
    print("\nThe agent is gone; its session is not. These read the store and nothing else.")
    for question, command in QUESTIONS.items():
        ask(question, command)
    crash()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave the project and its store")
    keep = parser.parse_args().keep
    for name in ("STATOR_STORE", "STATOR_SESSION"):
        os.environ.pop(name, None)  # the demo's own store, whatever is set outside
    home, folder = Path.cwd(), Path(tempfile.mkdtemp(prefix="stator-demo-"))
    os.chdir(folder)
    try:
        demo()
    finally:
        os.chdir(home)
        if not keep:
            shutil.rmtree(folder)
    if keep:
        print(f"\nKept: cd {folder}, then any stator command.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
