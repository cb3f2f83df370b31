"""Tests that closing a session hides nothing: what hooks, transcripts and the proxy see is still recorded."""

from __future__ import annotations

import inspect
import json

import pytest

import stator
from importers.hook_lines import (
    after_tool,
    before_tool,
    conversation_lines,
    hook_input,
    prompt,
    session,
)
from importers.notebook_format import FORMAT, turn_lines, write_conversation
from stator.errors import WrongState
from stator.hooks import spool
from stator.importers.discover import discover
from stator.importers.run import import_transcripts
from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.items import Began, Called, Conversation, Ended, Prompted, Returned
from stator.runtime.base import project_flags
from stator.runtime.facade.contributor import Contributor
from stator.runtime.ingest import self_report
from stator.runtime.ingest.recorder import Recorder

LATER = 2**52
"""A time after every other."""


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "a.db", project="shop") as opened:
        yield opened


def discovery(path):
    return discover([str(path)], formats=[FORMAT])


@pytest.fixture
def recorder(store):
    """A conversation in the middle of a call, as its hooks report it."""
    found = Recorder(store.port, store.context, Conversation(source="cursor", id="c1"), via="hook")
    found.take(Began(id="start", at=5, how="startup"))
    found.take(Prompted(id="p1", at=10, content="pay the bill"))
    found.take(Called(id="t1", at=20, tool="pay", input={"amount": 5}))
    found.flush()
    return found


def after_close(store, name):
    """Kind and cause of each commit since the session was closed, without notes of readers."""
    log = list(store.read(name).log())
    closed = max(n for n, commit in enumerate(log) if commit.kind in ("close", "archive"))
    return [(commit.kind, commit.cause) for commit in log[closed + 1 :] if commit.kind != "scratch"]


# -- hooks ----------------------------------------------------------------------------------------


def test_hook_lines_of_a_closed_session_are_recorded(hooked):
    hooked.write(*conversation_lines())
    with stator.connect(hooked.path) as store:
        store.contribute(session(store).id).close()
    hooked.write(prompt(2), before_tool("t2", command="rm"), after_tool("t2"), hook_input("stop"))
    with stator.connect(hooked.path) as store:
        view = session(store)
        kinds = ["turn", "call", "outcome", "turn_end"]
        assert after_close(store, view.id) == [(kind, "after close") for kind in kinds]
        assert (view.status, view.entries("calls"), len(view.turns())) == ("closed", [], 2)
    assert spool.status_of(str(hooked.spool)).bad == 0


def test_hook_lines_of_a_closed_session_are_recorded_once_if_the_spool_is_read_again(hooked):
    hooked.write(*conversation_lines())
    with stator.connect(hooked.path) as store:
        store.contribute(session(store).id).close()
    for _ in range(2):
        hooked.write(prompt(2), before_tool("t2", command="rm"), after_tool("t2"))
        with stator.connect(hooked.path) as store:
            assert [kind for kind, _ in after_close(store, session(store).id)] == [
                "turn", "call", "outcome",
            ]  # fmt: skip


@pytest.mark.parametrize("end", ["close", "archive"])
def test_a_call_that_was_open_when_its_session_was_closed_gets_its_outcome(store, recorder, end):
    person = store.contribute(recorder.session)
    person.close()
    if end == "archive":
        person.archive()
    status = store.read(recorder.session).status
    recorder.take(Returned(id="t1", at=30, status="ok", output="paid"))
    recorder.flush(bookmark=Bookmark("hooks", 1, {"read": 7}))
    view = store.read(recorder.session)
    (call,) = view.calls()
    assert (call.status, view.entries("calls"), view.status) == ("ok", [], status)
    assert after_close(store, view.id) == [("outcome", "after close")]
    assert store.port.bookmark(view.id, "hooks").value == {"read": 7}


def test_a_call_without_a_result_is_in_doubt_also_after_close(store, recorder):
    store.contribute(recorder.session).close()
    recorder.take(Ended(id="end", at=40, reason="exit"))
    recorder.flush()
    view = store.read(recorder.session)
    assert [call.status for call in view.calls()] == ["in doubt"]
    assert view.status == "closed"
    assert after_close(store, view.id)[-1] == ("pause", "after close: user")


def test_a_session_closed_between_reading_and_writing_says_what_came_after(store, recorder):
    """The store decides which came first, not the reader."""
    recorder.take(Returned(id="t1", at=30, status="ok", output="paid"))
    recorder.open_calls()  # read before the close
    store.contribute(recorder.session).close()
    recorder.flush()
    assert after_close(store, recorder.session) == [("outcome", "after close")]


