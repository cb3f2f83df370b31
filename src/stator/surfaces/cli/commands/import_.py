"""`stator import`: take in what agents did, from their own transcripts or from bundles."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stator.connect import connect, locate, now, project_id, project_root
from stator.errors import BadQuery, InvalidInput, NotFound, StoreError
from stator.importers import registry
from stator.model.exchange.bundle import MAGIC as BUNDLE
from stator.model.values.ids import short
from stator.surfaces.cli.exits import FINDING, INTERRUPTED, OK
from stator.surfaces.cli.render.lines import Line, widest
from stator.surfaces.cli.render.progress import Moved, bar
from stator.surfaces.cli.render.record_line import count, size
from stator.surfaces.cli.render.screen import Screen, note
from stator.surfaces.cli.render.times import parse_since

if TYPE_CHECKING:
    from stator.importers.discover import Sight
    from stator.importers.run import Bringing
    from stator.runtime.bundles.transfer import Imported, ImportedSession
    from stator.surfaces.cli.options import (
        ChangedSinceOption,
        EveryProjectFlag,
        IntoProjectOption,
        JsonFlag,
        NoPagerFlag,
        PassphraseFileOption,
        SourcesArgument,
        StoreOption,
    )

EXAMPLES = """
stator import                      what every agent on this machine did in this project
stator import claude-code --all --since 30d      in every project, each into its own
stator import ~/old/sessions run.jsonl           files and folders, whatever format they are in
stator import codex --dry-run      say what would come in; write nothing
stator import fix-login.stator     a bundle; then: stator show fix-login, or run the agent again
"""
STDIN = "-"
STDIN_MAX = 2**30
"""Bytes that are taken from stdin."""
STDIN_SNIFF = 64 * 1024
_FATES = {
    "new": ("ok", ""),
    "fast-forward": ("ok", "continued"),
    "fork": ("doubt", "both went on: the other one is a fork"),
    "same": ("dim", "is here already"),
    "longer here": ("dim", "is here already, and went on"),
}


def import_(
    sources: SourcesArgument = None,
    *,
    all: EveryProjectFlag = False,
    since: ChangedSinceOption = None,
    project: IntoProjectOption = None,
    dry_run: bool = False,
    passphrase_file: PassphraseFileOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Take in what agents did, from their own transcripts or from bundles.

    An agent's name means its sessions of this project, found where it keeps them. Transcripts are only read; what
    was imported before is not imported twice, and one that grew brings what is new. A line that cannot be read is
    passed over and named, the rest comes in. Interrupted, it leaves whole turns; run again, it goes on. Exits with
    1 if a whole conversation was refused.

    Of a bundle (stator export), every commit is held against its hash before anything is seen of it; one that is
    cut short, changed or hostile is refused whole. A session that is here already is continued, or left as it is;
    where both went on, the other one comes in as a fork. Nothing is overwritten, and what was erased stays erased.

    Parameters
    ----------
    dry_run
        Read everything and say what would happen; write nothing.
    """
    from stator.importers.discover import together
    from stator.importers.run import Bringing

    floor = parse_since(since, now()) if since is not None else 0
    with ExitStack() as stack:
        screen = stack.enter_context(Screen(json=json, pager=not no_pager))
        wanted = [stack.enter_context(_piped()) if n == STDIN else n for n in sources or []]
        with bar(screen) as progress:
            found = _look(wanted, "" if all else str(project_root()), floor, progress)
        sight = together([one for _, one in found])
        # Nothing is made by a dry run: where no store is, everything would be new.
        url = store if not dry_run or _is_there(locate(store).url) else "memory:"
        opened = stack.enter_context(connect(url, create=not dry_run or url == "memory:"))
        into = _project(project)
        if sight.bundles and sight.bundles == wanted[:1] and len(wanted) == 1:
            with bar(screen) as progress:
                report = opened.import_bundle(
                    wanted[0],
                    project=into,
                    passphrase=lambda: _passphrase(passphrase_file),
                    dry_run=dry_run,
                    progress=progress,
                )
            _answer_bundle(screen, report)
            return OK
        from stator.surfaces.cli.parts.interrupt import stopping

        with bar(screen, of_bytes=True) as progress, stopping() as stop:
            bringing = Bringing(
                opened,
                sight,
                project=into or "",
                home_of=_home_of,
                spread=all,
                passphrase=lambda: _passphrase(passphrase_file),
                dry_run=dry_run,
                progress=progress,
                stop=stop,
            )
            failure = _run(bringing)
        _answer(screen, found, bringing)
        if failure is not None:
            raise failure
        brought = bringing.brought
        if brought.stopped:
            return INTERRUPTED
        return FINDING if brought.refused or brought.unread else OK


def _run(bringing: Bringing) -> StoreError | None:
    """Bring it in; what the store could not take ends it, and what is in is said all the same."""
    try:
        bringing.run()
    except StoreError as error:
        return error
    return None


# -- what is meant --------------------------------------------------------------------------------


