"""The SQLite store against the memory store: the same operations must give the same answers.

Random stories over several sessions, forks of forks, erasures, re-appends, contributions and
takeovers. Both stores get the same ids, clock and salts, so commits must be equal hash by hash;
SQLite is flushed, reopened and rebuilt at random, with a tail and snapshots so short that both
happen all the time. STATOR_EXAMPLES=1000 makes it a campaign.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from stator.errors import StatorError
from stator.model.log import chain
from stator.model.log.commit import (
    Change,
    Commit,
    Draft,
    Erase,
    Remove,
    Upsert,
)
from stator.model.log.query import (
    CallQuery,
    Holder,
    Lease,
    SessionQuery,
)
from stator.model.log.rewinds import RESET, resets
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import (
    AppRecord,
    ApprovalRecord,
    ArtifactRecord,
    DecisionRecord,
    FactRecord,
    FileRecord,
    PlanRecord,
    ScratchRecord,
    WorkingRecord,
)
from stator.runtime.views.ranges import touched
from stator.store.contract.drive import START, Drafts, Ids, salts
from stator.store.memory import MemoryStore
from stator.store.port import StorePort
from stator.store.sqlite import SqliteStore, create, projection

TAIL = 7
SNAP = 4

names = st.sampled_from(["a", "b", "c", "#d", "e\nf", ""])
paths = st.sampled_from(["a.py", "b.py", "dir/c.py", "#x#"])
roots = st.sampled_from([".", ".", "/other"])
digests = st.sampled_from(["", "d1", "d2"])
topics = st.sampled_from(["", "", "auth", "db"])
values = st.sampled_from([None, True, 0, 7, 2.5, "text", b"bytes", ["l", {"k": 1}], "x" * 300])
positions = st.integers(0, 10_000)
"""Turned into a seq by the length of the log it is asked of."""

facts = st.builds(lambda n, v: Upsert("facts", FactRecord(name=n, value=v)), names, values)
scratch = st.builds(lambda n, v: Upsert("scratch", ScratchRecord(name=n, value=v)), names, values)
app = st.builds(lambda n, v: Upsert("app", AppRecord(name=n, value=v)), names, values)
plans = st.builds(
    lambda n, s: Upsert("plan", PlanRecord(step=n, status=s)),
    names,
    st.sampled_from(["pending", "done"]),
)
files = st.builds(
    lambda p, r, op, a: Upsert("files", FileRecord(path=p, root=r, op=op, after=a)),
    paths,
    roots,
    st.sampled_from(["read", "created", "modified", "deleted"]),
    digests,
)
renames = st.builds(
    lambda p, q, a: Upsert("files", FileRecord(path=p, from_path=q, op="renamed", after=a)),
    paths,
    paths,
    digests,
)
decisions = st.builds(
    lambda t, w: Upsert("decisions", DecisionRecord(what=w, topic=t)), topics, names
)
artifacts = st.builds(lambda n: Upsert("artifacts", ArtifactRecord(name=n)), names)
uses = st.builds(lambda n: Upsert("working_set", WorkingRecord(name=n, kind="app")), names)
approvals = st.builds(lambda n: Upsert("approvals", ApprovalRecord(tool=n)), names)
removals = st.one_of(
    st.builds(lambda n: Remove("facts", n), names),
    st.builds(lambda n: Remove("scratch", n), names),
    st.builds(lambda p: Remove("files", p), paths),
    st.builds(lambda t: Remove("decisions", t), topics),
    st.builds(lambda n: Remove("tools", n), st.sampled_from(["sh", "pay"])),
)
changes = st.one_of(
    facts, facts, scratch, app, plans, files, files, renames, decisions, decisions, artifacts, uses,
    approvals, removals,
)  # fmt: skip


usages = st.sampled_from([None, None, {"tokens": 3}, {"tokens": 1, "money:usd": 5}])
origins = st.sampled_from([None, None, ("hook", "1"), ("hook", "2")])
tools = st.sampled_from(["sh", "pay"])
endings = st.sampled_from(["ok", "error", "in doubt", "in doubt", "settle"])
collections = st.sampled_from(["facts"] * 4 + ["files", "decisions", "calls", "tools"])
several = st.lists(changes, min_size=1, max_size=3)

steps = st.one_of(
    st.tuples(st.just("contribute"), several, names),
    st.tuples(st.just("contribute"), several, names),
    st.tuples(st.just("turn"), names),
    st.tuples(st.just("turn_end"), st.sampled_from(["ok", "aborted"])),
    st.tuples(st.just("entry"), values, usages, origins),
    st.tuples(st.just("call"), tools, st.sampled_from(["read", "write"]), values),
    st.tuples(st.just("outcome"), positions, endings, st.lists(changes, max_size=1)),
    st.tuples(st.just("again"), positions),
    st.tuples(
        st.just("erase"),
        positions,
        st.sampled_from([(), (), ("input",), ("why", "output"), ("put0",)]),
    ),
    st.tuples(st.just("erase_record"), positions, collections, st.booleans()),
    st.tuples(st.just("lifecycle"), st.sampled_from(["run", "pause", "resume", "close"])),
    st.tuples(st.just("rewind"), positions),
    st.tuples(st.just("together"), st.lists(several, min_size=2, max_size=4)),
)
"""One append: the name of a method of `Stores` and what it is given."""


class Stores(RuleBasedStateMachine):
    """Two stores, one story."""

    sessions: Bundle[str] = Bundle("sessions")
    drafts: Bundle[Draft] = Bundle("drafts")

    @initialize(target=sessions, modes=st.sampled_from([("recorded",), ("driven", "recorded")]))
    def begin(self, modes: tuple[str, ...]) -> Any:
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "store.db")
        create(self.path)
        self.now = START
        self.steps = 0
        self.drawn = 0
        self.ids = Ids("machine")
        self.leases: dict[str, Lease] = {}
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(projection, "TAIL_MAX", TAIL)
        self.patch.setattr(projection, "SNAP_MIN", SNAP)
        self.sqlite = self.open_sqlite()
        self.memory = MemoryStore(clock=lambda: self.now, salts=self.salts)
        return multiple(*(self.open_session(mode) for mode in modes))

    def open_sqlite(self) -> SqliteStore:
        return SqliteStore(
            self.path, durability="relaxed", clock=lambda: self.now, salts=self.salts
        )

    def salts(self, size: int) -> bytes:
        """The same salts for both stores: they depend on the operation alone."""
        self.drawn += 1
        return salts(f"{self.steps}/{self.drawn}")(size)

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            try:
                self.check_all()
            finally:
                self.patch.undo()
                self.sqlite.close()
                self.folder.cleanup()

    # -- operations --------------------------------------------------------------------------------

    def both(self, work: Callable[[StorePort], Any]) -> Any:
        """Run the same operation on both: the same answer, or the same error."""
        self.steps += 1
        self.now += 1_000
        answers = []
        for store in (self.memory, self.sqlite):
            self.drawn = 0
            try:
                answers.append(work(store))
            except StatorError as error:
                answers.append(type(error))
        assert answers[1] == answers[0], difference(*answers)
        return None if isinstance(answers[0], type) else answers[0]

    def ask(self, method: str, *args: Any, **options: Any) -> Any:
        """Ask both stores the same question."""
        return self.both(lambda store: getattr(store, method)(*args, **options))

    def append(self, session: str, *drafts: Draft) -> Draft:
        self.both(lambda store: store.append(session, drafts))
        return drafts[-1]

    def maker(self, session: str, *, driving: bool = True) -> Drafts:
        lease = self.leases.get(session) if driving else None
        return Drafts(self.ids, session, lease.epoch if lease else 0)

    def length(self, session: str) -> int:
        return self.memory.head(session).seq

    def drive(self, session: str, take: bool = False) -> None:
        holder = Holder(epoch=0, program="machine")
        lease = self.both(lambda store: store.acquire(session, holder, take=take))
        if lease is not None:
            self.leases[session] = lease

    def open_session(self, mode: str, project: str = "") -> str:
        session = self.ids("session")
        draft = Drafts(self.ids, session).open(session[-6:], mode=mode, project=project)
        self.both(lambda store: store.create([draft]))
        if mode == "driven":
            self.drive(session)
        return session

    # -- appends, drawn by `steps` -------------------------------------------------------------------

    def contribute(self, session: str, change: list[Change], why: str) -> Draft:
        """With or without a lease."""
        maker = self.maker(session, driving=bool(why))
        return self.append(session, maker.make("fact", *change, why=why))

    def together(self, session: str, parts: list[list[Change]]) -> Draft:
        make = self.maker(session, driving=False).make
        return self.append(
            session, *(make("fact", *part, cause=str(n)) for n, part in enumerate(parts))
        )

    def turn(self, session: str, prompt: str) -> Draft:
        return self.append(session, self.maker(session).turn(prompt))

    def turn_end(self, session: str, status: str) -> Draft:
        return self.append(session, self.maker(session).turn_end(status))

    def lifecycle(self, session: str, kind: str) -> Draft:
        return self.append(session, self.maker(session).make(kind, cause=kind))

    def entry(self, session: str, text: Any, usage: Any, origin: Any) -> Draft:
        return self.append(session, self.maker(session).entry(text, usage=usage, origin=origin))

    def call(self, session: str, tool: str, effect: str, value: Any) -> Draft:
        return self.append(session, self.maker(session).call(tool, value, effect=effect))

    def some_call(self, session: str, at: int, kinds: tuple[str, ...]) -> Commit | None:
        """A call of this session or of its lineage."""
        seen = [c for c in self.memory.commits(session) if c.kind in kinds]
        return seen[-1 - at % len(seen)] if seen else None

    def again(self, session: str, at: int) -> Draft | None:
        """Another attempt of a call, after any outcome."""
        call = self.some_call(session, at, ("call",))
        if call is None:
            return None
        maker = self.maker(session)
        return self.append(session, maker.call(call.tool, call=call.call, attempt=call.attempt + 1))

    def outcome(self, session: str, at: int, status: str, change: list[Change]) -> Draft | None:
        """An outcome of any call, settled or not: both stores must answer the same."""
        standing = {entry.key for entry in self.memory.entries(session, "calls")}
        calls = [c for c in self.memory.commits(session) if c.kind == "call"]
        open_calls = [c for c in calls if c.call in standing] or calls
        if not open_calls:
            return None
        call, maker = open_calls[-1 - at % len(open_calls)], self.maker(session)
        if status == "settle":
            draft = maker.settle(call)
        elif status == "in doubt":
            draft = maker.in_doubt(call)
        else:
            draft = maker.outcome(call, status=status)
        return self.append(session, msgspec.structs.replace(draft, changes=tuple(change)))

    def erase(self, session: str, at: int, fields: tuple[str, ...]) -> Draft:
        seq = self.length(session) - at % min(12, self.length(session))
        # The record of the session itself is not erased: its effect on the row is not specified.
        target = self.memory.commits(session, after=seq - 1, upto=seq)[0]
        if any(op.collection == "session" for op in target.delta) and fields in ((), ("put0",)):
            fields = ("principal",)
        make = self.maker(session, driving=False).make
        return self.append(session, make("erasure", Erase(seq=seq, fields=fields)))

    def erase_record(self, session: str, at: int, collection: str, then: bool) -> Draft:
        """Erase every put of a record, and perhaps put it again in the same append."""
        low = self.memory.session(session).record.lineage
        versions = self.memory.versions(
            session,
            after=low[-1].upto if low and at % 3 else 0,
            upto=self.length(session),
            collections=[collection],
        )
        found = versions[at % len(versions)] if versions else None
        wish = Erase(collection=collection, id=found.op.id if found else "nobody")
        maker = self.maker(session, driving=False)
        more = [maker.fact(found.key, "again")] if then and found and collection == "facts" else []
        return self.append(session, maker.make("erasure", wish), *more)

    def rewind(self, session: str, at: int) -> Draft:
        """Rewind to any position, as the runtime computes it."""
        head = self.length(session)
        pairs = touched(self.memory, session, head, at % (head + 1), RESET)
        return self.append(session, self.maker(session).make("rewind", *resets(pairs)))

    # -- rules ------------------------------------------------------------------------------------

    @rule(target=drafts, session=sessions, story=st.lists(steps, min_size=4, max_size=16))
    def tell(self, session: str, story: list[tuple[Any, ...]]) -> Any:
        """Several appends to one session."""
        made = [getattr(self, name)(session, *rest) for name, *rest in story]
        return multiple(*(draft for draft in made if draft is not None))

    @rule(target=drafts, session=sessions, story=st.lists(steps, min_size=4, max_size=16))
    def tell_more(self, session: str, story: list[tuple[Any, ...]]) -> Any:
        """The same rule again, so that there are more appends than questions."""
        return self.tell(session, story)

    @rule(
        target=sessions,
        mode=st.sampled_from(["driven", "recorded"]),
        project=st.sampled_from(["", "p"]),
    )
    def open(self, mode: str, project: str) -> str:
        return self.open_session(mode, project)

    @rule(
        targets=(sessions,),
        parent=sessions,
        at=positions,
        story=st.lists(steps, min_size=1, max_size=8),
    )
    def fork(self, parent: str, at: int, story: list[tuple[Any, ...]]) -> str:
        log = self.memory.commits(parent)
        point = log[-1 - at % min(len(log), 15)]
        drafts = Drafts(self.ids, self.ids("session"))
        record = self.memory.session(parent).record
        draft = drafts.fork(drafts.session[-6:], record, point)
        self.both(lambda store: store.create([draft]))
        if record.mode == "driven":
            self.drive(drafts.session)
        self.tell(drafts.session, story)
        return drafts.session

    @rule(session=sessions, take=st.booleans())
    def acquire(self, session: str, take: bool) -> None:
        self.drive(session, take)

    @rule(session=sessions)
    def release(self, session: str) -> None:
        lease = self.leases.get(session)
        if lease is not None:
            self.both(lambda store: store.release(lease))

    @rule(draft=drafts, trace=st.sampled_from(["", "", "", "other"]))
    def append_again(self, draft: Draft, trace: str) -> None:
        if trace:
            draft = msgspec.structs.replace(draft, trace=trace)
        self.append(draft.session, draft)

    @rule(session=sessions, stale=st.booleans())
    def compare_and_set(self, session: str, stale: bool) -> None:
        log = self.memory.commits(session)
        head = log[0].hash if stale else log[-1].hash
        draft = self.maker(session).fact("cas")
        self.both(lambda store: store.append(session, [draft], if_head=head))

    # -- maintenance of SQLite -----------------------------------------------------------------------

    @rule()
    def reopen(self) -> None:
        for lease in self.leases.values():
            self.ask("release", lease)
        self.sqlite.close()
        self.sqlite = self.open_sqlite()

    @rule()
    def rebuild(self) -> None:
        self.sqlite.rebuild()

    @rule()
    def audit(self) -> None:
        assert list(self.sqlite.audit()) == []

    @rule(session=sessions, data=names)
    def another_writer(self, session: str, data: str) -> None:
        """A second connection to the same file appends."""
        draft = Drafts(self.ids, session).fact(data, "from elsewhere")
        first, self.sqlite = self.sqlite, self.open_sqlite()
        try:
            self.append(session, draft)
        finally:
            self.sqlite.close()
            self.sqlite = first

    @rule(parent=sessions)
    def ingest_elsewhere(self, parent: str) -> None:
        """A session's own commits, read back from SQLite, are what a third store accepts."""
        other = MemoryStore()
        seen: list[str] = []
        record = self.memory.session(parent).record
        for session in [part.session for part in record.lineage] + [parent]:
            log = self.sqlite.commits(session)
            own = [commit for commit in log if commit.session == session]
            whole = all(isinstance(item, bytes) for item in own[0].content.values())
            if not whole:
                return
            assert other.ingest(own) == len(own)
            seen.append(session)
        assert other.commits(parent) == self.memory.commits(parent)

    # -- questions ---------------------------------------------------------------------------------

    @rule(session=sessions, at=positions, limit=st.sampled_from([None, 1, 3]))
    def look(self, session: str, at: int, limit: int | None) -> None:
        seq = at % (self.length(session) + 2)
        for name in COLLECTIONS:
            self.ask("entries", session, name, at=seq, limit=limit)
        self.ask("entries", session, at=seq, limit={"facts": limit} if limit else None)

    @rule(session=sessions, after=positions, upto=positions, newest=st.booleans())
    def page(self, session: str, after: int, upto: int, newest: bool) -> None:
        size = self.length(session) + 2
        a, b = after % size, upto % size
        for limit in (3, 1000):
            options = {"newest_first": newest, "limit": limit}
            self.ask("commits", session, after=a, upto=b, **options)
            self.ask("turns", session, after=a % 4, upto=b % 5, prompts=newest, **options)
            self.ask("commits", session, seqs={a, b, 1, size // 2}, **options)
            self.ask("commits", session, after=a, origins={("hook", "1"), ("hook", "2")}, **options)
        found = self.ask("versions", session, after=a, upto=b)
        self.ask("replaced", session, [version.op for version in found])
        self.ask("versions", session, after=a, upto=b, collections=["files", "calls"])

    @rule(session=sessions, at=positions, key=names, path=paths)
    def seek(self, session: str, at: int, key: str, path: str) -> None:
        seq = at % (self.length(session) + 2)
        for collection, wanted in (("facts", key), ("files", path), ("tools", "sh")):
            self.ask("entries", session, collection, at=seq, keys=[wanted])
            self.ask("entries", session, collection, keys=[wanted])
            self.ask("entries", session, collection, at=seq, keys=[wanted, "b", "c", "dir/c.py"])
            self.ask("entries", session, collection, at=seq, prefix=wanted, limit=2)
        self.ask(
            "entries", session, "facts", "files", "scratch", keys={key, path, "a", "b", "e\nf"}
        )
        for collection, wanted in (("facts", key), ("files", path)):
            if not wanted.startswith("#"):  # such keys are not indexed
                self.ask("touches", collection, wanted, session=session)
                self.ask("touches", collection, wanted, limit=3)
                self.ask("touches", collection, wanted, project="p")
        commit = self.memory.commits(session)[seq % self.length(session)]
        self.ask("locate", commit.hash[:10])
        self.ask("locate", commit.id[-10:], session)

    @rule(
        session=st.none() | sessions,
        tool=st.sampled_from([None, "sh"]),
        statuses=st.sampled_from([(), ("ok",), ("in doubt",), ("started", "error")]),
        limit=st.sampled_from([1, 2, 100]),
    )
    def list_calls(
        self, session: str | None, tool: str | None, statuses: tuple[str, ...], limit: int
    ) -> None:
        query = CallQuery(session=session, tool=tool, statuses=statuses)
        self.both(lambda store: pages(lambda c: store.calls(query, cursor=c, limit=limit)))

    @rule(limit=st.sampled_from([1, 2, 100]), project=st.sampled_from([None, "p"]))
    def list_sessions(self, limit: int, project: str | None) -> None:
        query = SessionQuery(project=project)
        self.both(lambda store: pages(lambda c: store.sessions(query, cursor=c, limit=limit)))

    @invariant()
    def heads_agree(self) -> None:
        if hasattr(self, "memory"):
            for session in self.all_sessions():
                self.ask("head", session)

    def all_sessions(self) -> Sequence[str]:
        return [row.id for row in self.memory.sessions(SessionQuery()).rows]

    def check_all(self) -> None:
        """Compare every answer at the end, before and after a rebuild."""
        for _ in range(2):
            assert list(self.sqlite.audit()) == []
            for session in self.all_sessions():
                self.check_session(session)
            self.sqlite.rebuild()

    def check_session(self, session: str) -> None:
        log = self.ask("commits", session)
        prev = chain.GENESIS
        for n, commit in enumerate(log):
            assert chain.check(commit, prev, n + 1) is None
            prev = commit.hash
        self.ask("session", session)
        self.ask("session", session, counted=True)
        self.ask("turns", session)
        self.both(lambda store: store.calls(CallQuery(session=session)).rows)
        self.ask("versions", session, after=0, upto=len(log))
        for name in COLLECTIONS:
            for at in {None, len(log) // 3, 2 * len(log) // 3}:
                self.ask("entries", session, name, at=at)


def difference(right: Any, found: Any) -> str:
    """The first difference of two answers, in a few lines."""
    if isinstance(right, list) and isinstance(found, list):
        pairs = zip([*right, None], [*found, None], strict=False)
        right, found = next(((a, b) for a, b in pairs if a != b), (len(right), len(found)))
    if isinstance(right, msgspec.Struct) and type(right) is type(found):
        names = [n for n in right.__struct_fields__ if getattr(right, n) != getattr(found, n)]
        parts = {n: (getattr(right, n), getattr(found, n)) for n in names}
        return f"{type(right).__name__} (memory, SQLite): {parts}"
    return f"\nmemory: {right!r:.600}\nSQLite: {found!r:.600}"


def pages(ask: Callable[[Any], Any]) -> list[Any]:
    page = ask(None)
    rows = list(page.rows)
    while page.cursor is not None:
        page = ask(page.cursor)
        rows += page.rows
    return rows


EXAMPLES = int(os.environ.get("STATOR_EXAMPLES", "0"))
"""Set: a random campaign of that many stories, shrunk. Else: the same few stories in every run."""

TestStores = Stores.TestCase
TestStores.settings = settings(
    max_examples=EXAMPLES or 25,
    stateful_step_count=30,
    deadline=None,
    derandomize=not EXAMPLES,
    phases=tuple(Phase) if EXAMPLES else (Phase.generate,),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
