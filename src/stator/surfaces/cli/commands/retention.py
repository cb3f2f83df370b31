"""`stator retention`: shows or changes how long sessions are kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stator.errors import InvalidInput
from stator.model.sessions.retention import POLICIES, parse, shown
from stator.runtime.retention import policies as runtime
from stator.runtime.retention.policies import Policies
from stator.surfaces.cli.parts.open_store import open_to_read, open_to_write
from stator.surfaces.cli.parts.question.question_scope import project_words
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        NoPagerFlag,
        StoreOption,
    )

EXAMPLES = """
stator retention                             the policies of this project
stator retention trash=90d keep=20           trash sessions unused for 90 days, except the newest 20
stator retention transcript=180d --everywhere   for every project of the store
stator retention trash=off                   remove the policy
stator retention trash=never                 never trash, whatever the store's policy is
"""
MEANING = {
    "archive": "archive sessions unused for this long",
    "transcript": "drop transcripts of sessions unused for this long",
    "trash": "move sessions unused for this long to the trash",
    "purge": "delete sessions after this long in the trash",
    "keep": "always keep this many newest sessions per project",
}


def retention(
    *words: str,
    everywhere: EverywhereFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show or change how long sessions are kept.

    Nothing is removed unless a policy requires it, and then only when you run stator gc --yes.

    Parameters
    ----------
    words
        Policies to set: archive=30d, transcript=180d, trash=90d, purge=30d, keep=20; NAME=off removes one.
    """
    settings = parse(words)
    with (open_to_write if settings else open_to_read)(store) as opened:
        port, context = opened.store.port, opened.store.context
        project = "" if everywhere else opened.project
        if settings and not everywhere and not project:
            raise InvalidInput(
                "this folder is not in a project",
                hint="set the policy for the whole store with --everywhere",
            )
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
    yield Line(project_words(project) if project else "every project of the store", "title")
    for name in POLICIES:
        if name in found.holding:
            where = "this project" if name in found.project else "the store"
            line = Line("  ").add(shown(name, found.holding[name]), "bold", width=17)
            yield line.add(MEANING[name], width=51).add(where, "dim")
    if not found.holding:
        yield Line("  no policies: everything is kept", "dim")
