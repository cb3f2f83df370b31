"""The capabilities that a store declares to run the suite, and the fixtures made from them.

A test module defines three fixtures, `make_store`, `capabilities` and `project_index`, and imports the rest:

    @pytest.fixture
    def capabilities() -> Capabilities:
        return Capabilities(durable=True, sql=True)

    @pytest.fixture
    def make_store(tmp_path) -> MakeStore:
        return lambda **options: MyStore(tmp_path / "store", **options)

    @pytest.fixture
    def project_index(store) -> Iterator[ProjectIndex]:
        with stator.index_files.project_index(store, True) as index:
            yield index

A store with an index of projects of its own gives that. `make_store` opens the same place each time it is called;
`options` are `redact`, `clock` and `salts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pytest

from stator.store.contract.drive import Clock, Story, begin
from stator.store.port import StorePort


@dataclass(frozen=True)
class Capabilities:
    """Optional abilities of a store; everything else is required."""

    durable: bool = True
    """What was acknowledged is there after `close` and opening again."""
    sql: bool = True
    """`sql` answers; else it raises `BadQuery`."""


class MakeStore(Protocol):
    def __call__(
        self,
        *,
        redact: bool = True,
        clock: Callable[[], int] = ...,
        salts: Callable[[int], bytes] = ...,
    ) -> StorePort: ...


@pytest.fixture
def store(make_store: MakeStore) -> Iterator[StorePort]:
    """An empty store whose clock advances by a second at each reading."""
    made = make_store(clock=Clock())
    yield made
    made.close()


@pytest.fixture
def story(store: StorePort) -> Story:
    """A session with a driver, between turns."""
    return begin(store).drive()


def skip_unless_durable(capabilities: Capabilities) -> None:
    if not capabilities.durable:
        pytest.skip("this store does not outlive its process")
