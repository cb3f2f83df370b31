"""What first prompts are answered with, over recorded sessions: what bears on them, and seldom anything else."""

from __future__ import annotations

import pytest

from brief.first_prompts import RECORDINGS, PromptTally, measure, prompt_lists
from stator.model.brief.doses import PROMPT_TOKENS

pytestmark = pytest.mark.skipif(
    not RECORDINGS.is_dir(), reason="needs recorded sessions: STATOR_TRANSCRIPTS"
)


@pytest.fixture(scope="module")
def tallies() -> tuple[PromptTally, PromptTally]:
    return measure(RECORDINGS, list(prompt_lists()))


def test_unrelated_prompts_get_nothing_in_95_of_100_cases(tallies):
    assert all(tally.noise <= 0.05 for tally in tallies)


def test_a_dose_has_more_than_six_tenths_of_what_an_answer_needs(tallies):
    assert tallies[0].share >= 0.62


def test_no_dose_exceeds_its_budget(tallies):
    assert all(0 < tally.most <= PROMPT_TOKENS for tally in tallies)
