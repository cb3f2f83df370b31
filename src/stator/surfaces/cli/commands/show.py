"""`stator show`: shows a session at a glance, a turn as one reads it, or one commit in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stator.errors import BadPosition, BadQuery, NotFound
from stator.model.log.commit import Commit
from stator.model.log.edges import edges_of, uses_operands
from stator.model.log.query import CallRow
from stator.model.records.types import CallRecord, Entry
from stator.model.sessions.lifecycle import AFTER_CLOSE, ENDED, split_cause
from stator.model.values import canon
from stator.model.values.ids import short
from stator.model.views.unplaced import Unplaced
from stator.model.views.why import settled_by
from stator.runtime.base.provenance import imported_upto, provenance
from stator.runtime.facade.view import SessionView
from stator.runtime.views.as_read import to_settle
from stator.runtime.views.derivation import reach
from stator.runtime.views.glance.calls import not_ok
from stator.runtime.views.glance.listed import cost
from stator.runtime.views.refs import last_attempt
from stator.runtime.views.words import last_words
from stator.surfaces.cli.parts.open_store import OpenedStore, heading, open_to_read, title
from stator.surfaces.cli.parts.output.show_file import show_file
from stator.surfaces.cli.parts.output.tell_doubt import tell_of
from stator.surfaces.cli.parts.page_addresses import of_position, print_addresses
from stator.surfaces.cli.parts.question.tagged_turn import turn_at
from stator.surfaces.cli.parts.question.typed_file import file_in
from stator.surfaces.cli.render import amounts, documents, record_line, unplaced_items, wire
from stator.surfaces.cli.render.detail import INTERNAL, TOLD, changes, fields, shows_edit
from stator.surfaces.cli.render.lines import NO_SIGN, Line
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.times import stamp

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        JsonFlag,
        NoPagerFlag,
        PlaceArgument,
        SessionOption,
        StoreOption,
        WebFlag,
    )

EXAMPLES = """
stator show                        the last session
stator show fix-login              a session by name
stator show fix-login t2           turn 2: its prompt, its calls, and the agent's words in full
stator show @42                    commit 42 in full
stator show c_7f2a91bc             a call, and how it ended
stator show fix-login t2 auth.py   what a file held at the end of turn 2
stator show fix-login:head~1 --json
stator show t5 --web               the address of its page in the inspector
"""
PROMPT_MAX = 600
"""Characters of the first prompt."""
SAID_MAX, SAID_IN = 200, 200
"""Characters of the agent's last words, and the commits at the end of a log among which they are looked for."""
TURNS = 5
DECISIONS = 5
UNPLACED = 10
FILES_SHOWN = 12
"""Files that a turn changed which are named."""
STEPS_SHOWN = 12
_FIELDS = (
    "kind", "session", "seq", "turn", "actor", "principal", "tool", "call", "parent", "attempt",
    "effect", "status", "cause", "run", "epoch", "origin", "inputs", "trace", "prev", "hash",
)  # fmt: skip
_WITH_EDGES = tuple(name for name in _FIELDS if name != "inputs")
EDGES = 12
"""Edges that are named one by one."""
AUTHORS_IN = 500
"""Commits in which authors are looked for."""
LOOKED = 2_000
"""Commits that are looked at behind the one that is shown."""


