"""`stator doctor`: finds problems with a store, and shows how to fix them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from msgspec.structs import replace

from stator.connect import (
    StorePlace,
    connect,
    known_stores,
    locate,
    verify_damaged,
)
from stator.errors import LogDamaged, SchemaChanged, StatorError, StoreCorrupt, StoreError
from stator.hooks.spool import BAD, foreign_files, status_of
from stator.locations import NOTE, queues_of
from stator.model.calls.approval import parse_policy, parse_proof
from stator.model.calls.budget import parse_prices
from stator.model.calls.proof import demanded
from stator.model.log.log_walk import in_words
from stator.model.log.query import (
    CallQuery,
    CallRow,
    Finding,
    SessionQuery,
    StoreInfo,
    VerifyReport,
    read,
)
from stator.model.log.shown_text import cut_short
from stator.model.sessions.lifecycle import NOT_TOLD
from stator.model.values.ids import short
from stator.owner.approver import VARIABLE
from stator.owner.policy_file import POLICY_FILE
from stator.runtime.base.one_answer import ahead
from stator.runtime.base.pages import commit_at, matching
from stator.runtime.driving import approvals
from stator.runtime.driving.approvals import Grant
from stator.runtime.facade.store import Store
from stator.runtime.views import attention
from stator.runtime.views.as_read import remember_reads
from stator.runtime.views.refs import last_used, rows_of
from stator.runtime.views.verify import examine_newest
from stator.surfaces.cli.commands.verify import as_json
from stator.surfaces.cli.exits import FINDING, OK, code_of
from stator.surfaces.cli.parts.approver_setup import what_is_proven
from stator.surfaces.cli.parts.person import own_approver
from stator.surfaces.cli.parts.store_file import file_findings, problem
from stator.surfaces.cli.parts.undelivered import undelivered_findings
from stator.surfaces.cli.parts.unrecorded import missing_findings
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count, size
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.times import ago

if TYPE_CHECKING:
    from stator.surfaces.cli.options import AllFlag, JsonFlag, NoPagerFlag, StoreOption

EXAMPLES = """
stator doctor                      look for problems
stator doctor --all                also in every commit, and in every session
stator doctor --rebuild            rebuild every index from the log
stator doctor --json | jq '.findings[].what'
"""
LISTED = 10
NAME_MAX = 32
WHOLE_MAX = 2**24
"""Bytes of a store that is looked at as a whole unless asked otherwise: that takes half a second."""
COMMITS_MAX = 200
"""Of a larger one, this number of its newest commits is checked."""
SESSIONS_MAX = 50
"""Sessions of a larger one, those used last, in which names that look alike are looked for."""
UNASKED = "?"
"""The recorded tool name of a result whose call is not in the record."""
STUCK_US = 3600 * 1_000_000
"""Queued hook lines older than an hour are a problem: every program that writes to the store imports them."""
BACKGROUND = frozenset({"filesystem", "tails"})
"""Notes that ask for nothing: only JSON has them."""
MARKS = {"error": ("✗", "bad"), "warning": ("!", "doubt"), "note": ("·", "dim")}


def doctor(
    *,
    all: AllFlag = False,
    rebuild: bool = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Find problems with the store and show how to fix them.

    Checks the file, its folder and filesystem, interrupted sessions, calls without an outcome, approvals, what hooks
    left, and every commit. Compares the sessions that agents keep of this project, of the last 14 days, with the store.
    Of a store on a server: version, durability, role, row-level security and clock. Of a store above 16 MB, it looks at
    the newest commits only, and says what it did not look at. Exits with 1 if there is something to do.

    Parameters
    ----------
    all
        Every commit, page and index also of a large store, as stator verify does, and the names in every session.
    rebuild
        Rebuild every index and projection from the log. Nothing recorded changes. A log that does not verify is
        refused: the indexes may be the last good copy of what it has lost.
    """
    place = locate(store)
    findings = list(file_findings(place))
    about: dict[str, Any] = {"store": place.shown, "found": place.why}
    about["approvals"], about["approvals_hint"] = what_is_proven()
    broken = OK
    try:
        with connect(place, create=False, read_only=not rebuild) as opened:
            if rebuild:
                findings.append(_rebuilt(opened))
            info = opened.info()
            about |= {"store_schema": info.schema, "sqlite": info.detail.get("sqlite", "")}
            about |= {"bytes": info.detail.get("bytes", 0), "id": info.id}
            if (asks := getattr(opened.port, "server", None)) is not None:
                server = asks(opened.context.clock)
                about |= {"server": server.about, "bytes": sum(opened.port.usage().values())}
                findings += server.findings
            whole = all or about["bytes"] <= WHOLE_MAX
            remember_reads(opened)
            findings += _damage(opened, about, everything=whole)
            now = opened.context.clock()
            about["last_used"] = _last_used(opened, now)
            findings += _unindexed(info)
            findings += _unfinished_erasure(info)
            findings += _sessions(opened, now)
            findings += _calls(opened, now, everything=whole)
            findings += _not_told(opened, now, everything=whole)
            findings += _policy(opened)
            findings += _approvals(opened, grants := _grants(opened, now))
            findings += _duplicate_names(opened, everything=whole)
            findings += _owner(opened, grants if isinstance(grants, list) else [])
            for folder in _queues(place):
                findings += _hook_queue(folder, now)
            findings += missing_findings(opened)
            findings += undelivered_findings(opened)
            findings += [] if whole else _left_out(opened)
    except StoreError as error:
        broken = code_of(error)
        findings.append(problem("error", error.what, "open", error.hint))
        if any(finding.check == "chain" for finding in findings):
            broken = FINDING  # opened and verified: what failed later is part of the same damage
        elif isinstance(error, (SchemaChanged, StoreCorrupt)):
            readable, broken = _unopened(place, error, broken)
            findings += readable
    about["others"] = [
        {"store": seen.url, "found": seen.why}
        for seen in known_stores()
        if os.path.realpath(seen.url) != os.path.realpath(place.url)
    ]
    with Screen(json=json, pager=not no_pager) as screen:
        if json:
            found = [as_json(finding) for finding in findings]
            screen.document("stator.doctor/1", {**about, "findings": found})
        else:
            lines = list(_screen(about, findings))
            screen.lines(lines, hang=6 if len(lines) > 1 else -1)  # that all is well is one line
    serious = any(finding.severity != "note" for finding in findings)
    return broken or (FINDING if serious else OK)


