"""What imported sessions cost: each format counts the tokens of a cache in its own way, and none of them twice."""

from __future__ import annotations

import json

import pytest

import stator
from importers.import_helpers import DATA, import_file
from stator.model.calls.costs import Prices
from stator.model.window.reply import usage_of
from stator.runtime.base.costs import session_spend
from stator.runtime.views.as_read import for_one_answer

RATES = {
    "tokens:in": 100, "tokens:cache_read": 1, "tokens:cache_write": 200, "tokens:cache_write_1h": 400,
    "tokens:out": 1000,
}  # fmt: skip
PRICES = Prices({"*": RATES})
CLAUDE = "claude-code/5e551000-0000-4000-8000-00000000000a.jsonl"
CODEX = "codex/rollout-2026-10-01T09-00-00-0199aaaa-0000-7000-8000-00000000000a.jsonl"
GEMINI = "gemini/garden/chats/session-2026-10-02T08-00-7d1f0000.jsonl"


@pytest.fixture
def store():
    with stator.connect("memory:", project="shop") as opened:
        yield opened


def costs(store, path, name):
    """The money of each session of a file, that of the longest first."""
    import_file(store, path, name)
    reading = for_one_answer(store.as_read)
    found = [session_spend(reading, row, PRICES) for row in store.sessions(limit=50).rows]
    found.sort(key=lambda spend: -spend.get("tokens", 0))
    return [spend.get("money:usd:computed", spend.get("money:usd")) for spend in found]


def lines(path):
    texts = (DATA / path).read_text(encoding="utf-8").splitlines()
    return [
        value for text in texts if text.startswith("{") and isinstance(value := _json(text), dict)
    ]


def _json(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def test_claude_code_counts_an_answer_once_however_many_lines_it_has(store):
    messages = [line["message"] for line in lines(CLAUDE) if isinstance(line.get("message"), dict)]
    answers = {one["id"]: one["usage"] for one in messages if one.get("usage")}
    assert len(answers) < sum("usage" in one for one in messages)
    expected = sum(
        one["input_tokens"] * 100 + one["output_tokens"] * 1000 for one in answers.values()
    )
    assert costs(store, DATA / CLAUDE, "claude-code")[0] == expected


def test_codex_counts_cached_tokens_as_input_and_they_are_billed_once(store):
    usages = [x["payload"]["usage"] for x in lines(CODEX) if x["type"] == "token_usage_record"]
    expected = sum(
        (one["input_tokens"] - one["cached_input_tokens"]) * 100
        + one["cached_input_tokens"]
        + one["output_tokens"] * 1000
        for one in usages
    )
    assert costs(store, DATA / CODEX, "codex")[0] == expected


def test_gemini_counts_thoughts_beside_the_output(store, tmp_path):
    known = lines(GEMINI)
    answers = {one["id"]: one for one in known if isinstance(one.get("tokens"), dict)}
    expected = sum(
        (one["tokens"]["input"] - one["tokens"]["cached"] + one["tokens"]["tool"]) * 100
        + one["tokens"]["cached"]
        + (one["tokens"]["output"] + one["tokens"]["thoughts"]) * 1000
        for one in answers.values()
    )
    assert costs(store, DATA / GEMINI, "gemini")[0] == expected


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("opencode/export.json", "opencode"),
        ("pi/tree.jsonl", "pi"),
        ("cline/1770913324799/api_conversation_history.json", "cline"),
    ],
)
def test_a_transcript_that_says_what_it_cost_is_believed(store, path, name):
    assert costs(store, DATA / path, name)[0] == 250_000


def test_inspect_counts_cached_tokens_beside_the_input(store):
    found = costs(store, DATA / "inspect/log.json", "inspect")[0]
    assert found == 110 * 100 + 40 + 5 * 200 + 22 * 1000


def test_copilot_says_only_what_was_written_so_its_cost_is_unknown_by_the_list(store):
    import_file(
        store, DATA / "copilot/5e550000-0000-4000-8000-0000000000c0/events.jsonl", "copilot"
    )
    reading = for_one_answer(store.as_read)
    units = [session_spend(reading, row, Prices({})) for row in store.sessions(limit=9).rows]
    assert not any(unit.startswith("money:") for spend in units for unit in spend)


def test_what_anthropic_keeps_in_a_cache_for_an_hour_is_told_apart():
    usage = {
        "input_tokens": 3, "output_tokens": 2, "cache_creation_input_tokens": 10,
        "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 6},
    }  # fmt: skip
    found = usage_of({"type": "message", "content": [], "usage": usage})
    assert (found["tokens"], found["tokens:cache_write"]) == (15, 10)
    assert found["tokens:cache_write_1h"] == 6
    assert PRICES.priced(found, "x")["money:usd:computed"] == 300 + 4 * 200 + 6 * 400 + 2000
