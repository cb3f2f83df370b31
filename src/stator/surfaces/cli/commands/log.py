"""`stator log`: shows what happened in a session, turn by turn; one line a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING

from stator.errors import BadQuery
from stator.model.log.commit import Commit, Large
from stator.model.log.query import CallQuery, CallRow, check_limit
from stator.model.records.tables import QUIET
from stator.model.records.types import FileRecord
from stator.model.values.ids import short
from stator.model.views.unplaced import Unplaced
from stator.runtime.base.costs import model_in
from stator.runtime.base.pages import commits_at
from stator.runtime.base.watch import LAST_S
from stator.runtime.facade.view import SessionView
from stator.runtime.tails.tail import Tailing
from stator.runtime.views.glance.calls import list_calls
from stator.surfaces import web_addresses
from stator.surfaces.cli.parts.open_store import (
    OpenedStore,
    open_to_follow,
    open_to_read,
    title,
)
from stator.surfaces.cli.parts.page_addresses import print_addresses
from stator.surfaces.cli.parts.question.tagged_turn import with_tagged_turn
from stator.surfaces.cli.parts.question.typed_kind import typed_kinds
from stator.surfaces.cli.render import record_line, unplaced_items, wire
from stator.surfaces.cli.render.detail import contents
from stator.surfaces.cli.render.lines import Line, cells
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import SIDE_BY_SIDE, Screen
from stator.surfaces.cli.render.table import report_cut
from stator.surfaces.cli.render.times import clock, day, parse_since
from stator.surfaces.cli.render.turns import layout
from stator.surfaces.cli.render.turns.fold import TurnFold, calls_without_outcome, fold
from stator.surfaces.cli.render.turns.subject import base_of, net

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        FollowFlag,
        FullFlag,
        JsonFlag,
        KindOption,
        LimitOption,
        NoPagerFlag,
        PatchFlag,
        RefsArgument,
        SessionOption,
        SinceOption,
        StoreOption,
        WebFlag,
    )

EXAMPLES = """
stator log                         the last session, newest turn first, one line a call
stator log t5                      what happened in turn 5
stator log --oneline               one line a turn
stator log t5 -p                   with every edit as a patch
stator log --graph                 turns, and the forks, retries and sub-agents they led to
stator log fix-login -n 20         the newest 20 lines of a session
stator log --kind decision --kind file
stator log --full                  every commit, with everything recorded in it
stator log -f                      the newest commits, then each new one
stator log --json | jq -r 'select(.status == "error") | .tool'
"""
FOLLOWED = 10
"""Commits that --follow shows before it waits for new ones, unless -n is given."""
LONG_READ, LONG_MAX = 300, 1_000_000
"""Messages that are kept beside the log which are read for their words, and the bytes of one."""
LONG_KINDS = ("turn", "entry", "call")
FILES_READ = 300
"""Files of a session that are looked at for the folder it works in."""
BOOKKEEPING = "bookkeeping commit"
CALLS_READ = 1000
"""Calls that are looked through for how one of another turn ended."""


def log(
    *what: RefsArgument,
    session: SessionOption = None,
    limit: LimitOption = None,
    kind: KindOption = None,
    since: SinceOption = None,
    oneline: bool = False,
    patch: PatchFlag = False,
    graph: bool = False,
    full: FullFlag = False,
    reverse: bool = False,
    follow: FollowFlag = False,
    web: WebFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show what happened, one line a call, newest turn first.

    Within a turn, lines are in the order they happened, under the prompt. Bookkeeping is left out; --full shows every
    commit. With --json each line is one commit, newest first. What a recorded agent has done and its transcript has not
    reached is marked unplaced.

    Parameters
    ----------
    oneline
        Show one line a turn.
    graph
        Show one line a turn, and the forks, retries and sub-agents it led to.
    reverse
        Show the oldest first.
    """
    kinds = frozenset(typed_kinds(kind or []))
    if limit is not None:
        check_limit(limit)
    with (
        (open_to_follow if follow else open_to_read)(store) as opened,
        Screen(json=json, pager=not no_pager and not follow) as screen,
    ):
        view, span = opened.named(what, session)
        span = with_tagged_turn(view, span)
        if follow:
            if span is not None or reverse:
                raise BadQuery("--follow cannot be combined with a range or --reverse")
            return _follow(screen, view, opened, kinds, FOLLOWED if limit is None else limit, full)
        floor = parse_since(since, opened.now) if since is not None else None
        in_turns = not (json or full or kinds)
        most = None if in_turns else limit
        found = _matching(view, span, kinds, floor, most, reverse=reverse, load=full)
        if web:
            pages = (web_addresses.turn(view.id, one.turn) for one in found if one.turn)
            return print_addresses(screen, pages)
        if json:
            for commit in found:
                screen.item(wire.commit(commit))
            if waiting := _unplaced(view, span, kinds, floor):
                screen.item({"unplaced": unplaced_items.all_as_json(waiting)})
            return 0
        first = next(found, None)  # so that an error is printed before the heading
        title(screen, view, opened, *([span] if span else []))
        found = chain([first] if first is not None else [], found)
        waiting = _unplaced(view, span, kinds, floor)
        if waiting and not reverse:
            screen.lines([*unplaced_items.lines(waiting), Line()])
        if in_turns:
            turns = Turns(screen, view, opened, limit, reverse=reverse)
            shown = turns.show(found, oneline=oneline, graph=graph, patch=patch)
        else:
            shown = _show(screen, found, full=full, reverse=reverse, left=_left_at(view))
        if waiting and reverse:
            screen.lines([Line(), *unplaced_items.lines(waiting)])
        if not shown and not waiting:
            return opened.report_empty("no matching commits")
    return 0


