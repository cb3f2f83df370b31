"""`stator attach`: a run or a session, as it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stator.errors import NotFound
from stator.model.log.commit import Commit
from stator.model.sessions.detached_run import Cursor, parse_cursor
from stator.model.values.ids import PREFIXES, short
from stator.runtime.facade.run import Run
from stator.runtime.facade.view import SessionView
from stator.runtime.runs.folder import READ_MAX, Output
from stator.runtime.views.tail import FIRST_S, Tailing
from stator.surfaces.cli.commands.log import FOLLOWED, row
from stator.surfaces.cli.commands.ps import ending, plain
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.scope import Asking, title, watching
from stator.surfaces.cli.render import escape, wire
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import size
from stator.surfaces.cli.render.screen import Screen, note

if TYPE_CHECKING:
    from stator.surfaces.cli.options import FromOption, JsonFlag, NoPagerFlag, StoreOption

EXAMPLES = """
stator attach 3fa91c07                       a run, from its beginning, until it ends
stator attach 3fa91c07 --from 42+1034        go on where an earlier attach was left
stator attach fix-login                      a session, whoever drives it
stator attach 3fa91c07 --json | jq -c 'select(.commit) | .commit.kind'
"""


def attach(
    what: str,
    /,
    *,
    from_: FromOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Follow a run or a session: commits and output, as they come.

    Every commit is delivered exactly once and in order; the cursor beside it is where to go on. Output
    is a live stream of which the last 2 MB are kept, and what is gone is counted. Ctrl-C detaches and
    never stops the run. It ends with the run, with exit code 1 if that failed or was lost.

    Parameters
    ----------
    what
        A run (its id or the end of it) or a session; of a session, also the run that is at work in it.
    """
    start = parse_cursor(from_) if from_ is not None else None
    with watching(store) as ask, Screen(json=json, pager=False) as screen:
        run, view = _found(ask, what)
        following = _Following(screen, view, run, start or _default(view, run), ask.wait)
        try:
            if not json:
                title(screen, view, ask.now)
                screen.flush()
            if run is None and not _is_driven(view):
                note(f"nobody drives {view.name} just now; what comes will be shown, Ctrl-C leaves")
            return following.follow()
        except KeyboardInterrupt:
            name = short(run.id) if run is not None else view.name
            more = "; the run goes on" if run is not None and run.status == "running" else ""
            note(f"detached{more}: stator attach {name} --from {following.cursor}")
            return OK


def _found(ask: Asking, what: str) -> tuple[Run | None, SessionView]:
    if not what.startswith(PREFIXES["run"]):
        try:
            view = ask.session(what)
        except NotFound as missing:
            try:
                run = ask.store.attach(what)
            except NotFound:
                raise missing from None
            return run, run.view
        live = [run for run in ask.store.runs(session=view.id) if run.status == "running"]
        return (live[0] if live else None), view
    run = ask.store.attach(what)
    return run, run.view


def _is_driven(view: SessionView) -> bool:
    holder = view.row.holder
    return holder is not None and holder.live


def _default(view: SessionView, run: Run | None) -> Cursor:
    """All of a run; of a session, the newest and what comes."""
    if run is not None:
        return Cursor(run.info.head)
    return Cursor(max(0, view.head.seq - FOLLOWED))


class _Following:
    """Reads both streams and shows what comes; `cursor` is after what was shown."""

    def __init__(
        self,
        screen: Screen,
        view: SessionView,
        run: Run | None,
        cursor: Cursor,
        wait: Callable[[float], None],
    ) -> None:
        self._screen = screen
        self._wait = wait
        self._run = run
        self._tailing: Tailing = view._tailing(cursor.seq, load=False)
        self._seq, self._byte = cursor.seq, cursor.byte

    @property
    def cursor(self) -> Cursor:
        return Cursor(self._seq, self._byte)

    def follow(self) -> int:
        while True:
            # Asked before looking: what an ended run left is all there when we look.
            over = self._run is not None and self._run.status != "running"
            news = self._commits() + self._output(whole=over)
            self._screen.flush()
            if not over:
                self._wait(FIRST_S if news else self._tailing.wait_s)
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
        """Complete lines; what has no end yet only when there will be no more of it."""
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
            said = {"cursor": str(self.cursor), "output": output.text, "lost": output.lost}
            self._screen.item(said)
            return
        if output.lost:
            gone = f"… {size(output.lost)} of output are gone, or were before this cursor"
            self._screen.line(Line(gone, "doubt"))
        for line in escape.lines(output.text.removesuffix("\n")) if output.data else ():
            self._screen.whole([Line("│ ", "dim").add(line)])

    def _end(self) -> int:
        assert self._run is not None
        standing = self._run.standing()
        if self._screen.json:
            self._screen.item({"cursor": str(self.cursor), "run": plain(standing)})
        else:
            self._screen.line(ending(standing))
        return FINDING if standing.status in ("failed", "lost") else OK