def show(
    *what: PlaceArgument,
    session: SessionOption = None,
    web: WebFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show a session at a glance, a turn, or one commit in full.

    A turn is named by t5, t-1, t5.2 or a tag at its end; a commit by @42, a hash or SESSION:head; a call by its id.
    With the name of a file at the end, shows what the file held then, where that is recorded. With --json, a turn is
    the commit that it ends with.
    """
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        try:
            view, ref = opened.named(what, session)
        except (BadPosition, BadQuery, NotFound):
            if (file := file_in(opened, what, session)) is not None:
                show_file(screen, *file)
                return 0
            found = opened.unplaced(session, ":".join(what)) if what else None
            if found is None:
                raise
            _unplaced(screen, found)
            return 0
        if ref is not None and ".." in ref:
            raise BadPosition(
                f"{ref!r:.60} is a range; show is about one turn or commit",
                hint=f"stator log {short(view.id)} {ref}",
            )
        if web:
            return print_addresses(screen, [of_position(view, ref)])
        if ref is not None and (seq := view.at(ref).seq):
            point = view.at(ref)
            owner = (
                view
                if point.session == view.id
                else SessionView(opened.store.as_read, point.session)
            )
            turn = 0 if screen.json else turn_at(owner, ref, point)
            if turn:
                _turn(screen, owner, opened, turn)
            else:
                _commit(screen, owner, owner.commit(f"@{seq}"), opened)
        else:
            _session(screen, view, opened)
    return 0


def _unplaced(screen: Screen, found: Unplaced) -> None:
    if screen.json:
        plain = {"input": canon.to_plain(found.input), "output": canon.to_plain(found.output)}
        screen.document("stator.unplaced/1", {**unplaced_items.as_json(found), **plain})
    else:
        screen.whole(unplaced_items.in_full(found))


# -- a turn ---------------------------------------------------------------------------------------


def _turn(screen: Screen, view: SessionView, opened: OpenedStore, turn: int) -> None:
    """A turn as a person reads it, and the commands for more of it."""
    from stator.surfaces.cli.commands.log import Turns

    title(screen, view, opened, f"t{turn}")
    turns = Turns(screen, view, opened, None, reverse=True)
    found = turns.show_whole(turn)
    screen.line()
    named = f"{short(view.id)} t{turn}"
    if found.changed:
        left = len(found.changed) - FILES_SHOWN
        more = f" and {left} more: stator files {named}" if left > 0 else ""
        screen.line(pair("changed", ", ".join(found.changed[:FILES_SHOWN]) + more), hang=14)
    screen.line(pair("ended", "").status(turns.ending(found)))
    screen.line()
    screen.line(pair("patches", f"stator log {named} -p"))
    screen.line(pair("difference", f"stator diff {short(view.id)}:t{turn}"))
    screen.line(pair("commits", f"stator log {named} --full"))


# -- a commit -------------------------------------------------------------------------------------


def _made_from(view: SessionView, commit: Commit, opened: OpenedStore) -> Iterator[Line]:
    """What a commit was made from, and the untrusted root behind it, if one is near enough."""
    edges = edges_of(commit)
    if edges:
        shown = [
            short(e.id) if e.id else f"@{e.first}" + f"..@{e.last}" * e.is_range for e in edges
        ]
        yield Line(f"{'made from':12}", "dim").add(
            ", ".join(shown[:EDGES]) + " …" * (len(shown) > EDGES)
        )
    found = reach(opened.store.as_read, view.id, edges, most=LOOKED)
    if found.path:
        root = found.path[0]
        line = Line(f"{'rests on':12}", "dim").add(f"{root.tool or root.kind} @{root.seq}", "doubt")
        yield line.add(f" — {found.why}", "dim")


def _commit(screen: Screen, view: SessionView, commit: Commit, opened: OpenedStore) -> None:
    if screen.json:
        screen.document(documents.COMMIT, documents.commit(opened.store, view.id, commit))
        return
    found = wire.commit(commit)
    source = provenance(opened.store.port, commit)
    became = None if commit.kind != "call" else last_attempt(opened.store.as_read, view.id, commit)
    line = Line(f"@{commit.seq} ", "id").add(commit.kind, "title").add(" ")
    screen.line(line.extend(record_line.of_commit(commit)))
    if became is not None:
        line = Line("ended ", "dim").status(became.status)
        screen.line(line.add(f" — {how}" if (how := _how(view, became)) else ""))
        if became.status == "in doubt":
            tell_of(screen, opened, view.id, became.call)
    where = f"t{commit.turn} of " if commit.turn else ""
    screen.line(Line(f"{stamp(commit.when)} · {where}{view.name} {short(view.id)}", "dim"))
    screen.line()
    screen.whole(fields(commit, TOLD))
    if became is None:
        screen.whole(changes(commit))
    screen.whole(_edits(view, commit, became, opened))
    screen.whole(_result(view, became))
    screen.line()
    screen.line(Line(f"{'came from':12}", "dim").add(f"{source.source}, {source.trust}"), hang=12)
    screen.lines(_made_from(view, commit, opened))
    screen.line()
    screen.line(Line("Ids and hashes", "title"))
    screen.whole(fields(commit, [name for name in INTERNAL if name not in _FIELDS]))
    if became is not None:
        screen.whole(changes(commit))
    screen.line(Line(f"{'commit':12}", "dim").add(commit.id))
    for name in _FIELDS if uses_operands(commit) else _WITH_EDGES:
        if found[name] not in (None, 0, []):
            screen.line(Line(f"{name:12}", "dim").add(record_line.brief(found[name])), hang=12)
    if stamp(commit.at) != stamp(commit.when):
        screen.line(Line(f"{'recorded at':12}", "dim").add(stamp(commit.at)))


def _result(view: SessionView, became: CallRow | None) -> Iterator[Line]:
    """What a call gave back where it did not end well; else where that is."""
    if became is None or not became.outcome:
        return
    ended = view.commit(f"@{became.outcome}")
    if became.status == "ok" or ended.kind == "settlement":
        words = f"{' ' * 6}its result: stator show {short(view.id)}:@{ended.seq}"
        yield Line(words, "dim")
    else:
        yield from fields(ended, ("output",))


def _how(view: SessionView, became: CallRow) -> str:
    """Why a call ended as it did, and who said so where it was in doubt."""
    if became.outcome and (ended := view.commit(f"@{became.outcome}")).kind == "settlement":
        return settled_by(ended)
    return became.cause


def _edits(
    view: SessionView, commit: Commit, became: CallRow | None, opened: OpenedStore
) -> Iterator[Line]:
    """What a commit, or the call that it is, changed in files: as a patch."""
    from stator.model.exchange.kept_contents import UNRECORDED
    from stator.runtime.views.contents import edits_in
    from stator.surfaces.cli.parts.output.unrecorded_contents import remedy
    from stator.surfaces.cli.render.differences.patch import of_edit

    if commit.kind == "call" and shows_edit(record_line.value_of(commit, "input")):
        return
    seq = became.outcome if became is not None else commit.seq
    found = edits_in(opened.store.as_read, view.id, seq - 1, seq) if seq else {}
    for edit in found.get(seq, []):
        yield Line()
        yield from of_edit(edit)
    if any(edit.reason == UNRECORDED for edit in found.get(seq, [])) and (how := remedy(view)):
        yield Line(f"{' ' * 6}{how}", "dim")


# -- a session ------------------------------------------------------------------------------------


def _session(screen: Screen, view: SessionView, opened: OpenedStore) -> None:
    if screen.json:
        screen.document(documents.SESSION, documents.session(view))
        return
    screen.line(heading(view, opened, room=screen.cut))
    screen.lines(_asked(view, opened), hang=14)
    screen.lines(_said_last(view, opened), hang=14)
    screen.lines(_details(view, opened))
    screen.lines(_attention(view, opened))
    screen.lines(_unplaced_section(view))
    screen.lines(_turns(view))
    screen.lines(section("Decisions in force", view.entries("decisions", limit=DECISIONS)))
    plan = sorted(view.entries("plan"), key=lambda entry: getattr(entry.record, "order", 0))
    screen.lines(plan_section(plan, view.id))
    screen.lines(section("Pending", view.entries("pending")))
    screen.lines(section("Tags", view.entries("tags")))


def _recorder(view: SessionView) -> str:
    """Who recorded the newest commit: `import:codex`."""
    return record_line.brief(record_line.value_of(view.commit("head"), "principal"))


def _authors(view: SessionView) -> Iterator[str]:
    """Whose commits they are, the latest first: of the newest ones, and who began it."""
    newest = list(view.log(newest_first=True, limit=AUTHORS_IN, load=False))
    first = list(view.log(limit=1, load=False))
    said = (record_line.brief(record_line.value_of(one, "principal")) for one in newest + first)
    yield from dict.fromkeys(filter(None, said))
    if newest[-1].seq > 2:
        yield "and perhaps others between"


def _asked(view: SessionView, opened: OpenedStore) -> Iterator[Line]:
    """What the session was asked first, most of it."""
    for row in opened.store.as_read.turns(view.id, limit=1, prompts=True):
        if row.began is not None and (prompt := record_line.value_of(row.began, "input")):
            yield pair("asked", record_line.brief(prompt, PROMPT_MAX))


def _said_last(view: SessionView, opened: OpenedStore) -> Iterator[Line]:
    """The beginning of the agent's last words."""
    said = last_words(opened.store.as_read, view.id, most=SAID_IN)
    if said is not None:
        yield pair("last words", f"“{record_line.brief(said.text, SAID_MAX)}”").add(
            f" @{said.seq}", "id"
        )


def _details(view: SessionView, opened: OpenedStore) -> Iterator[Line]:
    row, counts, head = view.row, view.counts, view.head
    record = row.record
    yield pair("id", record.id)
    name = opened.project_shown(record.project)
    named = record.project if name in record.project else f"{name} ({record.project})"
    yield pair("project", named or "(none)")
    if record.parent is not None:
        yield pair(
            "parent", f"{record.parent.kind} of {short(record.parent.session)} @{record.parent.seq}"
        )
    if record.adopted:
        yield pair("replaced by", f"{opened.names()[record.adopted]} {short(record.adopted)}")
    if upto := imported_upto(opened.store.port, record):
        part = f", up to @{upto}" if upto < head.seq else ""
        yield pair("imported", f"from another store{part}")
        yield pair("authors", ", ".join(_authors(view)))
    if record.mode == "recorded":
        yield pair("recorded", f"{_recorder(view)}; its agent runs outside Stator")
        yield pair("status", row.shown)
    yield pair("created", stamp(record.created))
    yield pair("updated", stamp(row.updated))
    if record.reason and row.shown != "active":
        yield pair(row.shown, f"reason: {record.reason}")
    if record.mode == "recorded" and record.status in ENDED and (late := _after_close(view)):
        yield pair(AFTER_CLOSE, f"{record_line.count(late, 'commit')} by its agent's witnesses")
    if row.holder is not None and row.holder.live:
        driver = row.holder
        yield pair(
            "driver",
            f"{driver.program} on {driver.host}, pid {driver.pid}, since {stamp(driver.since)}"
            f"{NO_SIGN if driver.live == 'silent' else ''}",
        )
    yield pair(
        "holds",
        f"{record_line.count(counts.commits, 'commit')}, {record_line.count(counts.turns, 'turn')}, "
        f"{record_line.count(counts.calls, 'call')} "
        f"({not_ok(opened.store.as_read, view.id, counts)} not ok), {record_line.size(counts.content_bytes)}",
    )
    spent = cost(opened.store.as_read, row, opened.prices())
    if used := amounts.tokens_in_words(spent.spend):
        price = amounts.money(spent.spend)
        yield pair("spent", f"{used}, cost {price}")
    yield pair("head", head.hash)
    yield pair("store", f"{opened.place.shown} ({opened.place.why})")


def _after_close(view: SessionView) -> int:
    """How many commits hooks, transcripts or the proxy brought since the session was closed."""
    (entry,) = view.entries("session")
    since = view.log(f"@{entry.seq}..head", load=False)
    return sum(split_cause(commit.cause)[0] for commit in since)


def pair(name: str, value: str) -> Line:
    """A label and its value, aligned."""
    return Line(f"  {name:12}", "dim").add(value)


def _attention(view: SessionView, opened: OpenedStore) -> Iterator[Line]:
    """What needs a person: calls in doubt, calls that wait for approval, and flags."""
    calls = [entry for entry in view.entries("calls") if isinstance(entry.record, CallRecord)]
    by_status = {
        status: [entry for entry in calls if getattr(entry.record, "status", "") == status]
        for status in ("in doubt", "awaiting approval")
    }
    asked = {record.call for record in to_settle(opened.store.as_read, view.id)}
    doubts = [entry for entry in by_status["in doubt"] if entry.key in asked]
    yield from section("In doubt: these may or may not have happened", doubts)
    yield from section("Waiting for approval", by_status["awaiting approval"])
    yield from section("Flags", view.entries("flags"))


def _unplaced_section(view: SessionView) -> Iterator[Line]:
    found = view.unplaced()
    if found:
        yield Line()
    for line in unplaced_items.lines(found[-UNPLACED:]):
        yield Line("  ").extend(line)


def _turns(view: SessionView) -> Iterator[Line]:
    rows = view.turns(last=TURNS, prompts=True)
    if not rows:
        return
    yield Line()
    yield Line("Last turns", "title")
    left = view.rewound()
    for row in reversed(rows):
        commit = row.began
        line = Line().add(f"  t{row.turn}", "bold", width=6)
        line.status("rewound" if row.turn in left else row.status or "open", width=12)
        yield line.extend(record_line.of_commit(commit)) if commit is not None else line


def plan_section(plan: list[Entry], session: str, *, done_too: int = 0) -> Iterator[Line]:
    """The steps that are not done, those that are only claimed to be last; of the others the last `done_too`."""
    steps = Counter(getattr(entry.record, "status", "") for entry in plan)
    claimed = f", {steps['claimed']} claimed" if steps["claimed"] else ""
    left = [e for e in plan if getattr(e.record, "status", "") not in ("done", "dropped")]
    left.sort(key=lambda entry: getattr(entry.record, "status", "") == "claimed")
    shown = left or plan[len(plan) - done_too :]
    yield from section(f"Plan ({steps['done']} of {len(plan)} done{claimed})", shown[:STEPS_SHOWN])
    if len(shown) > STEPS_SHOWN:
        whole = f"stator state {short(session)} -c plan"
        more = f"  … and {len(shown) - STEPS_SHOWN} more: {whole}"
        yield Line(more, "dim")


def section(name: str, entries: list[Entry]) -> Iterator[Line]:
    """Records under a heading, one per line; no lines if there are no records."""
    if not entries:
        return
    yield Line()
    yield Line(name, "title")
    for entry in entries:
        where = f"  @{entry.seq}"
        yield Line("  ").extend(record_line.of_record(entry.record)).add(where, "id")