def _screen(about: dict[str, Any], findings: list[Finding]) -> Iterator[Line]:
    """One line if all is well; else one line a problem, which ends with what to do about it."""
    shown = [one for one in findings if one.severity != "note" or one.check not in BACKGROUND]
    serious = any(one.severity != "note" for one in shown)
    if shown:
        yield Line(about["store"], "title").add(f" ({about['found']})", "dim")
    for finding in shown:
        mark, style = MARKS[finding.severity]
        line = Line(f"{mark} ", style).add(finding.what)
        yield line.add(f" → {finding.hint}" if finding.hint else "", "dim")
    if serious:
        hint = f" → {about['approvals_hint']}" if about["approvals_hint"] else ""
        yield Line(f"· approvals: {about['approvals']}{hint}", "dim")
    else:
        yield Line("OK", "ok").add(f": {_all_is_well(about)}")


def _all_is_well(about: dict[str, Any]) -> str:
    """What was checked, and when a session was last used."""
    parts = []
    if "sessions" in about:
        parts += [count(about["sessions"], "session"), count(about["commits"], "commit")]
    parts.append(size(about["bytes"]) if about.get("bytes") else "")
    parts.append(f"last used {about['last_used']}" if about.get("last_used") else "")
    parts.append(about.get("server", ""))
    found = ", ".join(part for part in parts if part) or "the store can be read"
    return f"{found} · {_near(about['store'])}"


def _near(path: str) -> str:
    """A path below the working directory without that directory."""
    here = os.getcwd() + os.sep
    return path.removeprefix(here)


# -- damage ---------------------------------------------------------------------------------------


def _rebuilt(store: Store) -> Finding:
    try:
        store.port.rebuild()
    except LogDamaged as error:
        return problem("error", error.what, "rebuild", error.hint, error.ids.get("session", ""))
    return problem("note", "rebuilt every index from the log", "rebuild")


