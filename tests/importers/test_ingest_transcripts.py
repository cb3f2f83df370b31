"""Tests that hooks and a transcript together make one session with every item once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import stator
from importers.hook_lines import after_tool, before_tool, hook_input, kinds, prompt, session
from stator.connect import take_spool, worlds
from stator.hooks import cursor as cursor_hooks
from stator.hooks import ingest
from stator.hooks.ingest import IngestLimits
from stator.importers.conversation import Report
from stator.importers.reading.found_conversation import FoundConversation
from stator.importers.reading.jsonl import parse_line, read_lines
from stator.model.exchange.items import (
    Answered,
    Called,
    Conversation,
    Cursor,
    Item,
    Prompted,
    Returned,
)

MADE = {"Prompted": Prompted, "Answered": Answered, "Called": Called, "Returned": Returned}


class Format:
    """A transcript in which every line is an item, and the first one describes the conversation."""

    name = "cursor"

    def recognizes(self, path: Path, begin: bytes) -> bool:
        return begin.startswith(b'{"talk"')

    def conversations(self, path: Path) -> list[FoundConversation]:
        about = json.loads(path.read_text().splitlines()[0])
        talk = Conversation(
            source="cursor", id=about["talk"], name="what the transcript calls it",
            fork_of=about.get("fork", ""), fork_ids=frozenset(about.get("shared", ())),
        )  # fmt: skip
        return [FoundConversation(path=str(path), conversation=talk, size=path.stat().st_size)]

    def read(
        self, found: FoundConversation, cursor: Cursor | None, progress: Any
    ) -> Iterator[Item]:
        for line in read_lines(found.path, offset=cursor.offset if cursor else 0):
            value, _ = parse_line(line)
            if value is not None and "item" in value:
                kind = value.pop("item")
                if kind == "Prompted":
                    yield Cursor(offset=line.offset)
                if kind == "broken":
                    raise AttributeError("a mistake in a reader")
                yield MADE[kind](**value)


@pytest.fixture(autouse=True)
def formats(monkeypatch):
    monkeypatch.setattr(ingest, "_format_of", lambda agent: Format())


@pytest.fixture
def transcript(tmp_path):
    return Transcript(tmp_path / "talk.jsonl")


class Transcript:
    def __init__(self, path: Path, talk: str = "c1", **about: Any) -> None:
        self.path = path
        path.write_text(json.dumps({"talk": talk, **about}) + "\n")

    def add(self, item: str, **fields: Any) -> None:
        with open(self.path, "a") as file:
            file.write(json.dumps({"item": item, **fields}) + "\n")

    def turn(self, number: int = 1, *, whole: bool = True) -> None:
        self.add("Prompted", id=f"turn/g{number}", content="do it")
        self.add("Answered", id=f"a{number}", reply="I will")
        self.add("Called", id=f"t{number}", tool="Shell")
        if whole:
            self.add("Returned", id=f"t{number}", output="ok")

    def lines(self, *inputs: dict[str, Any]) -> list[dict[str, Any]]:
        return [{**line, "transcript_path": str(self.path)} for line in inputs]


TURN = ["turn", "entry", "call", "outcome", "turn_end"]


def test_items_in_hooks_and_transcript_are_recorded_once(hooked, transcript):
    transcript.turn()
    hooked.write(
        *transcript.lines(
            hook_input("sessionStart"),
            prompt(),
            before_tool("t1"),
            after_tool("t1"),
            hook_input("stop"),
        )
    )
    assert hooked.kinds() == ["open", "run", *TURN]


def test_a_growing_transcript_with_hooks_is_recorded_once(hooked, transcript):
    for number in (1, 2):
        hooked.write(*transcript.lines(prompt(number), before_tool(f"t{number}")))
        hooked.kinds()
        transcript.turn(number)
        hooked.write(*transcript.lines(after_tool(f"t{number}"), hook_input("stop")))
        hooked.kinds()
    found = hooked.kinds()
    assert {kind: found.count(kind) for kind in TURN} == dict.fromkeys(TURN, 2)


def test_items_without_a_hook_come_from_the_transcript(hooked, transcript):
    transcript.turn()
    hooked.write(*transcript.lines(prompt(), before_tool("t1"), hook_input("sessionEnd")))
    with stator.connect(hooked.path) as store:
        assert [row.status for row in store.calls().rows] == ["ok"]


def test_items_missing_in_the_transcript_come_from_the_hooks(hooked, transcript):
    transcript.turn(whole=False)
    hooked.write(
        *transcript.lines(prompt(), before_tool("t1"), after_tool("t1"), hook_input("sessionEnd"))
    )
    with stator.connect(hooked.path) as store:
        assert [row.status for row in store.calls().rows] == ["ok"]


def test_a_call_whose_end_is_in_neither_source_is_in_doubt(hooked, transcript):
    transcript.turn(whole=False)
    hooked.write(*transcript.lines(prompt(), before_tool("t1"), hook_input("sessionEnd")))
    with stator.connect(hooked.path) as store:
        assert [row.status for row in store.calls().rows] == ["in doubt"]


def test_a_prompt_with_a_secret_in_it_is_one_turn(hooked, transcript, monkeypatch):
    """A prompt without an id is identified by its text, in which the hook redacted a secret."""
    made = cursor_hooks.items
    monkeypatch.setattr(
        cursor_hooks,
        "items",
        lambda told, *rest: (
            Prompted(id=f"by text {item.content}", content=item.content)
            if isinstance(item, Prompted)
            else item
            for item in made(told, *rest)
        ),
    )
    secret = "use sk-ant-api03-" + "Ab1" * 20
    transcript.add("Prompted", id=f"by text {secret}", content=secret)
    (line,) = transcript.lines(prompt(text=secret))
    hooked.hook(line)
    assert hooked.kinds() == ["open", "turn"]


def test_a_session_takes_its_name_from_the_transcript(hooked, transcript):
    hooked.write(*transcript.lines(prompt()))
    with stator.connect(hooked.path) as store:
        assert session(store).name == "what the transcript calls it"


def test_a_fork_is_linked_to_its_origin(hooked, tmp_path):
    first = Transcript(tmp_path / "first.jsonl")
    first.turn()
    second = Transcript(tmp_path / "second.jsonl", "c2", fork="c1", shared=["turn/g1", "t1"])
    hooked.write(*first.lines(prompt()))
    hooked.write(*second.lines(hook_input("sessionStart", "c2", source="fork"), prompt(2, "c2")))
    with stator.connect(hooked.path) as store:
        parent = session(store, "c2").row.record.parent
        assert parent is not None
        assert parent.session == session(store, "c1").id


def test_a_fork_waits_for_its_transcript(hooked, tmp_path):
    first = Transcript(tmp_path / "first.jsonl")
    first.turn()
    hooked.write(*first.lines(prompt()))
    line = hook_input(
        "sessionStart", "c2", source="fork", transcript_path=str(tmp_path / "second.jsonl")
    )
    hooked.write(line)
    with stator.connect("memory:") as store:
        soon = IngestLimits(lines=300, transcript=1000)
        assert not take_spool(store.port, str(hooked.spool), limits=soon).is_all
        Transcript(tmp_path / "second.jsonl", "c2", fork="c1", shared=["turn/g1"])
        assert take_spool(store.port, str(hooked.spool), limits=soon).is_all
        assert session(store, "c2").row.record.parent.session == session(store, "c1").id


def test_a_transcript_above_the_limit_is_left_for_the_next_ingest(hooked, transcript):
    transcript.turn()
    hooked.write(*transcript.lines(prompt()))
    with stator.connect("memory:") as store:
        take_spool(store.port, str(hooked.spool), limits=IngestLimits(lines=300, transcript=10))
        assert kinds(store) == ["open", "turn"]


def nothing(path: Path) -> None:
    path.unlink()


def a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def another_kind(path: Path) -> None:
    path.write_text("what is this")


def of_another(path: Path) -> None:
    Transcript(path, "c9").turn(9)


def one_that_breaks_its_reader(path: Path) -> None:
    Transcript(path).add("broken")


@pytest.mark.parametrize(
    "change", [nothing, a_fifo, another_kind, of_another, one_that_breaks_its_reader]
)
def test_an_invalid_transcript_does_not_stop_the_hooks(hooked, transcript, change):
    change(transcript.path)
    hooked.write(
        *transcript.lines(prompt(), before_tool("t1"), after_tool("t1"), hook_input("stop"))
    )
    assert hooked.kinds() == ["open", "turn", "call", "outcome", "turn_end"]
    with stator.connect(hooked.path) as store:
        assert len(list(store.views())) == 1


def test_a_mapper_learns_whether_the_transcript_could_be_read(hooked, transcript, monkeypatch):
    seen: list[bool] = []

    def items(told: Any, at: int, unique: str, state: dict[str, Any]) -> list[Item]:
        seen.append(state["no transcript"])
        return []

    mapper = SimpleNamespace(conversation=cursor_hooks.conversation, items=items)
    monkeypatch.setattr(ingest, "load_mapper", lambda agent: mapper)
    hooked.write(*transcript.lines(prompt()), prompt(2, "c2"))
    stator.connect(hooked.path).close()
    assert seen == [False, True]


def test_reconcile_reads_the_transcript_again(hooked, transcript):
    hooked.write(*transcript.lines(prompt()))
    hooked.kinds()
    transcript.turn()
    with stator.connect(hooked.path) as store:
        report = Report()
        assert ingest.reconcile(store.port, worlds(store.port), session(store).id, report)
        assert (report.calls, kinds(store)) == (1, ["open", "turn", "entry", "call", "outcome"])


def test_reconcile_returns_false_for_a_session_without_hooks(hooked):
    with stator.connect(hooked.path) as store:
        with store.open("by hand") as own:
            identifier = own.id
        assert not ingest.reconcile(store.port, worlds(store.port), identifier, Report())
