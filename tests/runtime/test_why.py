"""Why of anything: every thing that is recorded is found by its name, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stator
from importers.claude_code_writer import TranscriptWriter, import_files
from stator import testing
from stator.errors import InvalidInput, NotFound
from stator.model.exchange.failures import failure_text
from stator.model.log.commit import Draft, Upsert
from stator.model.records.types import RevisionRecord
from stator.model.values.ids import retype


@stator.tool(effect="write", source="web")
def fetch(url):
    return "use tabs"


@stator.tool(effect="write")
def write(path):
    return "ok"


@stator.tool(effect="write")
def fail(path):
    raise RuntimeError("disk full")


def record_revision(store, session, sha, **fields):
    """A revision, as an import records it."""
    draft = Draft(
        id=store.context.mint("commit"),
        session=session,
        kind="revision",
        changes=(Upsert("revisions", RevisionRecord(sha=sha, **fields)),),
    )
    return store.port.append(session, [draft])[0]


@pytest.fixture
def shop(either):
    """A project with two sessions that changed their minds, and another project."""
    with either.open("monday", project="shop") as s, s.turn("make it fast") as t:
        t.decide("cache it", topic="speed", why="read often", over=["a faster disk"])
        t.call(write, path="a.py")
        t.file("a.py", "modified", why="added a cache")
        t.fact("port", 80)
        t.prefer("tabs", "yes")
        t.plan(["measure it"])
        t.artifact("notes", "first")
        t.dead_end("a bigger cache", why="no memory")
    with either.open("tuesday", project="shop") as s, s.turn("again") as t:
        t.decide("drop the cache", topic="speed", why="it was wrong")
        t.file("a.py", "modified")
        t.fact("port", 8080)
    with either.open("away", project="other") as s, s.turn("elsewhere") as t:
        t.decide("no", topic="speed")
        t.file("a.py", "created")
    return either


def kinds(why):
    return [(answer.kind, answer.name) for answer in why.answers]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.py", "file"), ("speed", "decision"), ("port", "fact"), ("tabs", "preference"),
        ("measure it", "plan"), ("notes", "artifact"), ("a bigger cache", "dead_end"),
    ],
)  # fmt: skip
def test_a_thing_is_found_by_its_name_and_with_its_kind_before_it(shop, name, kind):
    assert kinds(shop.why(name, project="shop")) == [(kind, name)]
    assert kinds(shop.why(f"{kind}:{name}", project="shop")) == [(kind, name)]
    assert kinds(shop.why(f"monday:{kind}:{name}", project="shop")) == [(kind, name)]
    assert not shop.why(f"{kind}:{name} of another kind", project="shop").answers


def test_a_word_that_names_several_things_is_answered_for_each(shop):
    with shop.open("monday", project="shop") as s, s.turn("names") as t:
        t.fact("speed", "fast")
        t.file("speed", "created")
    assert {kind for kind, _ in kinds(shop.why("speed", project="shop"))} == {
        "decision", "fact", "file",
    }  # fmt: skip


def test_no_answer_names_a_session_of_another_project(shop):
    here = {shop.read(name).id for name in ("monday", "tuesday")}
    for thing in ("a.py", "speed"):
        assert {reason.session for reason in shop.why(thing, project="shop")} == here
        everywhere = {reason.session for reason in shop.why(thing, all=True)}
        assert everywhere == {*here, shop.read("away").id}
        assert {r.session for r in shop.why(thing, session="away", all=True)} == everywhere - here


def test_the_answer_says_where_it_looked(shop):
    looked = shop.why("never", project="shop").looked
    assert (looked.project, looked.sessions, looked.more) == ("shop", 2, False)
    assert shop.read("monday").why("never").looked.session == "monday"


def test_of_a_decision_the_newest_is_in_force_and_the_others_say_what_replaced_them(shop):
    with shop.open("tuesday", project="shop") as s, s.turn("final") as t:
        t.decide("cache half", topic="speed")
    found = shop.why("speed", project="shop")
    versions = [r for r in found if r.kind == "decision"]
    status = {reason.text: reason.status for reason in versions}
    newest = next(r for r in versions if r.text == "cache half")
    assert status == {
        "cache half": "in force",
        "drop the cache": f"superseded by @{newest.seq}",
        "cache it": "earlier",
    }


def test_a_decision_leads_to_the_calls_and_files_after_it_in_its_turn(shop):
    found = shop.why("speed", session="monday", project="shop")
    assert [(r.kind, r.text) for r in found][:3] == [
        ("decision", "cache it"),
        ("call", "write(path=a.py)"),
        ("edit", "modified by agent: added a cache"),
    ]
    (decision, *_) = found
    assert (decision.over, decision.detail) == (["a faster disk"], "read often")


def test_a_file_leads_to_the_decision_of_its_turn_and_to_its_revision(shop):
    session = shop.read("monday").id
    made = record_revision(shop, session, "64f1b9a", subject="faster", files=["a.py"])
    found = list(shop.why("a.py", session="monday", project="shop"))
    assert [r.kind for r in found] == ["decision", "call", "edit", "revision"]
    assert (found[-1].topic, found[-1].seq) == ("64f1b9a", made.seq)


def test_a_revision_of_other_files_is_not_said_to_come_from_an_edit(shop):
    record_revision(shop, shop.read("monday").id, "64f1b9a", files=["b.py"])
    assert "revision" not in {r.kind for r in shop.why("a.py", project="shop")}


@pytest.mark.parametrize(
    "typed", ["64f1b9a", "64F1B9A", "64f1b9a77c1d", "revision:64f1b9a", "64f1"]
)
def test_a_revision_is_found_by_more_or_fewer_digits_than_are_recorded(shop, typed):
    record_revision(shop, shop.read("monday").id, "64f1b9a", subject="faster")
    found = shop.why(typed, project="shop")
    assert kinds(found) == [("revision", "64f1b9a")]
    assert {r.kind for r in found} >= {"revision", "asked", "decision", "edit"}


def test_a_revision_holds_what_was_done_since_the_one_before_it(shop):
    session = shop.read("tuesday").id
    record_revision(shop, session, "aaaaaaa")
    with shop.open("tuesday", project="shop") as s, s.turn("more") as t:
        t.file("b.py", "created")
    record_revision(shop, session, "bbbbbbb")
    assert {r.path for r in shop.why("bbbbbbb", project="shop") if r.kind == "edit"} == {"b.py"}
    assert {r.path for r in shop.why("aaaaaaa", project="shop") if r.kind == "edit"} == {"a.py"}


def test_a_call_is_found_by_its_id_with_who_asked_for_it_and_what_came_of_it(either):
    with either.open("main") as s, s.turn("try it") as t:
        t.try_call(fail, path="a.py")
        t.call(write, path="a.py")
        t.try_call(fail, path="a.py")
    first, good, _ = sorted(s.calls(), key=lambda row: row.seq)
    (answer,) = either.why(first.call).answers
    assert [(r.kind, r.status) for r in answer if r.kind in ("call", "asked")] == [
        ("asked", ""), ("call", "error"),
    ]  # fmt: skip
    (answer,) = either.why(good.call[-8:]).answers
    assert (answer.kind, answer.name) == ("call", good.call)
    assert either.why(retype(good.call, "commit")).answers == [answer]


def test_a_failed_call_is_followed_by_the_same_one_that_worked(either):
    again = iter([RuntimeError("busy"), "ok"])

    @stator.tool(effect="write")
    def push(path):
        if isinstance(result := next(again), Exception):
            raise result
        return result

    with either.open("main") as s, s.turn("push") as t:
        t.try_call(push, path="a")
        t.call(push, path="a")
    failed = min(s.calls(), key=lambda row: row.seq)
    calls = [(r.status, r.detail) for r in either.why(failed.call) if r.kind == "call"]
    assert calls[1] == ("ok", "the same, and it worked")
    good = max(s.calls(), key=lambda row: row.seq)
    details = [r.detail for r in either.why(good.call) if r.kind == "call"]
    assert details == ["the same, which this call repaired", ""]


def test_a_call_rests_on_the_last_decision_on_each_topic_before_it_in_its_turn(either):
    with either.open("main") as s, s.turn("pay") as t:
        t.decide("card", topic="payment")
        t.decide("transfer", topic="payment", over=["card"], why="no cards there")
        t.call(write, path="a")
        t.decide("later", topic="receipt")
    (row,) = s.calls()
    decided = [(r.topic, r.text, r.over) for r in either.why(row.call) if r.kind == "decision"]
    assert decided == [("payment", "transfer", ["card"])]


def test_a_failed_call_says_what_came_back_beside_its_cause_each_once():
    assert failure_text("Exit code 1", "Exit code 1\nno file\n\n bye") == (
        "Exit code 1: no file\nbye"
    )
    assert failure_text("failed:\\n\\nlint", "failed:\\n\\nlint\nfix it") == (
        "failed: lint\nfix it"
    )


def test_a_commit_is_found_by_its_position_in_a_session_and_by_its_hash(shop):
    view = shop.read("monday")
    (commit,) = [c for c in view.log() if c.kind == "fact"]
    by_seq = view.why(f"@{commit.seq}")
    assert kinds(by_seq) == [("commit", f"@{commit.seq}")]
    assert next(r.kind for r in by_seq) == "fact"
    assert kinds(shop.why(commit.hash[:12], project="shop")) == kinds(by_seq)
    with pytest.raises(InvalidInput, match="say in which"):
        shop.why(f"@{commit.seq}", project="shop")


def test_a_name_in_another_case_or_a_part_of_it_is_found_second_and_said_to_be(shop):
    for typed, matched in (("SPEED", "another case"), ("spe", "begins so"), ("pee", "contains it")):
        (answer,) = shop.why(typed, project="shop").answers
        assert (answer.kind, answer.name, answer.matched) == ("decision", "speed", matched)


def test_what_a_later_session_took_over_is_no_version_of_its_own(either):
    with either.open("monday") as s, s.turn("look") as t:
        t.fact("target", "~/photos")
    for name in ("tuesday", "wednesday"):
        with either.open(name, after="last") as s, s.turn("go on") as t:
            t.say("on it")
    (answer,) = either.why("fact:target").answers
    assert (answer.changes, [turn.name for turn in answer.turns]) == (1, ["monday"])


def test_the_end_of_a_path_finds_the_file_in_every_checkout(shop):
    for name, folder in (("monday", "/one"), ("tuesday", "/two")):
        with shop.open(name, project="shop") as s, s.turn("deep") as t:
            t.file(f"{folder}/src/deep.py", "modified")
    answers = shop.why("src/deep.py", project="shop").answers
    assert sorted((each.name, each.matched, each.changes) for each in answers) == [
        ("/one/src/deep.py", "ends so", 1),
        ("/two/src/deep.py", "ends so", 1),
    ]


def test_what_is_not_found_is_answered_with_names_like_it(shop):
    found = shop.why("sped", project="shop")
    assert (found.answers, found.near) == ([], ["decision:speed"])


def test_the_edits_before_a_rename_are_those_of_the_file(either):
    with either.open("main") as s, s.turn("move") as t:
        t.file("old.py", "created")
        t.file("new.py", "renamed", from_path="old.py")
        t.file("old.py", "created")
    (answer,) = either.why("new.py").answers
    assert [r.text for r in answer if r.kind == "edit"] == [
        "created by agent", "renamed by agent, was old.py",
    ]  # fmt: skip


def test_what_was_rewound_appears_nowhere(either):
    with either.open("main") as s:
        with s.turn("keep") as t:
            t.decide("yes", topic="kept")
        with s.turn("leave") as t:
            t.decide("no", topic="left")
            t.call(write, path="left.py")
            t.file("left.py", "created")
        call = s.calls()[0].call
        s.rewind("t1")
        for thing in ("left", "left.py", call, "decision:left"):
            assert not either.why(thing).answers, thing
        assert either.why("kept").answers


def test_what_was_erased_is_not_found_by_its_name_and_says_so_where_it_was(either):
    with either.open("main") as s, s.turn("secret plan") as t:
        t.decide("the old price", topic="price", why="hidden")
        t.file("a.py", "modified")
    (decision,) = [c for c in s.log() if c.kind == "decision"]
    either.erase(either.erasing("main", at=f"@{decision.seq}"))
    assert not either.why("price").answers
    shown = [(r.kind, r.text, r.detail) for r in either.why("a.py") if r.kind == "decision"]
    assert shown == [("decision", "(erased)", "")]


def test_trust_is_said_of_what_a_decision_was_made_from(either):
    with either.open("main") as s, s.turn("look it up") as t:
        page = t.try_call(fetch, url="https://tabs.example/guide")
        t.decide("tabs", topic="indent", from_=page)
        t.decide("four", topic="width", from_="t1")
    (reason,) = [r for r in either.why("indent") if r.kind == "decision"]
    assert reason.trust == "unverified"
    (ground,) = reason.grounds
    assert (ground.trust, ground.source) == ("unverified", "web:tabs.example")
    either.contribute("main").vouch("host:tabs.example", why="ours")
    (reason,) = [r for r in either.why("indent") if r.kind == "decision"]
    assert (reason.trust, reason.grounds[0].trust) == ("", "vouched")


@pytest.mark.parametrize("thing", ["", "  ", "x" * 5000])
def test_a_question_about_nothing_is_refused(either, thing):
    with pytest.raises(stator.StatorError):
        either.why(thing)


def test_odd_texts_are_questions_like_any_other(shop):
    for thing in (
        ":",
        "::",
        "a:",
        ":a",
        "file:",
        "\x1b[2J",
        "a.py:0",
        "a.py:9-3",
        "decision:",
        "🙂",
    ):
        assert shop.why(thing, project="shop").asked == thing


def test_a_decision_after_the_edits_of_its_turn_is_not_given_as_their_reason(either):
    with either.open("main") as s, s.turn("go") as t:
        t.say("I will rewrite it.")
        t.file("a.py", "modified")
        t.decide("keep the hook", topic="hook")
    found = list(either.why("a.py"))
    assert {r.kind for r in found} == {"said", "asked", "edit", "decision"}
    assert next(r for r in found if r.kind == "decision").status == "after the edits"


def test_words_after_the_edits_of_a_turn_are_marked_as_such(either):
    with either.open("main") as s, s.turn("go") as t:
        t.file("a.py", "modified")
        t.say("I rewrote it.")
    (said,) = [r for r in either.why("a.py") if r.kind == "said"]
    assert (said.text, said.status) == ("I rewrote it.", "after the edits")


def test_what_the_program_of_an_agent_adds_is_not_quoted_as_the_agents_words(either):
    edit = stator.tool(lambda path: "ok", name="edit", effect="write", files="path")
    with either.open("main") as s, s.turn("go") as t:
        t.say("<environment_context>", actor="system")
        t.call(edit, path="a.py")
        t.say("I rewrote it.")
    assert {r.text for r in either.why("a.py") if r.kind == "said"} == {"I rewrote it."}
    (call,) = either.read("main").calls()
    assert [r for r in either.why(call.call) if r.kind == "said"] == []


def test_a_turn_of_which_the_time_is_unknown_says_so(either):
    with either.open("main", labels={"times": "unknown"}) as s, s.turn("go") as t:
        t.decide("cents", topic="money")
    (turn,) = either.why("money").answers[0].turns
    assert not turn.times_known


def test_the_prompt_of_a_turn_and_its_time_are_those_of_the_edit_not_of_its_revision(either):
    with either.open("main") as s, s.turn("go") as t:
        t.file("a.py", "modified")
    made = record_revision(either, s.id, "64f1b9a", files=["a.py"])
    (turn,) = either.why("a.py").answers[0].turns
    assert turn.at < made.at
    record_revision(either, s.id, "64f1b9a", files=["a.py"], pushed="origin")
    assert next(r for r in either.why("a.py") if r.kind == "revision").status == "pushed"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A store of a folder in which a file was written in two turns."""
    monkeypatch.chdir(tmp_path)

    @stator.tool(effect="write", files="path")
    def put(path, text):
        (tmp_path / path).write_text(text)

    with stator.connect(str(tmp_path / "s.db"), project="shop") as store:
        with store.open("main") as s:
            s.track(contents=True)
            with s.turn("begin") as t:
                t.decide("one line", topic="size")
                t.call(put, path="a.txt", text="one\ntwo\n")
            with s.turn("go on") as t:
                t.call(put, path="a.txt", text="one\nthree\n")
        yield store


