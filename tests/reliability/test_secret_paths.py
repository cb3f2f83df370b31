"""Secrets that reach a store in unusual ways: in pieces, in failures, in names, in bundles, through a hook."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import stator
from reliability.planting import MARK, SHAPES, Planter, files, tables
from stator.connect import connect
from stator.errors import InvalidInput, StatorError
from stator.model.log.shown_text import without_secrets
from stator.runtime.ingest.self_report import named_after
from stator.surfaces import hook

pytestmark = pytest.mark.usefixtures("uncompressed")

SECRET = "gh" + "p_" + MARK + "aB3dE5gH7jK9mN1pQ2sT4vW"
PLACEHOLDER = "‹secret:github:"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store.db"


def leaks(path) -> list[str]:
    return Planter().leaks(files(path) + tables(path))


@contextlib.contextmanager
def turn(path, **options):
    with (
        connect(path, project="test", **options) as store,
        store.open("main") as session,
        session.turn("work") as opened,
    ):
        yield opened


def values(path, kind: str, field: str) -> list[object]:
    with connect(path, project="test") as store:
        log = store.read("main").log()
        return [c.value(field) for c in log if c.kind == kind and c.has(field)]


def test_the_eyes_of_these_tests_see_a_secret_that_is_written(place):
    with turn(place, redact=False) as t:
        t.say({"text": SECRET, "bytes": SECRET.encode(), "wide": SECRET.encode("utf-16")})
    seen = " ".join(leaks(place))
    assert "as it is" in seen
    assert "base64" in seen


def test_a_secret_that_a_stream_gives_in_pieces_is_redacted(place):
    pieces = [SECRET[at : at + 3] for at in range(0, len(SECRET), 3)]
    chunks = [
        {"type": "message_start", "message": {"role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": p}}
            for p in pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_stop"},
    ]
    with turn(place) as t:
        list(t.stream(iter(chunks)))
    assert leaks(place) == []
    assert PLACEHOLDER in json.dumps(values(place, "entry", "output"), ensure_ascii=False)


def test_a_stream_that_breaks_off_after_a_secret_is_redacted(place):
    def breaks():
        yield {"type": "message_start", "message": {"role": "assistant", "content": []}}
        block = {"type": "text", "text": ""}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        delta = {"type": "text_delta", "text": SECRET}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        raise ConnectionError(f"lost while sending {SECRET}")

    with turn(place) as t, pytest.raises(ConnectionError):
        list(t.stream(breaks))
    assert leaks(place) == []


def test_a_failing_tool_leaks_nothing_of_its_exception(place):
    class Refused(Exception):
        def __repr__(self) -> str:
            return f"Refused({SECRET})"

    def fails() -> None:
        error = Refused(SECRET, {"token": SECRET}, SECRET.encode())
        error.add_note(f"sent {SECRET}")
        raise error from KeyError(SECRET)

    with turn(place) as t:
        t.try_call(stator.tool(fails, effect="read", name="fails"))
        with pytest.raises(StatorError) as raised:
            t.call(stator.tool(fails, effect="read", name="fails"))
    assert MARK not in str(raised.value)
    assert leaks(place) == []


@pytest.mark.parametrize("text", [True, False])
def test_a_tool_that_prints_its_environment_leaks_nothing(place, text):
    def show() -> object:
        print_it = "import os; print(os.environ['SERVICE_TOKEN'], dict(os.environ))"
        environ = {**os.environ, "SERVICE_TOKEN": SECRET, "DB_PASSWORD": "hunter2" + MARK}
        done = subprocess.run(
            [sys.executable, "-c", print_it], env=environ, capture_output=True, text=text
        )
        return done.stdout

    with turn(place) as t:
        assert len(t.call(stator.tool(show, effect="read", name="show"))) > 0
    assert leaks(place) == []


def test_the_program_still_gets_the_secret_that_its_tool_returned(place):
    with turn(place) as t:
        assert t.call(stator.tool(lambda: SECRET.encode(), name="read")) == SECRET.encode()
    assert leaks(place) == []


def test_only_the_secret_is_replaced_in_bytes(place):
    data = b"\xff\xfe\x00 before " + SECRET.encode() + b" after \x80\n"
    with turn(place) as t:
        t.artifact("dump", data)
    (kept,) = values(place, "artifact", "input")
    assert isinstance(kept, bytes)
    assert kept.startswith(b"\xff\xfe\x00 before " + PLACEHOLDER.encode())
    assert kept.endswith("› after ".encode() + b"\x80\n")


@pytest.mark.parametrize("codec", ["utf-8", "utf-16", "utf-16-be", "utf-32"])
def test_a_file_with_a_secret_in_any_encoding_is_not_kept(place, codec):
    with connect(place, project="test") as store, store.open("main") as session:
        session.track(".", contents=True)
        with session.turn("write") as t:
            (place.parent / f"{SECRET}.env").write_bytes(f"KEY={SECRET}\n".encode(codec))
            t.file(f"{SECRET}.env", "created")
        (change,) = session.files()
    assert PLACEHOLDER in change.path
    assert leaks(place) == []


def test_a_key_with_a_secret_still_finds_its_turn_and_its_call(place):
    ran = []
    for _ in range(2):
        with connect(place, project="test") as store, store.open("main") as session:
            session.once(SECRET, lambda: ran.append(1))
            with session.turn("pay", key=f"password={SECRET}") as t:
                if not t.reused:
                    t.call(stator.tool(lambda: ran.append(2), name="pay", key=SECRET))
    assert ran == [1, 2]
    assert leaks(place) == []


def test_a_session_whose_name_is_a_secret_is_found_by_it_again(place):
    with connect(place, project="test") as store:
        first = store.open(SECRET)
        first.pause()
        assert PLACEHOLDER in first.name
        with store.open(SECRET) as again:
            assert again.id == first.id
    assert leaks(place) == []


def test_a_read_whose_bytes_held_a_secret_runs_again_when_its_turn_continues(place):
    ran = []

    @stator.tool(effect="read")
    def read() -> bytes:
        ran.append(1)
        return b"token is " + SECRET.encode()

    for attempt in range(2):
        with contextlib.suppress(KeyboardInterrupt), turn(place) as t:
            assert t.call(read) == b"token is " + SECRET.encode()
            if attempt == 0:
                raise KeyboardInterrupt
    assert len(ran) == 2


def test_a_bundle_of_a_store_without_redaction_leaves_secrets_out(place, tmp_path):
    name = {"name": "DB_PASSWORD", "value": "hunter2" + MARK}
    with turn(place, redact=False) as t:
        t.say({"bytes": SECRET.encode(), "wide": SECRET.encode("utf-16"), "odd": "\ud800" + SECRET})
        t.fact("DB_PASSWORD", "hunter2" + MARK)
        t.note("env", [name, ["login", "--token", MARK]])
    bundle, other = tmp_path / "out.stator", tmp_path / "other.db"
    with connect(place, project="test", redact=False) as store:
        assert store.export("main", bundle).withheld > 0
    with connect(other, project="test") as store:
        store.import_bundle(bundle)
    assert Planter().leaks(bundle.read_bytes()) == []
    assert leaks(other) == []


POSITIONS: dict[str, Callable[[str], dict[str, Any]]] = {
    "a command": lambda text: {"tool_input": {"command": text}},
    "a list": lambda text: {"tool_input": {"argv": ["run", text]}},
    "a key": lambda text: {"tool_response": {text: 1}},
    "JSON in JSON": lambda text: {"tool_response": json.dumps({"out": [text]})},
    "a diff": lambda text: {"tool_response": {"patch": [{"lines": ["+" + text]}]}},
}


@pytest.mark.parametrize("position", POSITIONS)
def test_no_line_that_a_hook_writes_to_the_spool_has_a_secret(tmp_path, position):
    plant = Planter()
    for shape in SHAPES:
        given = {"hook_event_name": "PostToolUse", **POSITIONS[position](plant.secret("x", shape))}
        line, cwd = hook._redacted(str(tmp_path), json.dumps(given).encode(), given, "/" + SECRET)
        assert plant.leaks(line + cwd.encode()) == [], shape


@pytest.mark.parametrize(
    "given",
    [
        {"env": [{"name": "DB_PASSWORD", "value": MARK}]},
        {"argv": ["login", "--token", MARK]},
        {"headers": {"Cookie": f"session=a1{MARK}"}},
    ],
)
def test_a_value_that_only_its_name_gives_away_does_not_reach_the_spool(tmp_path, given):
    line, _ = hook._redacted(str(tmp_path), json.dumps(given).encode(), given, "/")
    assert MARK.encode() not in line


@pytest.mark.parametrize("before", [1_970, 1_980, 1_990])
def test_a_secret_at_the_place_where_a_message_is_cut_leaves_no_half(place, before):
    def fails() -> None:
        raise ValueError("x" * before + " " + SECRET)

    with turn(place) as t:
        t.try_call(stator.tool(fails, effect="read", name="fails"))
    (output,) = values(place, "outcome", "output")
    assert SECRET[:8] not in str(output)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_session_named_after_its_purpose_is_not_named_after_a_secret(shape):
    secret = Planter().secret("purpose", shape)
    for purpose in (secret, f"use {secret}"):
        assert MARK.casefold()[:6] not in named_after(purpose, "s_" + "0" * 32)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_error_repeats_no_secret_however_short_it_is_cut(shape):
    secret = Planter().secret("error", shape)
    for size in range(10, len(repr(secret)) + 1):
        error = InvalidInput(f"unknown reason {secret!r:.{size}}", path="$.x", key=secret[:size])
        assert MARK not in f"{error} {error.wire()}", size


@pytest.mark.parametrize(
    "text",
    [
        "unknown token 'x1' - at $.token",
        "no session 'key' in http://127.0.0.1:8080/mcp",
        "session s_01a1e300bc3f7638814c0ee30915bd77 is driven (pid 5, since 10:00)",
        "password: expected text, got int",
    ],
)
def test_an_error_without_a_secret_is_shown_as_it_is(text):
    assert without_secrets(text) == text
