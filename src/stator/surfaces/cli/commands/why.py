"""`stator why`: shows why a file, a decision, a fact, a call or a revision is as it is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from shlex import quote
from typing import TYPE_CHECKING

from stator.model.log.query import check_limit
from stator.model.values.ids import short
from stator.model.views.why import (
    LATER,
    Looked,
    Reason,
    Why,
    WhyAnswer,
    WhyTurn,
    parse_thing,
)
from stator.runtime.views.reasons.why import FILES_MAX, ask
from stator.runtime.views.refs import with_session
from stator.surfaces.cli.parts.open_store import is_place, open_to_read
from stator.surfaces.cli.parts.output.tell_doubt import tell_of
from stator.surfaces.cli.parts.output.unrecorded_contents import ARGUMENTS, FROM_NOW_ON
from stator.surfaces.cli.parts.page_addresses import of_reasons, print_addresses
from stator.surfaces.cli.parts.question.question_scope import QuestionScope, scope_of
from stator.surfaces.cli.parts.question.typed_path import recorded_places
from stator.surfaces.cli.render import documents, record_line
from stator.surfaces.cli.render.differences.patch import coloured
from stator.surfaces.cli.render.lines import Line, fit
from stator.surfaces.cli.render.record_line import brief, count
from stator.surfaces.cli.render.screen import Screen, note
from stator.surfaces.cli.render.times import moment

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        LimitOption,
        NoPagerFlag,
        PatchFlag,
        ProjectFlag,
        SessionOption,
        StoreOption,
        WebFlag,
    )

EXAMPLES = """
stator why src/auth.py             in every session of this project
stator why money                   a decision's topic, a fact, a preference …
stator why 64f1b9a                 a revision: the prompts and decisions in it
stator why c_7f2a91bd              a call: who asked for it, and what it did
stator why plan:tests              a plan step; also decision: fact: file: …
stator why auth.py -s fix-login --json
"""
LIMIT = 50
HANG = 11
"""Where the text of a line begins."""
SEQS_MAX = 6
"""Positions that one line lists."""
LISTED_MAX = 8
"""Lines of one kind in a turn."""
NAME_CELLS = 32
QUOTED_MAX, QUOTE_MAX = 3, 200
"""Answers of a turn that are quoted, and how much of each."""
NOT_RECORDED = {
    "before": "before any session",
    "between": "between two recorded writes",
    "since": "since the last recorded one",
    "unknown": "not known",
}
"""Where a line comes from that no recorded write explains."""
ENDS_SO = "ends so"
MATCHED = {
    "another case": "written in another case",
    "begins so": "the only name that begins so",
    "contains it": "the only name that contains it",
}


def why(
    thing: str,
    /,
    *,
    session: SessionOption = None,
    project: ProjectFlag = False,
    everywhere: EverywhereFlag = False,
    patch: PatchFlag = False,
    limit: LimitOption = None,
    web: WebFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show why something is as it is: a file, a decision, a fact, a call, a revision.

    Looks in every session of the project, newest turn first, and shows what was asked, what was decided, what changed
    and which revision it led to. Where no decision was recorded, the agent's words are shown as such.

    Parameters
    ----------
    thing
        A path, some lines of one (auth.py:10-20), a topic, a name, a revision, a call or a commit. A prefix says
        which kind is meant: decision:auth. So does a key with its session: s_7f2a91bc:decision:auth.
    """
    most = check_limit(LIMIT if limit is None else limit)
    named, thing = with_session(thing)
    session = named or session
    thing = thing.removeprefix("entry:") if named else thing
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        scope = scope_of(opened, session=session, project=project, everywhere=everywhere)
        scope.expect_whole()
        found = _asked(scope, thing, most, hunks=patch)
        if web:
            print_addresses(screen, of_reasons(found.answers))
        elif json:
            for answer in found.answers:
                for reason in answer:
                    screen.item(documents.reason(reason, answer))
        else:
            if len(ends := _ending(found)) > 1:
                more = " or more" if len(ends) >= FILES_MAX else ""
                screen.line(f"{count(len(ends), 'file')}{more} end in {_typed(found)}")
                screen.line()
            for place, answer in enumerate(found.answers):
                if place:
                    screen.line()
                if answer.kind == "call" and _is_in_doubt(answer):
                    tell_of(screen, opened, answer.turns[0].session, answer.name)
                else:
                    _show(screen, answer, found)
        if not found.answers:
            return _report_nothing(scope, found)
    return 0


def _asked(scope: QuestionScope, thing: str, most: int, *, hunks: bool = False) -> Why:
    return ask(
        scope.opened.store.as_read,
        thing,
        project=scope.project or None,
        session=None if scope.view is None else scope.view.id,
        places=recorded_places,
        limit=most,
        folder=scope.opened.store.context.root,
        hunks=hunks,
    )


