"""Tests that a read-only reader sees the spool as if it were ingested."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stator
from importers.hook_lines import (
    HookedStore,
    after_tool,
    before_tool,
    conversation_lines,
    hook_input,
    kinds,
    prompt,
    session,
)
from stator.errors import StoreReadOnly
from stator.hooks import spool
from stator.model.log.query import CallQuery, SessionQuery
from stator.surfaces import hook

LINES = st.lists(
    st.builds(
        lambda make, name: make(name),
        st.sampled_from(
            [
                lambda t: hook_input("sessionStart", t),
                lambda t: hook_input("sessionEnd", t),
                lambda t: hook_input("stop", t),
                lambda t: hook_input("preCompact", t),
                lambda t: hook_input("afterFileEdit", t, file_path="src/a.py"),
                *(lambda t, n=n: prompt(n, t) for n in (1, 2, 3)),
                *(lambda t, n=n: before_tool(f"{t}-{n}", t) for n in (1, 2, 3)),
                *(lambda t, n=n: after_tool(f"{t}-{n}", t) for n in (1, 2, 3)),
            ]
        ),
        st.sampled_from(["c1", "c2", "c3"]),
    ),
    max_size=12,
)


def answers(store: Any) -> dict[str, Any]:
    """Everything a store answers, without values that differ each time it is written."""
    port = store.port
    rows = {row.id: row for row in port.sessions(SessionQuery()).rows}
    return {
        "sessions": {id: (row.record.status, row.turns, row.head) for id, row in rows.items()},
        "logs": {id: [(c.kind, c.status, c.origin, c.turn) for c in port.commits(id)] for id in rows},
        "calls": {(r.call, r.status) for r in port.calls(CallQuery()).rows},
        "turns": {id: [(r.turn, r.first, r.last, r.status) for r in port.turns(id)] for id in rows},
        "files": {id: [e.record for e in port.entries(id, "files")] for id in rows},
        "touches": {(t.session, t.seq) for t in port.touches("files", "src/a.py")},
        "counts": {id: port.counts(id).live for id in rows},
        "heads": {id: (port.head(id).seq, port.head(id).turn_open) for id in rows},
    }  # fmt: skip


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(before=LINES, after=LINES)
def test_a_reader_sees_the_same_as_after_ingest(tmp_path_factory, before, after):
    hooked = HookedStore(tmp_path_factory.mktemp("laid"))
    hooked.write(*before)
    stator.connect(hooked.path).close()
    hooked.write(*after)
    with stator.connect(hooked.path, read_only=True) as store:
        seen = answers(store)
    with stator.connect(hooked.path) as store:
        assert answers(store) == seen


def test_a_reader_changes_no_files(hooked):
    hooked.write(*conversation_lines())
    before = hooked.lines()
    with stator.connect(hooked.path, read_only=True) as store:
        assert kinds(store)[-1] == "pause"
    assert hooked.lines() == before
    assert [file.name for file in hooked.spool.iterdir()] == ["current"]


def test_an_overlay_cannot_be_written(hooked):
    hooked.write(*conversation_lines())
    with stator.connect(hooked.path, read_only=True) as store, pytest.raises(StoreReadOnly):
        store.contribute(session(store).id).close()


def test_pages_list_overlaid_sessions_before_stored_ones(hooked):
    hooked.write(*(line for n in range(6) for line in conversation_lines(f"c{n}")))
    stator.connect(hooked.path).close()
    hooked.write(prompt(2, "c0"), prompt(2, "c3"), prompt(1, "new"))
    with stator.connect(hooked.path, read_only=True) as store:
        new = {session(store, name).id for name in ("c0", "c3", "new")}
        whole = [row.id for row in store.port.sessions(SessionQuery()).rows]
        paged: list[str] = []
        cursor = None
        while True:
            page = store.port.sessions(SessionQuery(), cursor=cursor, limit=2)
            paged += [row.id for row in page.rows]
            cursor = page.cursor
            if cursor is None:
                break
    assert paged == whole
    assert len(set(whole)) == 7
    assert set(whole[:3]) == new


def pages(port: Any, limit: int) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = port.sessions(SessionQuery(), cursor=cursor, limit=limit)
        found += [row.id for row in page.rows]
        cursor = page.cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
def test_an_old_spooled_session_is_not_listed_as_the_newest(hooked, monkeypatch, limit):
    """Otherwise a reader that asks for the latest session gets another one than after ingest."""
    clock = iter(range(10**18, 2 * 10**18, 10**9))
    names = ["c0", "a", "b", "c1", "b", "c2", "c3"]
    with monkeypatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: next(clock))
        late = []
        for name in names:
            line = hook.line_of("cursor", str(hooked.root), json.dumps(prompt(1, name)).encode())
            late.append((name, line))
    hooked.spool.mkdir(mode=0o700)
    for wanted in ("c", ("a", "b")):
        (hooked.spool / "current").write_bytes(
            b"".join(line for name, line in late if name.startswith(wanted))
        )
        if wanted == "c":
            stator.connect(hooked.path).close()
    with stator.connect(hooked.path, read_only=True) as store:
        seen = pages(store.port, limit)
    with stator.connect(hooked.path) as store:
        assert pages(store.port, 100) == seen
        assert session(store, "c3").id == seen[0]


def test_a_cut_line_at_the_end_of_the_spool_is_ignored(hooked):
    hooked.write(*conversation_lines())
    with open(hooked.spool / "current", "ab") as file:
        file.write(b"stator1 0000")
    with stator.connect(hooked.path, read_only=True) as store:
        assert kinds(store)[-1] == "pause"
    assert spool.status_of(str(hooked.spool)).torn == 1
