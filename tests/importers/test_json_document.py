"""Tests that documents are read as far as they are complete, and refused above a limit."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stator.errors import InvalidInput
from stator.importers.reading.json_document import decode_document

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=40)
@given(st.lists(st.dictionaries(st.text(), values, min_size=1, max_size=3), max_size=5), st.data())
def test_a_cut_list_yields_its_complete_records(records, data):
    text = json.dumps(records).encode()
    end = data.draw(st.integers(1, len(text)))
    try:
        found = decode_document(text[:end], "a.json").value
    except InvalidInput:
        return
    assert found == records[: len(found)]


@settings(max_examples=40)
@given(st.lists(st.dictionaries(st.text(), values, min_size=1, max_size=3), max_size=5), st.data())
def test_a_cut_list_in_a_field_yields_its_complete_records(records, data):
    text = json.dumps({"info": {"id": "x"}, "messages": records}).encode()
    end = data.draw(st.integers(1, len(text)))
    try:
        found = decode_document(text[:end], "a.json").value.get("messages", [])
    except InvalidInput:
        return
    assert found == records[: len(found)]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    with suppress(InvalidInput):
        decode_document(data, "a.json")


def test_a_file_that_is_not_json_is_refused():
    for data in (b"", b"  ", b"hello", b"[", b"{", b"]]"):
        with pytest.raises(InvalidInput):
            decode_document(data, "a.json")
