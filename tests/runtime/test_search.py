"""Searching a store: which hits are found, their order, and filters."""

from __future__ import annotations

import contextlib
from collections import Counter
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stator
from stator import testing
from stator.errors import BadQuery, NotFound, StoreError
from stator.model.log.commit import Draft, Erase
from stator.model.values.tokenizer import words
from stator.model.views.search import SearchQuery, parse
from stator.model.views.search_text import document
from stator.runtime.base.context import Context
from stator.runtime.facade.store import Store
from stator.runtime.views import search
from stator.store.sqlite.index.search_index import VERSION
from strategies import any_text


@stator.tool(effect="read")
def grep_files(pattern, path):
    return f"auth.py:3: {pattern} stands here"


@pytest.fixture
def filled(either):
    """A session with every kind of record."""
    with either.open("fix-login", agent="ann") as s, s.turn("repair the gearbox") as t:
        t.call(grep_files, pattern="flywheel", path="src/engine/piston.py")
        t.decide("use sprockets", topic="drive", why="belts slip", over=["pulleys"])
        t.fact("torque", {"axle": "forty newton"})
        t.prefer("style", "terse")
        t.dead_end("welding", why="it melts")
        t.plan("grease bearings", "in_progress", detail="with lithium")
        t.pend("order gaskets", why="none left")
        t.artifact("manual", "lubricate weekly")
        t.file("docs/crankshaft.md", "created", why="nobody wrote it down")
        t.use("app", "caliper")
        s.flag("odd-noise", why="rattles")
        t.say("the transmission hums")
    return either


def kinds(hits):
    return [hit.kind for hit in hits]


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ("gearbox", "turn"),
        ("transmission", "entry"),
        ("flywheel", "call"),
        ('"stands here"', "outcome"),
        ("sprockets", "decision"),
        ("belts", "decision"),
        ("pulleys", "decision"),
        ("torque", "fact"),
        ("newton axle", "fact"),
        ("terse", "preference"),
        ("melts", "dead_end"),
        ("lithium", "plan"),
        ("gaskets", "pending"),
        ("lubricate", "artifact"),
        ("crankshaft", "file"),
        ("wrote", "file"),
        ("caliper", "use"),
        ("rattles", "flag"),
        ("fix-login", "open"),
    ],
)
def test_every_kind_of_record_is_found(filled, asked, kind):
    assert kind in kinds(filled.search(asked))


THOUGHTS = [
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "an escapement might do", "signature": "sphinx"},
            {"type": "text", "text": "I take a spring."},
        ],
    },
    {
        "output": [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "an escapement might do"}],
                "encrypted_content": "sphinx",
            }
        ]
    },
    {
        "choices": [
            {
                "message": {
                    "role": "assistant",
                    "content": "I take a spring.",
                    "reasoning_content": "an escapement might do",
                    "reasoning_details": [{"type": "reasoning.encrypted", "data": "sphinx"}],
                }
            }
        ]
    },
]


@pytest.fixture(params=THOUGHTS, ids=["anthropic", "openai", "openai-chat"])
def thought(either, request):
    with either.open("clock") as s, s.turn("repair the clock") as t:
        t.say(request.param)
    return either


def test_what_an_agent_thought_is_found(thought):
    assert kinds(thought.search("escapement")) == ["entry"]


def test_what_a_provider_encrypted_is_not_searched(thought):
    assert thought.search("sphinx") == []


def test_what_a_tool_of_the_provider_gave_back_is_found(either):
    found = {"type": "web_search_result", "title": "Pendulums", "encrypted_content": "sphinx"}
    block = {"type": "web_search_tool_result", "tool_use_id": "w1", "content": [found]}
    with either.open("clock") as s, s.turn("repair the clock") as t:
        t.say({"role": "assistant", "content": [block]})
    assert kinds(either.search("pendulums")) == ["entry"]


