"""Our entries in other programs' settings: removing them gives back every byte, for random settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from stator.errors import InvalidInput
from stator.surfaces.agent_settings.agents import AGENTS, SERVER, Programs, wanted_settings
from stator.surfaces.agent_settings.json_spans import parse_json
from stator.surfaces.agent_settings.merge import add_entries, remove_entries
from stator.surfaces.agent_settings.toml_edit import parse_toml

PROGRAMS = Programs("/opt/bin/stator-hook", "/opt/bin/stator")
PLACE = '"@@"'
"""A value in random settings that the user changes between adding and removing."""


def wanted(agent: str):
    return wanted_settings(
        AGENTS[agent], PROGRAMS, "user", root=Path("/p"), home=Path("/h"), environ={}
    )


JSON_FILES = [file for agent in AGENTS for file in wanted(agent) if file.kind == "json"]
TOML_FILE = next(file for file in wanted("codex") if file.kind == "toml")

SPACES = st.sampled_from(["", "", " ", "\n", "\n  ", "\r\n\t", " \n\n "])
GAPS = st.one_of(
    SPACES,
    st.builds(
        lambda a, comment, b: a + comment + b,
        SPACES,
        st.sampled_from(["// c\n", '// say "{" , }\r\n', "/* c */", "/*\n,\n*/", "/**/"]),
        SPACES,
    ),
)
KEYS = st.sampled_from(
    [
        "hooks",
        "mcpServers",
        "mcp",
        "Stop",
        "PreToolUse",
        "BeforeTool",
        "stop",
        "$schema",
        "a",
        "é\ud83d",
    ]
)
SCALARS = st.sampled_from(
    [PLACE, "1", "-0.5e+3", "true", "null", '""', '"a // b"', '"\\ud83d"', '"ünï\u2028 \\" \\\\"']
)


def joined(draw: st.DrawFn, pieces: list[str], ends: str, gaps: st.SearchStrategy[str]) -> str:
    """Pieces in brackets, with random white space, comments and perhaps a trailing comma."""
    text = ends[0]
    for number, piece in enumerate(pieces):
        text += draw(gaps) + piece + draw(gaps)
        is_last = number == len(pieces) - 1
        if not is_last or (gaps is GAPS and draw(st.booleans())):
            text += ","
    return text + draw(gaps) + ends[1]


@st.composite
def values(draw: st.DrawFn, depth: int, gaps: st.SearchStrategy[str]) -> str:
    kind = draw(st.sampled_from(["scalar", "array", "object"])) if depth else "scalar"
    if kind == "scalar":
        return draw(SCALARS)
    if kind == "array":
        return joined(draw, draw(st.lists(values(depth - 1, gaps), max_size=3)), "[]", gaps)
    return draw(objects(depth - 1, gaps))


@st.composite
def objects(draw: st.DrawFn, depth: int, gaps: st.SearchStrategy[str]) -> str:
    members = []
    for key in draw(st.lists(KEYS, max_size=4)):
        if key in ("hooks", "mcpServers", "mcp"):
            value = draw(objects(depth - 1, gaps)) if depth > 0 else "{" + draw(gaps) + "}"
        elif key in ("Stop", "PreToolUse", "BeforeTool", "stop"):
            groups = draw(st.lists(values(max(depth - 1, 0), gaps), max_size=2))
            value = joined(draw, groups, "[]", gaps)
        else:
            value = draw(values(max(depth, 0), gaps))
        members.append(f"{json.dumps(key)}{draw(gaps)}:{draw(gaps)}{value}")
    return joined(draw, members, "{}", gaps)


@st.composite
def settings(draw: st.DrawFn) -> str:
    gaps = draw(st.sampled_from([SPACES, GAPS]))
    parts: list[str] = [draw(gaps), draw(objects(3, gaps)), draw(gaps)]
    return "".join([draw(st.sampled_from(["", "\ufeff"])), *parts])


def value_of(text: str) -> Any:
    return parse_json(text).value


def with_ours(document: dict[str, Any], file: Any) -> dict[str, Any]:
    for event, group in file.hooks.items():
        document.setdefault("hooks", {}).setdefault(event, []).append(group)
    if file.server:
        document.setdefault(file.servers_key, {})[SERVER] = file.server
    return document


def added(text: str, file: Any) -> str:
    try:
        after = add_entries(text, file)
    except InvalidInput:
        assume(False)
    return after


@given(settings(), st.sampled_from(JSON_FILES))
@example("{}", JSON_FILES[0])
@example("{}\n", JSON_FILES[0])
@example('{"hooks": {}}', JSON_FILES[0])
@example('{"hooks": {"Stop": []}}', JSON_FILES[0])
@example('{"hooks": {"Stop": [1, // c\n]}, }', JSON_FILES[0])
@example('{\n\t"a": 1 // the last\n}', JSON_FILES[0])
@example('{"hooks": 1, "hooks": {"Stop": [ ]}}', JSON_FILES[0])
def test_removing_gives_back_every_byte(text, file):
    assert remove_entries(added(text, file), file) == text


@given(settings(), st.sampled_from(JSON_FILES))
def test_adding_changes_nothing_but_our_entries(text, file):
    assert value_of(added(text, file)) == with_ours(value_of(text), file)


@given(settings(), st.sampled_from(JSON_FILES))
def test_adding_twice_is_adding_once(text, file):
    once = added(text, file)
    assert add_entries(once, file) == once


@given(settings(), st.sampled_from(JSON_FILES), st.sampled_from(['{"new": [1]}', '""', "[\n\n]"]))
def test_what_the_user_changed_in_between_stays(text, file, change):
    edited = added(text, file).replace(PLACE, change)
    assert remove_entries(edited, file) == text.replace(PLACE, change)


@given(settings(), st.sampled_from(JSON_FILES))
def test_members_that_the_user_added_around_ours_stay(text, file):
    after = added(text, file)
    root = parse_json(after)
    edited = after[: root.start] + '{"first": 1,' + after[root.start + 1 :]
    assert value_of(remove_entries(edited, file) or "{}") == {"first": 1, **value_of(text)}


@pytest.mark.parametrize("file", JSON_FILES, ids=lambda file: str(file.path))
@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "  \r\n", None])
def test_a_file_without_content_is_given_back(file, text):
    assert remove_entries(add_entries(text, file), file) == text


@pytest.mark.parametrize("file", JSON_FILES, ids=lambda file: str(file.path))
def test_a_comment_of_the_user_in_a_file_of_ours_stays(file):
    made = add_entries(None, file)
    assert "// mine" in (remove_entries("// mine\n" + made, file) or "")


# -- TOML -------------------------------------------------------------------------------------------

TOML_LINES = st.sampled_from(
    [
        "a = 1", "# a comment", "", "  ", "[table]", "[[list]]", 'text = """\n[mcp_servers.other]\n"""',
        "[mcp_servers.other]", 'command = "y"', "[mcp_servers]", "mcp_servers.x = 1", "é = 'ü'",
        'b = { c = 1 } # "x"', "list2 = [\n  1, # c\n]",
    ]
)  # fmt: skip


@st.composite
def toml_texts(draw: st.DrawFn) -> str:
    lines = draw(st.lists(TOML_LINES, max_size=6))
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n", "\n# end"]))
    text = text.replace("\n", "\r\n") if draw(st.booleans()) else text
    try:
        parse_toml(text)
    except ValueError:
        assume(False)
    return text


@given(toml_texts())
@example("")
@example("a = 1")
@example("a = 1\n")
def test_removing_our_table_gives_back_every_byte(text):
    assert remove_entries(added(text, TOML_FILE), TOML_FILE) == text


@given(toml_texts())
def test_adding_our_table_changes_nothing_else(text):
    expected = parse_toml(text)
    expected.setdefault("mcp_servers", {})[SERVER] = TOML_FILE.server
    assert parse_toml(added(text, TOML_FILE)) == expected


@given(toml_texts(), st.sampled_from(["[new]\n", "\n# c\n[new]\nx = 1", "\n\n[new.more]\n"]))
def test_a_table_that_the_user_added_after_ours_stays(text, more):
    once = added(text, TOML_FILE)
    assume("[new" not in text)
    left = remove_entries(once + more, TOML_FILE)
    assert left is not None
    gap = "" if not text or text.endswith("\n") else "\r\n" if "\r\n" in text else "\n"
    assert left == text + gap + more
