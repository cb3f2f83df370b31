"""The shapes of --json output."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from stator.model.records.tables import COLLECTIONS
from stator.surfaces.cli.render.wire import FIELDS
from surfaces.recorded import Answer


def items(answer: Answer) -> list[Any]:
    assert answer.code == 0, answer.err
    return [json.loads(line) for line in answer.lines]


def document(answer: Answer, schema: str) -> Any:
    found: Any = json.loads(answer.out)
    assert found["schema"] == schema
    return found


def test_every_line_of_log_is_a_commit_with_exactly_its_fields(store, ask):
    commits = items(ask("log", "--json", "--reverse"))
    assert len(commits) == 32
    assert all(tuple(commit) == FIELDS for commit in commits)
    assert [commit["seq"] for commit in commits] == list(range(1, 33))
    assert all(a["hash"] == b["prev"] for a, b in pairwise(commits))


def test_log_is_newest_first_like_the_screen(store, ask):
    assert [commit["seq"] for commit in items(ask("log", "--json", "-n", "3"))] == [32, 31, 30]


def test_a_call_and_its_outcome_in_the_log(store, ask):
    call, outcome = items(ask("log", "@14..@16", "--json", "--reverse"))
    assert call["input"] == {"command": "pytest -q"}
    assert call["kind"] == "call"
    assert call["tool"] == outcome["tool"] == "run_tests"
    assert call["call"] == outcome["call"]
    assert outcome["status"] == "error"
    assert outcome["output"] == {"error": "RuntimeError", "message": "2 failed, 11 passed"}
    assert outcome["provenance"] == {"source": "tool", "trust": "unverified"}
    drop, put = outcome["delta"]
    assert drop.keys() == put.keys() == {"op", "collection", "id", "record", "was"}
    assert (drop["op"], drop["collection"], drop["record"]) == ("drop", "calls", None)
    assert (put["op"], put["record"]["failures"]) == ("put", 1)


def test_the_redaction_key_of_a_session_is_never_printed(store, ask):
    key = "5e" * 16
    for words in (
        ["log", "--json", "--full"],
        ["show", "@1", "--json"],
        ["show", "@1"],
        ["log", "--full"],
    ):
        answer = ask(*words)
        assert answer.code == 0
        assert key not in answer.out
    assert items(ask("log", "@1", "--json"))[0]["key"] is None


def test_large_content_is_a_digest_unless_asked_in_full(tmp_path, world, ask):
    import random

    text = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=60_000))
    path = str(tmp_path / "large.db")
    with world.open(tmp_path / "large.db") as opened, opened.open("large") as s, s.turn("go") as t:
        t.say(text)
        t.fact("big", text)
    said = items(ask("log", "--kind", "entry", "--json", "--store", path))[0]
    assert said["output"].keys() == {"digest", "size"}
    assert said["output"]["size"] > 60_000
    fact = items(ask("log", "--kind", "fact", "--json", "--store", path))[0]
    assert fact["delta"][0]["record"].keys() == {"digest", "size"}
    full = items(ask("log", "--kind", "entry", "--json", "--full", "--store", path))[0]
    assert full["output"] == text


def test_a_call_with_a_large_input_can_be_listed(tmp_path, world, ask):
    path = str(tmp_path / "large.db")
    text = "".join(f"{n} " for n in range(100_000))
    with world.open(tmp_path / "large.db") as opened, opened.open("large") as s, s.turn("go") as t:
        t.call(len, text)
    (call,) = items(ask("log", "--kind", "call", "--json", "--store", path))
    assert call["input"].keys() == {"digest", "size"}
    assert call["input_hash"] is None


def test_erased_values_say_which_commit_erased_them(tmp_path, world, ask):
    path = str(tmp_path / "erased.db")
    with world.open(tmp_path / "erased.db") as opened, opened.open("erased") as s:
        with s.turn("my address is 1 Road") as t:
            t.decide("keep it", topic="address", why="asked to")
        s.erase("@3", fields=["input"])
    commits = {commit["seq"]: commit for commit in items(ask("log", "--json", "--store", path))}
    erasure = next(seq for seq, commit in commits.items() if commit["kind"] == "erasure")
    assert commits[3]["input"] == {"erased": erasure}
    assert "1 Road" not in ask("log", "--store", path).out
    assert f"(erased by @{erasure})" in ask("log", "--store", path).out


def test_state_is_exactly_the_collections(store, ask):
    found = document(ask("state", "--json"), "stator.state/1")
    assert set(found) - {"schema", "ref", "unplaced"} == set(COLLECTIONS)
    (decision,) = found["decisions"].values()
    assert decision["what"] == "use signed cookies"
    assert {step["status"] for step in found["plan"].values()} == {"pending"}
    some = document(ask("state", "t1", "-c", "facts", "--json"), "stator.state/1")
    assert set(some) == {"schema", "ref", "facts"}
    assert some["ref"].endswith(":@13")


def test_diff_has_a_list_for_every_collection_and_the_delta(store, ask):
    found = document(ask("diff", "t1..t3", "--json"), "stator.diff/1")
    assert {"from", "to", "delta", "calls", *COLLECTIONS} <= set(found)
    assert (found["from"], found["to"]) == ("t1", "t3")
    (decision,) = found["decisions"]
    assert decision["change"] == "superseded"
    assert decision["before"]["what"] == "use JWT"
    assert decision["after"]["what"] == "use signed cookies"
    assert decision["why"] == "works without a store"
    assert [step["record"]["what"] for step in decision["via"]] == ["use server sessions"]
    for name in (*COLLECTIONS, "calls"):
        for entry in found[name]:
            assert {"change", "before", "after", "why", "seq"} <= set(entry)
            assert entry["change"] in ("added", "changed", "superseded", "removed")
    assert found["transient"]["files"] == 1


def test_lists_are_json_lines(store, ask):
    assert items(ask("ls", "--json"))[0]["name"] == "fix-login"
    assert items(ask("files", "--json"))[0]["path"] == "cookies.py"
    assert items(ask("decisions", "--all", "--json"))[0]["stands"] is False
    assert items(ask("calls", "--failed", "--json"))[0]["status"] == "in doubt"
    assert {reason["kind"] for reason in items(ask("why", "auth.py", "--json"))} == {
        "edit", "decision", "call",
    }  # fmt: skip
    rows = items(
        ask("sql", "SELECT tool, count(*) AS n FROM calls GROUP BY 1 ORDER BY 1", "--json")
    )
    assert rows[0] == {"tool": "edit_file", "n": 1}


@pytest.mark.parametrize(
    ("words", "schema"),
    [
        (["show"], "stator.session/1"),
        (["show", "@3"], "stator.commit/1"),
        (["verify"], "stator.verify/1"),
        (["doctor"], "stator.doctor/1"),
        (["du"], "stator.du/1"),
        (["tag", "release"], "stator.tag/1"),
        (["init", "./new"], "stator.init/1"),
    ],
)
def test_json_documents_name_their_schema(store, ask, words, schema):
    document(ask(*words, "--json"), schema)


def test_an_error_is_also_printed_as_json(store, ask):
    answer = ask("log", "t99", "--json")
    line, plain = answer.err.splitlines()
    assert answer.out == ""
    assert line.startswith("stator: no turn 99")
    assert json.loads(plain)["schema"] == "stator.error/1"
    assert json.loads(plain)["exit"] == answer.code == 3


def test_output_is_ascii_for_any_recorded_text(tmp_path, world, ask):
    with world.open(tmp_path / "u.db") as opened, opened.open("größe 日本") as s, s.turn("⏎\x9b"):
        pass
    answer = ask("log", "--json", "--store", str(tmp_path / "u.db"))
    assert answer.out.isascii()
    assert [c["input"] for c in items(answer) if c["kind"] == "turn"] == ["⏎\x9b"]


def test_every_column_of_a_query_is_in_its_json(store, ask):
    answer = ask("sql", "SELECT 1 AS a, 2 AS a, 9e999 AS b, -9e999 AS b", "--json")
    assert "Infinity" not in answer.out
    assert items(answer) == [{"a": 1, "a:1": 2, "b": None, "b:1": None}]
