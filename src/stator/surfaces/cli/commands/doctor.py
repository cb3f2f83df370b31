"""`stator doctor`: what is wrong with a store, why it matters, and what to do."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from stator.connect import POLICY_FILE, StorePlace, connect, known_stores, locate
from stator.errors import StatorError, StoreError
from stator.hooks.spool import BAD, standing
from stator.locations import NOTE, path_of, spool_of
from stator.model.calls.approval import parse_policy
from stator.model.calls.budget import parse_prices
from stator.model.log.query import CallRow, Finding, StoreInfo
from stator.model.values.ids import short
from stator.runtime.facade.store import Store
from stator.runtime.facade.view import SessionView
from stator.surfaces.cli.commands.verify import plain
from stator.surfaces.cli.exits import FINDING, OK, code_of
from stator.surfaces.cli.parts.write_transcript import AGENTS
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count, size
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.times import ago

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, StoreOption

EXAMPLES = """
stator doctor                      look at everything
stator doctor --rebuild            make every index again from the log
stator doctor --json | jq '.findings[].what'
"""
WAL_MAX = 64 * 2**20
NETWORK = frozenset(
    "nfs nfs4 cifs smb3 smbfs afs ceph glusterfs lustre beegfs fuse.sshfs fuse.s3fs fuse.rclone davfs".split()
)
"""Filesystems whose locks cannot be relied on."""
LAYERED = frozenset({"overlay", "9p", "virtiofs", "aufs", "fuse.grpcfuse", "vboxsf"})
"""Filesystems of containers and shared folders: they work, but look where the file really is."""
LISTED = 10
UNASKED = "?"
"""What a tool is called of which only a result was recorded."""
STUCK_US = 3600 * 1_000_000
"""After an hour, nobody is about to take the spool in."""
MARKS = {"error": ("✗", "bad"), "warning": ("!", "doubt"), "note": ("·", "dim")}


def doctor(
    *,
    rebuild: bool = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Say what is wrong with the store, and what to do about it.

    Looks at the file, its folder and filesystem, and at calls and sessions left behind. `stator verify`
    reads every commit besides. Exits with 1 if there is something to do.

    Parameters
    ----------
    rebuild
        Make every index and projection again from the log. Nothing recorded changes.
    """
    place = locate(store)
    findings = list(_file(place))
    about: dict[str, Any] = {"store": place.url, "found": place.why}
    broken = OK
    try:
        with connect(place.url, create=False, read_only=not rebuild) as opened:
            if rebuild:
                opened.port.rebuild()
                findings.append(
                    _finding("note", "every index was made again from the log", "rebuild")
                )
            info = opened.info()
            about |= {"store_schema": info.schema, "sqlite": info.detail.get("sqlite", "")}
            about |= {"bytes": info.detail.get("bytes", 0), "id": info.id}
            findings += _tails(info)
            findings += _unfinished(info)
            findings += _sessions(opened)
            findings += _calls(opened)
            findings += _policy(opened)
            findings += _twins(opened)
            findings += _spool(place, opened.context.clock())
    except StoreError as error:
        broken = code_of(error)
        findings.append(_finding("error", error.what, "open", error.hint))
    about["others"] = [
        {"store": seen.url, "found": seen.why}
        for seen in known_stores()
        if os.path.realpath(seen.url) != os.path.realpath(place.url)
    ]
    with Screen(json=json, pager=not no_pager) as screen:
        if json:
            found = [plain(finding) for finding in findings]
            screen.document("stator.doctor/1", {**about, "findings": found})
        else:
            screen.lines(_screen(about, findings), hang=6)
    serious = any(finding.severity != "note" for finding in findings)
    return broken or (FINDING if serious else OK)


def _screen(about: dict[str, Any], findings: list[Finding]) -> Iterator[Line]:
    yield Line(about["store"], "title").add(f" (found: {about['found']})", "dim")
    if "store_schema" in about:
        parts = f"{size(about['bytes'])}, schema {about['store_schema']}, SQLite {about['sqlite']}"
        yield Line(f"  {parts}, store {about['id'][:8]}", "dim")
    for other in about["others"]:
        yield Line(f"  another store: {other['store']} ({other['found']})", "dim")
    yield Line()
    for finding in findings:
        mark, style = MARKS[finding.severity]
        yield Line(f"{mark} ", style).add(finding.what)
        if finding.hint:
            yield Line(f"    → {finding.hint}", "dim")
    if not any(finding.severity != "note" for finding in findings):
        yield Line("✓ ", "ok").add("nothing to do").add("; stator verify reads every commit", "dim")


