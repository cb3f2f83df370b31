"""Sets the passphrase that proves a person, lists keys that may sign, and says what the set-up proves."""

from __future__ import annotations

import os
from contextlib import suppress

from stator.errors import NotProven, StatorError
from stator.owner import ancestry
from stator.owner.approver import VARIABLE, approver_of, read_public
from stator.surfaces.cli.parts import passphrase
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.parts.person import own_approver, refuse_agents, unlocked
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

LENGTH_MIN = 8
"""Characters that a passphrase has at least."""
FORGEABLE = "any process of this user can approve, also the agent"


def set_approver(screen: Screen, file: str | None, old_file: str | None, store: str | None) -> None:
    """Set the passphrase, or change it: then the old one is needed."""
    _refuse_agents(store)
    approver = own_approver()
    had = bool(approver.public)
    if had:
        unlocked(approver, old_file, "the old passphrase for approvals")
    if file is not None:
        new = passphrase.from_file(file)
    else:
        new = passphrase.from_terminal("new passphrase for approvals", twice=True)
    if len(new) < LENGTH_MIN:
        raise NotProven(f"a passphrase for approvals has at least {LENGTH_MIN} characters")
    public = approver.set_passphrase(new)
    if screen.json:
        found = {"approver": approver.path, "public": public, "replaced": had}
        screen.document("stator.init/1", found)
        return
    screen.line(Line("replaced " if had else "created ", "added").add(approver.path))
    screen.line(Line(f"public key {public}", "dim"))
    if had:
        screen.line(Line("approvals signed with the old passphrase are void from now on", "doubt"))
    demand = 'proof = "passphrase" in stator.toml, or Rule(…, proof="passphrase")'
    screen.line(Line(f"to demand it: {demand}", "dim"))
    screen.line(Line("drivers that run already must be started again to accept it", "dim"))


def list_key(screen: Screen, file: str, old_file: str | None, store: str | None) -> None:
    """Accept approvals that another key signs; where a passphrase is set, it is needed."""
    _refuse_agents(store)
    approver = own_approver()
    public = read_public(file)
    signer = None
    if approver.public:
        signer = unlocked(approver, old_file)
    if public not in approver.listed():
        approver.list_key(public, signer)
    if screen.json:
        screen.document("stator.init/1", {"approver_keys": approver.keys_path, "public": public})
        return
    screen.line(Line("listed ", "added").add(public).add(f" in {approver.keys_path}", "dim"))


def _refuse_agents(store: str | None) -> None:
    """Refuse a process below an agent: it would choose the passphrase itself."""
    below = ancestry.below({}, os.environ)
    with suppress(StatorError), open_to_read(store) as opened:
        below = below or opened.store.context.below(opened.store.port)
    refuse_agents(below, "who may approve is not set by an agent")


def what_is_proven() -> tuple[str, str]:
    """What approvals prove in the present set-up, and how to prove more."""
    try:
        return _what_is_proven()
    except NotProven as error:
        return f"no signed approval can be verified: {error.what}", error.hint


def _what_is_proven() -> tuple[str, str]:
    if os.environ.get(VARIABLE, "").strip():
        what = f"an agent cannot forge a signed approval: only the keys of ${VARIABLE} count"
        return what, ""
    approver = approver_of(os.environ)
    public = approver.public if approver is not None else ""
    if approver is None or not (public or approver.listed()):
        return f"{FORGEABLE}: no passphrase is set", "stator init --approver"
    where = approver.path if public else approver.keys_path
    what = (
        f"an agent of this user cannot forge a signed approval, unless it replaces {where} before a driver starts; "
        f"without a demand for proof, {FORGEABLE}"
    )
    return what, 'demand it in stator.toml: proof = "passphrase"'
