"""`stator import`: imports sessions from agents' transcripts or from bundles."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stator.connect import USERS, StorePlace, connect, locate, now, project_id, project_root
from stator.errors import BadQuery, InvalidInput, NotFound, StoreError
from stator.importers import registry
from stator.model.exchange.bundle import MAGIC as BUNDLE
from stator.surfaces.cli.exits import FINDING, INTERRUPTED, OK
from stator.surfaces.cli.parts.confirm import erasing_agreed, refuse_both
from stator.surfaces.cli.parts.foreign import warn_if_foreign
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.progress import ProgressCallback, bar
from stator.surfaces.cli.render.record_line import count, size
from stator.surfaces.cli.render.reports.bundle_report import as_json, show
from stator.surfaces.cli.render.screen import Screen, note
from stator.surfaces.cli.render.times import parse_since

if TYPE_CHECKING:
    from stator.importers.discover import Discovery
    from stator.importers.run import ImportRun
    from stator.runtime.bundles.report import Imported
    from stator.runtime.facade.store import Store
    from stator.surfaces.cli.options import (
        ChangedSinceOption,
        DryRunFlag,
        EraseFlag,
        EverywhereFlag,
        IntoOption,
        JsonFlag,
        NoPagerFlag,
        PassphraseFileOption,
        SourcesArgument,
        StoreOption,
        YesFlag,
    )

EXAMPLES = """
stator import                      all agents on this machine, this project
stator import claude-code --everywhere --since 30d   every project, each into its own
stator import ~/old/sessions run.jsonl           files and folders in any known format
stator import codex --dry-run      show what would be imported; write nothing
stator import fix-login.stator     a bundle made by stator export
"""
STDIN = "-"
STDIN_MAX = 2**30
"""Maximum number of bytes that are read from stdin."""
STDIN_SNIFF = 64 * 1024


def import_(
    sources: SourcesArgument = None,
    *,
    everywhere: EverywhereFlag = False,
    since: ChangedSinceOption = None,
    into: IntoOption = None,
    again: bool = False,
    dry_run: DryRunFlag = False,
    erase: EraseFlag = False,
    yes: YesFlag = False,
    passphrase_file: PassphraseFileOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Import sessions from agents' transcripts or from bundles.

    The name of an agent imports its sessions of this project from the folder where the agent keeps them.
    Transcripts are only read. Importing again adds only what is new. A line that cannot be read is skipped and
    reported; the rest is imported. If you interrupt the import, complete turns are kept, and the next import
    continues. Exits with 1 if a whole conversation was refused.

    Each session goes into the project it took place in: its repository, with worktrees and clones, or its folder.
    If that is unknown, into one called after its agent.

    Every commit of a bundle (stator export) is checked against its hash before anything is imported; a bundle
    that is cut short, changed or malicious is refused as a whole. A session that this store already has is
    continued; if both copies have new commits, the imported one becomes a fork. Nothing is overwritten, and
    erased content stays erased. A bundle whose erasures would take content away that is here is refused,
    unless you give --erase: then it shows what would go, does it with --yes, and asks on a terminal.

    Parameters
    ----------
    again
        Do it again for what an earlier release did: make a corrected session of each one. It takes over the name and
        what was contributed; the old one is archived. Every other file is read from its beginning, unchanged or not.
    """
    from stator.importers.discover import merge
    from stator.importers.run import ImportRun

    refuse_both(dry_run=dry_run, yes=yes)
    floor = parse_since(since, now()) if since is not None else 0
    with ExitStack() as stack:
        screen = stack.enter_context(Screen(json=json, pager=not no_pager))
        wanted = [stack.enter_context(_copy_of_stdin()) if n == STDIN else n for n in sources or []]
        _check_sources(wanted)
        opened = stack.enter_context(_open(store, dry_run))
        with bar(screen) as progress:
            found = _find_sources(wanted, opened, everywhere, floor, progress)
        discovery = merge([one for _, one in found])
        target = _project(opened, into)
        options: dict[str, Any] = {"erasures": "apply" if erase else "refuse", "dry_run": dry_run}
        options["passphrase"] = functools.cache(lambda: _passphrase(passphrase_file))
        asks = erase and not (yes or dry_run)
        if asks and not _erasing_agreed(screen, opened, discovery.bundles, target or "", options):
            return OK
        if discovery.bundles and discovery.bundles == wanted[:1] and len(wanted) == 1:
            with bar(screen) as progress:
                report = opened.import_bundle(
                    wanted[0], project=target, progress=progress, **options
                )
            _answer_bundle(screen, report, erase=erase)
            return OK
        from stator.surfaces.cli.parts.interrupt import deferred_interrupt

        with bar(screen, of_bytes=True) as progress, deferred_interrupt() as stop:
            run: dict[str, Any] = {**options, "again": again, "progress": progress, "stop": stop}
            importing = ImportRun(opened, discovery, project=target or "", **run)
            failure = _run(importing)
        _answer(screen, found, importing, erase=erase)
        if discovery.candidates and not screen.json and not dry_run:
            screen.whole(_where(locate(store)))
        if failure is None and not dry_run and _only_agents(wanted):
            _remember(opened, screen)
        return _exit_code(importing, failure)


