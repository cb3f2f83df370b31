"""`stator search`: as text, as JSON, and with unusual input."""

from __future__ import annotations

import json
from collections import Counter

import pytest

import stator
from stator.runtime.views.search import Hit
from stator.surfaces.cli.commands import search
from stator.surfaces.cli.commands.search import _lines
from surfaces.recorded import program


@pytest.fixture
def more(store, world):
    """A second session here, and one in another project."""
    with world.open(store) as opened:
        with opened.open("add-cart", agent="demo-agent") as s, s.turn("add a cart") as t:
            t.decide("keep the cart in JWT", topic="cart", why="no login needed")
        with opened.open("mill", project="mill") as s:
            s.fact("login", "by badge")
    return store


def items(answer):
    return [json.loads(line) for line in answer.out.splitlines()]


def test_hits_are_grouped_by_session_with_their_position(more, ask):
    assert ask("search", "login", "bug").out == (
        "project shop · 1 match in 1 session\n"
        "\n"
        "fix-login s_de82ef95 · demo-agent · 1 hit\n"
        "  @3  2026-11-15 00:00:05  t1   turn  fix the login bug\n"
        "\n"
        "show the match: stator show s_de82ef95:@3\n"
    )


def test_the_suggested_command_opens_the_hit(more, ask):
    hint = ask("search", "login", "bug").out.splitlines()[-1]
    command = hint.split(": stator ")[1].split()
    assert "fix the login bug" in ask(*command).out


def test_a_session_is_named_once_with_its_hits_counted(more, ask):
    out = ask("search", "login").out
    assert out.count("fix-login s_") == 1
    assert " hits" in out


def test_everywhere_searches_other_projects(more, ask):
    assert "by badge" not in ask("search", "login").out
    assert "by badge" in ask("search", "login", "--everywhere").out


def test_an_empty_search_names_the_wider_one_that_finds_something(more, ask):
    answer = ask("search", "badge")
    assert (answer.code, answer.out) == (0, "")
    assert (
        "no matches in project shop; there is something in every project of the store" in answer.err
    )


def test_a_hit_as_json(more, ask):
    (hit,) = items(ask("search", "cart", "jwt", "--json"))
    assert (hit["schema"], hit["name"], hit["kind"], hit["turn"]) == (
        "stator.hit/1",
        "add-cart",
        "decision",
        1,
    )
    assert [hit["snippet"][start:end] for start, end in hit["matched"]] == ["cart", "cart", "JWT"]


def test_an_argument_of_several_words_is_a_phrase(more, ask):
    assert items(ask("search", "login bug", "--json"))
    assert not items(ask("search", "bug login", "--json"))


def test_not_excludes_a_word(more, ask):
    assert items(ask("search", "jwt", "--json"))
    names = {hit["name"] for hit in items(ask("search", "jwt", "--not", "cart", "--json"))}
    assert names == {"fix-login"}


@pytest.mark.parametrize("phrase", ["login bug", '"login bug"', "“login bug”", "log*", "--login"])
def test_an_excluded_phrase_may_be_quoted(more, ask, phrase):
    assert items(ask("search", "fix", "--kind", "turn", "--json"))
    assert not items(ask("search", "fix", "--kind", "turn", f"--not={phrase}", "--json"))


def test_typographic_quotes_make_a_phrase(more, ask):
    assert items(ask("search", "“login bug”", "--json"))
    assert not items(ask("search", "“bug login”", "--json"))


def test_the_largest_limit_works(more, ask):
    assert items(ask("search", "login", "-n", "10000", "--json"))


def test_filters_are_combined(more, ask):
    given = (
        "--kind",
        "decision",
        "--agent",
        "demo-agent",
        "--since",
        "2026-11-15",
        "--session",
        "add-cart",
    )
    assert [hit["name"] for hit in items(ask("search", "jwt", *given, "--json"))] == ["add-cart"]


def test_until_excludes_later_commits(more, ask):
    assert not items(ask("search", "jwt", "--until", "2026-11-14", "--json"))


def test_until_a_date_includes_that_day(more, ask):
    assert items(ask("search", "jwt", "--until", "2026-11-15", "--json"))


def test_a_long_turn_number_is_not_cut():
    hit = Hit(
        session="s_" + "0" * 32, name="long", agent="", project="", turn=123_456, seq=9, kind="turn",
        at=0, snippet="fix it",
    )  # fmt: skip
    assert (
        "  t123456  turn  fix it"
        in [line.plain for line in _lines([hit], {}, projects=False, is_cut=False)][1]
    )