def _finding(severity: str, what: str, check: str, hint: str = "", session: str = "") -> Finding:
    return Finding(what=what, check=check, hint=hint, session=session, severity=severity)


# -- the file -------------------------------------------------------------------------------------


def _file(place: StorePlace) -> Iterator[Finding]:
    """What can be seen without opening it."""
    path = place.url.removeprefix("sqlite:///") if place.url.startswith("sqlite:") else place.url
    try:
        found = os.stat(path)
    except OSError:
        return
    real = os.path.realpath(path)
    if os.path.islink(path):
        yield _finding(
            "note", f"a symbolic link to {real}", "link", "name the real path to be sure"
        )
    if not stat.S_ISREG(found.st_mode):
        return
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        what = f"others can read or write it (mode {mode:04o})"
        yield _finding("warning", what, "mode", f"chmod 600 {real}")
    if found.st_nlink > 1:
        yield _finding(
            "warning",
            f"the file has {found.st_nlink} names (hard links)",
            "links",
            "opened under two names at once it would lose commits; remove the other name",
        )
    yield from _wal(real)
    yield from _filesystem(real)


def _wal(real: str) -> Iterator[Finding]:
    try:
        wal = os.stat(f"{real}-wal").st_size
    except OSError:
        return
    if wal > WAL_MAX:
        yield _finding(
            "warning",
            f"the write-ahead log is {size(wal)}",
            "wal",
            "a reader has held it open for long; end old readers, it shrinks by itself",
        )


def _filesystem(real: str) -> Iterator[Finding]:
    kind = filesystem(real, _mounts())
    if kind in NETWORK:
        yield _finding(
            "warning",
            f"on a network filesystem ({kind}), where locks and shared memory do not hold",
            "filesystem",
            "move the store to a local disk",
        )
    elif kind in LAYERED:
        hint = "keep it on a volume if it should outlive the container"
        yield _finding("note", f"on a layered or shared filesystem ({kind})", "filesystem", hint)


