"""Tests how an agent finds things over MCP: search, why, keys with their session, pages, sizes."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stator
from stator.surfaces.mcp.keys import split_key
from stator.surfaces.mcp.request_context import RequestContext
from stator.surfaces.mcp.scope import Scope
from stator.surfaces.mcp.tools import registry
from stator.surfaces.mcp.tools.answers import bounded_text, text_blocks
from surfaces.agents import talking
from surfaces.recorded import record

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024
HOSTILE = '"\\\n\x1b\u202e\U000e0001é' * 700


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "agent.db", project="shop") as opened:
        yield opened


@pytest.fixture
def fixed(store):
    return record(store)


def answered(store, tool, **arguments):
    request = RequestContext(Scope(store, "shop"), "tester")
    return registry.call(request, tool, arguments)


def asking(store, tool, **arguments):
    return answered(store, tool, **arguments).structured()


def pages(store, tool, **arguments):
    """Every page of an answer."""
    more = None
    while True:
        page = asking(store, tool, **arguments, **({"cursor": more} if more else {}))
        yield page
        more = page["more"]
        if more is None:
            return


def rows_of(store, tool, **arguments):
    """The rows of every page."""
    return [row for page in pages(store, tool, **arguments) for row in page["rows"]]


# -- search ---------------------------------------------------------------------------------------


def test_search_falls_back_to_any_word_and_says_so(store, fixed):
    every = asking(store, "stator_search", words="revoked JWT")
    some = asking(store, "stator_search", words="revoked unicorn JWT")
    assert every["hits"]
    assert "some of them" not in every["note"]
    assert {hit["seq"] for hit in some["hits"]} >= {hit["seq"] for hit in every["hits"]}
    assert some["hits"][0]["seq"] in {hit["seq"] for hit in every["hits"]}, "both words come first"
    assert "No commit holds all of these words" in some["note"]


def test_search_for_words_that_no_commit_holds_finds_nothing(store, fixed):
    found = asking(store, "stator_search", words="unicorn griffin")
    assert found["hits"] == []
    assert "some of them" not in found["note"]


def test_a_word_that_must_not_occur_is_never_in_the_fallback(store, fixed):
    found = asking(store, "stator_search", words="JWT unicorn -revoked")
    assert found["hits"]
    assert all("revoked" not in hit["snippet"] for hit in found["hits"])


def test_the_library_searches_for_any_word_if_asked(store, fixed):
    assert store.search("revoked unicorn") == []
    assert store.search("revoked unicorn", any_word=True)


# -- keys -----------------------------------------------------------------------------------------


def test_the_key_of_every_hit_works_as_given_in_recall_why_and_log(store, fixed):
    for hit in asking(store, "stator_search", words="auth*")["hits"]:
        assert asking(store, "stator_recall", key=hit["key"])["session"] == fixed
        assert asking(store, "stator_why", thing=hit["key"])["rows"]
        around = asking(store, "stator_log", key=hit["key"], limit=5)["rows"]
        assert hit["seq"] in [row["seq"] for row in around]


@pytest.mark.parametrize("what", ["commits", "turns", "files", "decisions", "calls", "state"])
def test_every_row_of_a_log_has_a_key_that_can_be_recalled(store, fixed, what):
    rows = asking(store, "stator_log", session=fixed, what=what)["rows"]
    assert rows
    for row in rows:
        found = asking(store, "stator_recall", key=row["key"])
        assert (found["session"], found["status"]) == (fixed, "recallable")
        assert found["content"]


def test_the_keys_of_a_diff_can_be_recalled(store, fixed):
    found = asking(store, "stator_diff", session=fixed, start="t0..t3")
    keys = [row["key"] for row in (*found["changes"], *found["calls"]) if "key" in row]
    assert keys
    for key in keys:
        assert asking(store, "stator_recall", key=key)["content"]


def test_what_was_evicted_is_recalled_by_the_key_that_is_listed(store):
    with store.open("long") as session:
        for number in range(4):
            with session.turn(f"question {number}") as t:
                t.say(f"answer {number} " + "at length " * 200)
        session.compact(keep=1, summary="done")
    listed = asking(store, "stator_recall", session="long")["evicted"]
    assert listed
    for row in listed:
        assert asking(store, "stator_recall", key=row["key"])["content"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("@12", ("", "@12")),
        ("s_7f2a91bc:@12", ("s_7f2a91bc", "@12")),
        ("fix: the bug:@12", ("fix: the bug", "@12")),
        ("decision:auth:tokens", ("", "decision:auth:tokens")),
        ("monday:decision:auth", ("monday", "decision:auth")),
        ("src/auth.py:12", ("", "src/auth.py:12")),
        ("s_7f2a91bc:src/auth.py", ("s_7f2a91bc", "src/auth.py")),
        ("c_0123456789abcdef", ("", "c_0123456789abcdef")),
        ("", ("", "")),
    ],
)
def test_a_key_is_divided_into_its_session_and_the_rest(text, parts):
    assert split_key(text) == parts


async def test_a_tool_that_needs_a_session_says_what_to_pass(store):
    async with talking(store) as agent:
        for tool in ("stator_log", "stator_recall", "stator_settle"):
            error = await agent.refused(tool)
            assert (error["code"], error["path"]) == ("E_INVALID", "$.session")
            assert "stator_open returns" in error["hint"]


# -- why ------------------------------------------------------------------------------------------


def test_why_of_a_file_names_the_decision_the_request_and_the_edit(store, fixed):
    found = asking(store, "stator_why", thing="auth.py")
    kinds = {row["kind"]: row for row in found["rows"]}
    assert kinds["decision"]["what"] == "auth: use JWT, over server sessions"
    assert kinds["decision"]["why"] == "no shared session store"
    assert kinds["asked"]["what"] == "fix the login bug"
    assert "verify the token before use" in kinds["edit"]["what"]
    assert found["found"] == [{"kind": "file", "name": "auth.py", "changes": 1, "sessions": 1}]


def test_why_of_something_unknown_names_what_is_near_and_what_to_do(store, fixed):
    answer = answered(store, "stator_why", thing="auht.py")
    assert answer.data["rows"] == []
    assert {"thing": "auth.py"} in answer.data["near"]
    assert "stator_search" in answer.note


def test_why_is_paged_and_the_pages_are_the_whole(store):
    with store.open("busy") as session:
        for number in range(40):
            with session.turn(f"edit {number}") as t:
                t.file("a.py", "modified", why=f"reason {number}")
    whole, parts = (rows_of(store, "stator_why", thing="a.py", limit=limit) for limit in (100, 7))
    assert parts == whole
    assert len([row for row in whole if row["kind"] == "edit"]) == 40


# -- pages and sizes ------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    st.text(st.sampled_from('\r\n\t"\\aé\u202e\u0301\U000e0001'), max_size=30), st.integers(0, 30)
)
def test_the_pages_of_a_recalled_text_are_the_whole_text(tmp_path_factory, part, lead):
    text = "x" * lead + (part or "y") * (40_000 // max(1, len(part)))
    path = tmp_path_factory.mktemp("paged") / "agent.db"
    with stator.connect(path, project="shop") as store:
        with store.open("one") as session, session.turn("go") as t:
            t.artifact("long", text)
        found = "".join(
            page["content"]
            for page in pages(store, "stator_recall", session="one", key="artifact:long")
        )
    assert found == "".join(bounded_text(piece, len(piece)) for piece in _split_like_pages(text))


def _split_like_pages(text: str) -> list[str]:
    """The text in lines: what is escaped does not depend on the lines around it."""
    return text.splitlines(keepends=True)


@pytest.mark.parametrize("what", ["commits", "files", "decisions", "state", "turns", "calls"])
@pytest.mark.parametrize("limit", [1, 7])
def test_a_log_that_grows_between_two_pages_repeats_and_skips_nothing(store, fixed, what, limit):
    before = [row["key"] for row in rows_of(store, "stator_log", session=fixed, what=what)]
    found: list[str] = []
    for number, page in enumerate(
        pages(store, "stator_log", session=fixed, what=what, limit=limit)
    ):
        found += [row["key"] for row in page["rows"]]
        if number < 3:
            outside = store.contribute(fixed)
            outside.fact(f"new {number}", number)
            outside.decide(f"new {number}", topic=f"new {number}")
            outside.file(f"new{number}.py", "created")
    assert found == before


def test_a_log_of_many_commits_is_paged_from_end_to_end(store):
    with store.open("many") as session, session.turn("go") as t:
        for number in range(1200):
            t.note("n", number)
    seqs = [row["seq"] for row in rows_of(store, "stator_log", session="many", limit=100)]
    assert seqs == list(range(store.read("many").head.seq, 0, -1))


def size(answer: Any) -> int:
    """The bytes of an answer as a client gets it: its data twice."""
    structured = answer.structured()
    texts = [types.TextContent(type="text", text=t) for t in text_blocks(structured, answer.line)]
    made = types.CallToolResult(content=list(texts), structured_content=structured)
    return len(made.model_dump_json(by_alias=True).encode())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A store with a session in which every text is long and has to be escaped."""
    path = tmp_path_factory.mktemp("hostile") / "agent.db"
    with stator.connect(path, project="shop") as opened:
        with opened.open("hostile", agent=HOSTILE[:200]) as session:
            with session.turn(HOSTILE) as t:
                for place in range(10):
                    t.try_call(_fail, f"{place} {HOSTILE}")
            for number in range(3):
                with session.turn(HOSTILE) as t:
                    for place in range(24):
                        name = f"{number} {place} {HOSTILE[:300]}"
                        t.decide(HOSTILE, topic=name, why=HOSTILE, over=[HOSTILE] * 3)
                        t.fact(name, {name: HOSTILE})
                        t.file(f"{number}/{place}/{'é' * 200}.py", "modified", why=HOSTILE)
            session.compact(keep=1, summary=HOSTILE)
        yield opened