def _last_used(store: Store, now: int) -> str:
    """How long ago a session was last used; empty if there is none or that is unknown."""
    row = last_used(store.as_read)
    return ago(row.used, now) if row is not None and row.has_times else ""


def _damage(store: Store, about: dict[str, Any], *, everything: bool) -> Iterator[Finding]:
    """What `verify` finds; unless everything is asked for, what is wrong with the newest commits."""
    if everything:
        report = store.verify()
        about |= {"sessions": report.sessions, "commits": report.commits}
    else:
        report = examine_newest(store.port, rows_of(store.as_read), most=COMMITS_MAX)
    yield from _in_words(report)


def _left_out(store: Store) -> Iterator[Finding]:
    """What was not looked at, because it takes time in proportion to the store."""
    parts = [f"all but the newest {COMMITS_MAX} commits, the indexes, and results without a call"]
    if len(list(islice(rows_of(store.as_read), SESSIONS_MAX + 1))) > SESSIONS_MAX:
        parts.append(f"names in all but the {SESSIONS_MAX} sessions used last")
    near = attention.NARROW
    recorded = list(
        islice(matching(store.as_read, SessionQuery(mode="recorded")), near.sessions + 1)
    )
    if len(recorded) > near.sessions or any(row.head > near.commits for row in recorded):
        parts.append(
            f"what hooks reported before the newest {near.commits} commits of the {near.sessions} recorded "
            "sessions used last"
        )
    what = f"not looked at: {'; '.join(parts)}"
    yield problem("note", what, "left out", "stator doctor --all")


def _in_words(report: VerifyReport) -> Iterator[Finding]:
    for found in report.damages[:LISTED]:
        where = f"session {short(found.session)}" if found.session else ""
        where += f" ({found.name})" if found.name else ""
        where += f" @{found.seq}" if found.seq else ""
        where += f"..@{found.last}" if found.last else ""
        held = f"; {in_words(found.held)}" if found.held else ""
        what = f"damaged: {where + ': ' if where else ''}{found.what}{held}"
        yield replace(found, what=what, severity="error")
    if len(report.damages) > LISTED:
        more = f"{len(report.damages) - LISTED} more findings of verify"
        yield problem("error", more, "verify", "stator verify lists them all")


def _unopened(place: StorePlace, refused: StoreError, code: int) -> tuple[list[Finding], int]:
    """What can be read of a store that could not be opened, and the exit code: 5 only if that is nothing."""
    try:
        report = verify_damaged(place.url, refused)
    except StoreError:
        return [], code
    checked = f"{count(report.sessions, 'session')}, {count(report.commits, 'commit')}"
    readable = problem(
        "note", f"it can still be read: {checked} verified", "verify", "stator verify"
    )
    return [readable, *_in_words(report)], FINDING


# -- unfinished work -------------------------------------------------------------------------


def _unindexed(info: StoreInfo) -> Iterator[Finding]:
    tails = info.detail.get("tails", 0)
    if tails:
        yield problem(
            "note",
            f"{count(tails, 'session')} with commits that are not in the indexes yet",
            "tails",
            "they are read from the log; the next driver, or --rebuild, adds them to the indexes",
        )


def _sessions(store: Store, now: int) -> Iterator[Finding]:
    driven = matching(store.as_read, SessionQuery(status="active", mode="driven"))
    interrupted = [row for row in driven if row.shown == "interrupted"]
    for row in interrupted[:LISTED]:
        yield problem(
            "note",
            f"session {row.record.name} was interrupted {ago(row.updated, now)}: its driver"
            " is gone, no commit is lost",
            "interrupted",
            f"stator resume {short(row.id)}",
            row.id,
        )
    if len(interrupted) > LISTED:
        more = f"{len(interrupted) - LISTED} more interrupted sessions"
        yield problem("note", more, "interrupted", "stator ls --everywhere --status interrupted")


