"""`stator ingest`: imports what hooks have queued."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stator.connect import advance, connect_as_is, locate, spools, take_spools, worlds
from stator.hooks.ingest import IngestResult, end_dead_conversations
from stator.model.log.query import SessionQuery
from stator.model.values.ids import short
from stator.runtime.base.ownership import require_own
from stator.runtime.base.pages import matching
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.open_store import OpenedStore
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, SessionArgument, StoreOption

EXAMPLES = """
stator ingest                      import the queue
stator ingest fix-login            and read that session's transcript again
stator ingest --transcripts        and read all transcripts that hooks reported
"""


def ingest(
    session: SessionArgument = None,
    *,
    transcripts: bool = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Import what hooks have queued, and read transcripts again.

    Every program that opens the store to write imports the queue too. Reading a transcript again finds items
    that no hook reported. Exits with 1 if something could not be imported.

    Parameters
    ----------
    transcripts
        Read the transcript of every session that hooks reported.
    """
    place = locate(store)
    with connect_as_is(place) as opened, Screen(json=json, pager=not no_pager) as screen:
        require_own(opened.port, "record in it what hooks have queued")
        done = take_spools(opened.port)
        chosen = [OpenedStore(opened, place).session(session).id] if session is not None else []
        if transcripts:
            chosen += [row.id for row in matching(opened.port, SessionQuery(mode="recorded"))]
        died = end_dead_conversations(opened.port, worlds(opened.port), folders=spools(opened.port))
        read = sum(advance(opened.port, one, done) for one in chosen)
        if json:
            screen.document("stator.ingest/1", as_json(done) | {"transcripts": read, "died": died})
        else:
            screen.lines(_lines(done, read, died), hang=2)
    return FINDING if done.bad or done.refused else OK


def as_json(done: IngestResult) -> dict[str, Any]:
    """The result as JSON."""
    return {
        "lines": done.lines,
        "commits": done.commits + done.transcripts.commits,
        "sessions": done.names,
        "bad": done.bad,
        "refused": done.refused,
        "unreadable": done.transcripts.refused,
        "all": done.is_all,
    }


def _lines(done: IngestResult, read: int, died: list[str]) -> Iterator[Line]:
    commits = done.commits + done.transcripts.commits
    for name in died:
        yield (
            Line("! ", "doubt")
            .add(short(name), "id")
            .add(": its program died; the calls it was running are in doubt")
        )
    if not done.lines and not done.bad and not read and not died:
        yield Line("the queue is empty", "dim")
    else:
        came = f"imported {count(done.lines, 'hook line')}, {count(commits, 'commit')}"
        yield Line(came).add(f" in {count(len(done.names), 'session')}" if done.names else "")
    for name in done.names:
        yield Line("  ").add(short(name), "id")
    if read:
        yield Line(f"read {count(read, 'transcript')} again")
    for path, why in done.transcripts.refused.items():
        yield Line("! ", "doubt").add(f"{path}: {why}")
    if done.bad:
        yield Line("! ", "doubt").add(
            f"{count(done.bad, 'hook line')} could not be imported; stator doctor shows where they are"
        )
    for why in done.refused.values():
        yield Line("! ", "doubt").add(why)
    if not done.is_all:
        yield Line("another process is importing the queue, or a hook is writing; try again", "dim")