def _is_in_doubt(answer: WhyAnswer) -> bool:
    return any(one.call == answer.name and one.status == "in doubt" for one in answer)


def _report_nothing(scope: QuestionScope, found: Why) -> int:
    if found.near:
        note(f"did you mean: {', '.join(found.near)}")
    if is_place(found.asked):
        note(f"a turn or a commit is shown by: stator show {quote(found.asked)}")
    note(f"what was said and done is searched by: stator search {quote(found.asked)}")
    what = f"nothing with the name {found.asked} is recorded"
    return scope.report_empty(what, lambda wider: bool(_asked(wider, found.asked, 1).answers))


def _where(looked: Looked) -> str:
    if looked.session:
        return f"session {looked.session}"
    many = count(looked.sessions, "session") + (" or more" if looked.more else "")
    return f"{many} of {'this' if looked.project else 'every'} project"


def _ending(found: Why) -> list[WhyAnswer]:
    """The files that are answered for because their paths end as it was typed."""
    return [answer for answer in found.answers if answer.matched == ENDS_SO]


def _typed(found: Why) -> str:
    return brief(parse_thing(found.asked).text)


# -- one answer -----------------------------------------------------------------------------------


def _show(screen: Screen, answer: WhyAnswer, found: Why) -> None:
    screen.line(_heading(answer, found), hang=2)
    if answer.lines:
        screen.line()
        screen.lines(_source_lines(answer))
        screen.lines(_unsure(answer))
    shown = [turn for turn in answer.turns if any(reason.kind != "read" for reason in turn.reasons)]
    for turn in shown:
        screen.line()
        screen.line(_turn_line(turn))
        screen.lines(_lines(turn, names_files=answer.kind != "file"), hang=HANG)
        screen.whole(_indented(turn))
    if answer.more:
        screen.line()
        screen.line(Line("… older ones are not listed; show them with -n", "dim"))


def _source_lines(answer: WhyAnswer) -> Iterator[Line]:
    """The lines that were asked about, with where each comes from."""
    names = {turn.session: turn.name for turn in answer.turns}
    for line in answer.lines:
        known = (
            f"{fit(names.get(line.session, ''), NAME_CELLS // 2).rstrip()} t{line.turn} @{line.seq}"
        )
        where = known if line.source == "recorded" else NOT_RECORDED[line.source]
        shown = Line().add(where, "dim", width=NAME_CELLS).add(f" {line.line:>6} │ ", "dim")
        yield shown.add(line.text)


def _is_unsure(answer: WhyAnswer) -> bool:
    """Whether the write that some of the lines come from is not known."""
    return any(line.source == "unknown" for line in answer.lines)


def _unsure(answer: WhyAnswer) -> Iterator[Line]:
    """Why it is not known which write the lines come from, and where else to look."""
    if not _is_unsure(answer):
        return
    yield Line("not known which edit: not all contents were recorded", "dim")
    yield Line(FROM_NOW_ON, "dim")
    calls = [one for one in answer if one.kind == "call" and one.effect != "read"]
    if calls:
        newest = max(calls, key=lambda one: one.at)
        yield Line(f"{ARGUMENTS}stator show {short(newest.session)}:@{newest.seq}", "dim")


def _indented(turn: WhyTurn) -> Iterator[Line]:
    """What a turn changed in the file."""
    for line in coloured(turn.patches):
        yield Line("    ").extend(line)


def _heading(answer: WhyAnswer, found: Why) -> Line:
    kind = "" if answer.kind == "file" else f"{answer.kind.replace('_', ' ')} "
    line = Line(kind, "dim").add(_named(answer), "title")
    _from(line, answer.unverified)
    if answer.matched in MATCHED:
        line.add(f" ({MATCHED[answer.matched]}; nothing has exactly this name)", "dim")
    elif answer.matched and len(_ending(found)) == 1:
        line.add(f" (the only file that ends in {_typed(found)})", "dim")
    more = " or more" if answer.more else ""
    if answer.kind == "file":
        edits = f"{count(answer.changes, 'edit')}{more}"
        changed = f"{count(answer.sessions, 'session')} changed it, {edits}"
        if answer.lines:
            where = f"{edits} in {count(answer.sessions, 'session')}"
            changed = f"from one of {where}" if _is_unsure(answer) else f"from {where}"
        line.add(f" · {changed if answer.changes else 'no recorded change'}")
        line.add(f" · read {count(answer.reads, 'time')}" if answer.reads else "", "dim")
    elif answer.kind not in ("call", "commit", "revision"):
        line.add(f" · {count(answer.changes, 'version')}{more}")
        line.add(f" in {count(answer.sessions, 'session')}" if answer.sessions > 1 else "")
    return line.add(f" · looked in {_where(found.looked)}", "dim")


