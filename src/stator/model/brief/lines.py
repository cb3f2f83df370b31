"""Makes the lines of a brief from a session's story: requests, checks, failures, files, how it ended. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from stator.model.brief import check_runs, lessons, working_tree
from stator.model.brief import story as stories
from stator.model.brief.condense import (
    SourceText,
    Unit,
    beginning,
    chosen,
    is_code,
    joined,
    leads_in,
    plain,
    terms,
    units_of,
    weighed,
)
from stator.model.brief.path_groups import common_folder, grouped
from stator.model.brief.requests import TELLING, asides, referenced, rejected, wrote_in
from stator.model.brief.sections import FILES_SHOWN, BriefItem, ListedText, Saying, listed
from stator.model.brief.story import Deed, NetFile, Said, SessionStory
from stator.model.calls.vocabulary import is_idle
from stator.model.records.types import RevisionRecord
from stator.model.values.paths import outside

STALE = 10
"""Calls after which what a summary calls open is obsolete."""
CHECKS_MAX, FAILED_MAX, OPEN_MAX, CALLS_MAX, MESSAGES_MAX, REPORTS_MAX = 5, 4, 5, 8, 6, 3
REFERENCED_MAX, LESSONS_MAX = 2, 3
SUMMARY, SUMMARY_OLD, MESSAGE, REFERENCED, REPORTED = 1.2, 0.8, 1.4, 0.5, 0.35
"""What texts count for beside an answer: a summary, and one after which much was done; messages of revisions; what a
request names; the reports of sub-agents."""
SAYINGS_MAX = 40
"""Earlier answers that are chosen from, the newest."""
REPORT, NEAR = 400, 6
"""Characters of an answer from which on it reports something, and answers at the end among which a report is."""
RESULT_TEXT, RESULT_SHOWN, SEARCHED_TEXT = 4_000, 200, 24_000
"""Characters of a result that are looked at, of a line of it that is shown, and of what a search found."""
WRITTEN_LINES = 4
"""Lines of what a call wrote or showed that are chosen from."""
LOOKED_MAX = 30
"""Calls whose results are looked at, the newest."""
REVISIONS, SUBJECT_MAX = 5, 100
"""Revisions that are shown with their id, and characters of a subject."""
FILE_LINES = 4
"""Lines of files of one kind."""
COMMAND_SHOWN, RAN_SHOWN = 90, 340
"""Characters of one command beside others, and of all of them."""
PATHS_MAX = 12
LINKS, LINK_PLACE = 0.4, 1_000
"""What titles and addresses count for beside the sentences of a page, and where they are: after those."""
_PATH = re.compile(
    r"^\s*(?:\d+[:→])?((?:\.{0,2}/)?(?:[\w.@()\[\]+-]+/)+[\w.@()\[\]+-]*\.\w+)", re.MULTILINE
)
_NOTICE = re.compile(
    r"\A.{0,60}\b(?:background (?:task|command|process|job)|(?:task|old|stale|late) notification|notification from)",
    re.IGNORECASE | re.DOTALL,
)
_LINK = re.compile(r'"title":\s*"([^"]{3,120})",\s*"url":\s*"(https?://[^"\s]{3,160})"')
_LINKS = re.compile(r'\[\{"title":.*?\}\]', re.DOTALL)
_NUMBERED = re.compile(r"^\s*\d+\s*(?:→|\||:|\t)\s?")
_CODE = re.compile(
    r"[;{}]\s*\Z|=>|^\s*(?:import|export|const|let|var|return|from|def|class|if|for|}|\)|//|\*)"
)


# -- what the agent said --------------------------------------------------------------------------


def last_sayings(story: SessionStory) -> list[Saying]:
    """The last words that say something, else the last; before them, where they are few, the last report. Words of an
    earlier turn than the one that was stopped are no last words; after those of an earlier turn than one that did
    something, the few words that it ended with."""
    last = _last(story)
    if last is None or (last.turn < story.turn and not story.answered):
        return []
    found = [last]
    if len(last.text) < REPORT:
        near = [one for one in story.said if one.seq < last.seq][-NEAR:]
        found = [*[one for one in near if len(one.text) >= REPORT][-1:], last]
    newest = story.last
    if newest is not None and newest.turn > last.turn and newest.turn in _worked(story):
        found.append(newest)
    return [Saying(text=one.text, seq=one.seq, mark=_by(one)) for one in found]


def _worked(story: SessionStory) -> set[int]:
    """The turns in which something was done."""
    return {deed.turn for deed in story.deeds}


def _last(story: SessionStory) -> Said | None:
    worked = max((deed.seq for deed in story.deeds), default=0)
    idle = asides(story)
    telling = (
        one
        for one in reversed(story.said)
        if len(terms(one.text)) >= TELLING
        and one.turn not in idle
        and not _is_notice(one)
        and not (one.seq < worked and not one.by and _only_leads_in(one.text))
    )
    return next(telling, story.last)


def _is_notice(said: Said) -> bool:
    """Whether it only says that something that ran in the background ended."""
    return len(said.text) < 2 * REPORT and _NOTICE.search(said.text) is not None


def _only_leads_in(text: str) -> bool:
    return all(leads_in(unit.text) for unit in units_of(text))


def earlier_sayings(story: SessionStory) -> list[Saying]:
    """The agent's own summary and its earlier answers, in order: those that end a turn, and the newest, count most."""
    last = last_sayings(story)
    shown = {one.text for one in last}
    idle = _idle_turns(story) | asides(story) | rejected(story)
    handed = {one.turn: one.seq for one in story.said if one.by}
    reported = {
        one.turn: one.seq for one in story.said if len(one.text) >= REPORT and one.text in shown
    }
    before = [
        one
        for one in story.said
        if (not last or (one.seq < last[-1].seq and one.text not in shown))
        and one.turn not in idle
        and not _is_notice(one)
    ][-SAYINGS_MAX:]
    wrote = wrote_in(story) if last else {}
    found = [
        _earlier(one, (place + 1) / len(before))
        for place, one in enumerate(before)
        if one.last_of_turn
        or one.by
        or one.seq > max(wrote.get(one.turn, 0), handed.get(one.turn, 0))
    ]
    gone = _gone_names(story)
    if story.summary is not None:
        summary = story.summary
        since = sum(deed.seq > summary.seq for deed in story.deeds)
        mark = f"t{summary.turn}, its own summary"
        found.append(
            Saying(
                text=summary.text,
                seq=summary.seq,
                mark=mark,
                weight=SUMMARY if since < STALE else SUMMARY_OLD,
                newest=since < STALE,
            )
        )
    found = [_without(saying, gone) for saying in found]
    by_turn: dict[int, list[tuple[str, Deed]]] = {}
    for text, deed in stories.messages(story.deeds)[-MESSAGES_MAX:]:
        by_turn.setdefault(deed.turn, []).append((text, deed))
    for turn, messages in by_turn.items():
        text = "\n\n".join(text for text, _ in messages)
        mark = f"t{turn}, in commit messages"
        found.append(Saying(text=text, seq=messages[-1][1].seq, mark=mark, weight=MESSAGE))
    for deed in referenced(story)[:REFERENCED_MAX]:
        mark = f"t{deed.turn}, what the request names:"
        found.append(
            Saying(text=deed.result, seq=deed.seq, mark=mark, source=deed.source, weight=REFERENCED)
        )
    for text, deed in stories.reports(story.deeds)[-REPORTS_MAX:]:
        if deed.seq < max(handed.get(deed.turn, 0), reported.get(deed.turn, 0)):
            continue
        mark = f"t{deed.turn}, a sub-agent reported"
        found.append(
            Saying(text=text, seq=deed.ended, mark=mark, source=deed.source, weight=REPORTED)
        )
    return sorted(found, key=lambda saying: saying.seq)


