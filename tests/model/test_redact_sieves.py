"""The sieves of redaction pass over no secret: what they find, against a look at every place without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.test_redact import CASES, CLEAN, contexts, pieces, shaped
from stator.model.log import secret_names, secret_shapes
from stator.model.log.secret_names import name_spans
from stator.model.log.secret_shapes import run_spans
from stator.model.log.secret_spans import PLAIN, Span

HEX = "0123456789abcdef" * 3
LITERALS = sorted(secret_shapes._SHAPES_AT)
SEPARATORS = ["", " ", "\t", ".", "/", "=", ":", "_", "-", "+", '"', "\\", "\n", "é"]


def every_run(text: str) -> list[Span]:
    """As 0.10 looked at runs: each by itself, and each of digits, too."""
    data = text.encode("ascii", "replace")
    found: list[Span] = []
    runs = data.translate(secret_shapes._IS_WORD)
    start = runs.find(secret_shapes._RUN)
    while start >= 0:
        end = runs.find(b"\0", start + secret_shapes._RUN_MIN)
        if end < 0:
            end = len(runs)
        whole = data[start - 1] == ord('"') if start else end == len(runs)
        if not (whole and secret_shapes._QUOTED_HEX.fullmatch(text, start, end)) and (
            PLAIN.fullmatch(text, start, end) is None
        ):
            found += secret_shapes._shape_spans(text, start, end)
        start = runs.find(secret_shapes._RUN, end)
    return found


def every_name(text: str) -> list[Span]:
    """As 0.10 looked for names: with every pattern, in every text."""
    folded = text.encode("ascii", "replace").translate(secret_names._FOLD)
    found: list[Span] = []
    for pattern, find in secret_names.NAMES:
        done = 0
        for match in pattern.finditer(folded):
            at = match.start()
            if at < done:
                continue
            if match.lastindex is None and folded.rfind(b"--", max(0, at - 48), at) < 0:
                continue
            if (span := find(text, at)) is not None:
                done = span.end
                found.append(span)
    return found


def check(text: str) -> None:
    data = text.encode("ascii", "replace")
    for _ in range(2):  # the second time it knows the runs of the first
        assert run_spans(text, data) == every_run(text)
    assert name_spans(text, data) == every_name(text)


@pytest.mark.parametrize("text", [text for _, text, _ in CASES] + CLEAN)
def test_in_known_texts_the_sieves_pass_over_nothing(text: str) -> None:
    check(text)
    check(f'{HEX} {text} "{HEX}" {HEX}')
    check(f"{text}{HEX}")


@given(st.lists(pieces | st.sampled_from([HEX, HEX[:20], "test_" + "name_of_it" * 2]), max_size=8))
def test_in_joined_texts_the_sieves_pass_over_nothing(parts: list[str]) -> None:
    check("".join(parts))


@given(
    st.sampled_from(LITERALS),
    st.lists(st.sampled_from([*SEPARATORS, "abc1.", "a1b2c3d4e5f6", "T0ABCDEF"]), max_size=5),
    st.sampled_from([HEX, HEX[:20], HEX[:21] + "G"]),
    contexts,
    shaped,
)
def test_digits_after_what_begins_a_key_are_looked_at(
    literal: str, between: list[str], digits: str, context: str, secret: str
) -> None:
    check(f"x {literal}{''.join(between)}{digits} {context.format(secret)} {digits}")


def test_in_the_standard_library_the_sieves_pass_over_nothing() -> None:
    root = Path(os.__file__).parent
    for folder in (".", "email", "http"):
        for source in sorted((root / folder).glob("*.py")):
            check(source.read_text(encoding="utf-8", errors="replace"))


@pytest.mark.skipif("STATOR_TRANSCRIPTS" not in os.environ, reason="no recorded sessions here")
def test_in_recorded_sessions_the_sieves_pass_over_nothing() -> None:
    for path in sorted(Path(os.environ["STATOR_TRANSCRIPTS"]).rglob("*")):
        if path.is_file() and path.stat().st_size < 20_000_000:
            check(path.read_bytes().decode("utf-8", "replace"))