def _named(answer: WhyAnswer) -> str:
    return short(answer.name) if answer.kind == "call" else brief(answer.name, 200)


def _turn_line(turn: WhyTurn) -> Line:
    line = Line(fit(turn.name, NAME_CELLS).rstrip(), "bold")
    line.add(f" t{turn.turn}" if turn.turn else " before any turn", "title")
    line.add(f"   {moment(turn.at) if turn.times_known else 'times unknown'}", "dim")
    if turn.asked:
        line.add("   asked: ", "dim").add(brief(turn.asked))
    return _from(line, turn.unverified)


def _lines(turn: WhyTurn, *, names_files: bool) -> Iterator[Line]:
    """The reasons of one turn: what was decided or said, what was done, what it led to. `names_files`: which file an
    edit is of, because the question is not about one."""
    of: dict[str, list[Reason]] = {}
    for reason in turn.reasons:
        of.setdefault(reason.kind, []).append(reason)
    everything = of.pop("decision", [])
    decided = [reason for reason in everything if reason.status != LATER]
    yield from _some(_decision(reason) for reason in decided)
    of.pop("asked", None)
    of.pop("read", None)
    said, edits = of.pop("said", []), of.pop("edit", [])
    if everything:  # what was said after the edits is no reason where something was decided
        said = [reason for reason in said if reason.status != LATER]
    if not decided:
        before = " before the edits" if everything else ""
        yield from _quoted(said, f"; no decision recorded{before}" if edits else "")
    calls, revisions = of.pop("call", []), of.pop("revision", [])
    for kind, reasons in of.items():
        yield from _some(_version(kind, reason) for reason in reasons)
    yield from _calls(calls, edits)
    yield from _edits(edits, turn, named=names_files)
    yield from _some(_decision(reason) for reason in everything if reason.status == LATER)
    known = {reason.topic: reason for reason in revisions}  # the last says most: that it was pushed
    yield from _some(_revision(reason) for reason in known.values())
    yield from _rests_on(turn.reasons)


def _some(lines: Iterable[Line]) -> Iterator[Line]:
    found = list(lines)
    yield from found[:LISTED_MAX]
    if len(found) > LISTED_MAX:
        yield _labelled("", "").add(f"… {len(found) - LISTED_MAX} more; --json lists them", "dim")


def _labelled(label: str, style: str = "dim") -> Line:
    return Line("  ").add(label, style, width=HANG - 3).add(" ")


def _place(reasons: Iterable[Reason]) -> str:
    seqs = [f"@{reason.seq}" for reason in reasons]
    if len(seqs) > SEQS_MAX + 1:
        seqs = [*seqs[:SEQS_MAX], "…", seqs[-1]]
    return f"  {' '.join(seqs)}"


def _decision(reason: Reason) -> Line:
    line = _labelled("decided", "bold").extend(record_line.of_decision(reason, ", instead of: "))
    line.add(f" · {reason.status}" if reason.status else "", "dim")
    return _trusted(line, reason).add(_place([reason]), "id")


def _quoted(said: list[Reason], more: str) -> Iterator[Line]:
    """What the agent said, marked as that: it is no recorded reason."""
    for place, reason in enumerate(said[:QUOTED_MAX]):
        label = "said" if reason.status == LATER else "why"
        line = _labelled(label if not place else "").add(f"“{brief(reason.text, QUOTE_MAX)}”")
        if not place:
            line.add(f" (the agent's words{more})", "dim")
        line.add(f" · {reason.status}" if reason.status else "", "dim")
        yield _trusted(line, reason).add(_place([reason]), "id")
    if len(said) > QUOTED_MAX:
        yield (
            _labelled("")
            .add(f"… {len(said) - QUOTED_MAX} more", "dim")
            .add(_place(said[QUOTED_MAX:]), "id")
        )


def _version(kind: str, reason: Reason) -> Line:
    labels = {"plan": "step", "dead_end": "dead end", "preference": "prefers", "commit": "recorded"}
    line = _labelled(labels.get(kind, kind), "bold")
    line.add(f"{reason.topic}: " if reason.topic and kind != "dead_end" else "", "bold")
    line.add(brief(reason.text))
    line.add(f" (by the {reason.by})" if reason.by else "", "dim")
    line.add(f" — {brief(reason.detail)}" if reason.detail else "", "dim")
    line.add(f" · {reason.status}" if reason.status else "", "dim")
    return _trusted(line, reason).add(_place([reason]), "id")


def _calls(calls: list[Reason], edits: list[Reason]) -> Iterator[Line]:
    """Calls; not those that only made one of several edits: the line of the edits names their tools."""
    inside = {edit.call for edit in edits if edit.call}
    shown = [
        call
        for call in calls
        if call.detail
        or (call.call not in inside and not (inside and call.effect == "read"))
        or len(edits) == 1
    ]
    yield from _some(_call(call) for call in shown)