def _gone_names(story: SessionStory) -> frozenset[str]:
    """The names of files that are there no more."""
    there = {posixpath.basename(one.path) for one in story.files if "deleted" not in one.op}
    gone = {posixpath.basename(one.path) for one in story.files if "deleted" in one.op}
    return frozenset(gone - there)


def _without(saying: Saying, gone: Collection[str]) -> Saying:
    """The agent's words without sentences about files that are there no more."""
    if not any(name in saying.text for name in gone):
        return saying
    units = [unit for unit in units_of(saying.text) if not any(name in unit.text for name in gone)]
    return msgspec.structs.replace(saying, units=units, text="")


def _idle_turns(story: SessionStory) -> set[int]:
    """Turns before the last in which nothing was asked and nothing done, such as a greeting."""
    found = {one.turn for one in story.asked if len(terms(one.text)) < TELLING}
    found -= {one.turn for one in story.asked if len(terms(one.text)) >= TELLING}
    return found - {deed.turn for deed in story.deeds if not is_idle(deed.tool)} - {story.turn}


def _earlier(said: Said, age: float) -> Saying:
    """An earlier answer; `age` is from 0, the first, to 1."""
    weight = (0.6 + 0.4 * age) * (1.0 if said.last_of_turn or said.by else 0.8)
    return Saying(text=said.text, seq=said.seq, mark=_by(said), weight=weight)


