"""`stator ingest`: take in what hooks left, now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stator.connect import connect_as_is, locate, take_spool, worlds
from stator.hooks.ingest import IngestResult, end_dead_conversations, reconcile
from stator.locations import path_of, spool_of
from stator.model.log.query import SessionQuery
from stator.model.values.ids import short
from stator.runtime.base.paging import matching
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.scope import Asking
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, SessionArgument, StoreOption

EXAMPLES = """
stator ingest                      what hooks left, now
stator ingest fix-login            also: read that session's transcript once more
stator ingest --transcripts        also: every transcript that hooks told of
"""


def ingest(
    session: SessionArgument = None,
    *,
    transcripts: bool = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Take in what hooks left, and read transcripts once more.

    Whoever opens the store to write does the first by itself. Reading a transcript once more finds what no hook
    told of. Exits with 1 if something could not be used.

    Parameters
    ----------
    transcripts
        Read the transcript of every session that hooks told of.
    """
    place = locate(store)
    path = path_of(place.url)
    with connect_as_is(place.url) as opened, Screen(json=json, pager=not no_pager) as screen:
        done = take_spool(opened.port, spool_of(path)) if path else IngestResult()
        chosen = [Asking(opened, place).session(session).id] if session is not None else []
        if transcripts:
            chosen += [row.id for row in matching(opened.port, SessionQuery(mode="recorded"))]
        world = worlds()
        died = end_dead_conversations(opened.port, world)
        read = sum(reconcile(opened.port, world, one, done.transcripts) for one in chosen)
        if json:
            screen.document("stator.ingest/1", plain(done) | {"transcripts": read, "died": died})
        else:
            screen.lines(_lines(done, read, died), hang=2)
    return FINDING if done.bad or done.refused else OK


def plain(done: IngestResult) -> dict[str, Any]:
    """What came of it, for programs."""
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
            .add(": its program is gone without a word; what it was doing is in doubt")
        )
    if not done.lines and not done.bad and not read and not died:
        yield Line("nothing waits", "dim")
    else:
        came = f"{count(done.lines, 'line')} of hooks, {count(commits, 'commit')}"
        yield Line(came).add(f" in {count(len(done.names), 'session')}" if done.names else "")
    for name in done.names:
        yield Line("  ").add(short(name), "id")
    if read:
        yield Line(f"{count(read, 'transcript')} read once more")
    for path, why in done.transcripts.refused.items():
        yield Line("! ", "doubt").add(f"{path}: {why}")
    if done.bad:
        yield Line("! ", "doubt").add(
            f"{count(done.bad, 'piece')} set aside; stator doctor says where"
        )
    for why in done.refused.values():
        yield Line("! ", "doubt").add(why)
    if not done.is_all:
        yield Line("somebody else is at it, or a hook is writing: ask again", "dim")
