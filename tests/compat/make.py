"""Write the database and the bundle of this release that every later one must open:
python tests/compat/make.py PATH.db PATH.stator.

Run by hand once per release; the files go to tests/compat/data and are never replaced.

The same code writes the same commits in every folder and process and on every day: clock, ids, salts
and the store's own identity are fixed here. `test_written.py` runs it to see that a later release
still writes the heads of an earlier one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

import stator
from stator.index_files import project_index
from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.items import (
    Answered,
    Began,
    Called,
    Compacted,
    Conversation,
    Ended,
    Item,
    Planned,
    Prompted,
    Returned,
    Spawned,
    Step,
    Touch,
    TurnEnded,
    Unknown,
    Via,
)
from stator.model.log.commit import Draft, Purge, Upsert
from stator.model.records.types import FlagRecord
from stator.model.values.ids import PREFIXES, Kind
from stator.runtime.base import project_flags, project_session
from stator.runtime.base.context import Context
from stator.runtime.facade.session import Session
from stator.runtime.facade.store import Store
from stator.runtime.files import git
from stator.runtime.ingest.recorder import Recorder
from stator.store import sqlite
from stator.store.port import Durability
from stator.store.sqlite import connection


def minted(seed: str = "") -> Callable[[Kind], str]:
    numbers = itertools.count(1)
    made = lambda: sha256(f"{seed}{next(numbers)}".encode()).hexdigest()[:32]  # noqa: E731
    return lambda kind: PREFIXES[kind] + made()


def clock(later_s: int = 0) -> Callable[[], int]:
    times = itertools.count(1_790_000_000_000_000 + later_s * 1_000_000, 1_000_000)
    return lambda: next(times)


def secrets(seed: str = "") -> Callable[[int], bytes]:
    numbers = itertools.count(1)
    return lambda size: sha256(f"{seed}salt {next(numbers)}".encode()).digest()[:size]


IDENTITY = {
    "store": "aedaf45a8604d1176d4bb779e6c81dcd",
    "created": 1_794_772_891_047_683,
    "blob_key": bytes.fromhex("16860779d75e6a2b81760a8fa02beb2a04b1ca25ef87546f5e3f8bf08e10b8f7"),
}
"""What a new store draws at random, as the database of 0.4.0 has it: its id signs each approval, so
another id would give the session with an approval another head."""


def created(path: str) -> None:
    """Make a new store that has this identity."""
    sqlite.create(path)
    meta = {**IDENTITY, connection.SEAL: connection.seal_of(IDENTITY)}
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.executemany("UPDATE meta SET value = ? WHERE key = ?", [(v, k) for k, v in meta.items()])


def opened(
    path: str, root: str, *, seed: str = "", later_s: int = 0, durability: Durability = "full"
) -> Store:
    """A store in a file. Each opening needs another `seed`, or it would make the same ids again."""
    if not os.path.exists(path):
        created(path)
    store = sqlite.SqliteStore(
        path, durability=durability, clock=clock(later_s), salts=secrets(seed)
    )
    context = Context(
        clock=clock(later_s), mint=minted(seed), secret=secrets(seed), host="host", pid=1,
        program="make.py", principal="local:someone", project="compat", root=root,
        project_index=project_index,
    )  # fmt: skip
    return Store(store, context)


def refuse_git(root: str) -> None:
    """Stop if the folder is in a git work tree: its git state would be recorded."""
    if git.in_git(root):
        sys.exit(f"{root} is in a git work tree; set TMPDIR to a folder that is not")


def record(session: Session[object]) -> None:
    """Something of every kind a session can hold."""
    with session.turn("fix the login bug") as t:
        t.call(stator.tool(effect="read")(lambda path: f"text of {path}"), path="auth.py")
        t.try_call(stator.tool(effect="write", name="pay")(_fail), amount=5)
        t.decide("use JWT", topic="auth", why="no shared session store", over=["sessions"])
        t.file("auth.py", "modified", before="aa", after="bb", why="verify the token")
        t.fact("test command", "pytest -q", verified=True)
        t.fact("odd values", [1.5, -0.0, 2**70, b"\x00\xff", ("a", "b"), "\ud800", {"$f": 1}])
        t.plan(["read", "write", "test"])
        t.prefer("tabs", False)
        t.dead_end("regex", why="nested")
        t.pend("deploy", on="review")
        t.use("app", "Safari")
        t.artifact("report", "x" * 20_000 + "".join(f"{n:x}" for n in range(20_000)))
        t.note("scratch", {"n": 1})
        t.set(counter=3, name="compat")
        t.say("done", usage={"tokens": 1200, "money:usd": 4200})
    with session.turn("change your mind") as t:
        t.decide("use PASETO", topic="auth", why="fewer footguns", confidence=0.8)
        t.file("paseto.py", "renamed", from_path="auth.py")
        t.plan("read", "done")
        t.say("secret is " + "sk-ant-" + "api03-" + "Ab1" * 30)
    session.tag("release")
    session.score("quality", 0.9)
    session.flag("review", why="check the payment")


def _fail(amount: int) -> None:
    raise stator.InDoubt("the line went dead")


SCRIPT: list[dict[str, Any]] = [
    {
        "content": [
            {"type": "text", "text": "Two things."},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"path": "a.py"}},
            {"type": "tool_use", "id": "toolu_2", "name": "pay", "input": {"amount": 5}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 10, "output_tokens": 20},
    },
    {
        "content": [{"type": "text", "text": "Paid."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 30, "output_tokens": 5},
    },
]
"""What the model of a loop says."""


def ask(*, messages: list[Any], **options: Any) -> dict[str, Any]:
    spoken: int = sum(message["role"] == "assistant" for message in messages)
    return SCRIPT[spoken]


def loop(store: Store) -> None:
    """A loop that needs an approval, is interrupted, continues, has a child, and has a call in doubt settled."""
    rules = [stator.Rule(tool="pay", action="ask", why="money")]
    prices = {"m": {"tokens:in": 3, "tokens:out": 15}}
    tools = [{"name": "look"}, {"name": "pay"}]
    for approved in (False, True):
        try:
            with store.open("loop", rules=rules, prices=prices, budget={"turns": 9}) as session:
                with session.turn("pay ACME") as t:
                    while True:
                        r = t.model(ask, model="m", tools=tools, messages=t.messages("anthropic"))
                        if r.stop_reason != "tool_use":
                            break
                        t.results(r, lambda name, given: f"{name} ok", effects={"look": "read"})
                    with session.child("research") as child, child.turn("dig") as c:
                        c.say("found it")
                    t.try_call(stator.tool(name="wire")(_fail), amount=7)
                session.in_doubt[0].settle("done", {"id": "re_1"})
                session.close()
        except stator.ApprovalNeeded as needed:
            assert not approved
            someone = store.contribute("loop", principal="local:boss")
            someone.approve(needed.ids["call"])
            someone.budget("+2usd")
            someone.pause()


def write(path: str, text: str) -> str:
    Path(path).write_text(text, encoding="utf-8")
    return "written"


def going_on(store: Store) -> None:
    """Captured files, compactions, a rewind, an adopted retry, and sessions being removed."""
    tool = stator.tool(files="path", name="write")(write)
    with store.open("going-on") as session:
        session.track(contents=True)
        for n in range(4):
            with session.turn(f"request {n}") as t:
                t.call(tool, path="a.py", text=f"n = {n}\n")
                t.artifact("progress", f"done: {n}")
                t.decide(f"way {n}", topic="way", why=f"reason {n}")
                t.say(f"answer {n}")
        session.compact(keep=1, summary="three requests were answered")
        session.undo_compaction()
        session.compact(keep=2, summary="two requests were answered")
        session.rewind("t3")
        with session.turn("another request") as t:
            t.say("another answer")
        with session.retry("t5", effects="run") as t:
            t.decide("the other way", topic="way", why="a second look")
        session.adopt("t5.2")
    store.retention("transcript=90d", "trash=365d")
    store.hold("going-on", why="a question of law")
    for name in ("trashed", "purged"):
        with store.open(name) as session, session.turn("one") as t:
            t.say("soon gone")
    port, context = store.port, store.context
    trashed = store.read("trashed").row
    project_flags.put(
        port, context, trashed, project_flags.TRASH, by="local:someone", why="trash=1d"
    )
    gone = store.read("purged").row
    mark = FlagRecord(name=project_flags.PURGED, on=gone.id, why="purge=1d", by="local:someone")
    own = project_session.own(port, context, gone.record)
    said = Draft(
        id=context.mint("commit"),
        session=own.id,
        kind="purge",
        input={"name": "purged", "policy": "purge=1d", "turns": 1, "commits": gone.head},
        changes=(Purge(gone.id), Upsert("flags", mark)),
    )
    port.append(own.id, [said])


def recorded(store: Store) -> None:
    """What another agent did, from a transcript and from hooks: a call in doubt, a late result, unknown lines."""
    talk = Conversation(source="claude-code", id="9d4f", name="recorded", cwd="/home/dev/demo")
    ask = {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {"file_path": "a.py"}}
    told: list[Item] = [
        Began(id="b1", at=1_780_000_000_000_000, how="startup"),
        Prompted(id="p1", at=1_780_000_000_000_001, content="write a.py"),
        Answered(id="m1", reply={"role": "assistant", "content": [ask]}, usage={"tokens": 18}),
        Called(id="toolu_1", tool="Write", input={"file_path": "a.py", "n": 1.5}),
        Returned(id="toolu_1", output="ok", files=(Touch(path="a.py", op="created"),)),
        Called(id="toolu_2", tool="Bash", input={"command": "make"}),
        Planned(id="pl1", steps=(Step(step="test", status="in_progress"),)),
        Spawned(id="sub", child="agent-a", call="toolu_2", name="look"),
        Unknown(id="raw/7", raw={"type": "new"}),
        Compacted(id="compact/1", summary="a.py was written", before=18, after=4),
        Prompted(id="p2", at=1_780_000_000_000_002, content="go on"),
        Returned(id="toolu_2", output="done"),
        Returned(id="toolu_9", output="whose?"),
        TurnEnded(),
        Ended(id="e1", reason="other"),
    ]
    below = Conversation(source="claude-code", id="agent-a", parent="9d4f", parent_call="toolu_2")
    beside = Conversation(
        source="claude-code", id="ec63", fork_of="9d4f", fork_ids=frozenset({"p1", "m1"})
    )
    for about, items, via in (
        (talk, told, "import"),
        (talk, told[:5], "hook"),
        (below, told[1:2], "hook"),
        (beside, [*told[:5], Prompted(id="p3", content="another way")], "import"),
    ):
        here = replace(store.context, root=about.cwd or store.context.root)
        recorder = Recorder(store.port, here, about, via=cast("Via", via))
        for item in items:
            recorder.take(item)
        recorder.flush(bookmark=Bookmark(f"{via}.jsonl", 1, {"offset": 12}))


def orders(store: Store) -> None:
    """Turns with keys: some ended, one was interrupted and is not the last."""
    pay = stator.tool(effect="write", name="pay")(lambda cents: {"paid": cents})
    with store.open("orders") as session:
        for n in range(40):
            with session.turn(f"order {n}", key=f"order {n}") as t:
                t.call(pay, cents=n)
        with session.turn("deploy", key="deploy AKIA" + "IOSFODNN7EXAMPLQ") as t:
            t.call(pay, cents=100)
        with contextlib.suppress(KeyError), session.turn("unfinished", key="unfinished") as t:
            t.call(pay, cents=200)
            raise KeyError("no receipt")
        with session.turn("later") as t:
            t.fact("later", True)


def main() -> None:
    database, bundle = (os.path.abspath(name) for name in sys.argv[1:3])
    os.umask(0o022)  # the mode of a captured file is recorded
    with tempfile.TemporaryDirectory() as root, opened(database, root) as store:
        refuse_git(root)
        os.chdir(root)
        with store.open("fix-login", agent="demo", app=dict, labels={"team": "a"}) as session:
            record(session)
            session.erase("@9", fields=["why"])
        fork = store.fork("fix-login", "t1", as_name="another-way")
        with store.open("another-way") as session, session.turn("another way") as t:
            t.decide("server sessions", topic="auth", why="revocable")
        with store.open("many-turns") as session:
            for n in range(60):
                with session.turn(f"turn {n}") as t:
                    t.call(stator.tool(effect="read", name="grep")(lambda q: q * 50), q=f"q{n}")
                    t.file(f"src/m{n % 7}.py", "modified", after=f"{n:032x}")
                    t.decide(f"choice {n}", topic=f"topic {n % 11}", why=f"because {n}")
        loop(store)
        going_on(store)
        recorded(store)
        if sys.argv[3:] == ["orders"]:  # from 0.5.0 on
            orders(store)
        store.export(["fix-login", "going-on", "recorded"], bundle, tree=True)
        print(fork.id)


if __name__ == "__main__":
    main()
