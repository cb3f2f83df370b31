"""The laws of compaction, over sessions in which anything may happen in any order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from model.conversations import (
    Talk,
    everything,
    log_of,
    moves_and_compactions,
    played,
    talk_of,
)
from model.fresh_process import printed
from model.providers import ACCEPTS
from stator.model.log.commit import Commit
from stator.model.log.delta import Put, to_plain
from stator.model.log.fold import fold
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import EvictedRecord
from stator.model.window import compaction
from stator.model.window.reply import Dialect
from stator.model.window.transcript import Transcript
from stator.runtime.window.transcript import Rendering

PROVIDERS: list[Dialect] = ["anthropic", "openai", "openai-chat", "plain"]
law = settings(suppress_health_check=[HealthCheck.too_slow])


def whole(log: list[Commit]) -> Transcript:
    """The transcript of the whole log, including commits that a compaction skips."""
    transcript = Transcript(compaction.standing(log), asof=log[-1].seq)
    for commit in log:
        transcript.feed(commit)
    return transcript


def seen(talk: Talk) -> dict[str, list[Any]]:
    """What a new process would send to every provider."""
    transcript = Rendering(talk.story.store, talk.story.session).current()
    return {provider: transcript.render(provider) for provider in PROVIDERS}


@law
@given(everything)
def test_every_provider_accepts_every_compacted_session(script):
    rendering = None
    for talk in played(script):
        rendering = rendering or Rendering(talk.story.store, talk.story.session)
        for provider in PROVIDERS:
            ACCEPTS[provider](rendering.current().render(provider))


@law
@given(everything)
def test_an_incremental_view_equals_one_read_from_the_whole_log(script):
    rendering = None
    for talk in played(script):
        rendering = rendering or Rendering(talk.story.store, talk.story.session)
        grown = {provider: rendering.current().render(provider) for provider in PROVIDERS}
        assert grown == seen(talk)
    of_all = whole(talk.log)
    assert grown == {provider: of_all.render(provider) for provider in PROVIDERS}


@law
@given(moves_and_compactions)
def test_undoing_a_compaction_restores_exactly_the_previous_view(script):
    talk = talk_of(script)
    views = [seen(talk)]
    for keep, strategy in ((3, "outputs"), (2, "mask"), (1, "summarise")):
        if talk.compact(keep=keep, strategy=(strategy,), summary="the gist"):
            views.append(seen(talk))
    while len(views) > 1:
        assert seen(talk) == views.pop()
        talk.uncompact()
    assert seen(talk) == views.pop()


@law
@given(moves_and_compactions)
def test_a_compaction_changes_only_the_evicted_records_of_the_state(script):
    log = log_of(script)
    without = [commit for commit in log if commit.kind != "compaction"]
    states = [fold(commit.delta for commit in commits) for commits in (log, without)]
    for name in COLLECTIONS:
        if name not in ("evicted", "scratch"):
            first, second = (
                {identifier: to_plain(record) for identifier, record in state[name].items()}
                for state in states
            )
            assert first == second, name


@law
@given(moves_and_compactions)
def test_every_record_that_is_not_shown_whole_is_listed_as_evicted(script):
    talk = talk_of([move for move in script if move[0] != "uncompact"])
    every = Transcript()
    named: set[str] = set()
    for commit in talk.log:
        if commit.kind != "compaction":
            every.feed(commit)
        records = [op.record for op in commit.delta if isinstance(op, Put)]
        named |= {record.key for record in records if isinstance(record, EvictedRecord)}
    cuts = compaction.standing(talk.log).cuts
    gone = compaction.left(every.things(), (0, 0, 0), cuts)
    prompts = [thing.seq for thing in every.things() if thing.kind == "prompt"]
    last = max((seq for seq in prompts if seq <= cuts[2]), default=0)
    assert {item.key for item in gone if item.seq != last} <= named


SCRIPT: list[Any] = [
    ("prompt", "look"),
    ("answer", "anthropic", "ok", [("toolu_1", "read", {"b": 1, "a": 2})], "hmm", ""),
    ("run", 0, "ok", "long " * 100),
    ("know", 1),
    ("know", 2),
    ("answer", "openai", "well", [("toolu_1", "pay", {"z": 1})], "", ""),
    ("run", 0, "in doubt", None),
    ("answer", "openai-chat", "so", [("toolu_2", "read", {})], "", ""),
    ("run", 0, "ok", {"k": 1, "j": ["x" * 300]}),
    ("answer", "plain", "done", [], "", ""),
    ("compact", 1, {"outputs"}, None),
    ("compact", 2, {"mask", "summarise"}, "we looked"),
    ("settle", 0, "ok", {"d": 1, "c": 2}),
]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_two_processes_show_the_same_bytes(provider):
    program = (
        "import json; from model import test_compaction_laws as t; from model.conversations import talk_of; "
        f"print(json.dumps(t.seen(talk_of(t.SCRIPT))[{provider!r}]))"
    )
    assert json.loads(printed(program)) == seen(talk_of(SCRIPT))[provider]
