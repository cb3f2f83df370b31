"""`stator restore`: files as they were, only what a session wrote, and never without a way back."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

from stator.errors import BadQuery
from stator.model.values.ids import short
from stator.runtime.branches.restore import ACTIONS, Restoration, Restoring
from stator.runtime.facade.view import SessionView
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.scope import (
    Asking,
    asking,
    telling,
    title,
)
from stator.surfaces.cli.render import patch
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen, note

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AtOption,
        JsonFlag,
        NoPagerFlag,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator restore auth.py --at t3             what it would change
stator restore auth.py --at t3 --apply     do it; what is there now is kept first
stator restore --all --at fix-login:t0     everything that session wrote, as before it
"""
DONE = {"write": "restored", "delete": "deleted"}
PLANNED = {"write": "would restore", "delete": "would delete"}
STYLES = {"write": "changed", "delete": "removed", "unchanged": "dim", "not kept": "doubt"}


def restore(
    *paths: str,
    at: AtOption = None,
    all: bool = False,
    apply: bool = False,
    force: bool = False,
    root: str = "",
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show what it takes to have files as they were, or do it.

    Only files the session wrote, and whose contents were kept. What is there now is recorded before
    anything is touched.

    Parameters
    ----------
    paths
        Files, by their paths from here.
    all
        Every file the session wrote.
    apply
        Do it.
    force
        Also where somebody else changed a file since, or where what is there now cannot be kept.
    root
        A folder outside the project that files the session wrote may be in.
    """
    if at is None:
        raise BadQuery("as they were when?", hint="stator restore PATH --at t3")
    if bool(paths) == all:
        raise BadQuery("which files?", hint="name some, or say --all")
    wanted = [os.path.abspath(path) for path in paths]
    with (
        (telling if apply else asking)(store) as ask,
        Screen(json=json, pager=not no_pager) as screen,
    ):
        view, ref = ask.aim(session, at)
        act = ask.store.contribute(view.id)
        options: dict[str, Any] = {
            "at": ref or "head", "force": force, "everything": all,
            "root": os.path.abspath(root) if root else "",
        }  # fmt: skip
        found = act.restore(*wanted, **options)
        if apply and not found.stops(everything=all):
            found = act.restore(*wanted, **options, apply=True)
        _show(screen, ask, view, found)
    return FINDING if found.of("refused", "not kept") else OK


def _show(screen: Screen, ask: Asking, view: SessionView, found: Restoration) -> None:
    if screen.json:
        screen.document("stator.restore/1", plain(found))
        return
    if view.record.project != ask.project:
        note(
            f"this session is of another project; its files are looked for in {ask.store.context.root}"
        )
    title(screen, view, ask.now, f"files at {found.at}")
    for file in found.files:
        screen.line(_line(file, applied=found.applied), hang=4)
        if file.change is not None and not found.applied:
            screen.whole(patch.coloured([file.change]))
    back = [file for file in found.of(*ACTIONS) if not file.reason]
    if found.snapshot and back:
        base = ask.store.context.root
        here = [os.path.relpath(os.path.join(base, file.path)) for file in back]
        names = [f"./{name}" if name.startswith("-") else name for name in here]
        at = f"{short(found.session)}:@{found.snapshot}"
        screen.whole([Line(f"undo: stator restore {shlex.join(names)} --at {at} --apply")])
    elif not found.applied:
        force = any(file.needs_force for file in found.files)
        how = "--apply --force does it" if force else "--apply does it"
        todo = force or found.of(*ACTIONS)
        screen.line(Line("nothing was changed" + (f"; {how}" if todo else ""), "dim"))


def _line(file: Restoring, *, applied: bool) -> Line:
    word = (DONE if applied else PLANNED).get(file.action, file.action)
    line = Line(word, STYLES.get(file.action, "bad")).add(" ").add(file.path, "bold")
    line.add(f" in {file.root}" if file.root != "." else "", "dim")
    if file.change is not None:
        line.add(f" +{file.change.added} -{file.change.removed}", "dim")
    line.add(f": {file.reason}" if file.reason else "")
    since = file.changed_since and file.action in ACTIONS and not applied
    return line.add(" (changed since the session left it)" if since else "", "doubt")


def plain(found: Restoration) -> dict[str, Any]:
    """A restore for programs."""
    return {
        "session": found.session,
        "at": found.at,
        "applied": found.applied,
        "snapshot": found.snapshot or None,
        "seq": found.seq or None,
        "files": [
            {
                "path": file.path,
                "root": file.root,
                "action": file.action,
                "reason": file.reason,
                "changed_since": file.changed_since,
                "needs_force": file.needs_force,
                "patch": patch.plain(file.change) if file.change is not None else None,
            }
            for file in found.files
        ],
    }
