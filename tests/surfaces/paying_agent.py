"""A driver that must ask before it pays, and that tries to approve the payment itself.

    python paying_agent.py PROOF [COMMAND …]

In the command, CALL is the id of the call that waits. Each payment adds a line to the file `paid`.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import stator
from stator.approvals import Rule

PROGRAM = [sys.executable, "-m", "stator.surfaces.cli.main"]


def typed(words: list[str], answers: list[str]) -> tuple[int, str]:
    """Run a program in a terminal of its own, and type an answer at each question."""
    pid, terminal = pty.fork()
    if not pid:
        os.execvp(words[0], words)
    shown, left = b"", list(answers)
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the program has closed its terminal
            break
        if not piece:
            break
        shown += piece
        if left and shown.rstrip().endswith(b":") and b"pass" in shown.splitlines()[-1]:
            os.write(terminal, left.pop(0).encode() + b"\n")
            shown += b"\n"
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode("utf-8", "replace")


def orphaned(words: list[str], answers: list[str]) -> None:
    """Run a program in a terminal of its own with no ancestors: two forks, and the one between has ended."""
    if os.fork():
        os._exit(0)
    os.setsid()
    between = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == between:
        os.sched_yield()
    print(typed(words, answers)[1])


@stator.tool(effect="write")
def pay(amount: int) -> str:
    with open("paid", "a") as file:
        file.write(f"{amount}\n")
    return "paid"


@stator.tool(effect="read")
def shell(words: list[str]) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    return done.stdout + done.stderr


def main(proof: str, *command: str) -> None:
    rules = [Rule(tool="pay", action="ask", proof=proof)]
    with stator.open("x", rules=rules) as s, s.turn("pay") as t:
        try:
            t.call(pay, amount=500)
        except stator.ApprovalNeeded as waits:
            if command:
                print(t.call(shell, words=[w.replace("CALL", waits.ids["call"]) for w in command]))
            raise


if __name__ == "__main__":
    if sys.argv[1] == "orphaned":
        orphaned(sys.argv[2:], ["a guess", "a guess", "a guess"])
    else:
        try:
            main(*sys.argv[1:])
        except stator.ApprovalNeeded:
            print("waits")
