"""Tests that a file which was cut at any place when first imported yields the same session in the
end."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stator
from importers.growing_files import import_one, model_output, outcomes, usage_of
from importers.import_helpers import DATA, conversations_in, prompts_of, view
from stator.importers.conversation import Report, import_conversation
from stator.importers.registry import load

CODEX = DATA / "codex"
FILES = {
    "codex": next(CODEX.glob("rollout-2026-10-01T09*")),
    "codex 2025": next(CODEX.glob("rollout-2025-09*")),
    "gemini": next((DATA / "gemini/garden/chats").glob("session-*.jsonl")),
}


@cache
def whole(name):
    with stator.connect("memory:", project="garden") as store:
        return summary_of(import_one(store, FILES[name], name.split()[0])[1])


def summary_of(shown):
    return prompts_of(shown), model_output(shown), outcomes(shown), usage_of(shown)


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=8, deadline=None)
@given(st.lists(st.floats(0.05, 0.99), max_size=4))
def test_the_session_is_the_same_for_every_cut_of_the_file(name, places):
    data, form = FILES[name].read_bytes(), load(name.split()[0])
    with TemporaryDirectory() as folder, stator.connect("memory:", project="garden") as store:
        path = Path(folder) / FILES[name].name
        for place in [*sorted(places), 1.0]:
            path.write_bytes(data[: int(len(data) * place)])
            for found in form.conversations(path):
                import_conversation(
                    store.port, store.context, form, found, Report(), at_rest=place == 1.0
                )
        assert summary_of(view(store, conversations_in(path, form.name)[0])) == whole(name)