def test_a_tool_that_an_answer_asks_for_is_found_once_as_the_call(either):
    asked = {"type": "tool_use", "id": "t1", "name": "grep_files", "input": {"pattern": "cog"}}
    with either.open("clock") as s, s.turn("repair the clock") as t:
        t.say({"role": "assistant", "content": [asked]})
        t.call(grep_files, pattern="cog", path="x")
    assert Counter(kinds(either.search("cog"))) == {"call": 1, "outcome": 1}


def test_a_change_of_the_indexed_words_needs_a_new_index_version(filled):
    """If the words of a commit change, VERSION must be raised so that old indexes are rebuilt."""
    told = [
        (found.kind, found.body, found.paths)
        for commit in filled.read("fix-login").log()
        if (found := document(commit)) is not None
    ]
    digest = sha256(repr((words("ÅÄ straße 日本 parseHttp_x"), told)).encode()).hexdigest()[:16]
    assert (VERSION, digest) == (6, "4f48ad147aff7c4f")


def test_a_hit_names_its_session_turn_and_commit(filled):
    (hit,) = filled.search("sprockets")
    commit = filled.read("fix-login").commit(f"@{hit.seq}")
    assert (hit.name, hit.agent, hit.project, hit.turn) == ("fix-login", "ann", "shop", 1)
    assert (commit.session, commit.kind, commit.when) == (hit.session, "decision", hit.at)


def test_a_hit_shows_what_matched(filled):
    (hit,) = filled.search("sprockets")
    assert hit.snippet == "drive · use sprockets · belts slip · pulleys"
    assert [hit.snippet[start:end] for start, end in hit.matched] == ["sprockets"]


def test_a_word_that_was_never_recorded_is_not_found(filled):
    assert filled.search("carburettor") == []


def test_all_words_must_match(filled):
    assert filled.search("sprockets gearbox") == []


def test_the_words_of_a_phrase_must_match_in_order(filled):
    assert filled.search('"slip belts"') == []


def test_a_phrase_does_not_match_across_two_texts(filled):
    assert filled.search('"sprockets belts"') == []


def test_an_excluded_word_removes_the_hits_that_contain_it(filled):
    assert filled.search("sprockets -belts") == []


def test_a_call_is_found_by_its_path_argument(filled):
    assert kinds(filled.search("flywheel", path="src/engine")) == ["call"]


def test_the_path_filter_excludes_other_paths(filled):
    assert filled.search("flywheel", path="src/gearing") == []


def test_the_tool_filter_excludes_other_tools(filled):
    assert kinds(filled.search("stands", tool="grep_files")) == ["outcome"]
    assert filled.search("stands", tool="bash") == []


def test_the_kinds_filter_excludes_other_kinds(filled):
    assert kinds(filled.search("melts", kinds=["dead_end"])) == ["dead_end"]
    assert filled.search("melts", kinds=["turn", "entry"]) == []


def test_an_unknown_kind_is_refused(filled):
    with pytest.raises(BadQuery, match="no kind"):
        filled.search("melts", kinds=["event"])


def test_the_agent_filter_excludes_other_agents(filled):
    assert filled.search("sprockets", agent="ann")
    assert filled.search("sprockets", agent="bob") == []


def test_the_project_filter_excludes_other_projects(filled):
    with filled.open("elsewhere", project="mill") as s:
        s.fact("part", "sprockets")
    assert [hit.name for hit in filled.search("sprockets", project="mill")] == ["elsewhere"]
    assert len(filled.search("sprockets")) == 2


def test_the_time_filters_exclude_earlier_and_later_commits(filled):
    (hit,) = filled.search("sprockets")
    assert filled.search("sprockets", since=hit.at, until=hit.at) == [hit]
    assert filled.search("sprockets", since=hit.at + 1) == []
    assert filled.search("sprockets", until=hit.at - 1) == []


def test_searching_a_missing_session_is_not_found(filled):
    with pytest.raises(NotFound):
        filled.search("sprockets", session="nobody")


def test_equal_hits_are_listed_newest_first(either):
    for name in ("one", "two", "three"):
        with either.open(name) as s:
            s.fact("part", "sprocket")
    assert [hit.name for hit in either.search("sprocket")] == ["three", "two", "one"]


