"""`stator restore`: restores files that a session wrote. What is on disk now is recorded first."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

from stator.errors import BadQuery
from stator.model.values.ids import short
from stator.model.values.paths import outside
from stator.runtime.branches.restore import ACTIONS, Restoration, Restoring
from stator.runtime.facade.view import SessionView
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.open_store import (
    OpenedStore,
    open_to_read,
    open_to_write,
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
stator restore auth.py --at t3             show what would change
stator restore auth.py --at t3 --apply     restore it; the present content is recorded first
stator restore --all --at fix-login:t0     all files the session wrote, as they were before it
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
    """Preview or restore files as they were at a position.

    Restores only files that the session wrote and whose contents were recorded. Without --apply nothing
    changes; with it, the present contents are recorded first, so that a restore can be undone.

    Parameters
    ----------
    paths
        Files, by their paths relative to this folder.
    all
        Restore every file the session wrote.
    apply
        Restore the files.
    force
        Also restore files that were changed since by another program, or whose present content cannot be
        recorded.
    root
        A folder outside the project in which files may be restored.
    """
    if at is None:
        raise BadQuery(
            "--at is missing: the position whose files to restore",
            hint="stator restore PATH --at t3",
        )
    if bool(paths) == all:
        raise BadQuery("name files, or use --all, but not both", hint="stator restore PATH --at t3")
    wanted = [os.path.abspath(path) for path in paths]
    with (
        (open_to_write if apply else open_to_read)(store) as opened,
        Screen(json=json, pager=not no_pager) as screen,
    ):
        view, ref = opened.resolve(session, at)
        act = opened.store.contribute(view.id)
        options: dict[str, Any] = {
            "at": ref or "head", "force": force, "everything": all,
            "root": os.path.abspath(root) if root else "",
        }  # fmt: skip
        found = act.restore(*wanted, **options)
        if apply and not found.stops(everything=all):
            found = act.restore(*wanted, **options, apply=True)
        _show(screen, opened, view, found)
    return FINDING if found.of("refused", "not kept") else OK


def _show(screen: Screen, opened: OpenedStore, view: SessionView, found: Restoration) -> None:
    if screen.json:
        screen.document("stator.restore/1", as_json(found))
        return
    if view.record.project != opened.project:
        note(
            f"the session belongs to another project; looking for its files in {opened.store.context.root}"
        )
    title(screen, view, opened.now, f"files at {found.at}")
    for file in found.files:
        screen.line(_line(file, applied=found.applied), hang=4)
        if file.change is not None and not found.applied:
            screen.whole(patch.coloured([file.change]))
    back = [file for file in found.of(*ACTIONS) if not file.reason]
    if found.snapshot and back:
        base = opened.store.context.root
        here = [os.path.relpath(os.path.join(base, file.path)) for file in back]
        names = [f"./{name}" if name.startswith("-") else name for name in here]
        at = f"{short(found.session)}:@{found.snapshot}"
        screen.whole([Line(f"undo: stator restore {shlex.join(names)} --at {at} --apply")])
    elif not found.applied:
        force = any(file.needs_force for file in found.files)
        how = "restore with --apply --force" if force else "restore with --apply"
        todo = force or found.of(*ACTIONS)
        screen.line(Line("nothing was changed" + (f"; {how}" if todo else ""), "dim"))


def _line(file: Restoring, *, applied: bool) -> Line:
    word = (DONE if applied else PLANNED).get(file.action, file.action)
    line = Line(word, STYLES.get(file.action, "bad")).add(" ").add(file.path, "bold")
    line.add(outside(file.root, file.path), "dim")
    if file.change is not None:
        line.add(f" +{file.change.added} -{file.change.removed}", "dim")
    line.add(f": {file.reason}" if file.reason else "")
    since = file.changed_since and file.action in ACTIONS and not applied
    return line.add(" (changed since the session wrote it)" if since else "", "doubt")


def as_json(found: Restoration) -> dict[str, Any]:
    """A restore as JSON."""
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
                "patch": patch.as_json(file.change) if file.change is not None else None,
            }
            for file in found.files
        ],
    }
