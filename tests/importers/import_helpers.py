"""Imports a file in a test, and reads what the store contains afterwards."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from msgspec.structs import replace

from stator.importers import conversation
from stator.importers.reading.found_conversation import FoundConversation
from stator.importers.reading.jsonl import read_beginning
from stator.importers.registry import MODULES, load
from stator.runtime.facade.view import SessionView
from stator.runtime.window.transcript import Rendering

DATA = Path(__file__).parent / "data"
RECORDINGS = Path(os.environ.get("STATOR_TRANSCRIPTS") or "/nonexistent")
needs_recordings = pytest.mark.skipif(
    not RECORDINGS.is_dir(), reason="set STATOR_TRANSCRIPTS to a folder of recorded sessions"
)


FORMAT_NAMES = tuple(
    name for name, module in MODULES.items() if find_spec(f"stator.importers.{module}") is not None
)


def detected_format(path, names=FORMAT_NAMES):
    """The name of the format that recognizes a file; "" if none does."""
    begin = read_beginning(str(path))
    return next((name for name in names if load(name).recognizes(Path(path), begin)), "")


def conversations_in(path, name) -> list[FoundConversation]:
    return list(load(name).conversations(Path(path)))


def import_file(store, path, name, at_rest=None) -> conversation.Report:
    """Import every conversation in a file; `at_rest` says whether it may continue at any moment."""
    report = conversation.Report()
    for found in conversations_in(path, name):
        here = context_of(store, found.conversation)
        conversation.import_conversation(
            store.port, here, load(name), found, report, at_rest=at_rest
        )
    return report


def context_of(store, talk):
    """The context of a store in a project whose folder is the one that the agent worked in."""
    return replace(store.context, root=talk.cwd or store.context.root)


def view(store, found) -> SessionView:
    talk = getattr(found, "conversation", found)
    return SessionView(store.port, talk.session)


def views(store, path, name):
    return [view(store, found) for found in conversations_in(path, name)]


def kinds(shown):
    """What was recorded of the conversation, without our own notes about it."""
    own = ("scratch", "settings", "describe")
    return [commit.kind for commit in shown.log() if commit.kind not in own]


def prompts_of(shown):
    return [commit.value("input") for commit in shown.log() if commit.kind == "turn"]


def rendered(store, shown, dialect="anthropic"):
    return Rendering(store.port, shown.id).current().render(dialect)


def totals(report):
    return {"turns": report.turns, "calls": report.calls}


def plan(shown):
    steps = sorted((entry.record for entry in shown.entries("plan")), key=lambda step: step.order)
    return [(step.step, step.status) for step in steps]


def sessions(store):
    return len(store.sessions().rows)