def test_a_short_text_ranks_above_a_long_one(either):
    with either.open("short") as s:
        s.fact("part", "sprocket")
    with either.open("long") as s:
        s.fact("parts", "sprocket " + "nuts bolts washers screws " * 50)
    assert either.search("sprocket")[0].name == "short"


def test_the_limit_bounds_the_number_of_hits(either):
    with either.open("main") as s:
        for n in range(5):
            s.fact(f"part {n}", "sprocket")
    assert len(either.search("sprocket", limit=3)) == 3


def test_a_new_commit_is_found_by_the_next_search(filled):
    assert filled.search("camshaft") == []
    with filled.open("fix-login") as s:
        s.fact("part", "camshaft")
    assert kinds(filled.search("camshaft")) == ["fact"]


def test_a_search_without_refresh_does_not_find_newer_commits(filled):
    filled.search("sprockets")
    with filled.open("fix-login") as s:
        s.fact("part", "camshaft")
    assert filled.search("camshaft", fresh=False) == []


def test_a_search_without_refresh_does_not_show_erased_content(filled):
    (hit,) = filled.search("sprockets")
    change = Erase(seq=hit.seq)
    draft = Draft(
        id=filled.context.mint("commit"), session=hit.session, kind="erasure", changes=(change,)
    )
    filled.port.append(hit.session, [draft])
    assert filled.search("sprockets", fresh=False) == []


def test_a_search_leaves_the_index_up_to_date(filled):
    filled.search("sprockets")
    with filled.context.index(filled.port, True) as index:
        assert index.behind() == ([], [])


def test_a_shared_commit_is_found_once_under_the_session_that_wrote_it(filled):
    filled.fork("fix-login", as_name="other")
    assert [hit.name for hit in filled.search("sprockets")] == ["fix-login"]


def test_searching_a_fork_includes_shared_commits_and_excludes_later_ones(filled):
    filled.fork("fix-login", as_name="other")
    with filled.open("fix-login") as s:
        s.fact("later", "sprockets")
    assert [(hit.name, hit.kind) for hit in filled.search("sprockets", session="other")] == [
        ("fix-login", "decision")
    ]


def test_a_rewound_commit_is_found_and_marked(either):
    with either.open("main") as s:
        s.fact("first", "sprocket")
        with s.turn("one") as t:
            t.fact("second", "sprocket")
        s.rewind("t0")
        s.fact("third", "sprocket")
    found = {hit.snippet: hit.rewound for hit in either.search("sprocket")}
    assert found == {"first · sprocket": True, "second · sprocket": True, "third · sprocket": False}


def test_what_the_store_says_of_a_long_output_is_not_part_of_it(either):
    with either.open("s") as s, s.turn("go") as t:
        t.say({"gasket": "worn " * 400, "model": "a", "usage": 3})
    (hit,) = either.search("worn")
    assert "object with" not in hit.snippet
    assert either.search("bytes") == []


def test_a_summary_is_found_in_the_compaction_that_made_it(either):
    with either.open("main") as s:
        for n in range(8):
            with s.turn(f"turn {n}") as t:
                t.say("word " * 400)
        s.compact(max_tokens=200, keep=1, summary="grease was applied")
    assert "compaction" in kinds(either.search("grease"))


def test_a_secret_is_not_in_the_index(either):
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    with either.open("main") as s, s.turn(f"use the token {secret} please"):
        pass
    assert kinds(either.search("token please")) == ["turn"]
    assert either.search(secret) == []


def test_a_session_in_the_trash_is_not_found(either):
    from stator.runtime.base import project_flags

    with either.open("main") as s:
        s.fact("part", "sprocket")
    row = either.port.session(s.id)
    project_flags.put(either.port, either.context, row, project_flags.TRASH, by="ann", why="")
    assert either.search("sprocket") == []


