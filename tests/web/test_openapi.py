"""The OpenAPI document: it is the committed one, and whatever it allows is answered without a fault."""

from __future__ import annotations

import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import gen_http_docs
from stator.runtime.facade.store import Store
from stator.surfaces.http.openapi import PREFIX, openapi
from stator.surfaces.http.reads import TABLE
from web.running import RunningInspector
from web.service_client import ServiceClient

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES, MANY = 6, 400
"""For each route and each mode: what the document allows, and what it does not."""
WAIT_S = 30


def test_the_committed_reference_is_the_one_of_the_table() -> None:
    for path, text in gen_http_docs.generate().items():
        assert path.read_text() == text, "run scripts/gen_http_docs.py and read the difference"


def test_the_service_shows_its_document(inspector: RunningInspector) -> None:
    client = ServiceClient(inspector.address, inspector.access.new_token())
    assert client.get("/openapi.json").json == json.loads(json.dumps(openapi(TABLE)))


@pytest.fixture
def used(store: Store) -> Store:
    """A store with sessions under names that generated requests use: most of them then reach an answer."""
    for name in ("0", "a", "last"):
        with store.open(name) as session, session.turn("go") as turn:
            turn.decide("one way", topic="0", why="because")
            turn.fact("0", 0)
            turn.file("0", "created")
    return store


def tried(inspector: RunningInspector, examples: int) -> int:
    """Send what can be made of the document; how many requests were answered as it says."""
    description = openapi(one for one in TABLE if one.stream is None)
    schema = schemathesis.openapi.from_dict(description)
    headers = {"Authorization": f"Bearer {inspector.access.new_token()}"}
    sent = 0
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        for mode in GenerationMode:

            @settings(
                max_examples=examples,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case: Case[Any]) -> None:
                nonlocal sent
                sent += 1
                case.call_and_validate(
                    base_url=inspector.address + PREFIX,
                    headers=headers,
                    checks=CHECKS,
                    timeout=WAIT_S,
                )

            ask()
    return sent


def test_whatever_is_asked_the_service_answers_as_its_document_says(
    used: Store, inspector: RunningInspector
) -> None:
    assert tried(inspector, EXAMPLES) > EXAMPLES * 16


@pytest.mark.slow
def test_whatever_is_asked_many_times_the_service_answers_as_its_document_says(
    used: Store, inspector: RunningInspector
) -> None:
    assert tried(inspector, MANY) > MANY * 16