def _look(
    wanted: list[str], root: str, since: int, progress: Moved | None
) -> list[tuple[str, Sight]]:
    """What there is of each agent that is named (of all, if nothing is), and at the paths that are."""
    from stator.importers.discover import kept_by, look

    def seen(files: int) -> None:
        if progress is not None:
            progress(f"looking: {count(files, 'file')}", 0, 0)

    agents = [name for name in wanted if name in registry.MODULES]
    paths = [name for name in wanted if name not in registry.MODULES]
    for path in paths:
        if path.startswith("-"):  # the parser lets a lone hyphen pass, and with it the others
            raise BadQuery(f"unknown option {path!r:.60}", hint="stator import --help")
        if not os.path.lexists(os.path.expanduser(path)):
            raise NotFound(
                f"no file, folder or agent {path!r:.200}", hint=", ".join(registry.MODULES)
            )
    home = Path(os.environ.get("HOME") or os.path.expanduser("~"))
    found: list[tuple[str, Sight]] = []
    for form in [registry.load(name) for name in agents] if wanted else registry.every():
        places = kept_by(form, home, os.environ)
        if places or wanted:
            sight = look(places, formats=[form], about=root, since=since, seen=seen)
            found.append((form.name, sight))
    if paths:
        found.append(("", look(paths, since=since, seen=seen)))
    return found


def _home_of(cwd: str) -> tuple[str, str]:
    """The project a folder is in, if the folder is here; else it is one by itself."""
    if not os.path.isdir(cwd):
        return cwd, cwd
    root = project_root(Path(cwd))
    return project_id(root), str(root)


def _is_there(url: str) -> bool:
    return "://" in url or os.path.lexists(url.removeprefix("sqlite:"))


@contextmanager
def _piped() -> Iterator[str]:
    """A file with what comes on stdin: of a known format, and not without end."""
    import tempfile

    from stator.importers.discover import form_of

    if sys.stdin is None or sys.stdin.closed:
        raise InvalidInput("stdin is closed", hint="pipe a transcript into it, or name a file")
    with tempfile.TemporaryDirectory(prefix="stator-import-") as folder:
        path = Path(folder, "stdin")
        with path.open("xb") as file:
            source = sys.stdin.buffer
            begin = source.read(STDIN_SNIFF)
            is_bundle = begin.startswith(BUNDLE)
            if not is_bundle and form_of(path, begin, registry.every()) is None:
                raise InvalidInput(
                    "what came on stdin is not a transcript of any format that is known",
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


def _project(given: str | None) -> str | None:
    """What a project is called, given its folder or just that."""
    if given is None or not (os.sep in given or given.startswith((".", "~"))):
        return given
    return project_id(Path(os.path.abspath(os.path.expanduser(given))))


def _passphrase(file: str | None) -> str:
    from stator.surfaces.cli.parts import passphrase

    if file is not None:
        return passphrase.from_file(file)
    return passphrase.asked("passphrase of the bundle")


# -- what is said ---------------------------------------------------------------------------------


def _answer(screen: Screen, found: list[tuple[str, Sight]], bringing: Bringing) -> None:
    from stator.surfaces.cli.render import import_report

    if screen.json:
        agents = {name: len(sight.told) for name, sight in found if name}
        document = {**import_report.plain(bringing.brought), "agents": agents}
        screen.document("stator.import/1", document)
        return
    if not found:
        note(f"no agent keeps sessions here; looked for {', '.join(registry.MODULES)}")
    import_report.show_found(screen, [(name, sight) for name, sight in found if name])
    for report in bringing.brought.bundles:
        _show(screen, report)
    import_report.show(screen, bringing.brought)


def _answer_bundle(screen: Screen, report: Imported) -> None:
    if screen.json:
        screen.document("stator.import/1", plain(report))
    else:
        _show(screen, report)


def _show(screen: Screen, report: Imported) -> None:
    does = "would take" if report.dry_run else "took"
    line = Line("✓ ", "ok").add("every hash checked", "bold")
    line.add(f" · {does} {count(report.commits, 'commit')} from {report.path}", "dim")
    screen.line(line.add(f" ({size(report.bytes)})", "dim"))
    width = max(widest((one.name for one in report.sessions), 40), 1)
    for one in report.sessions:
        screen.lines(_lines(one, width))
    if report.withheld:
        text = f"  {count(report.withheld, 'piece')} of content left out by whoever exported it"
        screen.line(Line(text, "doubt"))


def _lines(one: ImportedSession, width: int) -> list[Line]:
    style, said = _FATES[one.fate]
    line = Line("  ").add(one.fate, style, width=14).add(one.name, "bold", width=width).add("  ")
    line.add(short(one.into), "id").add(f" {count(one.commits, 'commit')}")
    line.add(f" · @{one.seq} {one.head[:12]}", "dim").add(f" · {said}" if said else "", "dim")
    lines = [line]
    if one.moved and one.commits:
        project = one.project or "(none)"
        lines.append(Line(f"{'':16}project {one.moved} is {project} here", "dim"))
    return lines


def plain(report: Imported) -> dict[str, Any]:
    return {
        **{name: getattr(report, name) for name in report.__struct_fields__ if name != "sessions"},
        "sessions": [
            {name: getattr(one, name) for name in one.__struct_fields__} for one in report.sessions
        ],
    }
