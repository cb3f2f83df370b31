"""How the server finds what each statement asks for: by ranges of indexes that begin with the tenant.

Twenty tenants have three thousand sessions, and the server has statistics. What one tenant asks for must not depend on
how much the others have.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import stator
from postgres_server import new_tenant, server
from stator.model.log.turn_keys import SALT
from stator.model.records.tables import COLLECTIONS
from stator.store.contract.drive import large_text
from stator.store.postgres import prepare
from stator.store.postgres.connection import SQL
from stator.store.postgres.session_row import ENDLESS, MAX_SEQ, SEEN_GRAIN
from stator.store.postgres.text import digest
from stator.store.postgres.wire import Link, exchange

TENANTS, COPIES = 20, 3_000
TENANT = 103
BIG = frozenset("session log rec blob blob_use turn_key alias bookmark".split())
UTILITY = frozenset({"durable", "not_durable"})
COPY: dict[str, dict[str, str]] = {
    "session": {
        "id": "decode(md5(x.id || k.n::text::bytea), 'hex')",
        "called": "decode(md5(x.id || k.n::text::bytea), 'hex')",
        "part_s": "ARRAY[1000 + k.n]",
        "updated": "x.updated + k.n * 7000000",
        "seen": "x.seen + k.n * 7000000",
    },
    "log": {"id": "decode(md5(x.id || k.n::text::bytea), 'hex')"},
    "rec": {},
    "blob": {
        "digest": "decode(md5(x.digest || k.n::text::bytea), 'hex')",
        "data": "decode(md5(x.digest || k.n::text::bytea), 'hex')",
    },
    "blob_use": {"digest": "decode(md5(x.digest || k.n::text::bytea), 'hex')"},
    "turn_key": {},
    "alias": {},
    "bookmark": {},
}
"""What differs in a copy beside its tenant and its number."""


@stator.tool(effect="write")
def build(what: str) -> str:
    return large_text()


@functools.cache
def filled() -> str:
    """The URL of a database in which one session was copied many times."""
    url = server().database()
    prepare(url, roles=True)
    with stator.connect(url, tenant=new_tenant(), project="shop") as store:
        with store.open("work", aliases=[("claude", "1")]) as s:
            for number in range(2):
                with s.turn("go", key=f"k{number}") as t:
                    t.call(build, what="ab")
                    with t.batch():
                        t.file("a.py", "modified", after=f"{number:064x}")
                        t.decide(f"choice {number}", topic="colour")
                        t.fact("shop", number)
                        t.say("done")
        store.port.append(s.id, [], bookmark=stator_bookmark())
    with psycopg.connect(url, autocommit=True) as db:
        for table, new in COPY.items():
            _copy(db, table, new)
        db.execute("ANALYZE")
    return url


def stator_bookmark() -> Any:
    from stator.model.exchange.bookmark import Bookmark

    return Bookmark("log", 1, {"offset": 1})


def _copy(db: psycopg.Connection[Any], table: str, new: dict[str, str]) -> None:
    names = db.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
        (f"stator.{table}",),
    ).fetchall()
    new = new | {"t": f"101 + k.n % {TENANTS}", "s": "1000 + k.n"}
    columns = ", ".join(name for (name,) in names)
    values = ", ".join(new.get(name, f"x.{name}") for (name,) in names)
    db.execute(
        f"INSERT INTO stator.{table} ({columns})"
        f" SELECT {values} FROM stator.{table} x, generate_series(1::bigint, {COPIES}) k(n)"
    )


@pytest.fixture(scope="module")
def link() -> Iterator[Link]:
    with Link.connect(filled(), autocommit=True) as made:
        yield made


@pytest.fixture(scope="module")
def typical(link: Link) -> dict[str, Any]:
    """A value for every parameter, as they are while a session is driven and read."""

    def one(text: str) -> Any:
        return exchange(link, [(text, {"t": TENANT})])[0][0]

    s, session, head, hash, parts = one(
        "SELECT s, id, head, hash, part_s FROM stator.session WHERE t = %(t)s ORDER BY s LIMIT 1"
    )
    seq, commit = one("SELECT seq, id FROM stator.log WHERE t = %(t)s ORDER BY s, seq LIMIT 1")
    c, mark = one(
        "SELECT c, mark FROM stator.rec WHERE t = %(t)s AND c = 'decisions' ORDER BY s LIMIT 1"
    )
    (blob,) = one("SELECT digest FROM stator.blob WHERE t = %(t)s LIMIT 1")
    log: dict[str, Any] = {
        "seq": head + 1, "id": b"i" * 16, "hash": b"h" * 32, "salts": b"", "kind": "fact", "turn": 1, "at": 1,
        "body": b"b", "status": None, "call": None, "tool": None, "effect": None, "cause": None, "attempt": None,
        "origin": None,
    }  # fmt: skip
    rec: dict[str, Any] = {
        "c": c, "id": "r", "seq": head + 1, "n": 0, "put": True, "was": 0, "turn": 1, "ended": ENDLESS, "mark": mark,
        "key": "k", "span": 63,
    }  # fmt: skip
    return {
        **{f"l_{name}": [value] for name, value in log.items()},
        **{f"r_{name}": [value] for name, value in rec.items()},
        **dict.fromkeys("agent alias before before_s mode parent status suffix tool".split()),
        **dict.fromkeys("project project_mark name_mark marks statuses".split()),
        **dict.fromkeys("calls commits content_bytes failed tokens turns turn after after_turn".split(), 1),
        "t": TENANT, "s": s, "session": session, "head": head + 1, "hash": hash, "seen": head, "seen_hash": hash,
        "epoch": 1, "held": True, "turn_open": False, "updated": 1, "grain": SEEN_GRAIN, "newest": False,
        "upto": MAX_SEQ, "at": MAX_SEQ, "limit": 100, "limits": [200] * len(COLLECTIONS), "load": False, "prefix": "",
        "collections": list(COLLECTIONS), "collection": c, "mark": mark, "c": c, "id": commit, "ids": [commit],
        "was": seq, "ended": head + 1, "span": 3, "endless": ENDLESS, "seqs": [seq], "seq": seq, "n": 0, "ss": [s],
        "sessions": [session], "uptos": [head], "part_s": parts, "part_after": [0], "part_upto": [MAX_SEQ],
        "digests": [blob], "sizes": [1], "datas": [b"d"], "puts": [True], "batches": ["b"], "names": ["n"],
        "batch": "b", "salt": SALT, "numbers": [1, 2], "origins": [digest("a", "1")], "others": False, "digits": "abcd",
        "aliases": [digest("a", "1")], "called": digest("", "shop", "work"), "name": digest("log"), "number": 2,
        "value": b"v", "key": "k", "size": 1, "salts": b"", "body": b"b", "low": 0, "base": hash, "created": 1,
        "record": b"{}", "tenant": None, "holder": b"h", "process": b"p" * 16, "take": False, "over": 0,
        "secret": b"s", "cs": [c], "after_s": 0, "after_n": 0, "high": MAX_SEQ, "live": True,
        "named": True, "holds": None,
    }  # fmt: skip


NAMED: dict[str, Any] = {
    "name": "work", "project": "shop", "agent": "", "status": "open", "mode": "driven", "tenant": "",
}  # fmt: skip
AS: dict[str, dict[str, Any]] = {
    "session_insert": NAMED,
    "session_record": NAMED,
    "settings": {"tenant": "", "t": str(TENANT)},
    "session_page": {"newest": MAX_SEQ},
    "turn_key_delete": {"name": "n"},
    "rec_end": {"id": "r"},
    "puts_of": {"id": "r"},
    "rec_erase": {"id": "r"},
    "replaced": {"ids": ["r"]},
    "calls_in": {"before": MAX_SEQ},
    "calls_all": {"before": MAX_SEQ, "before_s": MAX_SEQ},
}
"""Where a name means something else."""
ALSO: dict[str, tuple[str, dict[str, Any]]] = {
    "sessions of a project": ("session_page", {"newest": MAX_SEQ, "project_mark": digest("shop")}),
    "sessions of a name": ("session_page", {"newest": MAX_SEQ, "name_mark": digest("work")}),
    "sessions of a parent": ("session_page", {"newest": MAX_SEQ, "parent": b"p" * 16}),
    "sessions of an alias": ("session_page", {"newest": MAX_SEQ, "alias": digest("claude", "1")}),
    "sessions that may hold records of a collection": (
        "session_page",
        {"newest": MAX_SEQ, "holds": "facts"},
    ),
    "sessions after a page": (
        "session_page",
        {"newest": 1 << 50, "before": 1 << 50, "before_s": 1},
    ),
    "records by key": (
        "entries",
        {"collections": ["facts"], "limits": [9], "marks": [digest("shop")]},
    ),
    "records at an earlier seq": ("entries", {"at": 40, "limits": [9] * len(COLLECTIONS)}),
    "newest commits": ("commits_range", {"newest": True}),
    "every session's head": ("heads", {"others": True}),
}
"""The same statements, asked otherwise."""
CASES = {name: (name, AS.get(name, {})) for name in SQL if name not in UTILITY} | ALSO


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def faults(plan: dict[str, Any]) -> list[str]:
    found = []
    for node in nodes(plan):
        kind, table = node["Node Type"], node.get("Relation Name", "")
        if kind == "Seq Scan" and table in BIG:
            found.append(f"reads the whole table {table}")
        condition = node.get("Index Cond", "")
        if "Index Name" in node and not re.search(r"[(.]t = ", condition):
            found.append(f"reads {node['Index Name']} by {condition or 'nothing'}")
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_statement_reads_ranges_of_indexes_that_begin_with_the_tenant(case, link, typical):
    name, values = CASES[case]
    text = f"EXPLAIN (FORMAT JSON) {SQL[name]}"
    (((answer,),),) = exchange(link, [(text, typical | values)])
    plan = json.loads(answer) if isinstance(answer, str) else answer
    wrong = faults(plan[0]["Plan"])
    if name in ("tenant_find", "tenant_insert", "schema_version"):  # they say which tenant it is
        wrong = [one for one in wrong if "tenant" not in one and "schema" not in one]
    assert not wrong


def test_a_plan_that_reads_a_whole_table_is_found(link):
    text = "EXPLAIN (FORMAT JSON) SELECT * FROM stator.log l WHERE l.hash = %(h)s"
    (((plan,),),) = exchange(link, [(text, {"h": b"x"})])
    assert faults(plan[0]["Plan"])
