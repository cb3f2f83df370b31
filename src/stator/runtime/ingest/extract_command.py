"""Gives the prompts and answers of a session to a command of the user, and records the candidates that it proposes.

The command is named in the project's policy file (`extract = "CMD"`), and only a project of this user's own may name
one. Who runs it is the caller's business: it is given as a function.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import msgspec

from stator.errors import InvalidInput, WrongState
from stator.model.calls.approval import read_policy
from stator.model.extraction.proposals import Evidenced, SpokenText, proposed
from stator.model.log.commit import Commit
from stator.model.log.query import SessionRow
from stator.model.records.text import prompt_text
from stator.model.window.reply import text_of
from stator.runtime.base.context import Context
from stator.runtime.base.pages import commits
from stator.runtime.ingest.extract import Extraction, extracted
from stator.store.port import StorePort

TEXTS_MAX = 1_000_000
"""Characters of the texts that a command is given of one session: the newest."""
RULE = "command"
SCHEMA = "stator.extract-input/1"

RunCommand = Callable[[str, bytes], bytes]
"""Runs a command with that on its standard input; what it printed."""


def command_of(context: Context) -> str:
    """The command that the project's policy file names; none of a project that is not this user's own."""
    text = context.policy()
    if not text or not context.policy_is_own:
        return ""
    found = read_policy(text).get("extract", "")
    if not isinstance(found, str):
        raise InvalidInput("extract must be text", path="$.extract", hint='extract = "my-command"')
    return found.strip()


def propose(
    store: StorePort,
    rows: Iterable[SessionRow],
    command: str,
    run: RunCommand,
    done: Extraction,
    *,
    dry_run: bool = False,
) -> None:
    """Run the command for each session, and append the candidates that quote their evidence."""
    for row in rows:
        if row.record.mode == "project":
            continue
        given = _given(commits(store, row.id))
        if not given:
            continue
        asked = {
            "schema": SCHEMA,
            "session": row.id,
            "name": row.record.name,
            "texts": [msgspec.to_builtins(one.spoken) for one in given.values()],
        }
        said = run(command, json.dumps(asked).encode()).decode("utf-8", "replace")
        found = proposed(row.id, said.splitlines(), given)
        done.refused += found.refused
        new = [draft for draft in found.drafts if not store.locate(draft.id, row.id)]
        if not new:
            continue
        try:
            if not dry_run:
                store.append(row.id, new)
        except WrongState:
            done.closed[row.id] = done.closed.get(row.id, 0) + len(new)
            continue
        done.found += [extracted(draft, RULE, "added") for draft in new]


def _given(log: Iterable[Commit]) -> dict[str, Evidenced]:
    """The newest prompts and answers of a log, in order, as far as they fit."""
    found: list[Evidenced] = []
    for commit in log:
        text = _text(commit)
        if text.strip():
            source = commit.provenance.source
            spoken = SpokenText(commit=commit.id, source=source, turn=commit.turn, text=text)
            found.append(Evidenced(spoken, commit.happened or commit.at, commit.provenance))
    room, kept = TEXTS_MAX, []
    for one in reversed(found):
        room -= len(one.spoken.text)
        if room < 0:
            break
        kept.append(one)
    return {one.spoken.commit: one for one in reversed(kept)}


def _text(commit: Commit) -> str:
    if commit.kind == "turn":
        said = commit.known("input")
        return "" if said is None else prompt_text(said)
    said = commit.known("output") if commit.kind == "entry" else None
    return "" if said is None else text_of(said)
