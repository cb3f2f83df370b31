"""Words that are read without the parser mean what the parser says they mean."""

from __future__ import annotations

import inspect
import shlex
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stator.errors import BadQuery
from stator.surfaces.cli import plain_words
from stator.surfaces.cli.commands import examples, load
from stator.surfaces.cli.parser import parse
from stator.surfaces.cli.plain_words import Signature, read
from stator.surfaces.cli.registry import COMMANDS, GROUPS

VALUES = (
    "t5", "t2..t4", "last", "a b", "é", "@3", "3", "0", "-1", "1.5", "1_0", " 7", "0x10", "none", "null", "None",
    "true", "no", "[]", "{}", "a=b", "=", "", "-", "--", "-h", "--help", "-x", "--nothing", "*", "ask", "compact",
)  # fmt: skip


@cache
def words_of(name: str) -> st.SearchStrategy[list[str]]:
    """Command lines of a command: its options, their misspellings, values of every kind, in any order."""
    names = sorted(Signature(load(name)).options)
    option = st.sampled_from(names)
    odd = st.one_of(
        option.map(lambda one: one[:-1]),
        option.map(lambda one: one.replace("-", "_").replace("__", "--")),
        option.map(lambda one: f"--no{one[1:]}"),
        st.tuples(option, option).map(lambda two: two[0] + two[1][1:]),
        st.tuples(option, st.sampled_from(VALUES)).map("=".join),
        st.tuples(option, st.sampled_from(VALUES)).map("".join),
    )
    plain = st.sampled_from(VALUES[:8])
    value = st.one_of(plain, st.sampled_from(VALUES), st.text(max_size=5))
    pair = st.tuples(option, value).map(list)
    part = st.one_of(pair, pair, option.map(lambda w: [w]), plain.map(lambda w: [w]), value.map(lambda w: [w]),
                     odd.map(lambda w: [w]))  # fmt: skip
    return st.lists(part, max_size=4).map(lambda parts: [word for part in parts for word in part])


def meaning(name: str, ready: Any) -> dict[str, Any]:
    """The value of every parameter of the command."""
    bound = inspect.signature(load(name)).bind(*ready.args, **ready.keywords)
    bound.apply_defaults()
    return {
        key: (type(value), list(value) if isinstance(value, tuple) else value)
        for key, value in bound.arguments.items()
    }


@pytest.mark.parametrize("name", COMMANDS)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_plain_words_mean_what_the_parser_reads_in_them(name, data):
    words = data.draw(words_of(name))
    ready = read(load(name), words)
    if ready is None:
        return
    parsed = parse([name, *words])
    assert parsed is not None
    assert meaning(name, ready) == meaning(name, parsed)


@pytest.mark.parametrize("name", GROUPS["Ask"])
def test_the_examples_of_a_command_that_asks_need_no_parser(name):
    for line in examples(name).strip().splitlines():
        typed = line.split("  ")[0].split(" | ")[0].split(" || ")[0]
        words = shlex.split(typed)[2:]
        assert "--" in words or read(load(name), words) is not None, typed


@pytest.mark.parametrize(
    "words",
    [
        ["log", "--no-such"],
        ["log", "--limit", "many"],
        ["log", "-n"],
        ["log", "-n", "-3"],
        ["log", "--json", "--json"],
        ["log", "--help"],
        ["why"],
        ["log", "--", "t1"],
        ["score", "quality"],
    ],
    ids=" ".join,
)
def test_words_that_are_not_plain_are_left_to_the_parser(words):
    assert read(load(words[0]), words[1:]) is None


def test_a_word_that_an_option_lacks_is_not_taken_for_its_value():
    with pytest.raises(BadQuery):
        parse(["log", "--session"])
    assert read(load("log"), ["--session"]) is None


ASKED = [
    "ls", "ls --all --json", "ls -n 1", "log", "log t1 --reverse", "log -n 3 --json", "log --limit=2", "log --kind",
    "log --limit x", "log nothing-like-it", "diff", "diff t1..t2 --json", "diff t1 t2", "diff a b c", "show",
    "show head", "show --what", "state", "state t1 --json", "files", "files last --json", "calls", "calls --nothing",
    "why", "why README.md", "why a b", "brief", "brief --max-tokens 300", "brief --max-tokens=many", "recap",
    "recap last", "decisions", "evicted", "search word", "search --not", "tree", "reflog", "du", "sql 'select 1'",
    "log --help", "ls -h", "artifact", "blame README.md", "log -f t1",
]  # fmt: skip


@pytest.mark.parametrize("typed", ASKED)
def test_a_command_answers_the_same_when_the_parser_reads_every_word(
    typed, store, ask, monkeypatch
):
    words = shlex.split(typed)
    answer = ask(*words)
    monkeypatch.setattr(plain_words, "read", lambda *_: None)
    parsed = ask(*words)
    assert (answer.code, answer.out, answer.err) == (parsed.code, parsed.out, parsed.err)