def test_search_says_if_there_are_more_matches(more, ask):
    every = len(items(ask("search", "login", "-n", "500", "--json")))
    out = ask("search", "login", "-n", "1").out
    assert f"{every} matches in " in out.splitlines()[0]
    assert f"… {every - 1} more matches; -n {every} shows all" in out


def test_a_search_that_is_cut_begins_with_how_its_matches_are_spread(more, ask):
    found = items(ask("search", "jwt", "-n", "500", "--json"))
    counted = Counter(hit["name"] for hit in found)
    lines = ask("search", "jwt", "-n", "1").lines
    at = lines.index("The best 1 of them")
    assert {line.split()[0]: int(line.split()[-2]) for line in lines[3 : at - 1]} == counted


def test_a_search_that_is_cut_shows_some_of_each_session(more, ask):
    every = {hit["name"] for hit in items(ask("search", "jwt", "-n", "500", "--json"))}
    assert len(every) > 1
    lines = ask("search", "jwt", "-n", str(len(every))).lines
    shown = [line for line in lines if line.endswith(" · 1 hit shown")]
    assert {line.split()[0] for line in shown} == every


def test_a_cut_in_json_has_the_number_of_matches_in_each_session(more, ask, monkeypatch):
    monkeypatch.setattr(search, "LIMIT", 1)
    (_, last) = items(ask("search", "jwt", "--json"))
    monkeypatch.undo()
    assert last["cut"]["of"] == sum(one["matches"] for one in last["cut"]["sessions"]) > 1


@pytest.mark.parametrize(
    "words", [(), ("",), ("a*",), ("--not", "jwt"), ("x" * 5000,), ("jwt", "--since", "soon")]
)
def test_an_invalid_search_is_a_usage_error(more, ask, words):
    assert ask("search", *words).code == 2


def test_recorded_control_characters_are_escaped_in_hits(store, world, ask):
    with world.open(store) as opened, opened.open("evil\x1b]0;x\x07") as s:
        s.fact("needle", "\x1b[2J \x9b31m [red]boo[/red] \u202e")
    out = ask("search", "needle").out
    assert "\x1b" not in out
    assert "\x9b" not in out
    assert "\u202e" not in out
    assert "[red]boo[/red]" in out


def test_matches_are_highlighted_in_colour(more, ask, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1;33mlogin\x1b[0m" in ask("search", "login", "bug").out


def test_a_rewound_turn_says_so(store, ask, monkeypatch):
    with stator.connect(store, project="shop") as opened, opened.open("back") as s:
        with s.turn("one"):
            s.fact("part", "sprocket")
        s.rewind("t0")
    assert "(rewound) part · sprocket" in ask("search", "sprocket").out


def test_the_program_searches_a_store(more):
    done = program("search", "login", "bug", "--store", str(more), "--all")
    assert done.code == 0
    assert "fix the login bug" in done.out


def test_no_match_names_the_beginning_of_a_word_that_has_some(more, ask):
    assert "longer words match: stator search 'logi*'" in ask("search", "logi").err


def test_no_match_names_no_beginning_that_has_none_either(more, ask):
    assert "longer words" not in ask("search", "carburettor").err


def test_calls_among_the_matches_say_how_they_ended(store, ask):
    ended = [
        row.split()[4:6] for row in ask("search", "auth", "--kind", "call").lines if "@" in row
    ]
    assert ["call", "ok"] in ended
    assert any("  in doubt  pay" in row for row in ask("search", "5", "--kind", "call").lines)


def test_numbers_among_arguments_and_written_line_ends_are_no_words(opened, ask, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    fails = stator.tool(
        lambda command, timeout: "first\\n\\nthen the bell", effect="read", name="bash"
    )
    with opened.open("push") as s, s.turn("go") as t:
        t.call(fails, command="git push origin", timeout=30000)
    shown = ask("search", "origin").out
    assert "git push origin" in shown
    assert "30000" not in shown
    assert "30000" in ask("search", "30000").out
    assert "first ⏎ then the bell" in ask("search", "bell").out


def test_no_match_names_a_shorter_beginning_that_has_some(store, ask):
    assert "try: stator search 'pay*'" in ask("search", "payment").err
    assert "try: stator search 'login* pay*'" not in ask("search", "zzz").err
    assert "try: " not in ask("search", "paxxxx", "zzzzzz").err