def _is_beside(commit: Commit) -> bool:
    """Whether a content of a commit is kept beside the log, and is short enough to be read for one line."""
    large = [one for one in commit.content.values() if isinstance(one, Large)]
    return bool(large) and all(one.size <= LONG_MAX for one in large)


class Turns:
    """Shows the turns of a session, folded: a call and its outcome are one line."""

    def __init__(
        self,
        screen: Screen,
        view: SessionView,
        opened: OpenedStore,
        limit: int | None,
        *,
        reverse: bool,
    ) -> None:
        self.screen = screen
        self.view = view
        self.store = opened.store.as_read
        self.now = opened.now
        self.limit = limit
        self.long_left = LONG_READ
        self.more = ""
        """What there is beyond the limit: turns, or only lines that belong to none."""
        self.reverse = reverse
        self.times = view.row.has_times
        self.left = _left_at(view)
        self.prices = opened.prices()
        self.model = model_in(view.entries("settings"))
        paths = (entry.record for entry in view.entries("files", limit=FILES_READ))
        self.base = base_of(one.path for one in paths if isinstance(one, FileRecord))

    def show(self, commits: Iterable[Commit], *, oneline: bool, graph: bool, patch: bool) -> bool:
        """Show the turns in the order asked for; whether there were any commits."""
        folded = self._folded(commits)
        if oneline or graph:
            turns = (turn for turn in folded if turn.is_turn)
            kept = list(islice(turns, self.limit))
            is_cut = self.limit is not None and next(turns, None) is not None
            self.more = "turns" if is_cut else ""
            is_shown = self._listed(kept, graph=graph)
            self._say_more(len(kept))
            return is_shown
        shown = hidden = 0
        for turn in self._limited(folded):
            if turn.is_turn or turn.items:
                if shown:
                    self.screen.line()
                self._turn(turn, patch=patch)
                shown += 1
            hidden += turn.hidden
        if hidden:
            self.screen.lines(
                ["", Line(f"not shown: {count(hidden, BOOKKEEPING)} (--full)", "dim")]
            )
        self._say_more(shown)
        return bool(shown or hidden)

    def show_whole(self, number: int) -> TurnFold:
        """Show a turn with all the words in it."""
        folded = self._folded(self.view.log(f"t{number}", load=False))
        turn = next(one for one in folded if one.turn == number)
        self._turn(turn, patch=False, full=short(self.view.id))
        return turn

    def ending(self, turn: TurnFold) -> str:
        """How a turn ended, in a word."""
        return turn.ended or ("interrupted" if self.left == turn.last.seq else "open")

    def _say_more(self, shown: int) -> None:
        """Say that there are more turns than fit into the number that was asked for."""
        if self.more and self.limit is not None:
            report_cut(self.screen, shown, self.more, f"-n {self.limit * 2}", asked=True)

    def _folded(self, commits: Iterable[Commit]) -> Iterator[TurnFold]:
        for _, group in groupby(commits, key=lambda commit: commit.turn):
            turn = list(group)
            if not self.reverse:
                turn.reverse()
            turn = self._with_long_texts(turn)
            yield fold(
                turn, self._unanswered(turn), self.base, times=self.times, prices=self.prices, model=self.model
            )  # fmt: skip

    def _with_long_texts(self, turn: list[Commit]) -> list[Commit]:
        """The commits of a turn with those of its messages and requests that are kept beside the log: one may hold a
        long piece of code, and its words are few."""
        long = [one.seq for one in turn if one.kind in LONG_KINDS and _is_beside(one)]
        long = long[-self.long_left :] if self.long_left else []
        if not long:
            return turn
        self.long_left -= len(long)
        found = {one.seq: one for one in commits_at(self.store, self.view.id, long)}
        return [found.get(one.seq, one) for one in turn]

    def _unanswered(self, turn: list[Commit]) -> dict[str, CallRow]:
        """How calls ended whose outcome is not among the commits of their turn."""
        found = calls_without_outcome(turn)
        if not found:
            return {}
        wanted = {one.call for one in found}
        known: dict[str, CallRow] = {}
        for tool in {one.tool for one in found}:
            query = CallQuery(session=self.view.id, tool=tool, after=found[0].seq - 1)
            page = list_calls(self.store, query, None, CALLS_READ)
            known |= {row.call: row for row in page.rows if row.call in wanted}
        return known

    def _limited(self, turns: Iterator[TurnFold]) -> Iterator[TurnFold]:
        """The turns, with the newest `limit` items only."""
        if self.limit is None:
            yield from turns
            return
        left = self.limit
        kept: list[TurnFold] = []
        whole = list(turns) if self.reverse else turns
        for turn in reversed(whole) if isinstance(whole, list) else whole:
            if left <= 0:
                self.more = "turns" if turn.is_turn else "lines"
                break
            if len(turn.items) > left:
                turn.items = turn.items[-left:]
                turn.cut = True
            left -= max(1, len(turn.items))
            kept.append(turn)
        yield from reversed(kept) if self.reverse else kept

    def _turn(self, turn: TurnFold, *, patch: bool, full: str = "") -> None:
        """Show a turn; with all the words in it, if `full` names its session."""
        screen = self.screen
        if turn.is_turn and full:
            screen.whole(layout.headed(turn, full, screen.width, self.now, times=self.times))
        elif turn.is_turn:
            screen.line(layout.heading(turn, screen.width, self.now, times=self.times))
        if turn.cut:
            whole = f"stator log {short(self.view.id)} t{turn.turn}"
            screen.line(Line(f"    … earlier lines: {whole}", "dim"))
        self._count_lines(turn)
        edits = self._edits(turn) if patch else {}
        placed = layout.rows(
            turn.items,
            screen.width,
            self.now,
            began=turn.first.when,
            times=self.times,
            full=full,
        )
        for item, lines in placed:
            screen.lines(lines)
            for seq in {item.seq, item.outcome}:
                screen.whole(edits.pop(seq, []))
        for seq in sorted(edits):
            screen.whole(edits[seq])
        if self.left and turn.last.seq == self.left:
            screen.line(Line("    interrupted: a call of this turn has no result", "dim"))
        if (summed := layout.sum_line(turn)).plain:
            screen.line(summed)

    def _count_lines(self, turn: TurnFold) -> None:
        """Say of calls that changed files by how many lines, where only the contents of the files say that."""
        uncounted = {item.outcome: item for item in turn.items if item.is_uncounted}
        if not uncounted:
            return
        from stator.runtime.views.contents import edits_in

        found = edits_in(self.store, self.view.id, min(uncounted) - 1, max(uncounted), uncounted)
        for seq, edits in found.items():
            if all(one.places for one in edits):
                added, removed = sum(one.added for one in edits), sum(one.removed for one in edits)
                uncounted[seq].more = net(added, removed)

    def _edits(self, turn: TurnFold) -> dict[int, list[Line]]:
        """The edits of a turn as patches, by the commit that recorded each."""
        from stator.runtime.views.contents import edits_in
        from stator.surfaces.cli.render.differences.patch import of_edit

        found = edits_in(self.store, self.view.id, turn.first.seq - 1, turn.last.seq)
        return {
            seq: [line for edit in edits for line in of_edit(edit, self.base)]
            for seq, edits in found.items()
        }

    def _listed(self, turns: list[TurnFold], *, graph: bool) -> bool:
        screen = self.screen
        if graph:
            from stator.surfaces.cli.render.turns import graph as drawn

            tree, behind = self.view.tree(), self.view.rewound()
            screen.lines(
                drawn.lines(turns, tree, self.view.id, behind, self.left, screen.width, self.now)
            )
        else:
            from stator.surfaces.cli.render.turns import oneline

            screen.lines(
                oneline.lines(turns, screen.width, self.now, times=self.times, left=self.left)
            )
        return bool(turns)


