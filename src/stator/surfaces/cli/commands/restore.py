"""`stator restore`: restores files that a session wrote. What is on disk now is recorded first."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

from stator.errors import BadQuery
from stator.model.exchange.kept_contents import NOT_KEPT, UNRECORDED
from stator.model.values.ids import short
from stator.model.values.paths import outside
from stator.runtime.branches.restore import ACTIONS, Restoration, Restoring
from stator.runtime.facade.view import SessionView
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.confirm import agreed, refuse_both
from stator.surfaces.cli.parts.open_store import (
    OpenedStore,
    open_to_read,
    open_to_write,
    title,
)
from stator.surfaces.cli.parts.output.unrecorded_contents import ARGUMENTS, arguments_of, remedy
from stator.surfaces.cli.render.differences import patch
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen, note

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AtOption,
        DryRunFlag,
        JsonFlag,
        NoPagerFlag,
        OutsideOption,
        SessionOption,
        StoreOption,
        YesFlag,
    )

EXAMPLES = """
stator restore auth.py --at t3             show what would change
stator restore auth.py --at t3 --yes     restore it; the present content is recorded first
stator restore --everything --at fix-login:t0   all files the session wrote, as they were before it
"""
DONE = {"write": "restored", "delete": "deleted"}
PLANNED = {"write": "would restore", "delete": "would delete"}
STYLES = {"write": "changed", "delete": "removed", "unchanged": "dim", "not kept": "doubt"}


def restore(
    *paths: str,
    at: AtOption = None,
    everything: bool = False,
    yes: YesFlag = False,
    dry_run: DryRunFlag = False,
    force: bool = False,
    outside: OutsideOption = None,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Preview or restore files as they were at a position.

    Restores only files that the session wrote and whose contents were recorded. Without --yes it
    shows what would change, and asks if it runs on a terminal. The present contents
    are recorded first, so that a restore can be undone. Exits with 1 if a file cannot be restored: its content was not
    kept, or it is refused.

    Parameters
    ----------
    paths
        Files, by their paths relative to this folder.
    everything
        Everything there is: every file the session wrote.
    force
        Do it even if files were changed since by another program, or their present content cannot be recorded.
    """
    refuse_both(dry_run=dry_run, yes=yes)
    if at is None:
        raise BadQuery(
            "--at is missing: the position whose files to restore",
            hint="stator restore PATH --at t3",
        )
    if bool(paths) == everything:
        raise BadQuery(
            "name files, or use --everything, but not both", hint="stator restore PATH --at t3"
        )
    wanted = [os.path.abspath(path) for path in paths]
    with (
        (open_to_write if yes else open_to_read)(store) as opened,
        Screen(json=json, pager=not no_pager) as screen,
    ):
        view, ref = opened.resolve(session, at)
        act = opened.store.contribute(view.id)
        options: dict[str, Any] = {
            "at": ref or "head", "force": force, "everything": everything,
            "root": os.path.abspath(outside) if outside else "",
        }  # fmt: skip
        found = act.restore(*wanted, **options)
        if yes and not found.stops(everything=everything):
            found = act.restore(*wanted, **options, apply=True)
        _show(screen, opened, view, found)
    is_open = bool(found.of(*ACTIONS)) and not found.stops(everything=everything)
    if is_open and not (yes or dry_run) and agreed("Restore these files?", json=json):
        return restore(
            *paths, at=at, everything=everything, yes=True, force=force, outside=outside,
            session=session, store=store, json=json, no_pager=no_pager,
        )  # fmt: skip
    return FINDING if found.of("refused", "not kept") else OK


def _show(screen: Screen, opened: OpenedStore, view: SessionView, found: Restoration) -> None:
    if screen.json:
        screen.document("stator.restore/1", as_json(found))
        return
    if view.record.project != opened.project:
        note(
            f"the session belongs to another project; looking for its files in {opened.store.context.root}"
        )
    title(screen, view, opened, f"files at {found.at}")
    arguments = _arguments(opened, view, found)
    for file in found.files:
        screen.line(_line(file, applied=found.applied), hang=4)
        if command := arguments.get((file.root, file.path)):
            screen.whole([Line(f"    {ARGUMENTS}{command}", "dim")])
        if file.change is not None and not found.applied:
            screen.whole(patch.coloured([file.change]))
    how = remedy(view) if any(file.reason == UNRECORDED for file in found.files) else ""
    screen.lines([Line(how, "dim")] if how else [])
    back = [file for file in found.of(*ACTIONS) if not file.reason]
    if found.snapshot and back:
        base = opened.store.context.root
        here = [os.path.relpath(os.path.join(base, file.path)) for file in back]
        names = [f"./{name}" if name.startswith("-") else name for name in here]
        at = f"{short(found.session)}:@{found.snapshot}"
        screen.whole([Line(f"undo: stator restore {shlex.join(names)} --at {at} --yes")])
    elif not found.applied:
        force = any(file.needs_force for file in found.files)
        how = "restore with --yes --force" if force else "restore with --yes"
        todo = force or found.of(*ACTIONS)
        screen.line(Line("nothing was changed" + (f"; {how}" if todo else ""), "dim"))


def _arguments(
    opened: OpenedStore, view: SessionView, found: Restoration
) -> dict[tuple[str, str], str]:
    """Where else the contents that were not recorded may be read, by root and path."""
    lacking = [(file.root, file.path) for file in found.files if file.reason == UNRECORDED]
    if not lacking:
        return {}
    return arguments_of(opened, view, f"t0..{found.at}", lacking)


def _line(file: Restoring, *, applied: bool) -> Line:
    word = (DONE if applied else PLANNED).get(file.action, file.action)
    line = Line(word, STYLES.get(file.action, "bad")).add(" ").add(file.path, "bold")
    line.add(outside(file.root, file.path), "dim")
    if file.change is not None:
        line.add(f" +{file.change.added} -{file.change.removed}", "dim")
    reason = file.reason.removeprefix(NOT_KEPT) if file.action == "not kept" else file.reason
    line.add(f": {reason}" if reason else "")
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