def _by(said: Said) -> str:
    return f"t{said.turn}, by {said.by}" if said.by and said.by.isidentifier() else f"t{said.turn}"


# -- how it ended ---------------------------------------------------------------------------------


def ended(story: SessionStory, *, at_work: bool, unfinished: bool) -> list[str]:
    """How a session ended, in sentences."""
    turn = f"t{story.turn}"
    if at_work:
        return ["It is still at work."]
    if story.ended in ("interrupted", "aborted", "cancelled"):
        how = "given up" if story.ended == "aborted" else "interrupted"
        return [f"Its last turn, {turn}, was {how}: not finished."]
    if not story.turn:
        return []
    if story.answered:
        handed = story.last is not None and story.last.by and _is_open(story, story.last.seq)
        if handed:
            return [
                f"It ended in {turn} with what the agent handed over for approval; there is no answer to it."
            ]
        return [f"It ended with the agent's answer in {turn}; nobody replied."]
    if open_calls(story):
        return [
            f"It stops in the middle of {turn}: not finished, no answer followed its last calls."
        ]
    if story.ended == "error":
        return [f"Its last turn, {turn}, failed."]
    if story.ended:
        return [f"Its last turn, {turn}, ended" + (" without an answer." if story.deeds else ".")]
    last = max((deed.seq for deed in story.deeds), default=0)
    if unfinished or last:
        return [f"It stops in the middle of {turn}: not finished, no answer followed."]
    return [f"Its last turn, {turn}, is open: not finished."]


def _is_open(story: SessionStory, seq: int) -> bool:
    return any(deed.seq == seq and not deed.status for deed in story.deeds)


CHANGES = ("created", stories.CHANGED, "modified", "renamed", "deleted")


def unchecked(story: SessionStory, files: Sequence[NetFile]) -> str:
    """That an agent with a shell changed files other than documents and ran nothing that checks them."""
    changed = [one.path for one in files if one.op in CHANGES]
    if all(path.lower().endswith(stories.DOCUMENTS) for path in changed):
        return ""
    shells = [deed for deed in story.deeds if deed.is_shell]
    if not shells or any(map(stories.is_check, shells)):
        return ""
    return "No test, linter or build was run."


def changed(files: Sequence[NetFile]) -> str:
    """How files were changed, in a sentence."""
    count = sum(one.op in CHANGES for one in files)
    if not count:
        gone = any(one.op == stories.GONE_AGAIN for one in files)
        return "No file is different in the end." if gone else "No file was changed."
    return f"{count:,} file{'s were' if count > 1 else ' was'} changed."


# -- calls ----------------------------------------------------------------------------------------


def open_calls(story: SessionStory) -> list[Deed]:
    """Calls of the last turn whose result is not recorded, the newest first."""
    if story.ended:
        return []
    return [deed for deed in story.deeds[::-1] if deed.turn == story.turn and not deed.status]


HAPPENED = {"ok": "happened, do not repeat it;", "error": "did not happen;"}
"""What the status of a call means that was settled."""


def settled_items(story: SessionStory, folder: str) -> list[BriefItem]:
    """Calls that were in doubt and are not any more: whether each happened, and who knows."""
    return [
        BriefItem(
            text=f"{_near(deed.shown, folder)} {HAPPENED.get(deed.status, deed.status)} {deed.settled}",
            mark=f"t{deed.turn}",
            source=deed.source,
            seq=deed.ended,
        )
        for deed in reversed(story.deeds)
        if deed.settled
    ][:OPEN_MAX]