def _calls(store: Store, now: int, *, everything: bool) -> Iterator[Finding]:
    """Calls in doubt, and calls that started and lost their driver; of everything, also results without a call, which
    no index finds."""
    try:
        found = attention.unresolved(store.as_read, most=LISTED)
    except StatorError as error:
        yield problem("error", error.what, "calls", error.hint)
        return
    for row in found.doubtful:
        yield problem(
            "warning",
            f"in doubt: {row.tool}, t{row.turn} of {_named(store, row.session)}, "
            f"{_when(store, row, now)}: it may or may not have happened",
            "in doubt",
            f"stator settle {short(row.call)}",
            row.session,
        )
    for row in found.lost:
        yield problem(
            "warning",
            f"without an outcome: {row.tool}, call {short(row.call)}, t{row.turn} of "
            f"{short(row.session)}, which has no driver",
            "open call",
            _open_call_hint(row),
            row.session,
        )
    orphans = store.as_read.calls(CallQuery(tool=UNASKED), limit=LISTED).rows if everything else []
    for row in orphans:
        yield problem(
            "note",
            f"a result without its call: {short(row.call)}, t{row.turn} of {short(row.session)}; "
            "the call itself was not recorded",
            "orphan",
            f"stator show {short(row.session)}:@{row.seq}",
            row.session,
        )


def _named(store: Store, session: str) -> str:
    return cut_short(store.as_read.session(session).record.name, NAME_MAX)


def _when(store: Store, row: CallRow, now: int) -> str:
    return ago(commit_at(store.as_read, row.session, row.seq, load=False).when, now)


def _open_call_hint(row: CallRow) -> str:
    return (
        "resume the session: the call is then marked in doubt, or cancelled if it only read; "
        f"or, if it wrote, record what happened: stator settle {short(row.call)}"
    )


def _not_told(store: Store, now: int, *, everything: bool) -> Iterator[Finding]:
    """What hooks reported of agents and their transcripts do not contain."""
    bounds = attention.WIDE if everything else attention.NARROW
    found = attention.not_told(store.as_read, now, bounds)
    for one in islice(found, LISTED):
        yield problem(
            "note",
            f"{count(one.count, 'commit')} of session {short(one.row.id)} ({one.row.record.name}) "
            f"{'is' if one.count == 1 else 'are'} {NOT_TOLD}: a hook reported what happened, and the agent ended "
            "before it wrote it down",
            "not in the transcript",
            f"stator show {short(one.row.id)}:@{one.seq}",
            one.row.id,
        )


def _unfinished_erasure(info: StoreInfo) -> Iterator[Finding]:
    """An erasure whose bytes are still in the write-ahead log."""
    if info.detail.get("unfinished"):
        who = ", ".join(f"{one.program} (pid {one.pid})" for one in info.detail["readers"])
        yield problem(
            "warning",
            "an erasure is not finished: its bytes may still be in the file or in the write-ahead log"
            + (f", held by {who}" if who else ""),
            "erasure",
            "end that program; then the next write, or stator gc --yes, finishes it",
        )


def _owner(store: Store, grants: Sequence[Grant]) -> Iterator[Finding]:
    """A store that is not this user's own, and grants that answer nothing because of it."""
    if store.foreign:
        yield problem(
            "warning",
            f"this store is foreign: it {store.foreign}. Nothing in it acts, and hooks do not record in it",
            "owner",
            "if you know where it comes from: stator trust",
        )
    elif grants:
        from stator.surfaces.cli.parts.foreign import old_among  # takes time to load

        if not (old := old_among(grants)):
            return
        yield problem(
            "warning",
            f"{count(len(old), 'approval')} of a release before 0.7 answer nothing",
            "owner",
            "confirm them: stator trust --confirm-approvals",
        )


def _queues(place: StorePlace) -> list[str]:
    """The folders in which hooks queue for a store, as far as they are there."""
    return [folder for folder in queues_of(place.url, os.environ) if os.path.isdir(folder)]


