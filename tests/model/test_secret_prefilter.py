"""The hook's fast prefilter: redaction finds no secret in text that passes it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.model.log import redact, secret_shapes
from stator.model.log.secret_prefilter import MARKS, suspicious

REDACTOR = redact.Redactor(b"k" * 32)
WORDS = "SK MTA password Token api_key pwd to\u212aen a1B2c3D4e5F6g7H8i9J0 abcdef AAAA 0123456789abcdef0123456789abcdef"
SIGNS = [
    "=",
    ": ",
    '"',
    "'",
    " ",
    "--",
    "://",
    "@",
    "\\",
    "/",
    "\n",
    "\x1b[1m",
    "%3D",
    ".",
    "-",
    "_",
    "é",
]
LITERALS = [shape.literal for shape in secret_shapes.SHAPES]
PIECES = st.sampled_from([*LITERALS, *WORDS.split(), *SIGNS, "T0ABCDEF/B0ABCDEF/"])
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join)


def finds(value: object, name: str | None = None) -> bool:
    if isinstance(value, str):
        return REDACTOR.scrub(value, name) != value
    assert isinstance(value, dict)
    return any(finds(key) or finds(item, key) for key, item in value.items())


@given(said=st.dictionaries(TEXTS, TEXTS | st.dictionaries(TEXTS, TEXTS, max_size=2), max_size=3))
def test_text_that_passes_the_prefilter_has_no_secret(said):
    for data in (
        json.dumps(said),
        json.dumps(said, ensure_ascii=False),
        json.dumps(said).replace("/", "\\/"),
    ):
        if finds(said):
            assert suspicious(data.encode("utf-8", "surrogatepass"))


@given(TEXTS, st.binary(max_size=4))
def test_bytes_hold_the_secrets_that_their_text_holds(text, odd):
    data = odd + b" " + text.encode("utf-8", "surrogatepass")
    read = data.decode("utf-8", "surrogateescape")
    assert REDACTOR.scrub(data) == REDACTOR.scrub(read).encode("utf-8", "surrogateescape")


@given(TEXTS, st.sampled_from(["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]))
def test_wide_text_that_was_redacted_is_not_redacted_again(text, codec):
    once = REDACTOR.scrub(f"see {text} there".encode(codec, "surrogatepass"))
    assert REDACTOR.scrub(once) is once


def test_the_prefilter_knows_the_prefix_of_every_vendor():
    for shape in secret_shapes.SHAPES:
        assert any(mark in shape.literal.encode() for mark in MARKS), shape.literal


@pytest.mark.parametrize(
    "said",
    [
        {
            "tool_name": "Bash",
            "tool_input": {"command": "ls -la"},
            "permission_mode": "bypassPermissions",
        },
        {
            "session_id": "9d4f6173-268b-4fe6-912d-53e6fc86dff4",
            "tool_use_id": "toolu_01AbCdEfGhIjKlMnOpQr",
        },
        {"tool_response": {"stdout": "\x1b[32mok\x1b[0m\n", "interrupted": False}},
    ],
)
def test_an_ordinary_line_passes_the_prefilter(said):
    assert not suspicious(json.dumps(said).encode())