def test_a_line_of_a_file_leads_to_the_write_it_comes_from(written):
    (answer,) = written.why("a.txt:2").answers
    assert [(line.line, line.text, line.source, line.turn) for line in answer.lines] == [
        (2, "three", "recorded", 2)
    ]
    assert [turn.turn for turn in answer.turns] == [2]
    (answer,) = written.why("file:a.txt:1-2").answers
    assert {turn.turn for turn in answer.turns} == {1, 2}
    with pytest.raises(NotFound, match="2 lines"):
        written.why("a.txt:9")


def test_a_line_that_no_write_explains_is_said_to_come_from_none(written, tmp_path):
    (tmp_path / "a.txt").write_text("one\nmine\n")
    (answer,) = written.why("a.txt:2").answers
    assert ([line.source for line in answer.lines], answer.turns) == (["since"], [])


def test_hunks_show_what_each_turn_changed_and_only_if_asked(written):
    newest = written.why("a.txt").answers[0].turns[0]
    assert (newest.added, newest.removed, newest.patches) == (1, 1, [])
    newest = written.why("a.txt", hunks=True).answers[0].turns[0]
    assert "-two\n+three" in newest.patches[0].patch


SHAS = {"alpha": "aaaaaa1", "beta": "bbbbbb2", "gamma": "cccccc3"}
HISTORY = st.lists(
    st.tuples(
        st.sampled_from(("decision", "fact", "file", "call", "revision", "rewind", "turn")),
        st.sampled_from(("one", "two")),
        st.sampled_from(("alpha", "beta", "gamma")),
    ),
    max_size=14,
)


