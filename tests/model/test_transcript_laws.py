"""The laws of rendering, over sessions in which anything may happen in any order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from model.conversations import log_of, moves, moves_and_erasures, tell
from model.fresh_process import printed
from model.providers import ACCEPTS
from stator.model.log.commit import Commit
from stator.model.window.reply import Dialect, requests
from stator.model.window.transcript import Transcript

PROVIDERS: list[Dialect] = ["anthropic", "openai", "openai-chat", "plain"]
law = settings(suppress_health_check=[HealthCheck.too_slow])


def fed(commits: list[Commit]) -> Transcript:
    transcript = Transcript()
    for commit in commits:
        transcript.feed(commit)
    return transcript


def blocks(provider: Dialect, messages: list[dict[str, Any]]) -> list[str]:
    """Messages cut into the units that a prompt cache compares: for Anthropic, blocks with their role."""
    if provider == "anthropic":
        return [
            json.dumps([message["role"], block])
            for message in messages
            for block in message["content"]
        ]
    return [json.dumps(message) for message in messages]


@law
@given(moves_and_erasures)
def test_every_prefix_of_every_session_is_accepted_by_every_provider(script):
    transcript = Transcript()
    for commits in tell(script):
        for commit in commits:
            transcript.feed(commit)
            for provider in PROVIDERS:
                ACCEPTS[provider](transcript.render(provider))


@law
@given(moves)
def test_the_rendering_up_to_an_answer_never_changes(script):
    log = log_of(script)
    transcript = Transcript()
    settled: dict[Dialect, list[str]] = {provider: [] for provider in PROVIDERS}
    for commit in log:
        transcript.feed(commit)
        for provider in PROVIDERS:
            now = blocks(provider, transcript.render(provider))
            before = settled[provider]
            assert now[: len(before)] == before
        if commit.kind == "entry" and commit.actor == "model" and commit.status != "partial":
            for provider in PROVIDERS:
                whole = blocks(provider, transcript.render(provider))
                still_open = len(requests(commit.value("output")))  # its results, one block each
                settled[provider] = whole[: len(whole) - still_open]


@law
@given(moves_and_erasures)
def test_an_incremental_transcript_equals_one_read_from_the_start(script):
    grown = Transcript()
    for commits in tell(script):
        for commit in commits:
            grown.feed(commit)
            for provider in PROVIDERS:
                grown.render(provider)  # its cache must not change the result
    anew = fed(log_of(script))
    for provider in PROVIDERS:
        assert grown.render(provider) == anew.render(provider)


@law
@given(moves_and_erasures)
def test_every_provider_accepts_a_transcript_shortened_to_any_budget(script):
    transcript = fed(log_of(script))
    for provider in PROVIDERS:
        whole = len(json.dumps(transcript.render(provider)))
        for budget in (0, 40, whole // 8, whole // 4, whole):
            ACCEPTS[provider](transcript.render(provider, max_tokens=budget))


SCRIPT: list[Any] = [
    ("prompt", "look"),
    (
        "answer",
        "anthropic",
        "ok",
        [("toolu_1", "read", {"b": 1, "a": 2}), (None, "pay", "7")],
        "hmm",
        "",
    ),
    ("call", 0, "started"),
    ("outcome", 0, "in doubt", None),
    ("answer", "openai", "well", [("toolu_1", "read", {"z": 1, "y": {"x": 1.5}})], "hmm", ""),
    ("settle", 0, "ok", {"d": 1, "c": 2}),
    ("call", 0, "started"),
    ("outcome", 0, "error", {"k": 1, "j": 2}),
    ("prompt", {"q": 1, "p": 2}),
]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_two_processes_render_the_same_bytes(provider):
    program = (
        "import json; from model import test_transcript_laws as t; from model.conversations import log_of; "
        f"print(json.dumps(t.fed(log_of(t.SCRIPT)).render({provider!r})))"
    )
    assert json.loads(printed(program)) == fed(log_of(SCRIPT)).render(provider)