def _unplaced(
    view: SessionView, span: str | None, kinds: frozenset[str], floor: int | None
) -> list[Unplaced]:
    """What comes after the last commit, where that is asked for."""
    if span is not None:
        return []
    return [
        one
        for one in view.unplaced()
        if (not kinds or one.kind in kinds) and (floor is None or one.happened >= floor)
    ]


def _follow(
    screen: Screen,
    view: SessionView,
    opened: OpenedStore,
    kinds: frozenset[str],
    limit: int,
    full: bool,
) -> int:
    """Show the newest commits, oldest of them first, then each new commit until interrupted."""
    head = view.head.seq
    recent = _matching(view, None, kinds, None, limit, reverse=True, load=full)
    if not screen.json:
        title(screen, view, opened)
    tailing = Tailing(opened.store.as_read, view.id, head, load=full)
    shown: frozenset[str] = frozenset()
    try:
        _followed(screen, (commit for commit in recent if commit.seq <= head), full=full)
        while True:
            coming = tailing.look()
            _followed(screen, (c for c in coming if not kinds or c.kind in kinds), full=full)
            waiting = _unplaced(view, None, kinds, None)
            _new_unplaced(screen, [one for one in waiting if one.id not in shown])
            shown = frozenset(one.id for one in waiting)
            screen.flush()
            if tailing.wait_s:
                tailing.woken(opened.wait(LAST_S, tailing.watch))
    except KeyboardInterrupt:  # Ctrl-C is the way to leave
        return 0
    finally:
        tailing.close()


