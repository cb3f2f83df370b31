"""`stator extract`: finds decisions, plans, revisions and the like in what was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import InvalidInput
from stator.model.log.query import SessionQuery
from stator.model.values.ids import short
from stator.runtime.base.pages import matching
from stator.runtime.ingest.extract_command import command_of, propose
from stator.surfaces.cli.parts.agent_memories import add_memories
from stator.surfaces.cli.parts.open_store import open_to_write
from stator.surfaces.cli.parts.run_command import run_command
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen, note

if TYPE_CHECKING:
    from stator.runtime.facade.store import Store
    from stator.runtime.ingest.extract import Extraction
    from stator.surfaces.cli.options import (
        DryRunFlag,
        EverywhereFlag,
        JsonFlag,
        NoPagerFlag,
        StoreOption,
    )

EXAMPLES = """
stator extract                     all sessions of this project
stator extract fix-login --dry-run  show what would be recorded
stator extract --everywhere --again   every project; correct what an earlier release found
"""
SHOWN = 20
"""Findings that are listed; `--json` has all."""
MARKS = {"added": "+", "corrected": "~", "removed": "-"}


def extract(
    *sessions: str,
    everywhere: EverywhereFlag = False,
    again: bool = False,
    command: bool = False,
    dry_run: DryRunFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Find decisions, plans and revisions in what was recorded.

    New sessions have them from the beginning. This is for sessions that an earlier release recorded: what the rules
    find in them is appended, with the commit it was found in. Nothing is recorded twice.

    The notes that Claude Code and Codex keep about this project are recorded for the project, as the model's words.

    Parameters
    ----------
    sessions
        Sessions; default: all of this project.
    again
        Do it again for what an earlier release did: correct what an earlier version of a rule found otherwise, and
        remove what it no longer finds.
    command
        Also run the command that stator.toml names (extract = "CMD"), if the project is your own. It gets prompts and
        answers as JSON, and may propose candidates, each with a quote of its text.
    """
    with open_to_write(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        names = [opened.session(name).id for name in sessions] or None
        found = opened.store.extract(
            names, project="" if everywhere else None, again=again, dry_run=dry_run
        )
        if names is None:
            add_memories(opened.store, found, dry_run=dry_run)
        if command:
            _propose(opened.store, found, names, dry_run=dry_run)
        if json:
            screen.document("stator.extraction/1", as_json(found, dry_run=dry_run))
        else:
            _show(screen, found, opened.names(), dry_run=dry_run)
    return 0


def _propose(store: Store, found: Extraction, names: list[str] | None, *, dry_run: bool) -> None:
    """Run the command that the project names. Never on a foreign store."""
    command = "" if store.foreign else command_of(store.context)
    if not command:
        raise InvalidInput(
            "no command to run: the store and the project must be your own, and name one",
            hint='extract = "CMD" in stator.toml; stator trust shows what is your own',
        )
    note(f"running {command}")
    if names is None:
        rows = list(matching(store.port, SessionQuery(project=store.context.project)))
    else:
        rows = [store.port.session(name) for name in names]
    propose(store.port, rows, command, run_command, found, dry_run=dry_run)


def as_json(found: Extraction, *, dry_run: bool) -> dict[str, Any]:
    """What was found, as a document."""
    return {**msgspec.to_builtins(found), "counts": found.counts, "dry_run": dry_run}


def _show(screen: Screen, found: Extraction, names: dict[str, str], *, dry_run: bool) -> None:
    done = "would be recorded" if dry_run else "recorded"
    looked = count(found.sessions, "session")
    if not found.found:
        screen.line(Line(f"nothing to record in {looked}"))
    else:
        counts = ", ".join(f"{rule} {number}" for rule, number in sorted(found.counts.items()))
        screen.line(Line(f"{count(len(found.found), 'finding')} {done}, in {looked}: {counts}"))
    for one in found.found[:SHOWN]:
        line = Line(f"  {MARKS[one.what]} ").add(one.rule, "bold").add(" ")
        line.add("; ".join(one.says) or f"no longer found in {short(one.evidence)}")
        screen.line(line.add(f"  {names[one.session]}" if one.session else "", "dim"))
    if len(found.found) > SHOWN:
        screen.line(Line(f"  … {len(found.found) - SHOWN} more: --json", "dim"))
    for clash in found.conflicts:
        line = Line(f"{clash.memory} contradicts {clash.collection} ").add(clash.key, "bold")
        screen.line(
            line.add(f" = {clash.value}").add(f"  {short(clash.session)} @{clash.seq}", "id")
        )
    if found.refused:
        refused = count(found.refused, "line")
        screen.line(
            Line(f"{refused} of the command refused: no candidate, or no quote of its text")
        )
    for session, number in found.closed.items():
        screen.line(
            Line(f"{count(number, 'finding')} of {names[session]} not recorded: it is closed")
        )
