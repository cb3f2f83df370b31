"""Tenants: on a connection of one, nothing of another shows, however it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, get_args

import msgspec
import pytest

from stator.errors import BadQuery, InvalidInput, NotFound, StatorError
from stator.model.log.commit import Commit, Draft, Purge, Upsert
from stator.model.log.query import GONE, CallQuery, Holder, Lease, SessionQuery, UsageBy, read
from stator.model.records.types import SessionRecord
from stator.model.values.ids import is_id, suffix_of
from stator.store.contract.drive import Ids, Story, begin, counts, lineage
from stator.store.one_tenant import one_tenant
from stator.store.port import StorePort

US, THEM = "us", "them"
SECRET = "umbrella"
NOBODY = Ids("nobody")("session")


class Tenants:
    """Two tenants in one store, with sessions of the same names and keys; we are connected as one of them."""

    def __init__(self, store: StorePort) -> None:
        self.below = store
        self.connection = one_tenant(store, US)
        self.ours, self.theirs = (self._work(tenant) for tenant in (US, THEM))
        self.head = self.theirs.log[-1]

    def _work(self, tenant: str) -> Story:
        word = SECRET if tenant == THEM else "parasol"
        aliases = [("claude", f"{tenant}-1")]
        story = begin(
            self.below, "story", ids=Ids(tenant), tenant=tenant, project="shop", aliases=aliases
        ).drive()
        story.turn(f"buy an {word}", key="k1")
        intent = story.call("pay", {"what": word})
        story.outcome(intent, word)
        story.call("pay", {"what": word})
        story.fact("x", word)
        story.file("a.py")
        return story

    def shows(self, answer: object) -> bool:
        """Whether an answer holds anything of the other tenant."""
        text = repr(answer)
        theirs = {SECRET, self.theirs.session, self.theirs.session[2:]}
        theirs |= {commit.id[2:] for commit in self.theirs.log}
        theirs |= {commit.hash for commit in self.theirs.log}
        return any(word in text for word in theirs)


@pytest.fixture
def tenants(store: StorePort) -> Tenants:
    return Tenants(store)


def of_session(s: StorePort, session: str, drafts: list[Draft]) -> dict[str, Callable[[], object]]:
    """Every method that is given a session, asked about one."""
    return {
        "session": lambda: s.session(session),
        "acquire": lambda: s.acquire(session, Holder(epoch=0), take=True),
        "release": lambda: s.release(Lease(session, 1)),
        "append": lambda: s.append(session, drafts),
        "bookmark": lambda: s.bookmark(session, "log"),
        "head": lambda: s.head(session),
        "commits": lambda: s.commits(session),
        "packed": lambda: s.packed(session),
        "locate": lambda: s.locate("ab", session),
        "turns": lambda: s.turns(session, keys=["k1"]),
        "entries": lambda: s.entries(session, "facts", keys=["x"]),
        "versions": lambda: s.versions(session, after=0, upto=100),
        "replaced": lambda: s.replaced(session, []),
        "touches": lambda: s.touches("files", "a.py", session=session),
        "calls": lambda: s.calls(CallQuery(session=session)),
        "counts": lambda: counts(s, session),
        "together": lambda: _given(s.together(read("commits", session))),
        "logs": lambda: list(s.logs(session)),
        "usage": lambda: s.usage(session=session),
    }


def _given(answers: list[Any]) -> Any:
    """The one answer; raised if it is an error."""
    if isinstance(answers[0], NotFound):
        raise answers[0]
    return answers[0]


def of_store(s: StorePort, texts: list[str]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every method that looks through the store, with all that can be named in it."""
    yield "info", s.info
    yield "logs", lambda: [(log.session, log.name, list(log.rows)) for log in s.logs()]
    yield "audit", lambda: list(s.audit())
    yield "heads", lambda: s.heads({}, others=True)
    for project in (None, "shop"):
        yield "touches", partial(s.touches, "files", "a.py", project=project)
        yield "calls", partial(s.calls, CallQuery(project=project, tool="pay"), limit=1)
        yield "calls", partial(s.calls, CallQuery(project=project, statuses=("started",)))
    for by in get_args(UsageBy):
        yield "usage", partial(s.usage, by=by)
    for text in texts:
        yield "locate", partial(s.locate, text)
        yield "together", partial(s.together, read("locate", text))
        fields = ["name", "project", "agent"]
        fields += ["parent"] if is_id(text, "session") else []
        fields += ["suffix"] if suffix_of(text, "session") == text else []
        for field in fields:
            asked: dict[str, Any] = {field: text}
            yield "sessions", partial(s.sessions, SessionQuery(**asked))
        yield "sessions", partial(s.sessions, SessionQuery(alias=("claude", text)))
    yield "sessions", lambda: s.sessions(SessionQuery(), limit=1)
    yield "together", lambda: s.together(read("sessions", SessionQuery()))


