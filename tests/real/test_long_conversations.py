"""Long conversations with the real agents: what hooks record is what the transcript tells.

Run on demand (`make real`), as the other tests here.
"""

from __future__ import annotations

import pytest

import stator
from real.long_conversation import NAMES, WatchedConversation, imported, landed, record_of
from real.programs import PROGRAMS
from real.switching import switch_on

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("name", "ingester"), [*((name, True) for name in PROGRAMS), ("codex", False)]
)
def test_a_long_conversation_has_one_record(begin, tmp_path, name, ingester):
    agent, script = begin(name)
    switch_on(agent)
    conversation = WatchedConversation(agent, script, ingester=ingester)
    conversation.hold()
    with (
        stator.connect(agent.work / ".stator" / "store.db") as hooked,
        imported(agent, tmp_path / "fresh.db") as fresh,
    ):
        by_hooks, by_import = record_of(hooked, name), record_of(fresh, name)
        only_hooks_told = landed(hooked)
    assert max(len(rows) for rows in by_import.values()) > 3 * len(NAMES)
    assert {session for session, rows in by_hooks.items() if rows} == set(by_import)
    for session, rows in by_import.items():
        assert by_hooks[session] == rows
    # Gemini CLI writes a call to its chat only when it is over: the one it was killed in is not there.
    assert only_hooks_told == (["call"] if name == "gemini" else [])
    assert conversation.changed == []
    assert conversation.silent == []
