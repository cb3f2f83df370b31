"""`stator retention`: how long things are kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stator.errors import InvalidInput
from stator.model.sessions.retention import POLICIES, parse, shown
from stator.runtime.retention import policies as runtime
from stator.runtime.retention.policies import Policies
from stator.surfaces.cli.parts.open_store import open_to_read, open_to_write
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, StoreOption, WholeFlag

EXAMPLES = """
stator retention                             what holds for this project
stator retention trash=90d keep=20           unused for 90 days: in the trash, but for the newest 20
stator retention transcript=180d --whole     for every project of the store
stator retention trash=off                   as if it had never been set
stator retention trash=never                 never, whatever the store's policy is
"""
MEANING = {
    "archive": "unused for so long: archived",
    "transcript": "unused for so long: what was said expires",
    "trash": "unused for so long: in the trash",
    "purge": "so long in the trash: gone",
    "keep": "the newest so many of each project are left alone",
}


def retention(
    *words: str,
    whole: WholeFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show how long sessions are kept, or change it.

    Nothing goes unless a policy says so, and then only when `stator gc --apply` is run.

    Parameters
    ----------
    words
        Policies: archive=30d, transcript=180d, trash=90d, purge=30d, keep=20; =off takes one off.
    """
    settings = parse(words)
    with (open_to_write if settings else open_to_read)(store) as opened:
        port, context = opened.store.port, opened.store.context
        project = "" if whole else opened.project
        if settings and not whole and not project:
            raise InvalidInput("this folder is no project", hint="--whole sets it for the store")
        if settings:
            runtime.set_policies(port, context, settings, project=project, by=context.principal)
        found = runtime.policies(port, project)
        with Screen(json=json, pager=not no_pager) as screen:
            if json:
                plain = {"project": project, "own": found.project, "store": found.store}
                screen.document("stator.retention/1", {**plain, "holding": found.holding})
            else:
                screen.lines(_lines(found, project))
    return 0


def _lines(found: Policies, project: str) -> Iterator[Line]:
    yield Line(f"project {project}" if project else "every project of the store", "title")
    for name in POLICIES:
        if name in found.holding:
            where = "this project's" if name in found.project else "the store's"
            line = Line("  ").add(shown(name, found.holding[name]), "bold", width=18)
            yield line.add(MEANING[name], width=52).add(where, "dim")
    if not found.holding:
        yield Line("  everything is kept", "dim")