def _erasing_agreed(
    screen: Screen, opened: Store, bundles: list[str], project: str, options: dict[str, Any]
) -> bool:
    """Whether bundles may take away what they would take away here: shown first, and asked. Yes if that is nothing."""
    from stator.importers.discover import Discovery
    from stator.importers.run import ImportRun

    what = Discovery(bundles=bundles)
    preview = ImportRun(opened, what, project=project, **{**options, "dry_run": True})
    erasing = [report for report in preview.run().bundles if report.erased]
    for report in erasing:
        _answer_bundle(screen, report, erase=True)
    screen.flush()
    gone = [one for report in erasing for one in report.erased]
    return not gone or erasing_agreed(gone, json=screen.json)


def _where(place: StorePlace) -> Iterator[Line]:
    """The store that was written to; in a folder without one, how to make one."""
    yield Line("  store         ", "dim").add(f"{place.shown} ({place.why})", "dim")
    if place.why == USERS:
        hint = "for a store of this folder: stator init, then import again"
        yield Line("                → ", "dim").add(hint, "bold")


def _only_agents(wanted: list[str]) -> bool:
    """Whether only agents are named, or nothing is."""
    return not any(not registry.has(name) for name in wanted)


def _remember(store: Store, screen: Screen) -> None:
    """Record the notes that agents keep about this project."""
    from stator.runtime.ingest.extract import Extraction
    from stator.surfaces.cli.parts.agent_memories import add_memories

    done = Extraction()
    add_memories(store, done, dry_run=False)
    if done.found and not screen.json:
        screen.line(
            Line("  notes         ").add(count(len(done.found), "change") + " of agents' memories")
        )


def _open(store: str | None, dry_run: bool) -> Store:
    # A dry run creates no store. Without one, everything would be new, as in an empty store in memory.
    url = store if not dry_run or _store_exists(locate(store).url) else "memory:"
    opened = connect(url, create=not dry_run or url == "memory:")
    warn_if_foreign(opened)
    return opened


def _exit_code(importing: ImportRun, failure: StoreError | None) -> int:
    if failure is not None:
        raise failure
    result = importing.result
    if result.stopped:
        return INTERRUPTED
    return FINDING if result.refused or result.unread else OK


def _run(importing: ImportRun) -> StoreError | None:
    """Run the import. An error of the store ends it; it is returned, so that the report still prints."""
    try:
        importing.run()
    except StoreError as error:
        return error
    return None


# -- finding sources --------------------------------------------------------------------------------


def _check_sources(wanted: list[str]) -> None:
    """Refuse what is neither an agent nor a path, before a store is made."""
    for path in wanted:
        if registry.has(path):
            continue
        if path.startswith(
            "-"
        ):  # the parser must accept a lone hyphen, and so accepts options here too
            raise BadQuery(f"unknown option {path!r:.60}", hint="stator import --help")
        if not os.path.lexists(os.path.expanduser(path)):
            raise NotFound(
                f"no file, folder or agent {path!r:.200}", hint=", ".join(registry.MODULES)
            )


