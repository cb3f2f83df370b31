"""`stator tail` follows all sessions, and its outlets give out every commit at least once."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import stator
from stator.errors import BadQuery, Busy, OutletFailed
from stator.model.outlets import genai_names as names
from stator.model.outlets.spans import OtlpSpan, SessionLabel, TurnSpans
from stator.surfaces.outlets import otlp_http
from stator.surfaces.outlets.json_lines import JsonLines
from stator.surfaces.outlets.kept_cursor import KeptCursor
from stator.surfaces.outlets.otlp_http import OtlpHttp
from surfaces.otlp_receiver import Receiver, attribute
from waiting import eventually, is_readable

STATOR = Path(sys.executable).parent / "stator"


def everything(path):
    with stator.connect(path, read_only=True) as store:
        return [(c.session, c.seq) for c in store.tail("", follow=False)]


def lines_of(path):
    """The lines of a file; not one that is still being written."""
    return [json.loads(line) for line in Path(path).read_text().rpartition("\n")[0].splitlines()]


def places(found):
    return [(one["session"], one["seq"]) for one in found]


def size_of(path):
    return path.stat().st_size if path.exists() else 0


def ended_or_grown(process, path, size):
    return process.poll() is not None or size_of(path) > size


# -- on the screen --------------------------------------------------------------------------------


def test_once_prints_every_commit_under_the_name_of_its_session(store, ask):
    answer = ask("tail", "--once")
    assert answer.code == 0
    assert answer.lines[0].startswith("fix-login ")
    assert sum(line.startswith(("@", "──")) for line in answer.lines) == len(everything(store))


def test_with_json_each_line_is_a_commit_as_log_prints_it(store, ask):
    found = [json.loads(line) for line in ask("tail", "--once", "--json").lines]
    shown = [json.loads(line) for line in ask("log", "--json", "--full", "--reverse").lines]
    assert found == shown


def test_sessions_of_other_projects_are_shown_on_request(store, ask):
    with stator.connect(store) as opened, opened.open("there", project="elsewhere"):
        pass
    assert "there " not in ask("tail", "--once").out
    assert "there " in ask("tail", "--once", "--all").out


@pytest.mark.parametrize(
    "words",
    [
        ["--to", "x", "--otlp", "http://127.0.0.1:1"],
        ["--name", "x"],
        ["--content"],
        ["--to", "x", "--content"],
        ["--otlp", "ftp://127.0.0.1"],
        ["--otlp", "http://me:hunter2@127.0.0.1"],
        ["--otlp", "http://127.0.0.1:notaport"],
        ["--otlp", "http://a..b/"],
        ["--otlp", "http://exa mple"],
        ["--otlp", "http://127.0.0.1/a b"],
        ["--otlp", "http://127.0.0.1/ä"],
        ["--to", "x.jsonl", "--name", "../../x"],
    ],
)
def test_arguments_that_make_no_sense_are_refused(store, ask, words):
    answer = ask("tail", "--once", *words)
    assert answer.code == 2
    assert answer.err.startswith("stator: ")
    assert "hunter2" not in answer.err


# -- JSON Lines -----------------------------------------------------------------------------------


def test_a_file_gets_every_commit_and_the_next_run_only_what_is_new(store, ask, tmp_path):
    path = str(tmp_path / "events.jsonl")
    assert ask("tail", "--to", path, "--once").code == 0
    assert places(lines_of(path)) == everything(store)
    assert ask("tail", "--to", path, "--once").code == 0
    assert len(lines_of(path)) == len(everything(store))
    with stator.connect(store) as opened:
        opened.contribute("fix-login").flag("look")
    ask("tail", "--to", path, "--once")
    assert places(lines_of(path)) == everything(store)
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_line_that_was_cut_off_is_written_again_whole(store, ask, tmp_path):
    path = tmp_path / "events.jsonl"
    ask("tail", "--to", str(path), "--once")
    with path.open("a") as file:
        file.write('{"id": "k_')
    with stator.connect(store) as opened:
        opened.contribute("fix-login").flag("look")
    ask("tail", "--to", str(path), "--once")
    assert places(lines_of(path)) == everything(store)


def test_an_outlet_can_begin_with_what_is_new(store, ask, tmp_path):
    path = str(tmp_path / "events.jsonl")
    ask("tail", "--to", path, "--once", "--new")
    assert lines_of(path) == []
    with stator.connect(store) as opened:
        opened.contribute("fix-login").flag("look")
    ask("tail", "--to", path, "--once", "--new")
    assert [one["kind"] for one in lines_of(path)] == ["flag"]


def test_a_pipe_is_an_outlet_too(store):
    run = [str(STATOR), "tail", "--to", "-", "--once", "--name", "pipe"]
    first = subprocess.run(run, capture_output=True, text=True, check=True)
    assert places(json.loads(line) for line in first.stdout.splitlines()) == everything(store)
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == ""


def test_a_second_outlet_of_the_same_name_is_refused(store, ask, tmp_path):
    with stator.connect(store) as opened:
        identity = opened.info().id
    with KeptCursor(os.environ, identity, "siem", "shop"):
        answer = ask("tail", "--to", str(tmp_path / "x.jsonl"), "--name", "siem", "--once")
    assert answer.code == 4
    assert "running already" in answer.err


def test_the_scope_of_an_outlet_stays_as_it_was(store, ask, tmp_path):
    words = ["tail", "--to", str(tmp_path / "x.jsonl"), "--name", "siem", "--once"]
    assert ask(*words).code == 0
    answer = ask(*words, "--all")
    assert answer.code == 4
    assert "follows project 'shop'" in answer.err


@pytest.mark.parametrize("place", ["nowhere/x.jsonl", "."])
def test_a_file_that_cannot_be_written_is_an_error(store, ask, tmp_path, place):
    answer = ask("tail", "--to", str(tmp_path / place), "--once")
    assert answer.code == 1
    assert answer.err.count("\n") == 1


def test_a_damaged_cursor_is_an_error_and_never_a_silent_new_beginning(store, ask, tmp_path):
    words = ["tail", "--to", str(tmp_path / "x.jsonl"), "--name", "siem", "--once"]
    ask(*words)
    (kept,) = (
        path for path in Path(os.environ["HOME"]).rglob("siem-*") if not path.name.endswith(".lock")
    )
    kept.write_text("{}")
    answer = ask(*words)
    assert answer.code == 5
    assert "remove the file" in answer.err


WRITER = """
import sys, stator
with stator.connect(sys.argv[1]) as store, store.open(sys.argv[2], project="shop") as s:
    for n in range(int(sys.argv[3])):
        with s.turn(f"turn {n}") as t:
            t.fact("n", n)