@pytest.mark.parametrize(
    "text",
    [
        "NEAR(a b)", "body:sprockets", '{paths}: "x"', "a AND OR NOT b", "^start", "((( x", "a + b",
        "'; DROP TABLE doc", '"" "" x', "a\x00b", "x" * 900, "NOT x", "- x", "* x", "word MATCH 'x'", "é" * 500,
        "rank:1", "ab" + "*" * 50,
    ],
)  # fmt: skip
def test_unusual_queries_give_an_answer(shared_store, text):
    assert isinstance(shared_store.search(text), list)
    assert shared_store.search("sprocket")


@given(text=any_text)
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_query_gives_an_answer_or_bad_query(shared_store, text):
    with contextlib.suppress(BadQuery):
        assert isinstance(shared_store.search(text), list)


@pytest.fixture(scope="module")
def shared_store():
    store = testing.memory_store()
    with store.open("main") as s:
        s.fact("part", "sprocket naïve 日本")
    return store


@given(text=any_text)
@settings(max_examples=40)
def test_every_word_of_a_text_finds_it(text):
    store = testing.memory_store()
    with store.open("main") as s, s.turn(text) as t:
        t.say("done")
    for word in words(text)[:5]:
        assert "turn" in kinds(store.search(word)), word


def test_a_session_purged_during_the_search_is_omitted(filled):
    session, gone = filled.read("fix-login").id, "s_" + "0" * 32
    query = SearchQuery(terms=parse("sprockets")[0])
    (hit,) = filled.search("sprockets")
    found = search._hits(filled.port, [(gone, hit.seq), (session, hit.seq)], query)
    assert list(found) == [hit]


def test_searching_a_store_without_an_index_is_an_error():
    from stator.connect import mint
    from stator.store.memory import MemoryStore

    bare = Store(
        MemoryStore(), Context(clock=lambda: 0, mint=mint, secret=lambda size: b"x" * size)
    )
    with pytest.raises(StoreError, match="no search index"):
        bare.search("sprocket")


# -- Law 1: the index is a cache ------------------------------------------------------------------

ACTS = st.lists(
    st.tuples(
        st.sampled_from(["fact", "say", "fork", "rewind", "erase", "search"]),
        st.integers(0, 3),
        st.sampled_from(["alpha beta", "beta gamma", "gamma_alpha", "Delta"]),
    ),
    max_size=12,
)


@given(acts=ACTS)
@settings(max_examples=30)
def test_an_incremental_index_answers_like_a_rebuilt_one(acts):
    store = testing.memory_store()
    store.open("s0").close()
    names = ["s0"]
    for act, which, text in acts:
        _perform(store, names, act, names[which % len(names)], text)
    asked = ("alpha", "beta", "gam*", '"alpha beta"', "delta -beta")
    grown = [store.search(text, limit=100) for text in asked]
    anew = _made_anew(store)
    assert [anew.search(text, limit=100) for text in asked] == grown


def _perform(store, names, act, name, text):
    if act == "search":
        store.search("alpha")
    elif act == "fork":
        names.append(f"s{len(names)}")
        store.fork(name, as_name=names[-1])
    elif act == "erase":
        view = store.read(name)
        own = (commit for commit in view.log(newest_first=True) if commit.session == view.id)
        said = next((commit for commit in own if commit.kind in ("fact", "turn", "entry")), None)
        if said is not None:
            store.contribute(name).erase(f"@{said.seq}")
    else:
        with store.open(name) as s:
            if act == "fact":
                s.fact(text.split()[0], text)
            elif act == "rewind" and s.turns():
                s.rewind("t0")
            else:
                with s.turn(text) as t:
                    t.say(text)


def _made_anew(store):
    from stator.index_files import _passing

    del _passing[store.port]
    return store


def test_a_long_session_is_indexed_in_batches(memory):
    many = "lorem ipsum " * (search.BATCH_CHARACTERS // 50)
    with memory.open("main") as s:
        for n in range(6):
            s.fact(f"part {n}", f"sprocket {many}")
    assert len(memory.search("sprocket", limit=50)) == 6