def open_items(story: SessionStory, folder: str, known: Collection[str]) -> list[BriefItem]:
    """Calls without a result, except those that another line is about."""
    return [
        BriefItem(
            text=_near(deed.shown, folder), mark=f"t{deed.turn}", source="model", seq=deed.seq
        )
        for deed in open_calls(story)
        if deed.call not in known and not is_idle(deed.tool)
    ][:OPEN_MAX]


def check_items(story: SessionStory, folder: str) -> list[BriefItem]:
    """The newest run of each check and how it ended, and whether files changed since: as many in a line as fit."""
    edits = [one.changed for one in story.files if one.op in CHANGES]
    found: list[ListedText] = []
    if (left := working_tree.left_as(story.deeds)) is not None:
        shown, deed = left
        since = sum(seq > deed.seq for seq in edits)
        note = f" ({since} file{'s' * (since != 1)} changed since)" if since else ""
        found.append((f"git status: {shown}{note}", deed.ended or deed.seq))
    for command, deed in check_runs.checks(story.deeds)[:CHECKS_MAX]:
        since = sum(seq > deed.seq for seq in edits)
        note = f" (not rerun since {since} file{'s' * (since != 1)} changed)" if since else ""
        ended = check_runs.check_ending(deed)
        if ended != check_runs.UNKNOWN:
            found.append((f"{_near(command, folder)}: {ended}{note}", deed.ended or deed.seq))
    return listed(found)


def failed_items(story: SessionStory, folder: str) -> list[BriefItem]:
    """Failures that nothing repaired, the newest first; not those that a line about a check names."""
    shown = {deed.seq for _, deed in check_runs.checks(story.deeds)[:CHECKS_MAX]}
    found: list[BriefItem] = []
    for deed, times in stories.unrepaired(story.deeds):
        if deed.seq in shown:
            continue
        how = stories.failure(deed)
        text = f"{_near(deed.shown, folder)} — {how or deed.status}"
        often = f"{times}× (failed again each time), t{deed.turn}" if times > 1 else f"t{deed.turn}"
        found.append(
            BriefItem(
                text=text, mark=often, source=deed.source or "tool", seq=deed.seq,
                seqs=(deed.ended or deed.seq,),
            )
        )  # fmt: skip
    return found[:FAILED_MAX]


def lesson_items(story: SessionStory, folder: str) -> list[BriefItem]:
    """What failed and then worked in another way, the newest first."""
    found: list[ListedText] = []
    for failed, worked in lessons.turned(story.deeds)[:LESSONS_MAX]:
        before, after = lessons.ways(failed, worked, folder)
        text = f"{before} — {lessons.why(failed)} → {after}"
        found.append((text, failed.ended, worked.seq))
    return listed(found)


def call_items(story: SessionStory, folder: str) -> list[BriefItem]:
    """Commands that did something, in one line; then calls of other tools than shells and file tools, and what they
    gave, unless that is from the web."""
    found: list[BriefItem] = []
    deeds = [deed for deed in story.deeds if not deed.settled]
    gone = {posixpath.basename(one.path) for one in story.files if "deleted" in one.op}
    ran = [deed for deed in stories.commands(deeds) if not any(name in deed.shown for name in gone)]
    if ran:
        text, seq, turns = "", ran[0].seq, {deed.turn for deed in ran}
        for deed in ran:
            whole = _near(deed.shown, folder)
            one = beginning(whole, COMMAND_SHOWN)
            one += "…" if len(one) < len(whole) else ""
            if len(text) + len(one) > RAN_SHOWN:
                break
            text = f"{one} ; {text}" if text else one
        mark = f"t{min(turns)}" + (f" to t{max(turns)}" if len(turns) > 1 else "")
        seqs = tuple(deed.seq for deed in ran)
        found.append(
            BriefItem(text=text, mark=f"{mark}, it ran", source="model", seq=seq, seqs=seqs)
        )
    searches = [deed for deed in stories.questions(deeds) if stories.is_web(deed)]
    found += listed([(_near(deed.shown, folder), deed.seq) for deed in searches[:CALLS_MAX]])[:2]
    for deed in [one for one in stories.questions(deeds) if one not in searches][:CALLS_MAX]:
        gave = ""
        if deed.status == "ok":
            rows = [plain(line) for line in deed.result.split("\n") if line.strip()]
            gave = rows[0] if len(rows) == 1 else ""
        asked = _near(deed.shown, folder)
        text = f"{asked} → {beginning(gave, 120)}" if gave and gave not in asked else asked
        source = deed.source if gave and deed.source else "model"
        seqs = (deed.ended if gave and deed.ended else deed.seq,)
        found.append(
            BriefItem(text=text, mark=f"t{deed.turn}", source=source, seq=deed.seq, seqs=seqs)
        )
    return found