"""


def test_an_outlet_that_is_killed_again_and_again_misses_nothing(store, tmp_path):
    path = tmp_path / "events.jsonl"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(store), name, "40"]) for name in "ab"
    ]
    follow = [str(STATOR), "tail", "--to", str(path), "--name", "killed"]
    size = 0
    for _ in range(4):
        outlet = subprocess.Popen(follow)
        eventually(partial(ended_or_grown, outlet, path, size))
        size = size_of(path)
        outlet.send_signal(signal.SIGKILL)
        outlet.wait()
        if all(writer.poll() is not None for writer in writers):
            break
    for writer in writers:
        assert writer.wait() == 0
    subprocess.run([*follow, "--once"], check=True)
    found = places(lines_of(path))
    assert set(found) == set(everything(store))
    for session in {session for session, _ in found}:
        seqs = [seq for one, seq in found if one == session]
        assert sorted(set(seqs)) == list(dict.fromkeys(sorted(seqs)))
        first = list(dict.fromkeys(seqs))
        assert first == sorted(first), (
            "what is new comes in order; only what was not acknowledged comes again"
        )


def test_a_follower_writes_what_another_process_records(store, tmp_path):
    path = tmp_path / "events.jsonl"
    outlet = subprocess.Popen(
        [str(STATOR), "tail", "--to", str(path)],
        # A shell that runs the tests in the background makes its children ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        subprocess.run([sys.executable, "-c", WRITER, str(store), "later", "3"], check=True)
        wanted = set(everything(store))
        eventually(lambda: size_of(path) and set(places(lines_of(path))) == wanted)
    finally:
        outlet.send_signal(signal.SIGINT)
        assert outlet.wait() == 0
    assert len(lines_of(path)) == len(wanted)


@pytest.mark.parametrize(
    "content",
    [
        b"my notes: line 1\nline 2 without an end",
        b"my notes\n",
        b'{"important": "one line of JSON"}',
        b'{"id":"k_1"}\n',
        b"\n",
        b"\x00" * 300,
    ],
)
@pytest.mark.parametrize("ran_before", [False, True])
def test_a_file_that_no_outlet_wrote_is_refused_and_left_as_it_is(
    store, ask, tmp_path, content, ran_before
):
    """Also by an outlet that ran before and kept its cursor."""
    words = ["--name", "siem", "--once"]
    if ran_before:
        assert ask("tail", "--to", str(tmp_path / "ours.jsonl"), *words).code == 0
    path = tmp_path / "notes"
    path.write_bytes(content)
    answer = ask("tail", "--to", str(path), *words)
    assert answer.code == 1
    assert "not one of an outlet" in answer.err
    assert "give another file" in answer.err
    assert path.read_bytes() == content


def files_of(store):
    return {path: path.read_bytes() for path in store.parent.glob(f"{store.name}*")}


@pytest.mark.parametrize(
    "ending", ["", "-wal", "-shm", "-lease", "-journal", "-search", "-projects", "-search-wal"]
)
def test_no_file_of_a_store_is_ever_written_to(store, ask, tmp_path, ending):
    """Some of them are empty, or are made later; a link to one is the same file."""
    other = tmp_path / "other.db"
    with stator.connect(other) as opened, opened.open("there"):
        pass
    for base in (store, other):
        for one in ("-search", "-lease"):
            Path(f"{base}{one}").touch()
    link = tmp_path / "link.jsonl"
    for base in (store, other):
        target = Path(f"{base}{ending}")
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        before = files_of(base) if base == other else target.exists() and target.stat().st_size
        for path in (target, link):
            answer = ask("tail", "--to", str(path), "--once")
            assert (answer.code, "give another file" in answer.err) == (1, True), (path, answer.err)
        if base == other:
            assert files_of(base) == before
    assert ask("verify").code == 0
    assert ask("verify", "--store", str(other)).code == 0


def test_the_store_itself_is_refused_without_being_opened(store, tmp_path, monkeypatch):
    """Closing the file of a database drops the locks that this process has on it."""
    opened = []
    monkeypatch.setattr(os, "open", lambda *words: opened.append(words))
    hard = tmp_path / "hard.jsonl"
    os.link(store, hard)
    for path in (store, hard):
        with pytest.raises(OutletFailed, match=r"the store itself|a database"):
            JsonLines.to_path(str(path), store=str(store))
    assert opened == []


def test_a_copy_of_a_store_is_refused_and_left_as_it_is(store, ask, tmp_path):
    copy = tmp_path / "copy"
    copy.write_bytes(store.read_bytes())
    answer = ask("tail", "--to", str(copy), "--once")
    assert (answer.code, "not one of an outlet" in answer.err) == (1, True)
    assert copy.read_bytes() == store.read_bytes()


def test_a_file_that_ends_within_a_line_is_refused_by_an_outlet_that_is_new(store, ask, tmp_path):
    path = tmp_path / "events.jsonl"
    ask("tail", "--to", str(path), "--once")
    with path.open("a") as file:
        file.write('{"id": "k_')
    before = path.read_bytes()
    answer = ask("tail", "--to", str(path), "--once", "--name", "another")
    assert answer.code == 1
    assert "in the middle of a line" in answer.err
    assert path.read_bytes() == before


@pytest.mark.parametrize("size", [1, 9, 60, 200, 300])
def test_an_outlet_whose_very_first_line_was_cut_off_continues(store, ask, tmp_path, size):
    """The disk was full, say, or it was killed before it kept how far it came."""
    path = tmp_path / "events.jsonl"
    left = size

    class Full(io.FileIO):
        def write(self, data):
            nonlocal left
            if not left:
                raise OSError(errno.ENOSPC, "no space")
            written = super().write(bytes(data[:left]))
            left -= written
            return written

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdopen", lambda fd, mode, buffering: Full(fd, mode))
        assert ask("tail", "--to", str(path), "--once").code == 1
    assert path.stat().st_size == size
    assert ask("tail", "--to", str(path), "--once").code == 0
    assert places(lines_of(path)) == everything(store)


def test_a_file_of_another_outlet_can_be_continued_when_that_has_ended(store, ask, tmp_path):
    path = str(tmp_path / "events.jsonl")
    for name in "ab":
        assert ask("tail", "--to", path, "--once", "--name", name).code == 0
    assert places(lines_of(path)) == everything(store) * 2


@pytest.mark.parametrize("way", ["path", "link", "hard link"])
def test_a_file_that_another_outlet_writes_to_is_refused(store, ask, tmp_path, way):
    path = other = tmp_path / "events.jsonl"
    with JsonLines.to_path(str(path)):
        if way != "path":
            other = tmp_path / "other.jsonl"
            (other.symlink_to if way == "link" else other.hardlink_to)(path)
        answer = ask("tail", "--to", str(other), "--once", "--name", "second")
        assert answer.code == 4
        assert f"{other}: another outlet is writing to this file" in answer.err
        assert path.read_bytes() == b""
    assert ask("tail", "--to", str(other), "--once", "--name", "second").code == 0


def commits_of(store):
    with stator.connect(store, read_only=True) as opened:
        return list(opened.tail("", follow=False))


def test_a_file_that_is_emptied_in_its_place_continues_without_a_hole(store, tmp_path):
    path = tmp_path / "events.jsonl"
    one, two, *_ = commits_of(store)
    with JsonLines.to_path(str(path)) as outlet:
        outlet.send([one])
        os.truncate(path, 0)
        outlet.send([two])
    assert [line["id"] for line in lines_of(path)] == [two.id]


@pytest.mark.parametrize("replaced", [False, True])
def test_after_a_rotation_commits_go_to_a_new_file_at_the_path(store, tmp_path, replaced):
    path, moved = tmp_path / "events.jsonl", tmp_path / "events.1"
    one, two, *_ = commits_of(store)
    with JsonLines.to_path(str(path)) as outlet:
        outlet.send([one])
        path.rename(moved)
        if replaced:
            path.touch()
        outlet.send([two])
        with pytest.raises(Busy), JsonLines.to_path(str(path)):
            pass
        with JsonLines.to_path(str(moved)):  # nobody writes there any more
            pass
    assert [line["id"] for line in lines_of(moved)] == [one.id]
    assert [line["id"] for line in lines_of(path)] == [two.id]


def test_a_foreign_file_that_takes_the_place_of_ours_is_refused(store, tmp_path):
    path = tmp_path / "events.jsonl"
    one, two, *_ = commits_of(store)
    with JsonLines.to_path(str(path), continues=True) as outlet:
        outlet.send([one])
        path.unlink()
        path.write_text("my notes")
        with pytest.raises(OutletFailed, match="not one of an outlet"):
            outlet.send([two])
    assert path.read_text() == "my notes"


def test_a_follower_whose_file_is_removed_makes_it_again(store, tmp_path):
    path = tmp_path / "events.jsonl"
    outlet = subprocess.Popen(
        [str(STATOR), "tail", "--to", str(path)],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        before = set(everything(store))
        eventually(lambda: size_of(path) and set(places(lines_of(path))) == before)
        path.unlink()
        subprocess.run([sys.executable, "-c", WRITER, str(store), "later", "3"], check=True)
        wanted = set(everything(store)) - before
        eventually(lambda: size_of(path) and set(places(lines_of(path))) == wanted)
    finally:
        outlet.send_signal(signal.SIGINT)
        assert outlet.wait() == 0


# -- OTLP -----------------------------------------------------------------------------------------

ANSWER = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "stop_reason": "tool_use",
    "content": [
        {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "tu", "name": "look", "input": {"at": "PRIVATE-ARG"}},
    ],
    "usage": {"input_tokens": 3, "output_tokens": 5},
}  # fmt: skip


def drive(path, name="agent"):
    """A turn with an answer, a call that works, one that fails, and a secret in its prompt."""

    def failing():
        raise RuntimeError("PRIVATE-ERROR")

    with stator.connect(path) as store, store.open(name, agent="helper", project="shop") as s:
        with s.turn("PRIVATE-PROMPT with AKIAIOSFODNN7EXAMPLE") as t:
            reply = t.model(lambda messages, **_: ANSWER, t.messages("anthropic"))
            t.results(reply, lambda tool, arguments: "PRIVATE-RESULT")
            t.try_call(stator.tool(effect="read", name="fail")(failing))
        return s.id


def by_operation(spans, session):
    found = [span for span in spans if attribute(span, names.CONVERSATION) == session]
    return {
        operation: [span for span in found if attribute(span, names.OPERATION) == operation]
        for operation in (names.INVOKE_AGENT, names.CHAT, names.EXECUTE_TOOL)
    }


def test_turns_calls_and_answers_become_spans(store, ask):
    session = drive(store)
    with Receiver() as receiver:
        answer = ask("tail", "--otlp", receiver.url, "--once")
    assert (answer.code, receiver.wrong) == (0, []), answer.err
    assert receiver.requests[0]["path"] == "/v1/traces"
    found = by_operation(receiver.spans, session)
    (turn,) = found[names.INVOKE_AGENT]
    (chat,) = found[names.CHAT]
    look, failed = found[names.EXECUTE_TOOL]
    assert turn["name"] == "invoke_agent helper"
    assert attribute(turn, names.INPUT_TOKENS), attribute(turn, names.OUTPUT_TOKENS) == (3, 5)
    assert chat["name"] == "chat claude-x"
    assert (chat["kind"], attribute(chat, names.PROVIDER)) == (3, "anthropic")
    assert look["name"] == "execute_tool look"
    assert "status" not in look
    assert failed["status"] == {"code": 2}
    assert attribute(failed, names.ERROR_TYPE) == "error"
    assert {span["parentSpanId"] for span in (chat, look, failed)} == {turn["spanId"]}
    assert {span["traceId"] for span in (chat, look, failed)} == {turn["traceId"]}
    with stator.connect(store) as opened:
        begun = next(c for c in opened.read("agent").log() if c.kind == "turn")
    assert turn["traceId"] == begun.id[2:], "a trace is found by the digits of its turn"


def test_content_is_sent_only_on_request_and_is_always_redacted(store, ask):
    session = drive(store)
    with Receiver() as quiet, Receiver() as open_receiver:
        ask("tail", "--otlp", quiet.url, "--once")
        ask("tail", "--otlp", open_receiver.url, "--once", "--content")
    silent, spoken = json.dumps(quiet.spans), json.dumps(open_receiver.spans)
    assert "PRIVATE" not in silent
    assert not any(attribute(span, name) for span in quiet.spans for name in names.CONTENT)
    for word in ("PRIVATE-PROMPT", "PRIVATE-ARG", "PRIVATE-RESULT", "PRIVATE-ERROR"):
        assert word in spoken
    assert "AKIAIOSFODNN7EXAMPLE" not in silent + spoken
    (chat,) = by_operation(open_receiver.spans, session)[names.CHAT]
    assert json.loads(attribute(chat, names.OUTPUT_MESSAGES)) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "I look"}]}
    ]


def test_the_same_commits_always_give_the_same_spans(store, ask):
    drive(store)
    sent = []
    for _ in range(2):
        with Receiver() as receiver:
            ask("tail", "--otlp", receiver.url, "--once")
        sent.append(receiver.spans)
    assert sent[0] == sent[1]


def test_a_turn_that_is_open_across_two_runs_is_one_whole_span(store, ask):
    """The second process reads back how the turn began."""
    with (
        stator.connect(store) as opened,
        opened.open("long", agent="helper", project="shop") as s,
        Receiver() as receiver,
        s.turn("go") as t,
    ):
        words = ["tail", "--otlp", receiver.url, "--once", "--name", "twice"]
        assert ask(*words).code == 0
        assert by_operation(receiver.spans, s.id)[names.INVOKE_AGENT] == []
        t.say("done")
        t.end()
        assert ask(*words).code == 0
    (turn,) = by_operation(receiver.spans, s.id)[names.INVOKE_AGENT]
    assert int(turn["startTimeUnixNano"]) < int(turn["endTimeUnixNano"])


def sender(url, **options):
    waits: list[float] = []
    notes: list[str] = []
    given = {
        "sleep": waits.append, "jitter": lambda: 0.5, "now": lambda: 0.0, "note": notes.append, "tries": 5, **options,
    }  # fmt: skip
    return OtlpHttp(url, **given), waits, notes


def spans(number):
    return [
        OtlpSpan(
            trace=f"{n + 1:032x}", id=f"{n + 1:016x}", name="x", start=1, end=2, commit=f"k_{n}"
        )
        for n in range(number)
    ]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_receiver_that_is_busy_is_tried_again_with_growing_waits(status):
    with Receiver(*[(status, {}, b"")] * 3) as receiver:
        outlet, waits, notes = sender(receiver.url)
        outlet.send(spans(2))
    assert [span["spanId"] for span in receiver.spans] == ["0" * 15 + "1", "0" * 15 + "2"]
    assert waits == [1.0, 2.0, 4.0]
    assert len(notes) == 2, "once when it begins and once when it is over"


def test_a_receiver_may_say_how_long_to_wait():
    answers = [(503, {"Retry-After": "7"}, b""), (503, {"Retry-After": "99999"}, b"")]
    answers.append((429, {"Retry-After": "Thu, 01 Jan 1970 00:00:20 GMT"}, b""))
    with Receiver(*answers) as receiver:
        outlet, waits, _ = sender(receiver.url)
        outlet.send(spans(1))
    assert waits == [7.0, otlp_http.RETRY_AFTER_MAX_S, 20.0]


def test_a_receiver_that_is_away_is_tried_until_it_is_there():
    with Receiver() as receiver:
        url = receiver.url
    outlet, waits, _ = sender(url, tries=3)
    with pytest.raises(OutletFailed, match="3 tries") as caught:
        outlet.send(spans(1))
    assert len(waits) == 2
    assert caught.value.ids["commit"] == "k_0"


def test_a_span_that_is_refused_is_named_by_its_commit_and_the_others_are_taken():
    with Receiver() as receiver:
        receiver.refuse = lambda span: span["spanId"].endswith("7")
        outlet, waits, _ = sender(receiver.url)
        with pytest.raises(OutletFailed, match="refuses commit k_6: HTTP 400") as caught:
            outlet.send(spans(20))
    assert (waits, caught.value.ids["commit"]) == ([], "k_6")
    assert len(receiver.spans) == 6


def test_a_refused_commit_is_an_error_and_the_next_run_begins_with_it(store, ask):
    session = drive(store)
    with Receiver() as receiver:
        words = ["tail", "--otlp", receiver.url, "--once"]
        receiver.refuse = lambda span: span["name"] == "execute_tool look"
        answer = ask(*words)
        assert answer.code == 1
        assert "refuses commit k_" in answer.err
        receiver.refuse = lambda span: False
        assert ask(*words).code == 0
    assert len(by_operation(receiver.spans, session)[names.INVOKE_AGENT]) >= 1
    assert any(span["name"] == "execute_tool look" for span in receiver.spans)


def test_spans_that_the_receiver_did_not_keep_are_reported():
    said = json.dumps({"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}})
    with Receiver((200, {}, said.encode())) as receiver:
        outlet, waits, notes = sender(receiver.url)
        outlet.send(spans(3))
    assert (outlet.rejected, waits) == (2, [])
    assert "did not keep 2 spans: too old" in notes[0]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{", b'{"partialSuccess": 3}', b"\xff", b"[" * 60_000,
        b'{"partialSuccess": {"rejectedSpans": 1e999}}',
    ],
)  # fmt: skip
def test_an_odd_answer_to_a_request_that_was_taken_changes_nothing(body):
    with Receiver((200, {}, body)) as receiver:
        outlet, _, notes = sender(receiver.url)
        outlet.send(spans(1))
    assert notes == []


def test_headers_come_from_the_variable_that_other_exporters_use(store, ask, monkeypatch):
    drive(store)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc, x-tenant=7")
    with Receiver() as receiver:
        ask("tail", "--otlp", f"{receiver.url}/custom/path", "--once")
    assert receiver.requests[0]["path"] == "/custom/path"
    assert receiver.requests[0]["authorization"] == "Bearer abc"
    assert receiver.requests[0]["x-tenant"] == "7"


@pytest.mark.parametrize("headers", ["=v", "x:y=1", "x=%00", "x=%E2%80%9C", "é=1"])
def test_headers_that_cannot_be_sent_are_refused(headers):
    with pytest.raises(BadQuery):
        sender("http://127.0.0.1:1", headers=headers)


def test_a_pipe_whose_reader_left_ends_the_outlet(store, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    told = [str(STATOR), "tail", "--to", str(pipe), "--once"]
    assert subprocess.run(told).returncode != 0  # nobody reads
    subprocess.run([sys.executable, "-c", WRITER, str(store), "much", "300"], check=True)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    outlet = subprocess.Popen(told, stderr=subprocess.DEVNULL)
    eventually(lambda: is_readable(reader, 0))
    os.close(reader)
    outlet.wait()  # it would wait for a reader for ever


def test_many_spans_are_sent_in_several_requests(monkeypatch):
    monkeypatch.setattr(otlp_http, "SPANS_MAX", 3)
    with Receiver() as receiver:
        sender(receiver.url)[0].send(spans(8))
    assert (len(receiver.requests), len(receiver.spans)) == (3, 8)


def test_an_exporter_that_is_killed_misses_no_turn(store):
    with Receiver() as receiver:
        follow = [str(STATOR), "tail", "--otlp", receiver.url, "--name", "killed"]
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(store), "a", "30"])
        for _ in range(3):
            receiver.arrived.clear()
            outlet = subprocess.Popen(follow)
            receiver.arrived.wait(30)
            outlet.send_signal(signal.SIGKILL)
            outlet.wait()
            if writer.poll() is not None:
                break
        assert writer.wait() == 0
        subprocess.run([*follow, "--once"], check=True)
    with stator.connect(store, read_only=True) as opened:
        ended = sum(c.kind == "turn_end" for c in opened.tail("", follow=False))
    turns = {
        span["spanId"]
        for span in receiver.spans
        if attribute(span, names.OPERATION) == names.INVOKE_AGENT
    }
    assert (len(turns), receiver.wrong) == (ended, [])


def test_spans_of_odd_commits_are_spans(store):
    """Everything a store holds, in any order of arrival, gives spans that a strict receiver takes."""
    from surfaces.otlp_receiver import check_span

    with stator.connect(store) as opened:
        for commit in opened.tail("", follow=False):
            turns = TurnSpans(SessionLabel(agent="a\ud800", name="x" * 999), content=True)
            for span in turns.add(commit):
                check_span(span.otlp())
