"""A brief names the requests that still hold: not what was settled, and not what a program put around them."""

from __future__ import annotations

from model.deeds import ran
from stator.model.brief.requests import asides, rejected, request_items, subject_of
from stator.model.brief.story import PersonRequest, Said, SessionStory


def told(asked, said=(), deeds=()):
    requests = [PersonRequest(text, seq * 10, seq) for seq, text in enumerate(asked, 1)]
    answers = [Said(text, turn * 10 + 5, turn, last_of_turn=True) for turn, text in said]
    last = max((one.seq for one in answers), default=0)
    return SessionStory(
        asked=requests, said=answers, summary=None, deeds=list(deeds), files=[], turn=len(asked),
        answered=last > requests[-1].seq,
    )  # fmt: skip


def items(story):
    return [item.text for item in request_items(story.asked, lambda seq: "", story)]


MOVES = [f"move the parser of part {n} into its own module" for n in range(9)]


def test_the_newest_request_is_there_however_short_it_is():
    assert items(told([*MOVES, "deploy it"]))[0] == "deploy it"


def test_an_aside_at_the_end_is_not_the_newest_request():
    looks = ran("ls", seq=102, turn=10)
    story = told([*MOVES, "ls"], said=[(9, "Moved it."), (10, "Two files.")], deeds=[looks])
    assert asides(story) == {10}
    assert items(story)[0] == MOVES[-1]


def test_of_a_request_that_a_revision_followed_only_the_rules_are_told():
    asked = [
        "untangle src/main.ts and src/tui.ts",
        "split src/a.ts and src/b.ts. Never commit generated files.",
        "rename src/c.ts",
        "document src/d.ts",
    ]
    committed = ran("git commit -m split", seq=35, turn=3)
    assert items(told(asked, deeds=[committed])) == [
        asked[-1], asked[0], "Never commit generated files."
    ]  # fmt: skip


def test_a_first_question_that_was_answered_and_changed_nothing_is_settled():
    asked = ["tell me about this repo", "add a plugin for the agent cline in src/plugins"]
    assert items(told(asked, said=[(1, "It is a web app.")])) == [asked[1]]
    assert items(told(asked)) == [asked[1], asked[0]]


def test_of_a_prompt_that_a_program_wrote_the_issue_and_the_stressed_rules_are_told():
    prompt = (
        "We solve an issue. Here it is:\nISSUE:\nThe colon is missing in a.py\n\nINSTRUCTIONS:\nNow solve it."
        " You should NOT modify any test files. Indentation really matters!"
    )
    assert subject_of(prompt) == (
        "The colon is missing in a.py\n\nYou should NOT modify any test files."
    )


def test_a_prompt_without_such_parts_is_told_as_it_is():
    for prompt in ("ISSUE:\nthe colon is missing", "IMPORTANT: fix the colon", "fix the colon"):
        assert subject_of(prompt) == prompt


def test_an_answer_that_the_next_request_says_no_to_is_rejected():
    asked = ["show it in the chat?", "no, move it on submit", "now test it"]
    assert rejected(told(asked)) == {1}
