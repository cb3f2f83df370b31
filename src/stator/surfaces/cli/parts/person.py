"""Recognises the person who answers: a real terminal, the passphrase, or a key that signs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import msgspec

from stator.errors import BadQuery, NotProven
from stator.model.calls.proof import check_proof, demanded
from stator.owner.approver import Approver, Signer, approver_of, read_private
from stator.runtime.driving.proofs import PROGRAM, Recognised, refuse_below
from stator.surfaces.cli.exits import write_stderr
from stator.surfaces.cli.parts import passphrase

ATTEMPTS = 3
"""How often a passphrase is asked for."""
TERMINAL = Recognised("terminal")


class Person(msgspec.Struct, frozen=True):
    """What the options of a command say about how the person can be recognised."""

    proof: str = ""
    passphrase_file: str | None = None
    signing_key: str | None = None

    def recognise(self, demand: str, below: Callable[[], str]) -> Recognised:
        """Prove what is demanded, or as much as is possible where nothing is.

        A process below an agent is refused before anything is typed: the agent may read along.
        """
        wanted = self._wanted(demand)
        refuse_below(below() if wanted else "", wanted)
        if wanted == "signed":
            return Recognised("signed", self._key().sign)
        if wanted == "passphrase":
            return Recognised("passphrase", unlocked(own_approver(), self.passphrase_file).sign)
        if is_terminal():
            return TERMINAL
        if self.proof == "terminal":
            raise NotProven(
                "there is no terminal that could prove a person; nothing was recorded",
                hint="run it in a terminal, or leave out --proof",
            )
        return PROGRAM

    def _wanted(self, demand: str) -> str:
        check_proof(self.proof, "$.proof")
        if self.signing_key is not None and self.passphrase_file is not None:
            raise BadQuery("use only one of --signing-key and --passphrase-file")
        given = "signed" if self.signing_key is not None else ""
        given = given or ("passphrase" if self.passphrase_file is not None else "")
        return demanded([demand, self.proof, given])

    def _key(self) -> Signer:
        if self.signing_key is None:
            raise NotProven(
                "the call demands an approval that is signed", hint="use --signing-key FILE"
            )
        found = read_private(self.signing_key, passphrase.from_terminal)
        approver = own_approver()
        if found.public not in approver.listed():
            raise NotProven(
                f"{self.signing_key!r:.200} is not a key that may approve here",
                hint=f"list its public half: stator init --approver-key PUBFILE (kept in {approver.keys_path})",
            )
        return found


def refuse_agents(below: str, what: str) -> None:
    """Refuse a command that only a person may run, if it runs below a driver or an agent."""
    if below:
        raise NotProven(
            f"this command runs below {below}: {what}",
            hint="use another terminal, one that no agent started",
        )


def is_terminal() -> bool:
    """Whether a person can be at a terminal: stdin and stderr are one, and /dev/tty can be opened."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()):
        return False
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def own_approver() -> Approver:
    """The approver's files of this user."""
    found = approver_of(os.environ)
    if found is None:
        raise NotProven("there is no home folder to keep an approver's key in", hint="set HOME")
    return found


def unlocked(
    approver: Approver, file: str | None, what: str = "your passphrase for approvals"
) -> Signer:
    """The key of the passphrase that a person types, or that a file holds."""
    if not approver.public:
        raise NotProven(
            "no passphrase is set for approvals",
            hint="set one in a terminal that no agent started: stator init --approver",
        )
    if file is not None:
        if (found := approver.unlock(passphrase.from_file(file))) is not None:
            return found
        raise NotProven(f"the passphrase in {file!r:.200} is wrong; nothing was recorded")
    if not is_terminal():
        raise NotProven(
            "the passphrase is needed, and there is no terminal to ask for it; nothing was recorded",
            hint="use a terminal, or --passphrase-file",
        )
    for left in reversed(range(ATTEMPTS)):
        if (found := approver.unlock(passphrase.from_terminal(what))) is not None:
            return found
        if left:
            write_stderr("stator: the passphrase is wrong, try again")
    raise NotProven(
        f"the passphrase was wrong {ATTEMPTS} times; nothing was recorded",
        hint=f"if you did not change it, check {approver.path}: stator doctor",
    )
