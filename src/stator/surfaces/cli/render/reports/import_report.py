"""Shows what an import of transcripts did, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stator.importers.conversation import Report
from stator.importers.discover import Discovery
from stator.importers.registry import UNVERIFIED
from stator.importers.run import ImportedConversation, ImportResult
from stator.model.values.ids import short
from stator.surfaces.cli.render.lines import Line, widest
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen

LISTED = 20
"""At most this many rows of each kind are shown."""
_STYLES = {"new": "ok", "grown": "ok", "left": "dim", "refused": "bad"}
_NUMBERS = (
    "turns", "calls", "files", "commits", "in_doubt", "orphans", "unknown", "mended", "skipped",
    "held", "waiting",
)  # fmt: skip


def show(screen: Screen, result: ImportResult) -> None:
    """The closing report."""
    screen.line(_first(result))
    rows = list(_by_session(result))
    names = widest((one.name for one in rows[:LISTED]), 40)
    agents = widest((one.agent for one in rows[:LISTED]), 16)
    for one in rows[:LISTED]:
        screen.line(_row(one, names, agents))
    if len(rows) > LISTED:
        screen.line(Line(f"  … {len(rows) - LISTED:,} more; list them with stator ls", "dim"))
    screen.whole(_remarks(result))  # whole lines: a path that is cut is of no use
    if result.stopped:
        screen.line(
            Line("! ", "doubt").add("stopped", "bold").add(": run the import again to continue")
        )


def show_found(screen: Screen, found: Sequence[tuple[str, Discovery]]) -> None:
    """Show how many sessions of each agent were found."""
    width = widest((name for name, _ in found), 20)
    for name, discovery in found:
        line = Line().add(name, "bold", width=width).add("  ")
        line.add(count(len(discovery.candidates), "session"))
        line.add(
            f", {discovery.elsewhere:,} of other projects" if discovery.elsewhere else "", "dim"
        )
        screen.line(line)
    if found:
        screen.line()


def _first(result: ImportResult) -> Line:
    total = result.total
    is_fine = not (result.stopped or result.refused or result.unread)
    line = Line("✓ ", "ok") if is_fine else Line("! ", "doubt")
    if not result.taken and not result.bundles:
        return line.add("nothing to import", "bold")
    if not total.sessions and not result.bundles:
        same = sum(one.fate == "same" for one in result.taken)
        line.add("nothing new", "bold")
        return line.add(f" · {count(same, 'session')} unchanged" if same else "", "dim")
    counts = [count(total.sessions, "session"), count(total.turns, "turn")]
    counts += [count(total.calls, "call"), count(total.files, "file")]
    line.add(" · ".join(counts), "bold")
    line.add(" would be imported" if result.dry_run else "", "dim")
    return line.add(f" · {total.unchanged:,} unchanged" if total.unchanged else "", "dim")


def _by_session(result: ImportResult) -> Iterator[ImportedConversation]:
    """One row for each changed session, even if several files belong to it."""
    by_id: dict[str, list[ImportedConversation]] = {}
    for one in result.changed:
        by_id.setdefault(one.session, []).append(one)
    for several in by_id.values():
        report = Report()
        for one in several:
            report.add(one.report)
        yield msgspec.structs.replace(several[0], report=report)


def _row(one: ImportedConversation, names: int, agents: int) -> Line:
    line = Line("  ").add(one.fate, _STYLES[one.fate], width=7)
    line.add(short(one.session) if one.session else "", "id", width=11)
    line.add(one.name, "bold", width=names).add("  ").add(one.agent, width=agents).add("  ")
    line.add(count(one.report.turns, "turn"), width=11)
    line.add(count(one.report.calls, "call"), width=11)
    if one.report.in_doubt:
        line.add(f"{one.report.in_doubt:,} in doubt", "doubt")
    return line


def _remarks(result: ImportResult) -> Iterator[Line]:
    """Where sessions went, what was left out, and what needs attention, each kind with its count."""
    total = result.total
    for project, here in sorted(result.projects.items(), key=lambda pair: (-pair[1], pair[0])):
        where = "this one" if project == result.here else project or "(none)"
        seen = "" if project == result.here else "; see stator ls --everywhere"
        yield _remark("project", f"{where}: {count(here, 'session')}{seen}")
    yield from _numbers(total)
    if result.others and (result.changed or not result.taken):
        files = count(sum(result.others.values()), "file")
        yield _remark("not read", f"{files}, not transcripts ({_kinds(result.others)})")
    if result.elsewhere:
        sessions = count(result.elsewhere, "session")
        yield _remark("elsewhere", f"{sessions} of other projects; --everywhere imports them too")
    if result.older:
        yield _remark("older", f"{count(result.older, 'session')} older than --since")
    unverified = sorted({one.source for one in result.taken} & UNVERIFIED)
    if unverified:
        what = "read as publicly described; no file of the agent itself was at hand"
        yield _remark("unverified", f"{', '.join(unverified)}: {what}", "doubt")
    if total.skipped:
        yield _remark("skipped", f"{count(total.skipped, 'line')} that could not be read", "doubt")
        yield from _listed([(f"{one.path}:{one.line}", one.why) for one in total.skips])
    left = [(one.name, one.why) for one in result.taken if one.fate == "left"]
    if left:
        yield _remark("unchanged", count(len(left), "session"))
        yield from _listed(left)
    refused = [(one.path, one.why) for one in result.refused] + list(result.unread.items())
    if refused:
        yield _remark("refused", f"{len(refused):,}", "bad")
        yield from _listed(refused)


def _numbers(total: Report) -> Iterator[Line]:
    if total.in_doubt:
        what = f"{count(total.in_doubt, 'call')} that may or may not have happened"
        yield _remark("in doubt", f"{what}; see stator calls --everywhere --open", "doubt")
    if total.held:
        may = f"{count(total.held, 'conversation')} may still continue"
        yield _remark("not ended", f"{may}; how they end now is shown as unplaced")
    if total.waiting:
        begin = "that begin at a place which is not recorded yet"
        yield _remark("waiting", f"{count(total.waiting, 'conversation')} {begin}")
    if total.orphans:
        yield _remark("orphans", f"{count(total.orphans, 'result')} without a call")
    if total.unknown:
        yield _remark(
            "unknown", f"{count(total.unknown, 'record')} of an unknown type, kept as they are"
        )
    if total.mended:
        yield _remark("shortened", f"{count(total.mended, 'value')} too large or too deep to store")
    if total.noise and total.sessions:
        records = count(sum(total.noise.values()), "record")
        yield _remark("left out", f"{records} without content ({_kinds(total.noise)})")


def _remark(what: str, text: str, style: str = "dim") -> Line:
    return Line("  ").add(what, style, width=12).add("  ").add(text)


def _kinds(numbers: Mapping[str, int]) -> str:
    """Counts by kind, the most frequent first."""
    ranked = sorted(numbers.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = ", ".join(f"{kind} {number:,}" for kind, number in ranked[:6])
    return shown + (", …" if len(ranked) > 6 else "")


def _listed(rows: list[tuple[str, str]]) -> Iterator[Line]:
    for what, why in rows[:LISTED]:
        reason = (
            why.removeprefix(what).removesuffix(f" - at {what}").lstrip(": ")
        )  # the reason often repeats the name
        yield Line(" " * 16).add(what).add(": ").add(reason, "dim")
    if len(rows) > LISTED:
        yield Line(f"{'':16}… {len(rows) - LISTED:,} more; --json lists them all", "dim")


# -- as JSON ------------------------------------------------------------------------------------


def as_json(result: ImportResult) -> dict[str, Any]:
    """The JSON document `stator.import/1` for transcripts."""
    total = result.total
    return {
        "dry_run": result.dry_run,
        "stopped": result.stopped,
        "sessions": [_as_json(one) for one in result.taken],
        "imported": total.sessions,
        "unchanged": total.unchanged,
        **{name: getattr(total, name) for name in _NUMBERS},
        "noise": total.noise,
        "skips": msgspec.to_builtins(total.skips),
        "projects": result.projects,
        "others": result.others,
        "elsewhere": result.elsewhere,
        "older": result.older,
        "unread": result.unread,
        "bundles": [msgspec.to_builtins(one) for one in result.bundles],
    }


def _as_json(one: ImportedConversation) -> dict[str, Any]:
    return {
        "session": one.session or None,
        "name": one.name,
        "fate": one.fate,
        "project": one.project,
        "agent": one.agent,
        "source": one.source,
        "path": one.path,
        **{name: getattr(one.report, name) for name in _NUMBERS},
        "why": one.why or None,
    }