def _mounts() -> str:
    try:
        with open("/proc/mounts", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def filesystem(path: str, mounts: str) -> str:
    """The type of the filesystem a path is on, by the longest mount point above it."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ").rstrip("/")
        if (path == point or path.startswith(point + "/")) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


# -- what was left behind -------------------------------------------------------------------------


def _tails(info: StoreInfo) -> Iterator[Finding]:
    tails = info.detail.get("tails", 0)
    if tails:
        yield _finding(
            "note",
            f"{count(tails, 'session')} with commits that the indexes do not hold yet",
            "tails",
            "they are read from the log; whoever drives next, or --rebuild, writes the indexes",
        )


def _sessions(store: Store) -> Iterator[Finding]:
    interrupted = [view for view in store.views() if view.row.shown == "interrupted"]
    for view in interrupted[:LISTED]:
        yield _finding(
            "note",
            f"session {view.name} was interrupted: its driver is gone",
            "interrupted",
            "open it again to go on; nothing is lost",
            view.id,
        )
    if len(interrupted) > LISTED:
        more = f"{len(interrupted) - LISTED} more interrupted sessions"
        yield _finding("note", more, "interrupted", "stator ls --all --status interrupted")


def _calls(store: Store) -> Iterator[Finding]:
    """Calls nobody knows the outcome of, and calls that began and have no driver any more."""
    try:
        doubtful = store.calls(statuses=("in doubt",), limit=LISTED).rows
        begun = store.calls(statuses=("started",), limit=1000).rows
    except StatorError as error:
        yield _finding("error", error.what, "calls", error.hint)
        return
    for row in doubtful:
        yield _finding(
            "warning",
            f"in doubt: {row.tool}, call {short(row.call)}, t{row.turn} of {short(row.session)}. "
            "It may or may not have happened",
            "in doubt",
            f"look whether it did: stator show {short(row.session)}:@{row.seq}; "
            f"then say so: stator settle {short(row.call)}{_handed_back(store, row.session)}",
            row.session,
        )
    left = [row for row in begun if _began(store, row) and not _driven(store, row.session)]
    for row in left[:LISTED]:
        yield _finding(
            "warning",
            f"without an outcome: {row.tool}, call {short(row.call)}, t{row.turn} of "
            f"{short(row.session)}, and nobody drives it",
            "open call",
            _left_open(store, row),
            row.session,
        )
    for row in store.calls(tool=UNASKED, limit=LISTED).rows:
        yield _finding(
            "note",
            f"a result without its call: {short(row.call)}, t{row.turn} of {short(row.session)}; "
            "what asked for it was not in what was recorded",
            "orphan",
            f"stator show {short(row.session)}:@{row.seq}",
            row.session,
        )


def _handed_back(store: Store, session: str) -> str:
    """How an agent that keeps its own transcript is told of a call that nobody knows the outcome of."""
    sources = {alias[0] for alias in SessionView(store.port, session).record.aliases}
    written = sorted(sources & set(AGENTS))
    return (
        f"; or write a transcript that says so: stator export --as {written[0]} {short(session)}"
        if written
        else ""
    )


def _left_open(store: Store, row: CallRow) -> str:
    settle = f"say what became of it: stator settle {short(row.call)}"
    if SessionView(store.port, row.session).record.mode == "recorded":
        return (
            "its agent may still be at it; if it is not, "
            + settle
            + _handed_back(store, row.session)
        )
    return (
        "open the session again: it will be said to be in doubt, or cancelled if it only read; "
        f"or, if it wrote, {settle}"
    )


def _unfinished(info: StoreInfo) -> Iterator[Finding]:
    """Content that was erased or purged and is still in the write-ahead log."""
    if info.detail.get("unfinished"):
        who = ", ".join(f"{one.program} (pid {one.pid})" for one in info.detail["readers"])
        yield _finding(
            "warning",
            "an erasure is not finished: its bytes may still be in the file or its write-ahead log"
            + (f", held by {who}" if who else ""),
            "erasure",
            "once no program reads an older state: stator gc --apply, or whoever writes next",
        )


def _spool(place: StorePlace, now: int) -> Iterator[Finding]:
    """What hooks left and nobody took in, or could."""
    path = path_of(place.url)
    folder = spool_of(path) if path else ""
    if not os.path.isdir(folder):
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield _finding(
            "warning",
            f"{folder} is somebody else's: what your agents do is not recorded here",
            "spool",
            "give them a store of their own: stator init AGENT --store PATH",
        )
        return
    stands = standing(folder)
    if stands.lines:
        old = now - stands.since > STUCK_US
        what = f"{count(stands.lines, 'line')} of hooks in {count(stands.files, 'file')}"
        if old:
            what += f", the oldest {ago(stands.since, now)}: nobody took them in"
        yield _finding(
            "warning" if old or stands.taken else "note",
            what + (", and somebody who began to is gone" if stands.taken else ""),
            "spool",
            "stator ingest takes them in now; whoever writes next does too",
        )
    if stands.bad or stands.torn:
        bad = count(stands.bad + stands.torn, "piece")
        yield _finding(
            "warning",
            f"{bad} of what hooks wrote could not be used: damaged, cut off, or of no session",
            "spool",
            f"kept in {os.path.join(folder, BAD)}; remove it once you have looked",
        )
    if stands.notes:
        yield _finding(
            "warning",
            f"{count(stands.notes, 'time')} a hook could not record",
            "spool",
            f"{os.path.join(folder, NOTE)} says when and why; remove it once you have looked",
        )


def _policy(store: Store) -> Iterator[Finding]:
    """A policy file that cannot be understood: no session can be driven under it."""
    try:
        text = store.context.policy()
        parse_policy(text)
        parse_prices(text)
    except StatorError as error:
        yield _finding("error", f"{POLICY_FILE}: {error.what}", "policy", error.hint)


def _began(store: Store, row: CallRow) -> bool:
    """Whether a call without an outcome really runs or ran, rather than waits for approval."""
    entry = store.port.find(row.session, "calls", row.call)
    return getattr(entry and entry.record, "status", "started") == "started"


def _twins(store: Store) -> Iterator[Finding]:
    """Files and facts of one session whose names are the same text in two Unicode forms."""
    for view in store.views():
        for collection, kind in (("files", "file"), ("facts", "fact")):
            try:
                keys = [entry.key for entry in view.entries(collection)]
            except StatorError as error:
                yield _finding("error", error.what, "state", error.hint, view.id)
                continue
            forms: dict[str, list[str]] = {}
            for key in keys:
                if not key.isascii():
                    forms.setdefault(normalize("NFC", key), []).append(key)
            for alike in forms.values():
                if len(alike) > 1:
                    names = " and ".join(
                        map(ascii, sorted(alike))
                    )  # shown as they are, they look alike
                    yield _finding(
                        "warning",
                        f"one {kind} under {len(alike)} names in {short(view.id)}: {names}",
                        "names",
                        "they differ in Unicode form only; record it in one of them, best NFC",
                        view.id,
                    )


def _driven(store: Store, session: str) -> bool:
    holder = SessionView(store.port, session).row.holder
    return holder is not None and holder.live
