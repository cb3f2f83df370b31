"""Tests that a model which knows only the lists of the server completes typical tasks, over real stdio."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

import stator
from surfaces.agents import over_stdio
from surfaces.scripted_model import ScriptedModel

pytestmark = pytest.mark.anyio
PURPOSE = "Organise my files like yesterday"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agent.db"


@asynccontextmanager
async def a_model(path):
    """A model in a conversation of its own: it has read the tools and remembers nothing."""
    async with over_stdio(path) as client:
        yield await ScriptedModel.reading(client)


@asynccontextmanager
async def a_model_at_work(path):
    async with a_model(path) as model:
        await model.do("Begin the work for a purpose", purpose=PURPOSE)
        yield model


def read(path):
    """The state of the one session, as the library reads it."""
    with stator.connect(path) as store:
        (row,) = store.sessions().rows
        return {name: list(found.values()) for name, found in store.read(row.id).state().items()}


async def test_a_model_begins_a_session_for_a_purpose(path):
    async with a_model(path) as model:
        begun = await model.do("Begin the work for a purpose", purpose=PURPOSE)
    assert begun["created"]
    assert begun["yours"]
    assert begun["session"].startswith("s_")


async def test_a_model_comes_back_tomorrow_and_finds_its_session(path):
    async with a_model_at_work(path) as model:
        handle = model.answer["session"]
    async with a_model(path) as model:
        listed = await model.do("Which sessions are there to open?")
        assert [row["goal"] for row in listed["sessions"]] == [PURPOSE]
        found = await model.do("Open that session, with a brief")
    assert (found["session"], found["created"]) == (handle, False)
    assert PURPOSE in found["brief"]


async def test_a_model_records_a_decision_with_why(path):
    async with a_model_at_work(path) as model:
        await model.do(
            "Record the decision", text="sort by year", reason="the user thinks in years"
        )
    (decision,) = read(path)["decisions"]
    assert (decision.what, decision.why) == ("sort by year", "the user thinks in years")


async def test_a_model_corrects_a_wrong_item_with_the_example_of_the_refusal(path):
    async with a_model_at_work(path) as model:
        await model.do("Record a dead end", idea="sort by colour", why="files have none")
    (dead_end,) = read(path)["dead_ends"]
    assert (dead_end.what, dead_end.why) == ("sort by colour", "files have none")
    assert len([tool for tool, _ in model.called if tool == "stator_record"]) == 2


async def test_a_model_records_a_plan_and_completes_a_step(path):
    async with a_model_at_work(path) as model:
        await model.do("Record the plan", steps=["list the files", "move them"])
        await model.do("Record the step of the plan", step="list the files", status="completed")
    steps = {step.step: step.status for step in read(path)["plan"]}
    assert steps == {"list the files": "claimed", "move them": "pending"}


async def test_a_model_records_a_call_that_failed(path):
    async with a_model_at_work(path) as model:
        await model.do(
            "Record the call that failed",
            tool="bash",
            args={"command": "mv a b"},
            status="failed",
            error="permission denied",
        )
    with stator.connect(path) as store:
        (call,) = store.read("last").calls()
    assert (call.tool, call.status) == ("bash", "error")


async def test_a_model_finds_out_which_files_changed_in_the_last_5_turns(path):
    async with a_model_at_work(path) as model:
        for number in range(7):
            await model.do("Record what the user asked", request=f"move album {number}")
            await model.do("Record the file", path=f"album{number}.txt", op="moved")
        found = await model.do("Which files changed in the last 5 turns?")
    assert [row["path"] for row in found["rows"]] == [f"album{n}.txt" for n in (6, 5, 4, 3, 2)]


async def test_a_model_asks_why_a_file_is_as_it_is(path):
    async with a_model_at_work(path) as model:
        await model.do("Record the decision", what="one folder a year", reason="easy to find")
        await model.do("Record the file", path="2020/a.txt", op="created")
    async with a_model(path) as model:
        found = await model.do("Why is this as it is?", file="2020/a.txt")
    reasons = {row["kind"]: row for row in found["rows"]}
    assert reasons["decision"]["why"] == "easy to find"
    assert reasons["edit"]["what"].startswith("2020/a.txt created")


async def test_a_model_finds_an_error_that_was_seen_before(path):
    async with a_model_at_work(path) as model:
        failed = {"tool": "bash", "status": "failed", "result": "disk quota exceeded on /home"}
        await model.do("Record the call that failed", **failed)
    async with a_model(path) as model:
        found = await model.do("Search for an error seen before", error="quota exceeded again")
        assert "some of them" in found["note"]
        whole = await model.do("Recall the content behind that key")
    assert "disk quota exceeded on /home" in whole["content"]


async def test_a_model_recalls_what_was_evicted_from_its_context(path):
    with stator.connect(path) as store, store.open("long") as session:
        for number in range(6):
            with session.turn(f"question {number}") as t:
                t.decide(f"answer {number}", topic=f"topic {number}")
                t.say(f"answer {number} " + "at length " * 200)
        session.compact(keep=1, summary="questions were answered")
    async with a_model(path) as model:
        await model.do("Which sessions are there to open?")
        opened = await model.do("Open that session")
        assert opened["evicted_count"] > 0
        found = await model.do("Recall the content behind the first key that was evicted")
    assert "answer" in found["content"]


async def test_a_model_settles_a_call_in_doubt(path):
    async with a_model_at_work(path) as model:
        await model.do("Record the call in doubt", tool="pay", status="unknown", args={"amount": 5})
    async with a_model(path) as model:
        await model.do("Open my session for the purpose", purpose=PURPOSE)
        done = await model.do("Settle the call in doubt as not done", why="the bank has nothing")
    assert (done["settled"], done["in_doubt"]) == (True, [])


async def test_a_model_forks_and_compares(path):
    async with a_model_at_work(path) as model:
        await model.do("Fork the session under a name", name="plan-b")
        await model.do("Record the decision", what="sort by size", topic="order", why="to try it")
        start, end = "organise-my-files-like-yesterday:head", "plan-b:head"
        found = await model.do("Compare the two positions", start=start, end=end)
    (change,) = found["changes"]
    assert (change["collection"], change["why"]) == ("decisions", "to try it")


async def test_a_model_closes_its_session(path):
    async with a_model_at_work(path) as model:
        closed = await model.do("Close the session")
        assert closed["status"] == "closed"
    async with a_model(path) as model:
        listed = await model.do("Which sessions are there to open?")
        assert listed["sessions"] == []
