"""`stator attach`: follows a run or a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stator.errors import NotFound
from stator.model.log.commit import Commit
from stator.model.sessions.detached_run import OutputCursor, parse_cursor
from stator.model.values.ids import PREFIXES, short
from stator.runtime.base.watch import FIRST_S, Watch, longer
from stator.runtime.facade.run import Run
from stator.runtime.facade.view import SessionView
from stator.runtime.runs.folder import READ_MAX, Output
from stator.runtime.tails.tail import Tailing
from stator.surfaces.cli.commands.log import FOLLOWED, row
from stator.surfaces.cli.commands.ps import as_json, ending
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_follow, title
from stator.surfaces.cli.render import escape, wire
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import size
from stator.surfaces.cli.render.screen import Screen, note

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AfterOption,
        JsonFlag,
        NoPagerFlag,
        StoreOption,
    )

EXAMPLES = """
stator attach 3fa91c07                       a run, from its start to its end
stator attach 3fa91c07 --after 42+1034        continue where an earlier attach stopped
stator attach fix-login                      a session, whichever program drives it
stator attach 3fa91c07 --json | jq -c 'select(.commit) | .commit.kind'
"""


def attach(
    what: str,
    /,
    *,
    after: AfterOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Follow the commits and the output of a run or a session.

    Every commit is printed exactly once and in order, with a cursor to continue from. The last 2 MB of a run's
    output are kept; earlier output is counted as lost. Ctrl-C detaches and never stops the run. When the run
    ends, the exit code is 1 if it failed or was lost.

    Parameters
    ----------
    what
        A run (its id or the last characters of it), or a session.
    """
    start = parse_cursor(after) if after is not None else None
    with open_to_follow(store) as opened, Screen(json=json, pager=False) as screen:
        run, view = _found(opened, what)
        follower = _Follower(screen, view, run, start or _default(view, run), opened.wait)
        try:
            if not json:
                title(screen, view, opened)
                screen.flush()
            if run is None and not _is_driven(view):
                note(f"no program drives {view.name} now; waiting for new commits, Ctrl-C to leave")
            return follower.follow()
        except KeyboardInterrupt:
            name = short(run.id) if run is not None else short(view.id)
            more = "; the run continues" if run is not None and run.status == "running" else ""
            note(f"detached{more}; attach again: stator attach {name} --after {follower.cursor}")
            return OK


def _found(opened: OpenedStore, what: str) -> tuple[Run | None, SessionView]:
    if not what.startswith(PREFIXES["run"]):
        try:
            view = opened.session(what)
        except NotFound as missing:
            try:
                run = opened.store.attach(what)
            except NotFound:
                raise missing from None
            return run, run.view
        live = [run for run in opened.store.runs(session=view.id) if run.status == "running"]
        return (live[0] if live else None), view
    run = opened.store.attach(what)
    return run, run.view


def _is_driven(view: SessionView) -> bool:
    holder = view.row.holder
    return holder is not None and bool(holder.live)


def _default(view: SessionView, run: Run | None) -> OutputCursor:
    """Where to begin: at the start of a run, or at the newest commits of a session."""
    if run is not None:
        return OutputCursor(run.info.head)
    return OutputCursor(max(0, view.head.seq - FOLLOWED))


class _Follower:
    """Reads commits and output, and shows what is new; `cursor` is the position after what was shown."""

    def __init__(
        self,
        screen: Screen,
        view: SessionView,
        run: Run | None,
        cursor: OutputCursor,
        wait: Callable[[float, Watch], bool],
    ) -> None:
        self._screen = screen
        self._wait = wait
        self._run = run
        self._tailing: Tailing = view._tailing(cursor.seq, load=False)
        self._seq, self._byte = cursor.seq, cursor.byte
        self._waited = 0.0

    @property
    def cursor(self) -> OutputCursor:
        return OutputCursor(self._seq, self._byte)

    def follow(self) -> int:
        while True:
            # Read the status first: once the run has ended, one more read finds all that it left.
            over = self._run is not None and self._run.status != "running"
            news = self._commits() + self._output(whole=over)
            self._screen.flush()
            if not over:
                # The output of a run is no commit: nobody reports it, so it is looked for more often after news.
                self._waited = FIRST_S if news else longer(self._waited)
                self._tailing.woken(self._wait(self._waited, self._tailing.watch))
            elif not news:
                return self._end()

    def _commits(self) -> int:
        page = self._tailing.look()
        for commit in page:
            self._seq = commit.seq
            self._show(commit)
        return len(page)

    def _show(self, commit: Commit) -> None:
        if self._screen.json:
            self._screen.item({"cursor": str(self.cursor), "commit": wire.commit(commit)})
        else:
            self._screen.line(row(commit, self._screen.width))

    def _output(self, *, whole: bool) -> int:
        """Show complete lines of output; an unfinished line only when the run has ended."""
        if self._run is None:
            return 0
        found = self._run.output(self._byte)
        data = found.data
        if not whole and len(data) < READ_MAX:
            data = data[: data.rfind(b"\n") + 1]
        if not data and not found.lost:
            return 0
        self._byte = found.cursor - len(found.data) + len(data)
        self._print(Output(data, self._byte, found.lost))
        return 1

    def _print(self, output: Output) -> None:
        if self._screen.json:
            item = {"cursor": str(self.cursor), "output": output.text, "lost": output.lost}
            self._screen.item(item)
            return
        if output.lost:
            gone = f"… {size(output.lost)} of earlier output is no longer kept"
            self._screen.line(Line(gone, "doubt"))
        for line in escape.lines(output.text.removesuffix("\n")) if output.data else ():
            self._screen.whole([Line("│ ", "dim").add(line)])

    def _end(self) -> int:
        assert self._run is not None
        standing = self._run.standing()
        if self._screen.json:
            self._screen.item({"cursor": str(self.cursor), "run": as_json(standing)})
        else:
            self._screen.line(ending(standing))
        return FINDING if standing.status in ("failed", "lost") else OK
