"""The stores that the campaign runs over: Stator's own on PostgreSQL, and the reference with its faults."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, cast

from campaigns.postgres.reference_store import ReferenceStore
from stator.connect import connect, context
from stator.runtime.base.asking_again import AskingAgain
from stator.runtime.facade.store import Store
from stator.store.port import StorePort

PROJECT = "campaign"
TENANT = "t"
OWN = "stator"
"""Stator's own store; any other name is the reference, without a fault or with the one it names."""
REFERENCE = "reference"


@contextlib.contextmanager
def open_store(
    kind: str, url: str, *, around: Callable[[Any], Any] = lambda port: port
) -> Iterator[Store]:
    """A store for programs; `around` is put between the store itself and what asks it again."""
    port = _store(kind, url)
    with Store(cast("StorePort", around(port)), context(project=PROJECT, store=port)) as store:
        yield store


def _store(kind: str, url: str) -> StorePort:
    """The store itself, without what asks it again."""
    if kind == OWN:
        found = connect(url, tenant=TENANT, project=PROJECT).port
        return found._below if isinstance(found, AskingAgain) else found
    return cast("StorePort", ReferenceStore(url, fault="" if kind == REFERENCE else kind))


def make_tables(kind: str, url: str) -> None:
    """What a person does once: prepare the database."""
    if kind == OWN:
        connect(url, tenant=TENANT, project=PROJECT).close()
    else:
        ReferenceStore.make(url)
