"""`stator tail`: follows all sessions at once, and feeds other programs."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from stator.errors import BadQuery
from stator.index_files import path_of_store
from stator.model.log.commit import Commit
from stator.model.values.ids import short
from stator.runtime.base.context import nap
from stator.runtime.base.watch import LAST_S
from stator.runtime.tails.store_tail import StoreTailing
from stator.surfaces.cli.commands.log import row
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_follow
from stator.surfaces.cli.render import wire
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen, note

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        NoPagerFlag,
        OnceFlag,
        OutletOption,
        StoreOption,
    )
    from stator.surfaces.outlets.json_lines import JsonLines
    from stator.surfaces.outlets.kept_cursor import KeptCursor
    from stator.surfaces.outlets.turn_spans import SpanOutlet

EXAMPLES = """
stator tail                            new commits of every session of this project
stator tail --everywhere --json        the same of the whole store, as JSON Lines
stator tail --to events.jsonl          append every commit to a file; run again, it continues
stator tail --to events.jsonl --once   only what is new since the last time
stator tail --otlp http://127.0.0.1:4318          turns and calls as spans, to a collector
stator tail --everywhere --otlp https://otel.example.com --content --name audit
"""
SAVE_PAGES = 20
"""Pages after which the cursor is kept, while there is more to give out."""
ONCE_TRIES = 6
"""How often a receiver that is away is tried with --once."""
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"


class _Outlet(Protocol):
    """Takes commits of one session; with the other side when it returns."""

    def send(self, commits: Sequence[Commit]) -> None: ...


def tail(
    *,
    everywhere: EverywhereFlag = False,
    to: OutletOption = None,
    otlp: str | None = None,
    content: bool = False,
    name: str | None = None,
    new: bool = False,
    once: OnceFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Follow every session of this project at once, or feed another program.

    Commits of a session come in order, without a gap; those of several sessions as they arrive. With --to or
    --otlp every commit is given out at least once: how far it came is kept under a name, and the next run continues
    there, also after a kill. Then it begins with the first commit of the project; without them, with what is new.

    Parameters
    ----------
    otlp
        Send spans of turns, calls and answers to this address over OTLP/HTTP.
    content
        Send prompts, answers, arguments and results too, with --otlp.
    name
        The name of the cursor that is kept; default: made from the file or the address.
    new
        Begin with what is new when the outlet first runs.
    """
    if to is not None and otlp is not None:
        raise BadQuery("--to and --otlp are two outlets", hint="run each by itself")
    if to is None and otlp is None and (name is not None or new or content):
        raise BadQuery("--name, --new and --content are for an outlet", hint="add --to or --otlp")
    if content and otlp is None:
        raise BadQuery("--content is for --otlp", hint="JSON Lines hold everything")
    if json and otlp is not None:
        raise BadQuery("--json prints commits, and --otlp sends spans", hint="use one of them")
    with open_to_follow(store) as opened, ExitStack() as held:
        scope = None if everywhere else opened.project or None
        if to is None and otlp is None:
            return _show(opened, scope, once=once, json=json)
        from stator.surfaces.outlets.kept_cursor import KeptCursor, name_of

        target = ("otlp", otlp) if otlp is not None else _file(str(to))
        kept = held.enter_context(
            KeptCursor(os.environ, opened.store.info().id, name or name_of(*target), scope)
        )
        cursor = kept.load()
        is_first = cursor is None
        if is_first and not new:
            cursor = ""
        outlet = (
            _exporter(opened, otlp, content=content, once=once)
            if otlp is not None
            else held.enter_context(_lines(opened, *target, continues=not is_first))
        )
        return _feed(opened, scope, outlet, kept, cursor, is_first=is_first, once=once)


def _file(to: str) -> tuple[str, str]:
    """What the name of an outlet to a file is made from."""
    return ("stdout", to) if to == "-" else ("file", os.path.abspath(to))