@given(HISTORY)
@settings(max_examples=40, deadline=None)
def test_in_any_history_what_is_in_force_is_found_by_its_name_and_nothing_else(acts):
    """Every decision, fact, file, call and revision of a project; what was rewound is not found, but for revisions,
    which no rewind takes back."""
    store = testing.memory_store(project="one")
    live: dict[tuple[str, str, str], set[str]] = {}
    for project in ("one", "two"):
        with store.open(f"s-{project}", project=project) as s:
            _play(store, s, project, [act for act in acts if act[1] == project], live)
    for project in ("one", "two"):
        session = store.read(f"s-{project}", project=project).id
        for kind in ("decision", "fact", "file"):
            for name in ("alpha", "beta", "gamma"):
                found = store.why(f"{kind}:{name}", project=project)
                exact = [a for a in found.answers if not a.matched]
                assert bool(exact) == bool(live.get((project, kind, name)))
                assert {r.session for r in found} <= {session}
        for name, sha in SHAS.items():
            found = store.why(f"revision:{sha}", project=project)
            assert bool(found.answers) == bool(live.get((project, "revision", name)))
            assert {r.session for r in found} <= {session}
        for call in live.get((project, "call", ""), ()):
            assert store.why(call, project=project).answers
            other = "two" if project == "one" else "one"
            assert not store.why(call, project=other).answers