def _find_sources(
    wanted: list[str], store: Store, everywhere: bool, since: int, progress: ProgressCallback | None
) -> list[tuple[str, Discovery]]:
    """Find the transcripts of the named agents (of all, if none is named) and at the named paths. Those of agents are
    of this project, unless they are wanted from everywhere."""
    from stator.importers.discover import discover, existing_paths

    def seen(files: int) -> None:
        if progress is not None:
            progress(f"looking for transcripts: {count(files, 'file')}", 0, 0)

    def belongs(folder: str) -> bool:
        home = store.context.home_of(folder)
        return home is not None and home[0] == store.context.project

    agents = [name for name in wanted if registry.has(name)]
    paths = [name for name in wanted if name not in agents]
    home = Path(os.environ.get("HOME") or os.path.expanduser("~"))
    root = "" if everywhere else str(project_root())
    found: list[tuple[str, Discovery]] = []
    everything = [] if wanted else [*registry.load_all(), *registry.load_added()]
    for format in [registry.load(name) for name in agents] if wanted else everything:
        paths_of_agent = existing_paths(format, home, os.environ)
        if paths_of_agent or wanted:
            discovery = discover(
                paths_of_agent,
                formats=[format],
                about=root,
                belongs=belongs,
                since=since,
                seen=seen,
            )
            found.append((format.name, discovery))
    if paths:
        found.append(("", discover(paths, since=since, seen=seen)))
    return found


def _store_exists(url: str) -> bool:
    return "://" in url or os.path.lexists(url.removeprefix("sqlite:"))


@contextmanager
def _copy_of_stdin() -> Iterator[str]:
    """Copy stdin to a temporary file, if its format is known and it is not too large."""
    import tempfile

    from stator.importers.discover import detect_format

    if sys.stdin is None or sys.stdin.closed:
        raise InvalidInput(
            "stdin is closed", hint="pipe a transcript into the command, or name a file"
        )
    with tempfile.TemporaryDirectory(prefix="stator-import-") as folder:
        path = Path(folder, "stdin")
        with path.open("xb") as file:
            source = sys.stdin.buffer
            begin = source.read(STDIN_SNIFF)
            is_bundle = begin.startswith(BUNDLE)
            formats = [*registry.load_all(), *registry.load_added()]
            if not is_bundle and detect_format(path, begin, formats) is None:
                raise InvalidInput(
                    "stdin is not a transcript in a known format",
                    hint=", ".join(registry.MODULES),
                )
            left = STDIN_MAX
            while begin:
                left -= len(begin)
                if left < 0:
                    limit = size(STDIN_MAX)
                    raise InvalidInput(f"more than {limit} on stdin", hint="name a file instead")
                file.write(begin)
                begin = source.read(STDIN_SNIFF)
        yield str(path)


def _project(store: Store, given: str | None) -> str | None:
    """The id of a project, given its id or its folder."""
    if given is None or not (os.sep in given or given.startswith((".", "~"))):
        return given
    return project_id(Path(os.path.abspath(os.path.expanduser(given))), store.port)


def _passphrase(file: str | None) -> str:
    from stator.surfaces.cli.parts import passphrase

    if file is not None:
        return passphrase.from_file(file)
    return passphrase.from_terminal("passphrase of the bundle")


# -- the report ---------------------------------------------------------------------------------


def _answer(
    screen: Screen, found: list[tuple[str, Discovery]], importing: ImportRun, *, erase: bool
) -> None:
    from stator.surfaces.cli.render.reports import import_report

    if screen.json:
        agents = {name: len(discovery.candidates) for name, discovery in found if name}
        document = {**import_report.as_json(importing.result), "agents": agents}
        screen.document("stator.import/1", document)
        return
    if not found:
        note(f"found no agents on this machine; looked for {', '.join(registry.MODULES)}")
    import_report.show_found(screen, [(name, discovery) for name, discovery in found if name])
    for report in importing.result.bundles:
        show(screen, report, erase=erase)
    import_report.show(screen, importing.result)


def _answer_bundle(screen: Screen, report: Imported, *, erase: bool) -> None:
    if screen.json:
        screen.document("stator.import/1", as_json(report))
    else:
        show(screen, report, erase=erase)
