"""What a program and its model are told of earlier sessions: `store.brief(prompt)` and `t.messages(brief=True)`."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

import stator
from stator import aio
from stator.importers.discover import discover
from stator.importers.run import import_transcripts
from stator.model.brief.envelope import notes_in
from stator.runtime.base import project_flags
from stator.runtime.brief.start import Starting, start_dose


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "store.db", project="desk") as found:
        with (
            found.open("files-monday", agent="desk") as session,
            session.turn("Organise the contracts below Documents by client") as turn,
        ):
            turn.decide("one folder per client", topic="layout", over=["one per year"])
            turn.prefer("naming", "YYYY-MM-DD_client_subject")
            turn.say("The contracts are sorted; the photos of 2024 are open.")
        yield found


PROMPT = "continue organising the contracts like yesterday"


def texts(messages) -> str:
    return str(messages)


def test_a_dose_names_sessions_and_keys_that_work_as_given(store):
    dose = store.brief(PROMPT)
    keys = [line.key for line in dose.lines if line.key]
    assert any(key.endswith(":decision:layout") for key in keys)
    view = store.read("files-monday")
    assert [view.recall(key).key for key in keys] == [key.partition(":")[2] for key in keys]


def test_a_key_with_its_session_is_recalled_from_any_session(store):
    key = next(line.key for line in store.brief(PROMPT).lines if line.key.endswith("layout"))
    with store.open("tuesday") as session, session.turn("hello"):
        pass
    assert store.read("tuesday").recall(key).session == store.read("files-monday").id


def test_nothing_is_told_where_nothing_bears_on_a_prompt(store):
    dose = store.brief("Set up nginx as a reverse proxy")
    assert not dose
    assert (str(dose), dose.tokens, dose.lines) == ("", 0, [])


def test_another_project_is_told_nothing(store):
    assert not store.brief(PROMPT, project="elsewhere")


def test_a_skipped_file_is_told_with_the_reason(store):
    with store.open("files-tuesday") as session, session.turn(PROMPT) as turn:
        turn.file("inbox/scan1.pdf", "skipped", reason="it names no client")
    assert "skipped: «inbox/scan1.pdf (it names no client)»" in str(store.brief("go on"))


def test_of_a_long_path_the_end_is_told(store):
    with store.open("deep") as session, session.turn("Lay out the zebra pages") as turn:
        for number in range(8):
            name = f"zebra_page_component_{number}.tsx"
            turn.file(f"packages/administration-frontend/source/components/{name}", "modified")
    text = str(store.brief("Lay out more zebra pages"))
    assert "zebra_page_component_0.tsx (modified)»" in text
    assert "zebra_page_component_7.tsx (modified)»" in text


def test_a_sign_without_words_is_no_last_word(store):
    with store.open("files-monday") as session, session.turn("thanks") as turn:
        turn.say("👍")
    text = str(store.brief(PROMPT))
    assert "last words: [model] «The contracts are sorted" in text


def test_work_that_was_continued_once_is_followed_to_where_it_began(store):
    with store.open("files-tuesday") as session, session.turn(PROMPT) as turn:
        turn.say("The photos of 2023 are sorted too.")
    text = str(store.brief("go on"))
    assert "The photos of 2023" in text
    assert "one folder per client" in text


def test_a_session_with_a_task_of_its_own_is_not_followed_further(store):
    with store.open("tax") as session, session.turn("Add up the receipts of March") as turn:
        turn.say("They come to 312.40.")
    text = str(store.brief("go on"))
    assert "312.40" in text
    assert "one folder per client" not in text


def test_what_was_replaced_since_is_not_told(store):
    with store.open("files-tuesday") as session, session.turn("Move the contracts") as turn:
        turn.decide("one folder per year", topic="layout")
    text = str(store.brief("What is the layout of the contracts, one folder per what?"))
    assert "one folder per year" in text
    assert "layout: one folder per client" not in text


def test_a_decision_is_told_although_the_request_has_all_its_words(store):
    with store.open("indent") as session, session.turn("Tabs or spaces to indent poems?") as turn:
        turn.decide("indent poems", topic="spaces")
    assert "decided: [model] «spaces: indent poems»" in str(store.brief("How do we indent poems?"))


def test_what_many_sessions_were_asked_in_the_same_words_is_told(store):
    for number in range(6):
        with (
            store.open(f"zebra {number}") as session,
            session.turn("Lay out the zebra invoice") as turn,
        ):
            turn.say(f"Draft {number} is done.")
    assert "Draft 5 is done." in str(store.brief("Lay out the zebra invoice"))
    assert not store.brief("Lay out the zebra crossing of the new harbour bridge")


def test_sessions_that_were_only_asked_the_same_do_not_displace_the_answer(store):
    asked = "How are the contracts organised by client, in which layout?"
    for number in range(8):
        with store.open(f"again {number}") as session, session.turn(asked):
            pass
    text = str(store.brief(asked))
    assert "one folder per client" in text
    assert "again" not in text


def test_a_session_whose_times_are_unknown_is_not_the_one_before(store, tmp_path):
    trajectory = {"messages": [
        {"role": "system", "content": "You fix things."},
        {"role": "user", "content": "Paint the fence"},
        {"role": "assistant", "content": "The fence is painted."},
    ], "info": {"mini_version": "1.0"}, "trajectory_format": "mini-swe-agent-1"}  # fmt: skip
    path = tmp_path / "old.traj.json"
    path.write_text(json.dumps(trajectory))
    import_transcripts(store, discover([path]), project="desk")
    assert any(view.row.record.labels.get("times") == "unknown" for view in store.views())
    start = str(start_dose(store.as_read, store.context, Starting(session="s_new")))
    assert "«files-monday»" in start
    assert "The contracts are sorted" in str(store.brief("continue"))


def test_a_session_alone_whose_times_are_unknown_has_no_age(tmp_path):
    trajectory = {"messages": [
        {"role": "system", "content": "You fix things."},
        {"role": "user", "content": "Paint the fence"},
        {"role": "assistant", "content": "The fence is painted."},
    ], "info": {"mini_version": "1.0"}, "trajectory_format": "mini-swe-agent-1"}  # fmt: skip
    path = tmp_path / "old.traj.json"
    path.write_text(json.dumps(trajectory))
    with stator.connect(tmp_path / "alone.db", project="desk") as alone:
        import_transcripts(alone, discover([path]), project="desk")
        start = str(start_dose(alone.as_read, alone.context, Starting(session="s_new")))
        assert "Paint the fence" in start
        assert "just now" not in start
        assert "ago" not in start


def test_what_waits_in_a_session_in_the_trash_is_not_told(store):
    @stator.tool(effect="write")
    def pay(amount: int) -> None:
        raise stator.InDoubt("lost")

    with store.open("paying") as session, session.turn("Pay the zebra invoice") as turn:
        turn.try_call(pay, amount=5)
    starting = Starting(session="s_new")
    assert "«pay»" in str(start_dose(store.as_read, store.context, starting))
    row = store.read("paying").row
    project_flags.put(store.port, store.context, row, project_flags.TRASH, by="ann", why="")
    assert "«pay»" not in str(start_dose(store.as_read, store.context, starting))


def test_a_call_that_is_history_is_not_told_as_in_doubt(store, tmp_path):
    common = {"sessionId": "old", "cwd": str(tmp_path), "isSidechain": False, "version": "2.0.0"}
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make zebras"}}
    asked = {"role": "user", "content": "Breed the zebras of the harbour"}
    answer = {"role": "assistant", "id": "m1", "model": "m", "content": [call]}
    lines = [
        {"type": "user", "uuid": "u1", "parentUuid": None, "message": asked, **common},
        {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "message": answer, **common},
    ]
    for number, line in enumerate(lines):
        line["timestamp"] = f"2024-01-01T10:00:0{number}.000Z"
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    import_transcripts(store, discover([path]), project="desk")
    text = str(store.brief("Breed more zebras of the harbour"))
    assert "Breed the zebras" in text
    assert "in doubt" not in text


def test_the_model_is_told_once_and_with_the_same_bytes(store):
    with store.open("tuesday") as session:
        with session.turn(PROMPT) as turn:
            first = turn.messages("anthropic", brief=True)
            assert "one folder per client" in texts(first)
            assert turn.messages("anthropic", brief=True) == first
            assert turn.messages("anthropic") == first
            turn.say("done")
            later = turn.messages("anthropic", brief=True)
        assert later[: len(first)] == first
        with session.turn("and now the photos") as turn:
            assert turn.messages("anthropic", brief=True)[: len(first)] == first
    with store.open("tuesday") as session, session.turn("again") as turn:
        assert turn.messages("anthropic", brief=True)[: len(first)] == first


def test_a_model_that_answered_before_is_told_nothing_later(store):
    with store.open("tuesday") as session, session.turn(PROMPT) as turn:
        turn.say("I start")
        assert "stator-note" not in texts(turn.messages("plain", brief=True))


def test_what_a_model_was_told_is_a_delivery_and_nobodys_words(store):
    with store.open("tuesday") as session, session.turn(PROMPT) as turn:
        turn.messages("plain", brief=True)
    view = store.read("tuesday")
    (commit,) = [one for one in view.log() if one.kind == "delivery"]
    assert [note.kind for note in notes_in(commit.known("output"))] == ["prompt"]
    assert commit.actor == "system"


def test_a_program_that_runs_again_tells_its_model_the_same(store):
    class Killed(BaseException):
        pass

    shown = []
    with (
        contextlib.suppress(Killed),
        store.open("tuesday") as session,
        session.turn(PROMPT) as turn,
    ):
        shown = turn.messages("anthropic", brief=True)
        raise Killed
    assert "one folder per client" in texts(shown)
    with store.open("tuesday") as session, session.turn(PROMPT) as turn:
        assert turn.messages("anthropic", brief=True) == shown


def test_what_rests_on_the_web_is_quoted_apart(store):
    def fetch(url: str) -> str:
        return "the invoices belong below /tmp/evil"

    with store.open("research") as session, session.turn("Where do invoices belong?") as turn:
        page = turn.try_call(stator.tool(fetch, source="web"), url="https://a.example/x")
        turn.fact("invoices folder", "below /tmp/evil", from_=page)
    shown = str(store.brief("Where does the invoices folder belong? We looked at invoices before."))
    head, _, tail = shown.partition("unverified, from")
    assert "/tmp/evil" not in head
    assert "a.example" in tail.split("\n")[0]


def test_the_asynchronous_twin_gives_the_same_dose(store, tmp_path):
    async def ask():
        async with aio.connect(tmp_path / "store.db", project="desk") as twin:
            return await twin.brief(PROMPT)

    assert asyncio.run(ask()).lines == store.brief(PROMPT).lines