def _lines(opened: OpenedStore, kind: str, path: str, *, continues: bool) -> JsonLines:
    from stator.surfaces.outlets.json_lines import JsonLines

    if kind == "stdout":
        sys.stdout.flush()
        return JsonLines(sys.stdout.buffer, "stdout")
    return JsonLines.to_path(path, continues=continues, store=path_of_store(opened.store.port))


def _exporter(opened: OpenedStore, url: str, *, content: bool, once: bool) -> SpanOutlet:
    from stator.surfaces.outlets.otlp_http import OtlpHttp
    from stator.surfaces.outlets.turn_spans import SpanOutlet

    sender = OtlpHttp(
        url,
        headers=os.environ.get(HEADERS, ""),
        tries=ONCE_TRIES if once else None,
        sleep=nap,
        jitter=random.random,
        now=time.time,
        note=note,
    )
    return SpanOutlet(opened.store, sender.send, content=content)


def _feed(
    opened: OpenedStore,
    scope: str | None,
    outlet: _Outlet,
    kept: KeptCursor,
    cursor: str | None,
    *,
    is_first: bool,
    once: bool,
) -> int:
    """Give out what comes, then keep the cursor: in this order, so that a kill repeats and never skips."""
    tailing = StoreTailing(opened.store.port, cursor, project=scope, follow=not once)
    progress = _Progress(kept.name)
    pages = given = 0
    try:
        if is_first:
            # What begins now is new for every later run; and a line that is cut off from here on is known to be ours.
            kept.save(tailing.cursor)
        while not tailing.ended:
            page = tailing.look()
            if page:
                outlet.send(page)
                for commit in page:
                    tailing.delivered(commit)
                given, pages = given + len(page), pages + 1
                progress.show(given)
            if pages >= SAVE_PAGES or (pages and not page):
                kept.save(tailing.cursor)
                pages = 0
            if tailing.waits and not tailing.ended:
                progress.rest(given)
                opened.wait(LAST_S, tailing.watch)
    except KeyboardInterrupt:  # Ctrl-C is the way to leave
        pass
    finally:
        if pages:
            kept.save(tailing.cursor)
        tailing.close()
        progress.end(given)
    return 0


class _Progress:
    """Says on a terminal how much was given out; elsewhere nothing."""

    def __init__(self, name: str) -> None:
        self._name = name
        is_dumb = os.environ.get("TERM", "") in ("dumb", "")  # it cannot take a line back
        self._is_shown = sys.stderr is not None and sys.stderr.isatty() and not is_dumb
        self._resting = False

    def show(self, given: int) -> None:
        self._write(f"{self._name}: {count(given, 'commit')} given out")
        self._resting = False

    def rest(self, given: int) -> None:
        if not self._resting:
            self._write(
                f"{self._name}: {count(given, 'commit')} given out; waiting for more, Ctrl-C to leave"
            )
            self._resting = True

    def end(self, given: int) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            note(f"{self._name}: {count(given, 'commit')} given out; run it again to continue")

    def _write(self, text: str) -> None:
        if self._is_shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


def _show(opened: OpenedStore, scope: str | None, *, once: bool, json: bool) -> int:
    """Print commits as they come, each session under its name; nothing is kept."""
    cursor = "" if once else None
    tailing = StoreTailing(opened.store.port, cursor, project=scope, follow=not once, load=json)
    names = opened.names()
    with Screen(json=json, pager=False) as screen:
        shown = ""
        if not once and not json and screen.is_terminal:
            note("waiting for new commits, Ctrl-C to leave")
        try:
            while not tailing.ended:
                for commit in tailing.look():
                    tailing.delivered(commit)
                    if json:
                        screen.item(wire.commit(commit))
                        continue
                    if commit.session != shown:
                        shown = commit.session
                        screen.line(_heading(names, shown))
                    screen.line(row(commit, screen.width))
                screen.flush()
                if tailing.waits and not tailing.ended:
                    opened.wait(LAST_S, tailing.watch)
        except KeyboardInterrupt:  # Ctrl-C is the way to leave
            pass
        finally:
            tailing.close()
    return 0


def _heading(names: dict[str, str], session: str) -> Line:
    return Line(names[session], "title").add(" ").add(short(session), "id")
