"""Importing a file in a test: from a path to a report, and to what the store holds of it then."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from stator.importers import conversation
from stator.importers.format import Found
from stator.importers.reading.jsonl import beginning
from stator.importers.registry import MODULES, load
from stator.runtime.facade.view import SessionView
from stator.runtime.window.transcript import Rendering

DATA = Path(__file__).parent / "data"
REAL = Path(os.environ.get("STATOR_TRANSCRIPTS") or "/nonexistent")
real = pytest.mark.skipif(
    not REAL.is_dir(), reason="set STATOR_TRANSCRIPTS to a folder of recorded sessions"
)


HERE = tuple(
    name for name, module in MODULES.items() if find_spec(f"stator.importers.{module}") is not None
)


def kind_of(path, names=HERE):
    """The format a file is of, as detection tells it; "" where it is of none of those."""
    begin = beginning(str(path))
    return next((name for name in names if load(name).is_one(Path(path), begin)), "")


def found_in(path, name) -> list[Found]:
    return list(load(name).conversations(Path(path)))


def taken(store, path, name) -> conversation.Report:
    """Import all that a file holds."""
    report = conversation.Report()
    for found in found_in(path, name):
        conversation.take(store.port, store.context, load(name), found, report)
    return report


def view(store, found) -> SessionView:
    talk = getattr(found, "conversation", found)
    return SessionView(store.port, talk.session)


def views(store, path, name):
    return [view(store, found) for found in found_in(path, name)]


def kinds(shown):
    return [commit.kind for commit in shown.log()]


def asked(shown):
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