def results(story: SessionStory, folder: str) -> list[Saying]:
    """What the newest calls wrote and showed, to choose from. If the agent said what it found, only what they wrote."""
    found: list[Saying] = []
    gone = {one.path for one in story.files if "deleted" in one.op}
    for deed in _looked_at(story, web=False):
        if deed.act is not None and any(deed.act.path.endswith(path) for path in gone):
            continue
        units = list(_result_units(deed, folder, said=story.answered))
        if units:
            lead = beginning(_near(deed.shown, folder), COMMAND_SHOWN)
            mark = f"t{deed.turn}"
            found.append(
                Saying(text="", units=units, lead=lead, seq=deed.seq, mark=mark, source=deed.source)
            )
    return found


def web_items(story: SessionStory, room: int) -> list[BriefItem]:
    """What pages and searches of the web gave, of a session that stops before the agent says what it found."""
    if story.answered:
        return []
    deeds = _looked_at(story, web=True)
    passages = [weighed(SourceText(units=_web_units(deed.result))) for deed in deeds]
    passages += [weighed(SourceText(units=_links(deed.result), weight=LINKS)) for deed in deeds]
    asked = {term for deed in deeds for term in terms(deed.shown)}
    best = chosen(passages, room, wanted=_wanted(story), known=asked, least=0.02)
    return [
        BriefItem(
            text=f"{beginning(deed.shown, COMMAND_SHOWN)} → {joined([*told, *links], [])}",
            mark=f"t{deed.turn}",
            source=deed.source,
            seq=deed.ended,
        )
        for deed, told, links in zip(deeds, best, best[len(deeds) :], strict=False)
        if told or links
    ]


def _wanted(story: SessionStory) -> frozenset[str]:
    """Terms of what was asked and said last."""
    asked = " ".join(one.text for one in stories.requests(story.asked)[-3:])
    said = " ".join(one.text for one in story.said[-3:])
    return frozenset(terms(f"{asked} {said}"))


def _looked_at(story: SessionStory, *, web: bool) -> list[Deed]:
    """The newest calls whose results are looked at."""
    return [
        deed for deed in reversed(story.deeds)
        if deed.status == "ok" and not is_idle(deed.tool) and stories.is_web(deed) is web
        and not stories.is_check(deed) and not stories.is_report(deed)
    ][:LOOKED_MAX]  # fmt: skip


def _near(text: str, folder: str) -> str:
    """A call without the folder that the brief names already."""
    return text.replace(f"{folder}/", "").replace(f"cd {folder} && ", "") if folder else text


def _result_units(deed: Deed, folder: str, *, said: bool) -> Iterator[Unit]:
    """What a call wrote into a document, and what a command showed in few lines; if the agent did not say what it
    found, also the beginning of a document and the paths that a search found."""
    act = deed.act
    if act is None:
        return
    document = act.path.lower().endswith(stories.DOCUMENTS)
    if act.kind in ("write", "edit"):
        text = act.text or "\n".join(edit.new for edit in act.edits)
        yield from list(_word_lines(text))[:WRITTEN_LINES] if document else ()
    elif act.kind == "shell" and not deed.only_looks:
        shown = list(_word_lines(deed.result))
        yield from shown if len(shown) <= WRITTEN_LINES else ()
    elif not said and document:
        yield from list(_word_lines(stories.REMINDER.sub("", deed.result)))[:WRITTEN_LINES]
    elif not said and act.kind in ("grep", "glob", "list", "shell"):
        every = list(dict.fromkeys(_PATH.findall(beginning(deed.result, SEARCHED_TEXT))))
        paths = every[:PATHS_MAX]
        base = common_folder(paths)
        below = f"{base}/" if base and base != folder else ""
        near = [(path.removeprefix(f"{base or folder}/"), "") for path in paths]
        if len(paths) > 1:
            names, left = grouped(near, RESULT_SHOWN)
            left += len(every) - len(paths)
            more = f" … and {left:,} more" if left else ""
            yield Unit(f"{below}: {names}{more}".removeprefix(": "), 0)