def _play(store, s, project, acts, live):
    """Make the history of one session, and note what is in force of it."""
    turns = 0
    kept: list[list[tuple[str, str, str, str]]] = []
    for kind, _, name in [*acts, ("turn", project, "alpha")]:
        if kind == "rewind":
            if turns > 1:
                s.rewind("t1")
                kept = kept[:1]
                break
            continue
        with s.turn(f"do {kind}") as t:
            turns += 1
            made: list[tuple[str, str, str, str]] = []
            if kind == "decision":
                t.decide("x", topic=name)
            elif kind == "fact":
                t.fact(name, 1)
            elif kind == "file":
                t.file(name, "modified")
            elif kind == "call":
                t.call(write, path=name)
                made.append((project, "call", "", s.calls(last=1)[0].call))
            elif kind == "revision":
                record_revision(store, s.id, SHAS[name])
                live.setdefault((project, kind, name), set()).add("yes")  # no rewind takes it back
            if kind in ("decision", "fact", "file"):
                made.append((project, kind, name, "yes"))
            kept.append(made)
    for made in kept:
        for owner, kind, name, value in made:
            live.setdefault((owner, kind, name), set()).add(value)


def test_of_a_long_turn_the_words_before_each_edit_are_its_reasons(tmp_path):
    file = TranscriptWriter(tmp_path / "long.jsonl")
    file.prompt("make it right")
    for n in range(60):
        is_edit = n % 10 == 5
        tool, path = ("Edit", "/home/dev/demo/a.py") if is_edit else ("Read", f"/home/dev/demo/{n}")
        given = {"file_path": path} | (
            {"old_string": f"x{n}", "new_string": "y"} if is_edit else {}
        )
        file.says(f"m{n}", f"Reason number {n}." if is_edit else f"Looking at {n}.")
        file.says(f"m{n}", (f"toolu_{n}", tool, given))
        file.result(f"toolu_{n}", "done")
    with stator.connect(tmp_path / "a.db", project="shop") as store:
        import_files(store, file.path)
        (answer,) = store.why("a.py", all=True).answers
    said = [one.text for turn in answer.turns for one in turn.reasons if one.kind == "said"]
    assert said == [f"Reason number {n}." for n in range(5, 60, 10)]