def _hook_queue(folder: str, now: int) -> Iterator[Finding]:
    """Hook lines that were queued and not imported, or could not be."""
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield problem(
            "warning",
            f"{folder} belongs to another user: hooks of your agents cannot record here",
            "spool",
            "use your own store: stator init AGENT --store PATH",
        )
        return
    for path in foreign_files(folder)[:LISTED]:
        yield problem(
            "warning",
            f"{path} belongs to another user: it is left alone, and nothing in it is imported",
            "spool",
            "find out who put it there; then delete it, or chown it to you if it is yours",
        )
    queue = status_of(folder)
    if queue.lines:
        old = now - queue.since > STUCK_US
        what = f"{count(queue.lines, 'hook line')} queued in {count(queue.files, 'file')}"
        if old:
            what += f", the oldest {ago(queue.since, now)}"
        yield problem(
            "warning" if old or queue.taken else "note",
            what + ("; a program that began to import them is gone" if queue.taken else ""),
            "spool",
            "import them: stator ingest; the next program that writes does so too",
        )
    if queue.bad or queue.torn:
        bad = count(queue.bad + queue.torn, "hook line")
        yield problem(
            "warning",
            f"{bad} could not be imported: damaged, cut off, or without a session",
            "spool",
            f"kept in {os.path.join(folder, BAD)}; delete it when you no longer need it",
        )
    if queue.notes:
        yield problem(
            "warning",
            f"a hook failed to record {count(queue.notes, 'time')}",
            "spool",
            f"{os.path.join(folder, NOTE)} says when and why; delete it when you no longer need it",
        )


def _policy(store: Store) -> Iterator[Finding]:
    """A policy file with errors: no session can be driven until it is fixed."""
    try:
        text = store.context.policy()
        parse_policy(text)
        parse_proof(text)
        parse_prices(text)
    except StatorError as error:
        yield problem("error", f"{POLICY_FILE}: {error.what}", "policy", error.hint)


def _grants(store: Store, now: int) -> list[Grant] | StatorError:
    """The approvals that were given in the whole store, or why they cannot be read."""
    try:
        return approvals.grants(store.as_read, now=now, context=store.context)
    except StatorError as error:
        return error


def _approvals(store: Store, grants: Sequence[Grant] | StatorError) -> Iterator[Finding]:
    """Approvals whose signature does not hold, and demands that nobody can satisfy."""
    try:
        if isinstance(grants, StatorError):
            raise grants
        void = [grant for grant in grants if grant.state == "void"]
        text = store.context.policy()
        demand = demanded([parse_proof(text), *(rule.proof for rule in parse_policy(text))])
        approver = own_approver()
        unmet = demand == "passphrase" and not approver.public
        unmet = unmet and not os.environ.get(VARIABLE)
    except StatorError as error:
        yield problem("warning", error.what, "approvals", error.hint)
        return
    for grant in void[:LISTED]:
        yield problem(
            "warning",
            f"approval {grant.id} of {grant.record.pattern or grant.record.tool} is void: it claims the proof "
            f"{grant.record.proof}, and no key that is known here signed it",
            "approvals",
            f"if you changed your passphrase, approve again; if not, another program replaced {approver.path}",
            grant.session,
        )
    if unmet:
        yield problem(
            "warning",
            f"{POLICY_FILE} demands a passphrase, and none is set: nothing can be approved",
            "approvals",
            "in a terminal that no agent started: stator init --approver",
        )


def _duplicate_names(store: Store, *, everything: bool) -> Iterator[Finding]:
    """Files and facts of one session whose names differ only in their Unicode form."""
    rows = list(islice(rows_of(store.as_read), None if everything else SESSIONS_MAX))
    if not everything:  # a session that cannot be read is told by itself
        with contextlib.suppress(StatorError):
            ahead(store.as_read, *(read("entries", row.id, "files", "facts") for row in rows))
    for row in rows:
        for collection, kind in (("files", "file"), ("facts", "fact")):
            try:
                keys = [entry.key for entry in store.as_read.entries(row.id, collection)]
            except StatorError as error:
                yield problem("error", error.what, "state", error.hint, row.id)
                continue
            forms: dict[str, list[str]] = {}
            for key in keys:
                if not key.isascii():
                    forms.setdefault(normalize("NFC", key), []).append(key)
            for alike in forms.values():
                if len(alike) > 1:
                    names = " and ".join(
                        map(ascii, sorted(alike))
                    )  # in ASCII, because on a screen they look the same
                    yield problem(
                        "warning",
                        f"one {kind} has {len(alike)} names in {short(row.id)}: {names}",
                        "names",
                        "they differ only in Unicode form; record the name in one form, preferably NFC",
                        row.id,
                    )
