"""What a writer remembers of a session between its appends is what the server has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import stator
from postgres_server import new_tenant, shared_database
from stator.model.log.commit import Draft, Upsert
from stator.model.log.delta import Put
from stator.model.records.types import FactRecord
from stator.store.contract.drive import Drafts, Ids
from stator.store.postgres import PostgresStore
from stator.store.postgres.live_session import CACHE_MAX


@pytest.fixture
def store() -> Iterator[Any]:
    with stator.connect(shared_database(), tenant=new_tenant(), project="shop") as made:
        yield made


def test_a_decision_made_a_moment_ago_is_superseded_by_its_id(store):
    with store.open("work") as s:
        with s.turn("choose") as t:
            t.decide("red", topic="colour")
        (first,) = store.port.entries(s.id, "decisions")
        with s.turn("again") as t:
            t.decide("blue", topic="paint", supersedes=first.id)
    assert [d.record.what for d in store.port.entries(s.id, "decisions")] == ["blue"]


def test_a_record_that_a_long_lived_writer_forgot_is_replaced_and_not_made_again():
    part = new_tenant()
    make = Drafts(Ids("work"), Ids("work")("session"))

    def facts(*names: str) -> Draft:
        return make.make("fact", *(Upsert("facts", FactRecord(name=name)) for name in names))

    with PostgresStore(shared_database(), part=part) as store:
        store.create([make.open("work", mode="recorded")])
        store.append(make.session, [facts("old")])
    with PostgresStore(shared_database(), part=part, durability="relaxed") as store:
        for first in range(0, CACHE_MAX + 400, 200):
            store.append(make.session, [facts(*(f"k{n}" for n in range(first, first + 200)))])
        store.append(make.session, [facts("old")])
        (commit,) = store.append(make.session, [facts("k0")])
        (op,) = commit.delta
        assert isinstance(op, Put)
        assert op.was > 0
        (entry,) = store.entries(make.session, "facts", keys=["k0"])
        assert (entry.seq, entry.id) == (commit.seq, op.id)