def _followed(screen: Screen, commits: Iterable[Commit], *, full: bool) -> None:
    for commit in commits:
        if screen.json:
            screen.item(wire.commit(commit))
        else:
            screen.line(row(commit, screen.width))
            if full:
                screen.whole(contents(commit))
        screen.flush()


def _new_unplaced(screen: Screen, found: list[Unplaced]) -> None:
    """What has become known since the last look and has no place yet; its commit follows when it has one."""
    if found and screen.json:
        screen.item({"unplaced": unplaced_items.all_as_json(found)})
    else:
        screen.lines(unplaced_items.lines(found))


def _matching(
    view: SessionView,
    span: str | None,
    kinds: frozenset[str],
    floor: int | None,
    limit: int | None,
    *,
    reverse: bool,
    load: bool,
) -> Iterator[Commit]:
    """The newest `limit` commits that match, in the order in which they are shown."""
    plain = not kinds and floor is None
    oldest_first = reverse and limit is None
    found: Iterator[Commit] = view.log(
        span, newest_first=not oldest_first, limit=limit if plain else None, load=load
    )
    found = (
        commit
        for commit in found
        if (not kinds or commit.kind in kinds) and (floor is None or commit.when >= floor)
    )
    found = islice(found, limit)
    return reversed(list(found)) if reverse and not oldest_first else found


def _left_at(view: SessionView) -> int:
    """The last commit of a turn that was interrupted without a commit that says so; 0 if there is none."""
    head = view.head
    turns = view.turns(last=1) if head.turn_open else []
    return head.seq if turns and turns[0].status == "interrupted" else 0


def _show(
    screen: Screen, commits: Iterable[Commit], *, full: bool, reverse: bool, left: int
) -> bool:
    """Show commits turn by turn, each turn under its prompt; whether there were any. `left` is where a turn was
    left."""
    any_shown = False
    today = ""
    for _, group in groupby(commits, key=lambda commit: commit.turn):
        turn = list(group)
        if not reverse:
            turn.reverse()
        if any_shown:
            screen.line()
        for commit in turn:
            if (date := day(commit.when)) != today:
                screen.line(Line(date, "dim"))
                today = date
            screen.line(row(commit, screen.width))
            if full:
                screen.whole(contents(commit))
        if left and turn[-1].seq == left:
            screen.line(Line("     interrupted: a call of this turn has no result", "dim"))
        any_shown = True
    return any_shown


def row(commit: Commit, width: int) -> Line:
    """One aligned line: position, time, actor, kind, summary. A turn begins with a rule across the screen."""
    if commit.kind == "turn":
        return _rule(commit, width)
    line = Line().add(f"@{commit.seq}", "id", width=max(4, len(str(commit.seq)) + 1)).add(" ")
    line.add(clock(commit.when), "dim").add(" ")
    line.add(
        f"t{commit.turn}" if commit.turn else "", "dim", width=max(3, len(str(commit.turn)) + 1)
    )
    if width >= SIDE_BY_SIDE:
        line.add(" ").add(commit.actor, "dim", width=6)
    kind = "dim" if commit.kind in QUIET else ""
    line.add(" ").add(commit.kind, kind, width=max(8, cells(commit.kind))).add(" ")
    return line.extend(record_line.of_commit(commit))


def _rule(commit: Commit, width: int) -> Line:
    """`── t3 user: fix the login bug ─────────── @26 14:02:11 ──`"""
    end = f" @{commit.seq} {clock(commit.when)} ──"
    line = Line("── ", "dim").add(f"t{commit.turn} ", "bold").add(f"{commit.actor}: ", "dim")
    line = line.extend(record_line.of_commit(commit)).cut(max(10, width - cells(end) - 3)).add(" ")
    return line.add("─" * (width - line.width - cells(end)), "dim").add(end, "dim")
