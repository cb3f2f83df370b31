"""Writes a session as another agent's transcript. Always a new file: an existing one is never overwritten."""

from __future__ import annotations

import json
import os
import secrets
import shlex
from pathlib import Path

import msgspec

from stator.errors import BadQuery, InvalidInput
from stator.model.log.redact import Redactor
from stator.model.records.types import CallRecord
from stator.model.values.ids import short
from stator.runtime.base.pages import commit_at, commits
from stator.runtime.facade.store import Store
from stator.runtime.facade.view import SessionView
from stator.runtime.window.transcript import Rendering
from stator.surfaces.cli.parts.output.new_file import write_new
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen

AGENTS = ("claude-code",)


class WrittenTranscript(msgspec.Struct, frozen=True, kw_only=True):
    """A transcript that was written."""

    path: str
    agent: str
    of: str
    """The session it was written from; then its name and the position in its log."""
    name: str
    seq: int
    session: str
    """The id of the new session in the agent."""
    messages: int
    in_doubt: int
    """Calls whose result says that they are in doubt."""
    cwd: str
    command: str
    """The command that resumes it."""


def rewrite(
    store: Store, view: SessionView, agent: str, *, output: str | None, cwd: str | None
) -> WrittenTranscript:
    """Write a session as a transcript that an agent can resume."""
    from stator.importers.claude_code import export as claude

    if agent not in AGENTS:
        raise BadQuery(f"--as: unknown agent {agent!r:.40}", hint=", ".join(AGENTS))
    folder = os.path.realpath(cwd or os.getcwd())
    if cwd is not None and not os.path.isdir(folder):
        raise BadQuery(
            f"--cwd: {folder!r:.200} is not a folder", hint="name the folder the agent will work in"
        )
    messages = Rendering(store.port, view.id).current().render("anthropic", marks=False)
    if not messages:
        raise InvalidInput(
            f"session {view.name!r:.80} has no messages to export",
            session=view.id,
            path="$.session",
        )
    head = store.port.head(view.id).seq
    labels = view.record.labels
    about = claude.ExportSource(
        session=view.id,
        seq=head,
        cwd=folder,
        at=commit_at(store.port, view.id, head, load=False).at,
        model=_model(store, view.id),
        version=labels.get("version", ""),
        branch=labels.get("branch", ""),
    )
    path = (
        Path(output)
        if output
        else _transcript_folder(claude.folder_of(folder)) / f"{about.id}.jsonl"
    )
    redactor = Redactor(secrets.token_bytes(32))  # the store may hold secrets: see `redact=False`
    said = [redactor.scrub_json(line) for line in claude.lines(about, messages)]
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lines = (json.dumps(line) + "\n" for line in said)
    write_new(
        path,
        lines,
        hint="the same session and head give the same file; choose another with -o FILE",
    )
    return WrittenTranscript(
        path=str(path),
        agent=agent,
        of=view.id,
        name=view.name,
        seq=head,
        session=about.id,
        messages=len(messages),
        in_doubt=sum(
            isinstance(entry.record, CallRecord) and entry.record.status == "in doubt"
            for entry in view.entries("calls")
        ),
        cwd=folder,
        command=_resume_command(path, about.id, folder if output else ""),
    )


def show(screen: Screen, made: WrittenTranscript) -> None:
    """Show what was written and the command that resumes it, uncut so that it can be copied."""
    line = Line("✓ ", "ok").add(f"{count(made.messages, 'message')} of {made.name} ")
    screen.line(line.add(short(made.of), "id").add(f" @{made.seq}", "dim"))
    if made.in_doubt:
        text = f"  {count(made.in_doubt, 'call')} in doubt; the transcript says so in the result"
        screen.line(Line(text, "doubt"))
    resume = f"  cd {shlex.quote(made.cwd)} && {made.command}"
    screen.whole([Line(f"  {made.path}", "bold"), Line(resume, "dim")])


def _model(store: Store, session: str) -> str:
    """The model that answered last."""
    found = ""
    for commit in commits(store.port, session, load=False):
        if commit.kind == "entry" and commit.actor == "model" and commit.tool:
            found = commit.tool
    return found


def _resume_command(path: Path, session: str, folder: str) -> str:
    """The command that resumes it; with `folder`, it first copies the file to where the agent looks."""
    from stator.importers.claude_code import export as claude

    resume = f"claude --resume {session}"
    if not folder or len(folder) > claude.FOLDER_MAX:
        return resume
    wanted = _transcript_folder(claude.folder_of(folder)) / f"{session}.jsonl"
    if os.path.abspath(path) == os.path.abspath(wanted):
        return resume
    source, place = (shlex.quote(os.path.abspath(one)) for one in (path, wanted))
    return f"mkdir -p {shlex.quote(str(wanted.parent))} && cp {source} {place} && {resume}"


def _transcript_folder(folder: str) -> Path:
    """Where Claude Code keeps the sessions of a folder."""
    base = os.environ.get("CLAUDE_CONFIG_DIR", "")
    return (Path(base) if base else Path.home() / ".claude") / "projects" / folder
