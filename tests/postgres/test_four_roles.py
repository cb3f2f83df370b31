"""The roles counts, read, approve and drive: what the server lets each do, and what the store refuses before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

import stator
from postgres_server import ROLES, database_of_roles, new_tenant
from stator.errors import NotAStore, StoreReadOnly
from stator.model.exchange.bookmark import Bookmark
from stator.model.log.query import CallQuery, Holder, SessionQuery
from stator.store.contract.drive import Story, begin, large_text
from stator.store.postgres import counts, open_store, prepare

TABLES = "tenant session alias log blob blob_use rec turn_key bookmark process".split()
DENIED = (pg.InsufficientPrivilege,)


@pytest.fixture
def tenant() -> str:
    return new_tenant()


@pytest.fixture
def story(tenant: str) -> Iterator[Story]:
    with open_store(database_of_roles()["drive"], tenant=tenant) as store:
        made = begin(store, "umbrellas", project="shop", agent="x", aliases=[("claude", "1")])
        made.drive()
        made.turn("buy an umbrella", key="k1", usage={"tokens": 120})
        made.outcome(made.call("pay"), "no", status="error")
        made.entry(large_text(), usage={"tokens": 80, "seconds": 1})
        store.append(made.session, [], bookmark=Bookmark("log", 1, {"offset": 1}))
        yield made


def connection(role: str, story: Story) -> psycopg.Connection[Any]:
    db = psycopg.connect(database_of_roles()[role])
    settings = story.store._connections.settings  # type: ignore[attr-defined]
    db.execute("SELECT set_config('stator.t', %(t)s, true)", settings)
    db.execute("SELECT set_config('stator.tenant', %(tenant)s, true)", settings)
    return db


def is_denied(db: psycopg.Connection[Any], text: str) -> bool:
    try:
        with db.transaction(force_rollback=True):
            db.execute(text)
    except DENIED:
        return True
    return False


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_enabled_and_forced_and_owned_by_no_role_of_these(table: str) -> None:
    with psycopg.connect(database_of_roles()["owner"]) as db:
        row = db.execute(
            "SELECT relrowsecurity, relforcerowsecurity, pg_get_userbyid(relowner) FROM pg_class"
            " WHERE oid = %s::regclass",
            (f"stator.{table}",),
        ).fetchone()
    assert row == (True, True, "postgres")


@pytest.mark.parametrize("role", ROLES)
def test_no_role_is_above_row_level_security(role: str) -> None:
    """Nor may it become another, log in, or make anything."""
    with psycopg.connect(database_of_roles()["owner"]) as db:
        row = db.execute(
            "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin FROM pg_roles"
            " WHERE rolname = %s",
            (f"stator_{role}",),
        ).fetchone()
    assert row == (False, False, False, False, False)
    with psycopg.connect(database_of_roles()[role], autocommit=True) as db:
        with pytest.raises(DENIED):
            db.execute("CREATE TABLE stator.mine (x integer)")
        with pytest.raises(DENIED):
            db.execute("SET row_security = off; SELECT t FROM stator.session")


@pytest.mark.parametrize("table", TABLES)
def test_a_table_shows_each_role_its_tenant_alone(table: str, story: Story) -> None:
    """And nothing where no tenant is named."""
    other = open_store(database_of_roles()["drive"], tenant=new_tenant())
    begin(other, "others", aliases=[("claude", "1")]).drive()
    number = story.store._tenant.number  # type: ignore[attr-defined]
    for role in ("read", "approve", "drive"):
        with connection(role, story) as db:
            assert db.execute(f"SELECT DISTINCT t FROM stator.{table}").fetchall() == [(number,)]
            db.rollback()
            assert db.execute(f"SELECT t FROM stator.{table}").fetchall() == []
    other.close()


@pytest.mark.parametrize("table", TABLES)
def test_a_reader_cannot_change_a_table(table: str, story: Story) -> None:
    for role in ("read", "counts"):
        with connection(role, story) as db:
            assert is_denied(db, f"INSERT INTO stator.{table} DEFAULT VALUES")
            assert is_denied(db, f"UPDATE stator.{table} SET t = t")
            assert is_denied(db, f"DELETE FROM stator.{table}")
            assert is_denied(db, f"TRUNCATE stator.{table}")


@pytest.mark.parametrize("table", TABLES)
def test_counts_read_no_text_of_a_table(table: str, story: Story) -> None:
    """Neither as a row nor column by column, but for the labels that numbers are grouped by."""
    with psycopg.connect(database_of_roles()["owner"]) as db:
        columns = db.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0",
            (f"stator.{table}",),
        ).fetchall()
    with connection("counts", story) as db:
        assert is_denied(db, f"SELECT * FROM stator.{table}")
        open_to_it = {
            name for (name,) in columns if not is_denied(db, f"SELECT {name} FROM stator.{table}")
        }
    numbers = {"t", "created", "turns", "calls", "failed", "tokens", "content_bytes"}
    labels = {"project", "agent", "mode"}
    allowed = {"session": numbers | labels, "tenant": {"name", "t"}}
    assert open_to_it == allowed.get(table, set())


def test_counts_are_given_by_project_agent_and_day(story: Story, tenant: str) -> None:
    (found,) = counts(database_of_roles()["counts"], tenant=tenant)
    assert (found.project, found.agent) == ("shop", "x")
    assert (found.sessions, found.turns, found.calls, found.failures) == (1, 1, 1, 1)
    assert found.tokens == 200
    assert found.bytes > 900
    assert len(found.day) == 10
    with pytest.raises(NotAStore):
        counts(database_of_roles()["counts"], tenant=new_tenant())
    with pytest.raises(NotAStore):
        open_store(database_of_roles()["counts"], tenant=tenant)


def test_an_approver_cannot_change_what_only_a_driver_does(story: Story) -> None:
    """The server refuses: leases, sessions, removal, and rows of the log of other kinds."""
    with connection("approve", story) as db:
        for table in TABLES:
            assert is_denied(db, f"DELETE FROM stator.{table}")
        for table in ("tenant", "session", "alias", "turn_key", "bookmark", "process"):
            assert is_denied(db, f"INSERT INTO stator.{table} DEFAULT VALUES")
        for column in ("epoch", "holder", "process", "record", "name", "status"):
            assert is_denied(db, f"UPDATE stator.session SET {column} = {column}")
        for column in ("body", "hash", "kind"):
            assert is_denied(db, f"UPDATE stator.log SET {column} = {column}")
        copied = (
            "INSERT INTO stator.log (t, s, seq, id, hash, salts, kind, turn, at, body)"
            " SELECT t, s, seq + 1000, '\\x01'::bytea || id, hash, salts, '{}', turn, at, body FROM stator.log LIMIT 1"
        )
        for kind in ("turn", "call", "outcome", "erasure", "purge", "run", "fact"):
            assert is_denied(db, copied.format(kind)), kind
        assert not is_denied(db, copied.format("approval"))


@pytest.mark.parametrize("forged", ["head", "body"])
def test_what_an_approver_forges_with_sql_is_found(tenant: str, forged: str) -> None:
    """The server cannot look inside a commit; `verify` does."""
    with open_store(database_of_roles()["drive"], tenant=tenant) as store:
        story = begin(store, "umbrellas")
        story.fact("x")
        with connection("approve", story) as db:
            if forged == "body":
                db.execute(
                    "INSERT INTO stator.log (t, s, seq, id, hash, salts, kind, turn, at, body) SELECT t, s, seq + 1,"
                    " '\\x01'::bytea || substr(id, 2), hash, salts, 'approval', turn, at, body FROM stator.log"
                    " WHERE seq = 2"
                )
            db.execute("UPDATE stator.session SET head = head + 1")
    with stator.connect(database_of_roles()["read"], tenant=tenant) as reader:
        assert not reader.verify().ok


@pytest.fixture
def waiting(tenant: str) -> Any:
    """The tool of a call that waits for an approval."""

    @stator.tool(effect="write", approve=True)
    def pay(amount: int) -> str:
        return "paid"

    with (
        stator.connect(database_of_roles()["drive"], tenant=tenant, project="shop") as store,
        pytest.raises(stator.ApprovalNeeded),
        store.open("main") as s,
        s.turn("go", key="k1") as t,
    ):
        t.call(pay, amount=3)
    return pay


def test_an_approver_approves_and_a_driver_goes_on(tenant: str, waiting: Any) -> None:
    urls = database_of_roles()
    with stator.connect(urls["approve"], tenant=tenant, project="shop") as store:
        (call,) = store.approvals.waiting()
        store.approvals.approve(call.call, by="local:ann")
        for role_may_not in (
            lambda: store.open("main"),
            lambda: store.open("another"),
            lambda: store.port.sync(),
            lambda: store.port.rebuild(),
            lambda: store.fork("main", "head", as_name="mine"),
        ):
            with pytest.raises(StoreReadOnly, match="approve"):
                role_may_not()
    with stator.connect(urls["drive"], tenant=tenant, project="shop") as store:
        with store.open("main") as s, s.turn("go", key="k1") as t:
            assert t.call(waiting, amount=3) == "paid"
        assert store.verify().ok
        assert list(store.port.audit()) == []


def test_an_approver_settles_what_is_in_doubt(story: Story, tenant: str) -> None:
    intent = story.call("pay")
    story.in_doubt(intent)
    with open_store(database_of_roles()["approve"], tenant=tenant) as store:
        other = Story(store, story.drafts)
        story.drafts.epoch = 0
        other.settle(intent)
        for draft in (story.drafts.fact("x"), story.drafts.turn("go"), story.drafts.erase(1)):
            with pytest.raises(StoreReadOnly):
                store.append(story.session, [draft])
        with pytest.raises(StoreReadOnly):
            store.append(story.session, [story.drafts.settle(intent), story.drafts.fact("x")])
        with pytest.raises(StoreReadOnly):
            store.acquire(story.session, Holder(epoch=0), take=True)
        calls = store.calls(CallQuery(session=story.session)).rows
        assert calls[0].status == "ok"
        assert list(store.audit()) == []


def test_a_reader_reads_everything_and_writes_nothing(story: Story, tenant: str) -> None:
    with stator.connect(database_of_roles()["read"], tenant=tenant, project="shop") as store:
        assert store.port.info().read_only
        assert store.port.commits(story.session) == story.log
        assert [row.id for row in store.port.sessions(SessionQuery()).rows] == [story.session]
        assert store.search("umbrella")
        assert store.verify().ok
        with pytest.raises(StoreReadOnly):
            store.open("umbrellas", busy="take")
        with pytest.raises(StoreReadOnly):
            store.open("another")


def test_roles_are_made_once_and_granted_again(story: Story) -> None:
    """As often as a database is prepared; what was granted by hand on top is taken back."""
    urls = database_of_roles()
    with psycopg.connect(urls["owner"], autocommit=True) as db:
        db.execute("GRANT DELETE ON stator.log TO stator_read")
    prepare(urls["owner"], roles=True)
    with connection("read", story) as db:
        assert is_denied(db, "DELETE FROM stator.log")