def test_an_agent_that_starts_again_resumes_a_closed_session(store, recorder):
    store.contribute(recorder.session).close()
    recorder.take(Began(id="again", at=LATER, how="resume"))
    recorder.take(Prompted(id="p2", at=LATER + 1, content="more"))
    recorder.flush()
    view = store.read(recorder.session)
    assert view.record.status == "active"
    assert [commit.cause for commit in view.log() if commit.kind == "turn"] == ["", ""]


def test_an_agent_that_starts_again_does_not_reopen_an_archived_session(store, recorder):
    person = store.contribute(recorder.session)
    person.close()
    person.archive()
    recorder.take(Began(id="again", at=LATER, how="resume"))
    recorder.take(Prompted(id="p2", at=LATER + 1, content="more"))
    recorder.flush()
    view = store.read(recorder.session)
    assert view.status == "archived"
    assert [commit.cause for commit in view.log() if commit.kind == "turn"] == ["", "after close"]


def test_a_start_from_before_the_close_that_is_read_late_resumes_nothing(store, recorder):
    store.contribute(recorder.session).close()
    recorder.take(Began(id="late", at=50, how="resume"))
    recorder.flush()
    assert store.read(recorder.session).status == "closed"
    assert ("run", "after close") in after_close(store, recorder.session)


# -- transcripts ----------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return write_conversation(tmp_path / "in" / "one.jsonl", *turn_lines(1), name="fix it")


def grow(path, *rows):
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("ends", [["close"], ["close", "archive"]])
def test_what_a_transcript_gained_after_close_is_imported(store, path, ends):
    (one,) = import_transcripts(store, discovery(path)).taken
    for end in ends:
        getattr(store.contribute(one.session), end)()
    status = store.read(one.session).status
    grow(path, *turn_lines(2))
    (foretold,) = import_transcripts(store, discovery(path), dry_run=True).taken
    (grown,) = import_transcripts(store, discovery(path)).taken
    (same,) = import_transcripts(store, discovery(path)).taken
    assert (foretold.fate, grown.fate, same.fate) == ("grown", "grown", "same")
    view = store.read(one.session)
    assert (view.status, len(view.turns())) == (status, 2)
    assert {cause for _, cause in after_close(store, one.session)} == {"after close"}


def test_a_transcript_that_is_read_again_from_its_beginning_adds_nothing_to_a_closed_session(
    store, path
):
    (one,) = import_transcripts(store, discovery(path)).taken
    store.contribute(one.session).close()
    path.write_text(path.read_text().replace('"fix it"', '"fix it now"'))  # read from its beginning
    (again,) = import_transcripts(store, discovery(path)).taken
    assert again.fate == "same"
    assert after_close(store, one.session) == []


def test_a_session_in_the_trash_is_left_alone_by_imports_and_kept_by_hooks(store, recorder):
    """A transcript can be imported again later; a hook's line cannot."""
    row = store.port.session(recorder.session)
    project_flags.put(store.port, store.context, row, project_flags.TRASH, by="ann", why="old")
    recorder.take(Returned(id="t1", at=30, status="ok", output="paid"))
    assert [commit.kind for commit in recorder.flush()] == ["outcome"]


# -- who may not ----------------------------------------------------------------------------------


def test_a_contributor_writes_nothing_to_a_closed_recorded_session(store, recorder):
    person = store.contribute(recorder.session)
    person.close()
    head = store.read(recorder.session).head
    for write in (
        lambda: person.fact("a", 1),
        lambda: person.decide("b"),
        lambda: person.file("c.py", "modified"),
    ):
        with pytest.raises(WrongState, match="is closed"):
            write()
    assert store.read(recorder.session).head == head


def test_no_public_method_of_a_contributor_takes_an_origin():
    for name, method in inspect.getmembers(Contributor, inspect.isfunction):
        if not name.startswith("_"):
            taken = inspect.signature(method).parameters.values()
            kinds = {parameter.kind for parameter in taken}
            assert "origin" not in {parameter.name for parameter in taken}
            assert inspect.Parameter.VAR_KEYWORD not in kinds, name


def test_an_agent_that_reports_over_mcp_writes_nothing_to_a_session_it_closed(store):
    row, _ = self_report.begin(store.port, store.context, agent="a", name="mine", purpose="work")
    self_report.close(store.port, store.context, row.id)
    reporter = self_report.Reporter(store.port, store.context, row.id, source="mcp", key="k")
    reporter.fact("a", 1)
    with pytest.raises(WrongState, match="is closed"):
        reporter.send()
