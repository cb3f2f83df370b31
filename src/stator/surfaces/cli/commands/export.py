"""`stator export`: writes sessions to one file that another store can import."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from stator.errors import BadQuery, Conflict
from stator.model.values.ids import short
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.progress import bar
from stator.surfaces.cli.render.record_line import count, size
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.runtime.bundles.transfer import Exported
    from stator.surfaces.cli.options import (
        AsOption,
        CwdOption,
        JsonFlag,
        NoPagerFlag,
        OutputOption,
        PassphraseFileOption,
        RedactOption,
        SessionsArgument,
        StoreOption,
    )

EXAMPLES = """
stator export fix-login            writes fix-login.stator, which stator import reads
stator export a b -o both.stator   two sessions in one file
stator export fix-login --tree     with all its forks and retries
stator export fix-login --passphrase             encrypted; asks for a passphrase
stator export fix-login --redact "Acme" --no-transcript
stator export fix-login --as claude-code         a transcript that Claude Code can resume
stator export fix-login --fixture tests/login.stator     a fixture that a test replays
"""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


def export(
    sessions: SessionsArgument = None,
    *,
    output: OutputOption = None,
    tree: bool = False,
    redact: RedactOption = None,
    no_transcript: bool = False,
    passphrase: bool = False,
    passphrase_file: PassphraseFileOption = None,
    fixture: str | None = None,
    force: bool = False,
    as_: AsOption = None,
    cwd: CwdOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Write sessions to one file that another store can import.

    The sessions it was forked from are included. Export only reads; a session that is being driven is exported
    as it is now. Secrets that the redaction rules find are left out, and so is content that contains a --redact
    text; the hash chain can still be verified, and readers of the bundle see what was left out.

    With --as, writes one session as a transcript for that agent: a new file in the folder where the agent looks
    for sessions. Every call in it has a result; the result of a call in doubt says that it is in doubt.

    Parameters
    ----------
    tree
        Include every fork and retry of the sessions. Children are always included.
    no_transcript
        Leave out prompts, answers, arguments and results; export only the state.
    passphrase
        Encrypt the file with a passphrase, which is asked for on the terminal.
    fixture
        Write this file, marked as a fixture for tests that replay it.
    force
        Do it even if the file exists: overwrite it.
    """
    if fixture is not None and output is not None:
        raise BadQuery("--fixture and --output both name the file to write", hint="use one of them")
    if as_ is not None:
        given = (tree, redact, no_transcript, passphrase, passphrase_file, fixture, force)
        if any(given) or len(sessions or ()) > 1:
            raise BadQuery(
                "--as writes one session unchanged", hint="it takes only --output, --cwd and --json"
            )
        return _rewrite(sessions, as_, output, cwd, store=store, json=json, pager=not no_pager)
    if cwd is not None:
        raise BadQuery(
            "--cwd only works with --as", hint="stator export NAME --as claude-code --cwd FOLDER"
        )
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        views = [opened.session(name) for name in sessions] if sessions else [opened.session()]
        target = fixture or output or _default(views[0].name, views[0].id)
        with bar(screen) as progress, _usage():
            made = opened.store.export(
                [view.id for view in views],
                target,
                tree=tree,
                redact=redact or (),
                transcript=not no_transcript,
                passphrase=_passphrase(passphrase, passphrase_file),
                fixture=fixture is not None,
                replace=force,
                progress=progress,
            )
        if json:
            screen.document("stator.export/1", as_json(made))
        else:
            _show(screen, made)
    return 0


@contextmanager
def _usage() -> Iterator[None]:
    """A file that is in the way is a mistake in the words, not another program at work."""
    try:
        yield
    except Conflict as error:
        raise BadQuery(error.what, hint=error.hint) from None


def _rewrite(
    sessions: list[str] | None,
    agent: str,
    output: str | None,
    cwd: str | None,
    *,
    store: str | None,
    json: bool,
    pager: bool,
) -> int:
    from stator.surfaces.cli.parts.output import write_transcript

    with open_to_read(store) as opened, Screen(json=json, pager=pager) as screen:
        view = opened.session(*(sessions or ()))
        made = write_transcript.rewrite(opened.store, view, agent, output=output, cwd=cwd)
        if json:
            screen.document("stator.transcript/1", to_builtins(made))
        else:
            write_transcript.show(screen, made)
    return 0


def _passphrase(asked: bool, file: str | None) -> str | None:
    from stator.surfaces.cli.parts import passphrase as passphrases

    if file is not None:
        return passphrases.from_file(file)
    return passphrases.from_terminal("passphrase for the bundle", twice=True) if asked else None


def _default(name: str, session: str) -> str:
    """The default file name: the session's name if it is a safe file name, else the end of its id."""
    return f"{name if _PLAIN.match(name) else short(session)}.stator"


def _show(screen: Screen, made: Exported) -> None:
    line = Line("✓ ", "ok").add(made.path, "bold")
    line.add(f" · {count(len(made.sessions), 'session')}, {count(made.commits, 'commit')}")
    screen.line(line.add(f", {size(made.bytes)} ({size(made.logical)} of content)", "dim"))
    for one in made.sessions:
        line = Line("  ").add(short(one.id), "id").add(f" {one.name} ")
        line.add(f"@{one.seq} {one.hash[:12]}", "dim")
        screen.line(line if one.whole else line.add(" · only the part that was forked", "dim"))
    if made.withheld:
        text = f"  left out {count(made.withheld, 'content field')}"
        screen.line(Line(text, "doubt").add(f", among them {count(made.secrets, 'secret')}"))
    if made.locked:
        screen.line(Line("  encrypted: it cannot be read without the passphrase", "dim"))


def as_json(made: Exported) -> dict[str, Any]:
    return {
        **{name: getattr(made, name) for name in made.__struct_fields__ if name != "sessions"},
        "sessions": [
            {
                "id": one.id,
                "name": one.name,
                "project": one.project,
                "seq": one.seq,
                "head": one.hash,
                "whole": one.whole,
            }
            for one in made.sessions
        ],
    }
