"""What counts as acknowledged: a commit is, once both servers have it, whatever the server or its settings say.

Each test freezes the sender to the standby, so that a commit waits for it, and asks the store itself, without what
asks again.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from campaigns.postgres import programs
from campaigns.postgres.pair import Pair, pair
from campaigns.postgres.scenarios import ROLE, cancel_waits, freeze_sender
from campaigns.postgres.stores import OWN, open_store
from reliability.support import fact_draft, recorded_session
from stator.errors import StoreUnreachable
from stator.model.log.commit import Draft
from stator.runtime.facade.store import Store

MISSING = programs.missing("initdb", "pg_ctl", "pg_basebackup", "pg_rewind", "setpriv")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
BOUND_S = 45.0
"""How long a question may take before the store must say that no answer came: those who ask again do so for 30 s."""


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    with pair(role=ROLE) as made:
        yield made


@pytest.fixture
def store(servers: Pair) -> Iterator[Store]:
    with open_store(OWN, servers.local_url(ROLE)) as made:
        yield made


@pytest.fixture
def frozen(servers: Pair) -> Iterator[Callable[[], None]]:
    """Freezes the sender to the standby until the test has ended."""
    pids: list[int] = []
    yield lambda: pids.extend(freeze_sender(servers))
    programs.signal_all(pids, signal.SIGCONT)
    servers.catch_up()


class Asked:
    """A question in a thread of its own."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self.answer: Any = None
        self.error: BaseException | None = None
        self.took_s = 0.0
        self._ask = ask
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        began = time.monotonic()
        try:
            self.answer = self._ask()
        except BaseException as error:
            self.error = error
        self.took_s = time.monotonic() - began

    def wait(self, within_s: float = BOUND_S) -> bool:
        """Whether it has ended."""
        self._thread.join(within_s)
        return not self._thread.is_alive()


def itself(store: Store) -> Any:
    return store.port._below  # type: ignore[attr-defined]


def appended(store: Store, draft: Draft) -> Asked:
    return Asked(lambda: itself(store).append(draft.session, [draft]))


def cancelled(servers: Pair, asked: Asked) -> None:
    """Cancel its wait for the standby until it has ended."""
    for _ in range(100):
        if asked.wait(0.05):
            return
        cancel_waits(servers.primary)


def on_standby(servers: Pair, draft: Draft) -> bool:
    """Whether the standby would have the commit if it were promoted now."""
    rows = servers.standby.ask(
        "SELECT count(*) FROM stator.log WHERE encode(id, 'hex') = %s",
        draft.id.partition("_")[2],
        database="stator",
    )
    return bool(rows[0][0])


def is_no_answer(asked: Asked) -> bool:
    return isinstance(asked.error, StoreUnreachable) and asked.error.landed == "unknown"


def test_a_commit_whose_wait_was_cancelled_is_not_acknowledged(servers, store, frozen) -> None:
    draft = fact_draft(store, recorded_session(store, "cancelled"), "x")
    frozen()
    asked = appended(store, draft)
    cancelled(servers, asked)
    assert not on_standby(servers, draft)
    assert is_no_answer(asked), asked.answer


def test_asked_again_it_is_acknowledged_only_when_the_standby_has_it(
    servers, store, frozen
) -> None:
    draft = fact_draft(store, recorded_session(store, "asked again"), "x")
    frozen()
    cancelled(servers, appended(store, draft))
    again = appended(store, draft)
    if again.wait(3):
        assert is_no_answer(again), again.answer
    assert not on_standby(servers, draft)
    cancelled(servers, again)


def test_another_process_is_not_answered_with_it_before_the_standby_has_it(
    servers, store, frozen
) -> None:
    """A driver that continues elsewhere acquires the lease first, which waits as a commit does."""
    session = recorded_session(store, "elsewhere")
    draft = fact_draft(store, session, "x")
    frozen()
    cancelled(servers, appended(store, draft))
    with open_store(OWN, servers.local_url(ROLE)) as other:
        again = appended(other, draft)
        if again.wait(3):
            assert is_no_answer(again), again.answer
        cancelled(servers, again)


def test_a_session_whose_wait_was_cancelled_is_not_acknowledged(servers, store, frozen) -> None:
    frozen()
    made = Asked(lambda: itself(store).create([_opening(store)]))
    cancelled(servers, made)
    assert is_no_answer(made), made.answer


def test_a_role_that_is_sent_no_warnings_gets_no_false_acknowledgement(
    servers, store, frozen
) -> None:
    session = recorded_session(store, "no warnings")
    servers.primary.ask(f"ALTER ROLE {ROLE} SET client_min_messages = error")
    try:
        with open_store(OWN, servers.local_url(ROLE)) as quiet:
            draft = fact_draft(quiet, session, "x")
            frozen()
            asked = appended(quiet, draft)
            cancelled(servers, asked)
            assert is_no_answer(asked), asked.answer
    finally:
        _reset(servers, "client_min_messages")


