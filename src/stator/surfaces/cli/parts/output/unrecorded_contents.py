"""Says what to do where the contents of files were not recorded: how to record them, where else to read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from stator.model.exchange.kept_contents import UNRECORDED
from stator.model.values.ids import short
from stator.model.views.patch import FilePatch, quoted
from stator.runtime.base.pages import commit_at
from stator.runtime.views.refs import intent_of

if TYPE_CHECKING:
    from stator.runtime.facade.view import SessionView
    from stator.surfaces.cli.parts.open_store import OpenedStore

FROM_NOW_ON = "s.track(contents=True) records contents from now on"
ARGUMENTS = "the call's arguments: "
CALLS_MAX = 20
"""Files for which the call that wrote them is looked up."""


def remedy(view: SessionView) -> str:
    """How contents are recorded from now on; empty for a session that no program of the user drives."""
    return FROM_NOW_ON if view.record.mode == "driven" else ""


def arguments_of(
    opened: OpenedStore, view: SessionView, span: str, files: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """The commands that show what the last calls were given that wrote some files in a range, by root and path; none
    of a file that no call wrote."""
    port, wanted = opened.store.as_read, set(files)
    found: dict[tuple[str, str], str] = {}
    for change in view.files(span):
        if (change.root, change.path) not in wanted or len(found) >= CALLS_MAX:
            continue
        call = commit_at(port, view.id, change.seq, load=False).call
        intent = intent_of(port, view.id, call) if call else None
        if intent is not None:
            found[change.root, change.path] = f"stator show {short(view.id)}:@{intent.seq}"
    return found


def comments(
    opened: OpenedStore, view: SessionView, span: str, patches: Iterable[FilePatch]
) -> Iterator[str]:
    """What is to be known of a patch that lacks files because their contents were not recorded, as lines that `git
    apply` ignores. Without a range no calls are named."""
    lacking = [patch for patch in patches if patch.reason == UNRECORDED]
    if not lacking:
        return
    named = [(patch.root, patch.path) for patch in lacking]
    for (_, path), command in (arguments_of(opened, view, span, named) if span else {}).items():
        yield f"# {quoted(path)}: {ARGUMENTS}{command}"
    if how := remedy(view):
        yield f"# {how}"
