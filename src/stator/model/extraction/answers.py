"""Finds what a person answered to a question of the agent: a decision of the user, over the other options.

Claude Code's `AskUserQuestion`, Codex' `request_user_input`, Gemini CLI's and Copilot's `ask_user`, opencode's
`question` and Cline's `ask_followup_question` give questions with options, and the answers as text or as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from stator.model.exchange.extraction_state import ExtractionState, HeldCall
from stator.model.extraction.evidence import (
    ENDS,
    Evidence,
    ExtractionRule,
    Found,
    as_json,
    entries,
    plain_text,
    string,
    unique,
)
from stator.model.log.commit import Change, Upsert
from stator.model.log.shown_text import cut_short, legible
from stator.model.records.types import DecisionRecord

TOOLS = frozenset(
    "AskUserQuestion request_user_input ask_user question ask_followup_question ask_user_question".split()
)
QUESTIONS_MAX, OPTIONS_MAX = 10, 20
INPUT_MAX = 20_000
"""Characters of questions with their options that are remembered until the answer comes."""
TOPIC_MAX = 200
ANSWER_MAX = 2_000
_NO_ANSWER = frozenset({"", "unanswered", "no response", "(no response)", "none"})
_AFTER = re.compile(r'" (?:selected preview|user notes|notes):')
_END = '". You can now continue'
_TAGGED = re.compile(r"<answer>\s*(.*?)\s*</answer>", re.DOTALL)
_SPOKEN = re.compile(r"User (?:selected|responded|answered|replied)(?: with)?:\s*(.+)", re.DOTALL)


class _Question(msgspec.Struct, frozen=True):
    """One question: how its answer is named, what it asks, its options with their descriptions."""

    id: str
    text: str
    options: dict[str, str]
    place: int


class AnsweredQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question that a person was asked, with its options, those that were chosen, and the answer in words."""

    text: str
    options: list[str]
    chosen: list[str]
    answer: str


def answered(tool: str, given: Any, output: Any) -> list[AnsweredQuestion]:
    """The questions of a call that asks a person; none if it is another call."""
    if tool not in TOOLS or not isinstance(given, dict):
        return []
    questions = list(_questions(given))
    answers = _answers(output, questions) if output not in ("", None) else {}
    found: list[AnsweredQuestion] = []
    for question in questions:
        answer = " ".join(answers.get(question.id, "").split())
        labels = list(question.options)
        chosen = _chosen(answer, labels)
        found.append(
            AnsweredQuestion(text=question.text, options=labels, chosen=chosen, answer=answer)
        )
    return found


def _needs(tool: str, given: Any) -> Any:
    if not isinstance(given, dict):
        return None
    kept = {
        name: given[name]
        for name in ("questions", "question", "options", "choices")
        if name in given
    }
    return kept if len(repr(kept)) <= INPUT_MAX else None


def _find(state: ExtractionState, one: Evidence, held: HeldCall | None) -> Found | None:
    if (
        one.status != "ok"
        or held is None
        or one.tool not in TOOLS
        or not isinstance(held.given, dict)
    ):
        return None
    questions = list(_questions(held.given))
    answers = _answers(one.output, questions)
    changes: dict[str, Change] = {}
    for question in questions:
        answer = " ".join(answers.get(question.id, "").split())
        if answer.lower() not in _NO_ANSWER and not _is_cut(answer):
            record = _decision(question, answer)
            changes.setdefault(record.topic, Upsert("decisions", record))
    return Found(changes=tuple(changes.values()), source="user") if changes else None


def _is_cut(answer: str) -> bool:
    return len(answer) > ANSWER_MAX


def _decision(question: _Question, answer: str) -> DecisionRecord:
    chosen = _chosen(answer, list(question.options))
    why = [question.options[label] for label in chosen if question.options.get(label)]
    return DecisionRecord(
        topic=legible(cut_short(" ".join(question.text.split()), TOPIC_MAX)),
        what=legible(", ".join(chosen) if chosen else answer),
        by="user",
        how="inferred",
        # an answer in the person's own words may be close to any of the options
        over=[legible(label) for label in question.options if label not in chosen]
        if chosen
        else [],
        why=legible(why[0]) if len(why) == 1 and len(chosen) == 1 else "",
    )


def _chosen(answer: str, labels: list[str]) -> list[str]:
    """The options that an answer consists of, one or several; none if it is in the person's own words."""
    by_length = sorted(labels, key=len, reverse=True)
    chosen: list[str] = []
    rest = answer
    while rest:
        label = next((one for one in by_length if rest == one or rest.startswith(f"{one}, ")), None)
        if label is None:
            return []
        chosen.append(label)
        rest = rest[len(label) :].removeprefix(", ")
    return unique(chosen)


def _questions(given: dict[str, Any]) -> Iterator[_Question]:
    """The questions of a call, in whichever form."""
    asked = entries(given.get("questions")) or [given]
    for place, one in enumerate(asked[:QUESTIONS_MAX]):
        if not isinstance(one, dict) or not string(one.get("question")).strip():
            continue
        options: dict[str, str] = {}
        for option in entries(one.get("options", one.get("choices")))[:OPTIONS_MAX]:
            label = option.get("label") if isinstance(option, dict) else option
            about = option.get("description") if isinstance(option, dict) else ""
            if string(label).strip():
                options.setdefault(" ".join(string(label).split()), string(about).strip())
        name = string(one.get("id")) or str(place)
        yield _Question(id=name, text=one["question"], options=options, place=place)


def _answers(output: Any, questions: list[_Question]) -> dict[str, str]:
    """The answer to each question, by its id."""
    structured = output if isinstance(output, dict) else as_json(plain_text(output))
    found = structured.get("answers") if isinstance(structured, dict) else None
    if isinstance(found, dict):
        return {question.id: _given(found, question) for question in questions}
    text = plain_text(output)
    quoted = _quoted(text, questions)
    if quoted or len(questions) != 1:
        return quoted
    match = _TAGGED.search(text) or _SPOKEN.search(text)
    return {questions[0].id: match[1]} if match else {}


def _given(answers: dict[Any, Any], question: _Question) -> str:
    """An answer in a structure that has them by id, by place or by the question."""
    for name in (question.id, str(question.place), question.text):
        if name in answers:
            value = answers[name]
            value = value.get("answers") if isinstance(value, dict) else value
            texts = [string(one).removeprefix("user_note: ") for one in entries(value)]
            return ", ".join(unique(texts)) if texts else string(value)
    return ""


def _quoted(text: str, questions: list[_Question]) -> dict[str, str]:
    """Answers in a sentence: `"QUESTION"="ANSWER", "QUESTION"="ANSWER". You can now continue …`."""
    places: list[tuple[int, int, str]] = []
    after = 0
    for question in questions:
        mark = f'"{question.text}"="'
        start = text.find(mark, after)
        if start >= 0:
            after = start + len(mark)
            places.append((start, after, question.id))
    found: dict[str, str] = {}
    for n, (_, begin, name) in enumerate(places):
        if n + 1 < len(places):
            segment = text[begin : places[n + 1][0]].rstrip(", ").removesuffix('"')
        else:
            stop = text.rfind(_END)
            segment = text[begin:stop] if stop >= begin else ""
        found[name] = _AFTER.split(segment, maxsplit=1)[0]
    return found


RULE = ExtractionRule(
    name="answer", version=1, kind="decision", sees=ENDS, find=_find, needs=_needs,
    reads=TOOLS.__contains__, only_read=True,
)  # fmt: skip