@stator.tool(effect="write", name='a"' * 100)
def _fail(text):
    raise stator.InDoubt(HOSTILE)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("stator_open", {"max_tokens": 20_000}),
        *(("stator_log", {"what": what, "limit": 100}) for what in ("commits", "turns", "files")),
        *(("stator_log", {"what": what, "limit": 100}) for what in ("decisions", "calls", "state")),
        ("stator_diff", {"start": "t0..head"}),
        ("stator_recall", {}),
        ("stator_recall", {"key": "@3"}),
        ("stator_settle", {}),
        ("stator_search", {"words": "é", "limit": 100}),
        ("stator_why", {"thing": f"0/1/{'é' * 200}.py", "limit": 100}),
    ],
)
def test_no_answer_is_larger_than_a_mebibyte(hostile, tool, given):
    assert size(answered(hostile, tool, session="hostile", **given)) <= MIB


def test_a_list_of_sessions_is_not_larger_than_a_mebibyte(hostile):
    assert size(answered(hostile, "stator_open")) <= MIB


@pytest.mark.parametrize("what", ["commits", "decisions", "state"])
def test_pages_that_are_cut_by_size_lose_nothing(hostile, what):
    given = {"session": "hostile", "what": what}
    large, small = (rows_of(hostile, "stator_log", **given, limit=limit) for limit in (100, 20))
    assert large == small
    assert len(large) >= 72
