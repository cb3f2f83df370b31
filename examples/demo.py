"""See Stator work: an agent is killed while it pays, with and without Stator; then five questions.

    python examples/demo.py     makes the folder stator-demo here, and leaves it for you to try things

Everything shown is real: the processes are killed with SIGKILL, the payments are lines of a file, and the
answers come from the `stator` command. The agents are the small files that are copied into the folder.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import stator

HERE = Path(__file__).resolve().parent
AGENTS = ["anthropic_before.py", "anthropic_after.py", "shop.py", "scripted.py", "fix_basket.py"]
QUESTIONS = {
    "Is there a call whose outcome is unknown?": "stator calls pay-invoice --open",
    "Which files did the last five turns touch?": "stator files --last 5",
    "Which decisions hold, and what did they replace?": "stator decisions fix-basket --all",
    "Why does money.py exist?": "stator why money.py",
    "Was any of this record changed afterwards?": "stator verify",
}
WIDTH = shutil.get_terminal_size((80, 24)).columns
COLOUR = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def main() -> int:
    folder = new_folder()
    at_start = Path.cwd()
    for name in AGENTS:
        shutil.copy(HERE / name, folder)
    os.chdir(folder)
    for name in ("STATOR_STORE", "STATOR_SESSION"):
        os.environ.pop(name, None)  # the demo uses the store in its own folder
    os.environ["COLUMNS"] = str(WIDTH)
    if shutil.which(
        "git"
    ):  # a repository of its own: Stator keeps no contents of files git ignores
        run("git init -q -b main", show=False)
    run("stator init", show=False)
    pay_twice_and_once()
    ask_questions()
    say_what_to_type(folder, at_start)
    return 0


# ── killed while paying ──────────────────────────────────────────────────────────────────────────


def pay_twice_and_once() -> None:
    write(
        "An agent pays an invoice. The moment the bank has the money, its process is killed, "
        "before anything can note that it paid. Then the same program runs again."
    )
    title("Without Stator")
    kill_and_run_again("anthropic_before.py")
    title("With Stator: the same loop, the same kill")
    kill_and_run_again("anthropic_after.py")
    print()
    write(
        "Stator recorded the intention to pay before the bank was asked. The second run found it "
        "without an outcome and did not pay again: it reported to the model that the outcome is "
        "unknown, and the model looked into the ledger."
    )


def kill_and_run_again(program: str) -> None:
    """Run an agent that dies while it pays, run it again, and count the payments the bank booked."""
    Path("invoice.txt").write_text("ACME, 4200 cents\n")
    ledger = Path("ledger.txt")
    ledger.unlink(missing_ok=True)
    run(f"CRASH=after python {program}")
    run(f"python {program}")
    write(f"payments in ledger.txt: {len(ledger.read_text().splitlines())}", "1")


# ── five questions ───────────────────────────────────────────────────────────────────────────────


def ask_questions() -> None:
    run("python fix_basket.py", show=False)
    print()
    write(
        "A second agent, fix_basket.py, repaired a file in two turns. Both are gone; ask the record:"
    )
    for question, command in QUESTIONS.items():
        title(question)
        run(command)


def say_what_to_type(folder: Path, at_start: Path) -> None:
    with stator.connect(".stator/store.db") as store:
        (call,) = store.read("pay-invoice").calls(status="in doubt")
    title("Now you: the folder is yours to play with")
    if shutil.which("stator") is None:
        activate = os.path.join(sys.prefix, "bin", "activate")
        print(f"  source {min(activate, os.path.relpath(activate, at_start), key=len)}")
    for command, comment in [
        (f"cd {folder}", ""),
        ("stator log pay-invoice", "both of its runs"),
        (f"stator settle c_{call.call[-8:]} --done", "it is in ledger.txt"),
        ("stator diff fix-basket:t2 --patch", "its edits, by line"),
        ("stator web", "the same in a browser"),
        ("stator --help", ""),
    ]:
        print(f"  {command:<35}{comment and '# ' + comment}".rstrip())
    title("To remove it")
    print(f"  rm -r {folder}")


# ── running and printing ─────────────────────────────────────────────────────────────────────────


def run(command: str, *, show: bool = True) -> None:
    """Run a command as a person would type it, with the programs of this Python."""
    if show:
        write(f"$ {command}", "32")
    words = command.split()
    settings = dict(word.split("=") for word in words if "=" in word)
    program, *arguments = words[len(settings) :]
    beside = Path(sys.executable).with_name(program)
    done = subprocess.run(
        [str(beside) if beside.exists() else program, *arguments],
        env={**os.environ, "STATOR_PAGER": "cat", **settings},
        stdout=None if show else subprocess.DEVNULL,
        check=False,
    )
    if done.returncode < 0:
        write(f"killed by {signal.Signals(-done.returncode).name}", "31")
    elif done.returncode:
        raise SystemExit(f"demo: {command} ended with {done.returncode}")


def title(text: str) -> None:
    print()
    write(text, "1")


def write(text: str, colour: str = "") -> None:
    shown = textwrap.fill(text, min(WIDTH, 80))
    print(f"\033[{colour}m{shown}\033[0m" if colour and COLOUR else shown, flush=True)


def new_folder() -> Path:
    """A folder that did not exist: stator-demo, or stator-demo-2 and so on."""
    for number in itertools.count(1):
        folder = Path("stator-demo" if number == 1 else f"stator-demo-{number}")
        if not folder.exists():
            break
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