def error_of(ask: Callable[[], object]) -> tuple[Any, ...]:
    with pytest.raises(StatorError) as caught:
        ask()
    error = caught.value
    return type(error), error.what, error.hint, sorted(error.ids)


class TestTenants:
    def test_a_session_of_another_tenant_looks_like_one_that_is_not_there(
        self, tenants: Tenants
    ) -> None:
        """To every method that is given a session: the same error with the same words."""
        theirs = tenants.theirs.session
        drafts = [tenants.theirs.drafts.fact("y")]
        foreign = of_session(tenants.connection, theirs, drafts)
        absent = of_session(tenants.connection, NOBODY, drafts)
        for name, ask in foreign.items():
            kind, what, hint, ids = error_of(ask)
            assert kind is NotFound, name
            assert (kind, what.replace(theirs, NOBODY), hint, ids) == error_of(absent[name]), name
        assert tenants.theirs.log[-1] == tenants.head

    def test_nothing_of_another_tenant_is_found_by_any_name(self, tenants: Tenants) -> None:
        """Ids, their ends, hashes, their beginnings, names, aliases, projects."""
        story = tenants.theirs
        whole = [story.session, story.session[2:], tenants.head.id, tenants.head.hash, "story"]
        whole += [f"{THEM}-1", "shop", SECRET, THEM]
        ends = [story.session[-n:] for n in (4, 8, 31)] + [tenants.head.id[-n:] for n in (4, 8)]
        texts = whole + ends + [tenants.head.hash[:n] for n in (4, 8, 31)]
        for name, ask in of_store(tenants.connection, texts):
            assert not tenants.shows(ask()), name

    def test_every_method_of_the_port_is_asked(self, tenants: Tenants) -> None:
        """A new method must say here what it shows of other tenants."""
        methods = {n for n, value in vars(StorePort).items() if callable(value) and n[0] != "_"}
        asked = set(of_session(tenants.connection, NOBODY, []))
        asked |= {name for name, _ in of_store(tenants.connection, ["x"])}
        named = {"create", "ingest", "sql", "rebuild", "sync", "close"}
        assert methods - asked - named == set()

    def test_the_head_of_another_tenants_session_is_gone_as_one_that_is_not_there(
        self, tenants: Tenants
    ) -> None:
        """And does not move."""
        theirs = tenants.theirs.session
        moved = tenants.connection.heads({theirs: 1, NOBODY: 1, tenants.ours.session: 1})
        assert moved[theirs] == moved[NOBODY] == GONE
        assert moved[tenants.ours.session] == tenants.ours.log[-1].seq

    def test_what_is_ours_is_all_there(self, tenants: Tenants) -> None:
        """As on a connection that sees all."""
        below, ours, s = tenants.below, tenants.ours, tenants.connection
        assert s.commits(ours.session) == ours.log
        assert [row.id for row in s.sessions(SessionQuery()).rows] == [ours.session]
        assert len(s.calls(CallQuery(), limit=1).rows) == 1
        assert len(s.touches("files", "a.py")) == 1
        assert s.locate(ours.log[-1].id[2:]) == below.locate(ours.log[-1].id[2:])
        assert [log.session for log in s.logs()] == [ours.session]

    def test_two_tenants_have_a_session_of_the_same_name(self, tenants: Tenants) -> None:
        """Creating ours again does not find theirs."""
        row, made = tenants.connection.create([tenants.ours.drafts.open("story", project="shop")])
        assert (row.id, made) == (tenants.ours.session, False)

    def test_a_session_that_names_no_tenant_is_the_connections(self, tenants: Tenants) -> None:
        """Also for a connection that sees all."""
        session = Ids("new")("session")
        row, made = tenants.connection.create([opening(session)])
        assert (made, row.record.tenant) == (True, US)
        assert tenants.below.session(session).record.tenant == US

    def test_creating_under_another_tenant_is_refused(self, tenants: Tenants) -> None:
        """Nothing is written."""
        session = Ids("new")("session")
        with pytest.raises(InvalidInput, match="tenant"):
            tenants.connection.create([opening(session, tenant=THEM)])
        with pytest.raises(NotFound):
            tenants.below.session(session)

    def test_a_fork_of_another_tenants_session_is_refused(self, tenants: Tenants) -> None:
        """As one of a session that is not there."""
        parent, head = tenants.theirs.row.record, tenants.head
        record = {"lineage": lineage(parent, head.seq), "tenant": US}
        with pytest.raises(NotFound):
            tenants.connection.create([opening(Ids("fork")("session"), **record)])

    def test_a_session_is_not_moved_to_another_tenant(self, tenants: Tenants) -> None:
        """Nor purged by one."""
        ours = tenants.ours
        moved = SessionRecord(id=ours.session, name="story", tenant=THEM)
        with pytest.raises(InvalidInput, match="tenant"):
            tenants.connection.append(
                ours.session, [ours.drafts.make("run", Upsert("session", moved))]
            )
        purge = ours.drafts.make("purge", Purge(session=tenants.theirs.session, head=0))
        with pytest.raises(NotFound):
            tenants.connection.append(ours.session, [purge])

    def test_commits_of_another_tenant_are_not_ingested(self, tenants: Tenants) -> None:
        """Neither a new session of it nor more of one that is here."""
        log = tenants.theirs.log
        with pytest.raises(InvalidInput, match="tenant"):
            tenants.connection.ingest(log)
        with pytest.raises(NotFound):
            tenants.connection.ingest(log[2:])

    def test_a_log_that_hides_whose_it_is_is_not_ingested(self, tenants: Tenants) -> None:
        """Without the session's record, or from its beginning: it is still another tenant's."""
        log = tenants.theirs.log
        hidden = [_without_records(commit) for commit in log]
        more = msgspec.structs.replace(log[-1], seq=log[-1].seq + 1, prev=log[-1].hash)
        for arriving in (hidden, [*hidden, more]):
            with pytest.raises((InvalidInput, NotFound)):
                tenants.connection.ingest(arriving)
        assert tenants.below.head(tenants.theirs.session).hash == tenants.head.hash

    def test_a_query_of_another_tenant_is_refused(self, tenants: Tenants) -> None:
        """The error says where a tenant is named."""
        with pytest.raises(BadQuery) as caught:
            tenants.connection.sessions(SessionQuery(tenant=THEM))
        assert "connect(url, tenant=" in caught.value.hint

    def test_what_cannot_be_confined_to_a_tenant_is_refused(self, tenants: Tenants) -> None:
        """SQL, and making the projections of all tenants again."""
        with pytest.raises(BadQuery):
            tenants.connection.sql("SELECT * FROM sessions")
        with pytest.raises(InvalidInput):
            tenants.connection.rebuild()


def opening(session: str, **fields: Any) -> Draft:
    record = SessionRecord(id=session, name="new", **fields)
    return Draft(
        id=Ids(session)("commit"),
        session=session,
        kind="fork" if record.lineage else "open",
        changes=(Upsert("session", record),),
        actor="system",
    )


def _without_records(commit: Commit) -> Commit:
    kept = {name: item for name, item in commit.content.items() if not name.startswith("put")}
    return msgspec.structs.replace(commit, content=kept)