@pytest.mark.parametrize("value", ["off", "local"])
def test_full_waits_for_the_standby_whatever_the_role_is_set_to(
    servers, store, frozen, value
) -> None:
    session = recorded_session(store, f"set to {value}")
    servers.primary.ask(f"ALTER ROLE {ROLE} SET synchronous_commit = {value}")
    try:
        with open_store(OWN, servers.local_url(ROLE)) as hasty:
            draft = fact_draft(hasty, session, "x")
            frozen()
            asked = appended(hasty, draft)
            if asked.wait(2):
                assert is_no_answer(asked), asked.answer
            cancelled(servers, asked)
    finally:
        _reset(servers, "synchronous_commit")


def test_a_warning_in_another_language_is_understood(servers, store, frozen) -> None:
    if not _has_german(servers):
        pytest.skip("the server has no German messages: localedef -i de_DE -f UTF-8 de_DE.UTF-8")
    session = recorded_session(store, "German")
    servers.primary.ask(f"ALTER ROLE {ROLE} SET lc_messages = 'de_DE.UTF-8'")
    try:
        with open_store(OWN, servers.local_url(ROLE)) as german:
            draft = fact_draft(german, session, "x")
            frozen()
            asked = appended(german, draft)
            cancelled(servers, asked)
            assert is_no_answer(asked), asked.answer
    finally:
        _reset(servers, "lc_messages")


def test_a_commit_that_waits_for_a_frozen_standby_ends_without_an_answer_in_bounded_time(
    servers, store, frozen
) -> None:
    draft = fact_draft(store, recorded_session(store, "waits"), "x")
    frozen()
    asked = appended(store, draft)
    ended = asked.wait()
    cancelled(servers, asked)
    assert ended
    assert is_no_answer(asked), asked.answer


def test_a_server_that_stops_is_no_answer_in_bounded_time(servers, store) -> None:
    session = recorded_session(store, "stops")
    draft = fact_draft(store, session, "x")
    servers.primary.pause()
    try:
        asked, read = appended(store, draft), Asked(lambda: itself(store).head(session))
        ended = asked.wait(), read.wait(5)
    finally:
        servers.primary.go_on()
    assert ended == (True, True)
    assert is_no_answer(asked)


def test_a_server_that_became_a_standby_is_no_answer(servers, store) -> None:
    """A pooler, or a name that moved, may lead to one: it is asked again, until it leads to the primary."""
    draft = fact_draft(store, recorded_session(store, "standby"), "x")
    server = servers.standby
    url = f"postgresql://{ROLE}@/stator?host={server.folder}&port={server.port}"
    with pytest.raises(StoreUnreachable), open_store(OWN, url) as there:
        itself(there).append(draft.session, [draft])


def test_the_reference_store_answers_a_cancelled_wait_the_same_way(
    servers: Pair, frozen: Callable[[], None], tmp_path: Path
) -> None:
    """The harness itself: what the tests above ask of Stator's store holds for the reference."""
    from campaigns.postgres.stores import REFERENCE, make_tables

    make_tables(REFERENCE, servers.local_url(ROLE))
    with open_store(REFERENCE, servers.local_url(ROLE)) as store:
        draft = fact_draft(store, recorded_session(store, "reference"), "x")
        frozen()
        asked = appended(store, draft)
        cancelled(servers, asked)
        assert is_no_answer(asked)
        again = appended(store, draft)
        assert again.wait()
        assert is_no_answer(again)


# -- parts ------------------------------------------------------------------------------------------


def _opening(store: Store) -> Draft:
    from stator.model.log.commit import Upsert
    from stator.model.records.types import SessionRecord

    record = SessionRecord(
        id=store.context.mint("session"), name="made", project="test", mode="recorded"
    )
    return Draft(
        id=store.context.mint("commit"), session=record.id, kind="open", key="0f" * 16,
        changes=(Upsert("session", record),),
    )  # fmt: skip


def _reset(servers: Pair, setting: str) -> None:
    """Take a setting of the role back; the standby may be frozen, so that it does not wait for it."""
    with servers.primary.connect("postgres") as connection:
        connection.execute("SET synchronous_commit = local")
        connection.execute(f"ALTER ROLE {ROLE} RESET {setting}".encode())


def _has_german(servers: Pair) -> bool:
    import psycopg

    try:
        with servers.primary.connect("postgres") as connection:
            connection.execute("SET lc_messages = 'de_DE.UTF-8'")
            connection.execute("SELECT 1 / 0")
    except psycopg.errors.DivisionByZero as error:
        return "zero" not in str(error)
    except psycopg.Error:
        return False
    return False