def _call(reason: Reason) -> Line:
    line = _labelled("called").add(brief(reason.text, 300))
    line.add(" ").status(reason.status)
    line.add(f" — {brief(reason.detail)}" if reason.detail else "", "dim")
    return _trusted(line, reason).add(_place([reason]), "id")


def _edits(edits: list[Reason], turn: WhyTurn, *, named: bool) -> Iterator[Line]:
    """What happened to each file: what each edit says of itself, else how many there were."""
    by_path: dict[str, list[Reason]] = {}
    for edit in edits:
        by_path.setdefault(edit.path, []).append(edit)
    several = len(by_path) > 1
    folder = _common_folder(by_path) if several else ""
    lines = [
        line
        for path, found in by_path.items()
        for line in _file_edits(path.removeprefix(folder) if several or named else "", found)
    ]
    counts = _counts(turn)
    if len(lines) == 1 and counts.pieces:
        yield lines[0].add("  ").extend(counts)
        return
    yield from _some(lines)
    if counts.pieces:
        yield _labelled("").extend(counts)


def _counts(turn: WhyTurn) -> Line:
    """How many lines a turn added and removed, as far as that is known."""
    if not turn.added and not turn.removed:
        return Line()
    line = Line(f"+{turn.added:,}", "added").add(" ").add(f"−{turn.removed:,}", "removed")
    return line.add(" lines" if turn.patches else " lines; -p shows them", "dim")


def _common_folder(names: Iterable[str]) -> str:
    """The absolute folder that all paths are in, with its last slash; empty if there is none."""
    found = list(names)
    if not all(name.startswith("/") for name in found):
        return ""
    return os.path.commonpath([os.path.dirname(name) for name in found]).rstrip("/") + "/"


def _file_edits(path: str, edits: list[Reason]) -> Iterator[Line]:
    with_words = [edit for edit in edits if ": " in edit.text or len(edits) == 1]
    for edit in with_words:
        verb, _, rest = edit.text.partition(" ")
        line = _labelled("changed").add(f"{path} " if path else "", "bold")
        line.add(verb, record_line.OP_STYLES.get(verb, "")).add(f" {brief(rest)}")
        yield _trusted(line, edit).add(_place([edit]), "id")
    others = [edit for edit in edits if edit not in with_words]
    if others:
        ops = ", ".join(dict.fromkeys(edit.status for edit in others))
        line = _labelled("changed").add(f"{path} " if path else "", "bold")
        tools = ", ".join(dict.fromkeys(edit.tool for edit in others if edit.tool))
        line.add(f"{ops} in {count(len(others), 'edit')}").add(
            f" with {tools}" if tools else "", "dim"
        )
        origin = next((edit.unverified for edit in others if edit.unverified), "")
        yield _from(line, origin).add(_place(others), "id")


def _revision(reason: Reason) -> Line:
    # Without its files it is only the next one: the edits may be in it or not.
    line = _labelled("led to" if reason.files else "then")
    line.add(reason.topic, "id").add(f" {brief(reason.text)}")
    line.add(f" · {reason.detail}" if reason.detail else "", "dim")
    line.add(", pushed" if reason.status else "", "dim")
    line.add("" if reason.files else " (its files are not recorded)", "dim")
    return _trusted(line, reason).add(_place([reason]), "id")


def _trusted(line: Line, reason: Reason) -> Line:
    if reason.trust in ("unverified", "vouched"):
        line.add(f" · {reason.trust}", "doubt" if reason.trust == "unverified" else "ok")
        line.add(f", from {reason.unverified}" if reason.unverified else "", "doubt")
    return line


def _from(line: Line, origin: str) -> Line:
    """A line, with from where it came, if nobody vouches for that."""
    return line.add(f" · unverified, from {origin}" if origin else "", "doubt")


def _rests_on(reasons: Iterable[Reason]) -> Iterator[Line]:
    """What the reasons were made from and is not plainly the conversation: what is trusted or not, each once."""
    seen: set[tuple[str, int]] = set()
    for reason in reasons:
        for ground in reason.grounds:
            if not ground.trust or (ground.session, ground.seq) in seen:
                continue
            seen.add((ground.session, ground.seq))
            line = _labelled("rests on").add(brief(ground.text or ground.kind, 200))
            line.add(f" · {ground.trust}", "doubt" if ground.trust == "unverified" else "ok")
            line.add(f", from {ground.source}" if ground.source.startswith("web:") else "", "dim")
            line.add(
                f": {ground.source}"
                if ground.source and not ground.source.startswith("web:")
                else "",
                "dim",
            )
            yield line.add(f"  @{ground.seq}", "id")
