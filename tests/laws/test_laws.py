"""The engine's laws over random histories of everything that the public API offers.

A failure prints its seed and the shortest history that still fails, as a script. The long campaign:

    LAWS_HISTORIES=2000 LAWS_SEED=1 make slow ARGS=tests/laws
"""

from __future__ import annotations

import os

import pytest

from laws import campaign, provider_rules
from laws.campaign import Failure, failure_of, run, shortest
from laws.histories import Step, history
from stator.runtime.views.session import SessionReader

SEEDS = range(14)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_history_breaks_no_law(seed):
    failure = failure_of(history(seed), seed)
    if failure is not None:
        pytest.fail(str(shortest(failure)), pytrace=False)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_thousands_of_random_histories_break_no_law(capsys):
    first = int(os.environ.get("LAWS_SEED", "1"))
    report = run(first, int(os.environ.get("LAWS_HISTORIES", "1000")))
    with capsys.disabled():
        print(f"\nlaws from seed {first}: {report}")
    if report.failures:
        pytest.fail("\n\n".join(map(str, report.failures)), pytrace=False)


class TestTheCampaignItself:
    """A campaign that cannot fail proves nothing."""

    STEPS: tuple[Step, ...] = (
        ("say", {"text": "well", "usage": {}, "actor": "model"}),
        ("fact", {"where": "turn", "name": "port", "value": 1}),
        ("end", {"how": "ok"}),
        ("fact", {"where": "turn", "name": "port", "value": True}),
        ("use", {"kind": "app", "name": "Safari", "detail": ""}),
    )

    def test_it_finds_a_reader_that_takes_true_for_one(self, monkeypatch):
        facts = SessionReader.facts
        monkeypatch.setattr(
            SessionReader, "facts", lambda self: {k: int(v) for k, v in facts(self).items()}
        )
        failure = failure_of(list(self.STEPS), 0)
        assert failure is not None
        assert "facts" in str(failure.error)

    def test_it_finds_a_rewind_that_resets_nothing(self, monkeypatch):
        from stator.runtime.branches import rewind

        monkeypatch.setattr(rewind, "resets", lambda slots: ())
        steps = [*self.STEPS, ("rewind", {"nth": 2, "back": False})]
        assert failure_of(steps, 0) is not None

    def test_it_leaves_out_the_steps_that_do_not_matter(self, monkeypatch):
        facts = SessionReader.facts
        monkeypatch.setattr(
            SessionReader, "facts", lambda self: {k: int(v) for k, v in facts(self).items()}
        )
        failure = failure_of(list(self.STEPS), 0)
        assert failure is not None
        assert [name for name, _ in shortest(failure).steps] == ["fact"]

    def test_it_prints_a_script_that_fails_again(self, monkeypatch):
        text = str(Failure(7, list(self.STEPS[1:2]), ValueError("no")))
        assert "run_history([" in text
        assert "], 7)" in text

    def test_one_seed_is_one_history(self):
        assert repr(campaign.steps_of(5)) == repr(campaign.steps_of(5))
        assert repr(campaign.steps_of(5)) != repr(campaign.steps_of(6))


ASKED = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}],
}
PROMPT = {"role": "user", "content": [{"type": "text", "text": "go"}]}
RESULT = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "a", "content": "done"}],
}
CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "done"}
CHAT_CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
CHAT_RESULT = {"role": "tool", "tool_call_id": "a", "content": "done"}


@pytest.mark.parametrize(
    ("provider", "messages"),
    [
        ("anthropic", [PROMPT, ASKED, RESULT]),
        ("openai", [CALL, OUTPUT]),
        ("openai-chat", [CHAT_CALL, CHAT_RESULT]),
    ],
)
def test_a_whole_conversation_is_accepted(provider, messages):
    assert provider_rules.refused(provider, messages) == ""


@pytest.mark.parametrize(
    ("provider", "messages"),
    [
        ("anthropic", [PROMPT, ASKED]),
        ("anthropic", [PROMPT, PROMPT]),
        ("anthropic", [RESULT]),
        ("openai", [CALL]),
        ("openai", [OUTPUT]),
        ("openai", [CALL, OUTPUT, CALL, OUTPUT]),
        ("openai-chat", [CHAT_CALL]),
        ("openai-chat", [CHAT_RESULT]),
        ("openai-chat", [CHAT_CALL, {"role": "user", "content": "go"}, CHAT_RESULT]),
        ("anthropic", [{"role": "user", "content": [{"type": "text", "text": " "}]}]),
    ],
)
def test_a_conversation_with_a_half_pair_is_refused(provider, messages):
    assert provider_rules.refused(provider, messages) != ""