def _word_lines(text: str) -> Iterator[Unit]:
    """Lines that are words more than code."""
    for place, line in enumerate(beginning(text, RESULT_TEXT).split("\n")):
        words = plain(_NUMBERED.sub("", line))
        if words.startswith("#") or words.endswith(":"):  # it only announces what follows
            continue
        if 6 <= len(words) <= RESULT_SHOWN and not _CODE.search(words) and not is_code(words):
            yield Unit(words, place)


def _web_units(text: str) -> list[Unit]:
    """The sentences of a page."""
    bare = _LINKS.sub("", beginning(text, RESULT_TEXT))
    told = (unit for unit in units_of(bare) if not is_code(unit.text))
    return [unit for unit in told if 30 <= len(unit.text) <= 2 * RESULT_SHOWN]


def _links(text: str) -> list[Unit]:
    """The titles and addresses that a search found."""
    found = _LINK.findall(beginning(text, RESULT_TEXT))
    return [
        Unit(f"{title} ({url})", LINK_PLACE + place) for place, (title, url) in enumerate(found)
    ]


# -- revisions ------------------------------------------------------------------------------------


def revision_items(found: Sequence[tuple[RevisionRecord, int]], said: str) -> list[BriefItem]:
    """Revisions, the newest first, as many in a line as fit; not those that the agent's last words name. Of older ones
    only the subject."""
    told = [(record, seq) for record, seq in found if not (record.sha and record.sha in said)]
    every = len(told) > 1 and all(record.pushed for record, _ in told)
    texts: list[ListedText] = []
    for place, (record, seq) in enumerate(told):
        pushed = " (pushed)" if record.pushed and not every else ""
        sha = f"{record.sha} " if place < REVISIONS else ""
        texts.append((f"{sha}{beginning(record.subject, SUBJECT_MAX)}{pushed if sha else ''}", seq))
    return listed(texts, "all pushed:" if every else "")


# -- files ----------------------------------------------------------------------------------------


def changed_items(
    files: Sequence[NetFile], folder: str, on_disk: Callable[[NetFile], str], *, is_whole: bool
) -> list[BriefItem]:
    """Changed files by what became of them, with the number of changes, grouped by folder; the newest first. Nothing is
    left of a file that was created and deleted again. `is_whole`: the changes are all there were, not the newest."""
    found: list[list[BriefItem]] = []
    for op in (*CHANGES, "skipped"):
        group = [one for one in files if one.op == op]
        names = [
            (_name(one, folder), _file_mark(one, on_disk(one), is_whole=is_whole)) for one in group
        ]
        found.append(_grouped(names, op, max((one.seq for one in group), default=0)))
    return [items[place] for place in range(FILE_LINES) for items in found if place < len(items)]


def read_items(
    files: Sequence[NetFile], folder: str, on_disk: Callable[[NetFile], str]
) -> list[BriefItem]:
    """Files that were only read, grouped by folder; the newest first."""
    group = [one for one in files if one.op == "read"]
    names = [(_name(one, folder), _file_mark(one, on_disk(one), is_whole=True)) for one in group]
    return _grouped(names, "", max((one.seq for one in group), default=0))


def _grouped(names: Sequence[tuple[str, str]], mark: str, seq: int) -> list[BriefItem]:
    """Lines of names, each as long as one line may be."""
    found: list[BriefItem] = []
    while names and len(found) < FILE_LINES:
        text, left = grouped(names, FILES_SHOWN)
        names = names[len(names) - left :]
        note = f"and {left:,} more" if left and len(found) == FILE_LINES - 1 else ""
        found.append(BriefItem(text=text, mark=mark, note=note, source="tool", seq=seq))
    return found


def _name(one: NetFile, folder: str) -> str:
    if folder and one.path.startswith(f"{folder}/"):
        return one.path[len(folder) + 1 :]
    return posixpath.normpath(one.path) + outside(one.root, one.path)


def _file_mark(one: NetFile, disk: str, *, is_whole: bool) -> str:
    times = f"×{one.edits}{'' if is_whole else '+'}" if one.edits > 1 else ""
    return " ".join(filter(None, [times, disk and f"({disk})"]))
