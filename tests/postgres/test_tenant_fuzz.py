"""Random histories of two tenants, asked through every method of the port as each role: nothing of the other shows.

What is asked about the other tenant is answered as what is asked about something that does not exist, with the same
words. What the other does changes no answer. A reader changes no row. `STATOR_FUZZ_SEEDS` asks for more histories.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, get_args

import msgspec
import psycopg
import pytest

import stator
from postgres_server import database_of_roles, new_tenant
from stator.errors import StatorError
from stator.model.exchange.bookmark import Bookmark
from stator.model.log.commit import Purge
from stator.model.log.query import CallQuery, Holder, Lease, SessionQuery, UsageBy, read
from stator.model.values.ids import suffix_of
from stator.store.contract.distance.tenants import of_store, opening
from stator.store.contract.drive import Ids, Story, begin, large_text, lineage
from stator.store.memory import MemoryStore
from stator.store.port import StorePort
from stator.store.postgres import counts, open_store

SEEDS = int(os.environ.get("STATOR_FUZZ_SEEDS", "2"))
TABLES = "tenant session alias log blob blob_use rec turn_key bookmark process".split()
METHODS = {n for n, value in vars(StorePort).items() if callable(value) and n[0] != "_"}

BY_SQL = (
    "SELECT records, sessions.* FROM (SELECT count(*) AS records FROM records WHERE id = '{word}')"
    " LEFT JOIN sessions ON sessions.id = '{session}'"
)
"""One query, because each takes a process."""

Ask = Callable[["Names"], object]


class Names:
    """What can be named of a tenant: of the other one, or of one that is nowhere."""

    def __init__(self, stories: list[Story], word: str) -> None:
        self.stories = stories
        self.word = word
        self.logs = [story.log for story in stories]

    @property
    def texts(self) -> list[str]:
        """Everything that would give it away, in one order."""
        found = [self.word]
        for story, log in zip(self.stories, self.logs, strict=True):
            found += [story.session, story.session[2:]]
            for commit in log:
                found += [commit.id, commit.id[2:], commit.hash, commit.call, commit.call[2:]]
        return [text for text in found if text]


def history(store: Any, rng: random.Random, word: str, seed: str) -> list[Story]:
    """A few sessions in which everything names one word."""
    stories = []
    for n in range(rng.randint(1, 3)):
        ids = Ids(f"{seed}-{n}")
        story = begin(
            store,
            f"{word}-{n}",
            ids=ids,
            project=f"{word}-project",
            agent=word,
            aliases=[(word, f"{word}-{n}")],
        ).drive()
        story.turn(f"buy {word}", key=word)
        for _ in range(rng.randint(2, 6)):
            act(story, rng, word)
        store.append(story.session, [], bookmark=Bookmark(word, 1, {word: 1}))
        stories.append(story)
    if rng.random() < 0.7:
        stories.append(stories[0].fork(f"{word}-fork"))
    return stories


def act(story: Story, rng: random.Random, word: str) -> None:
    match rng.randrange(6):
        case 0:
            story.fact(word, rng.random())
        case 1:
            story.file(f"{word}.py")
        case 2:
            story.entry(large_text() + word)
        case 3:
            story.outcome(story.call(word, {"what": word}), word)
        case 4:
            story.call(word)
        case _:
            story.decision(word, word)


def asks(s: Any, rng: random.Random) -> Iterator[tuple[str, Ask]]:
    """Every method, given names of a tenant. Those that would write are among them."""
    n = rng.randrange(10**6)

    def story(names: Names) -> Story:
        return names.stories[n % len(names.stories)]

    def session(names: Names) -> str:
        return story(names).session

    def log(names: Names) -> list[Any]:
        return names.logs[n % len(names.logs)]

    def commit(names: Names) -> Any:
        return log(names)[1]

    fresh = Ids(f"fresh-{n}")
    drafts = Story(s, begin(MemoryStore(), ids=fresh).drafts).drafts
    yield "session", lambda x: s.session(session(x), counted=True)
    yield "acquire", lambda x: s.acquire(session(x), Holder(epoch=0), take=True, newest=2)
    yield "release", lambda x: s.release(Lease(session(x), 1))
    yield (
        "append",
        lambda x: s.append(
            session(x), [msgspec.structs.replace(drafts.fact("x"), session=session(x))]
        ),
    )
    yield "append", lambda x: s.append(session(x), [], bookmark=Bookmark("log", 1, {}))
    yield "bookmark", lambda x: s.bookmark(session(x), x.word)
    yield "head", lambda x: s.head(session(x))
    yield "heads", lambda x: s.heads({session(x): 1}, project=f"{x.word}-project")
    yield "heads", lambda x: s.heads({session(x): 1, commit(x).session: 2})
    yield "commits", lambda x: s.commits(session(x), limit=5)
    yield "commits", lambda x: s.commits(session(x), ids=[commit(x).id], rewinds=True)
    yield "packed", lambda x: s.packed(session(x))
    yield "locate", lambda x: s.locate(commit(x).id[2:])
    yield "locate", lambda x: s.locate(commit(x).hash[:12])
    yield "locate", lambda x: s.locate("ab", session(x))
    yield "turns", lambda x: s.turns(session(x), keys=[x.word], prompts=True)
    yield "entries", lambda x: s.entries(session(x), "facts", keys=[x.word])
    yield "versions", lambda x: s.versions(session(x), after=0, upto=100)
    yield "replaced", lambda x: s.replaced(session(x), commit(x).delta)
    yield "touches", lambda x: s.touches("facts", x.word)
    yield "touches", lambda x: s.touches("files", f"{x.word}.py", project=f"{x.word}-project")
    yield "touches", lambda x: s.touches("facts", x.word, session=session(x))
    yield "calls", lambda x: s.calls(CallQuery(tool=x.word))
    yield "calls", lambda x: s.calls(CallQuery(project=f"{x.word}-project"), limit=1)
    yield "calls", lambda x: s.calls(CallQuery(session=session(x)))
    yield "sessions", lambda x: s.sessions(SessionQuery(name=f"{x.word}-0"))
    yield "sessions", lambda x: s.sessions(SessionQuery(project=f"{x.word}-project"))
    yield "sessions", lambda x: s.sessions(SessionQuery(agent=x.word))
    yield "sessions", lambda x: s.sessions(SessionQuery(parent=session(x)))
    yield "sessions", lambda x: s.sessions(SessionQuery(alias=(x.word, f"{x.word}-0")))
    yield "sessions", lambda x: s.sessions(SessionQuery(suffix=suffix_of(session(x), "session")))
    yield (
        "together",
        lambda x: s.together(
            read("session", session(x)),
            read("commits", session(x)),
            read("entries", session(x)),
            read("locate", commit(x).id[2:]),
            read("calls", CallQuery(tool=x.word)),
        ),
    )
    yield "logs", lambda x: list(s.logs(session(x)))
    yield "audit", lambda x: list(s.audit(skip=[session(x)]))
    for by in get_args(UsageBy):
        yield "usage", partial(lambda by, x: s.usage(by=by, session=session(x)), by)
    yield "sql", lambda x: s.sql(BY_SQL.format(session=session(x), word=x.word))
    yield "ingest", lambda x: s.ingest(log(x))
    yield "ingest", lambda x: s.ingest(log(x)[1:])
    yield "create", lambda x: s.create([forked(fresh, story(x), log(x))])
    yield (
        "append",
        lambda x: s.append(
            session(x), [drafts.make("purge", Purge(session=session(x), head=len(log(x))))]
        ),
    )


def forked(ids: Ids, story: Story, log: list[Any]) -> Any:
    """The first draft of a fork of another tenant's session."""
    parent = msgspec.structs.replace(story.row.record, tenant="", lineage=[])
    return opening(ids("session"), lineage=lineage(parent, len(log)))


def answer(name: str, ask: Ask, names: Names) -> str:
    """What is answered or raised, without the names that were given."""
    try:
        text = f"answered {ask(names)!r}"
    except StatorError as error:
        text = f"{type(error).__name__} {error.what} {error.hint} {error.ids!r}"
    for given in sorted(names.texts, key=len, reverse=True):
        text = text.replace(given, "…")
    return re.sub(r"[0-9a-f]{24,}", "#", text)


def digest(tenant: int | None = None) -> dict[str, str]:
    """Each table, of one tenant or of all, as one digest."""
    found = {}
    where = "" if tenant is None else f"WHERE t = {tenant}"
    with psycopg.connect(database_of_roles()["owner"]) as db:
        for table in TABLES:
            shown = "id" if table == "process" else "x"  # drivers live, and count up
            query = f"SELECT t, {shown}::text FROM stator.{table} x {where} ORDER BY 1, 2"
            rows = db.execute(query).fetchall()
            found[table] = hashlib.sha256(repr(rows).encode()).hexdigest()
    return found


class Pair:
    """Our tenant, connected as a role; another tenant of the same database; and one that is nowhere."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.urls = database_of_roles()
        us, them = new_tenant(), new_tenant()
        self.us = us
        self.ours = open_store(self.urls["drive"], tenant=us)
        self.theirs = open_store(self.urls["drive"], tenant=them)
        mine = history(self.ours, self.rng, "parasol", f"us-{seed}")
        for story in mine:
            story.drafts.epoch = 0
        shape = self.rng.randrange(10**9)
        named = history(self.theirs, random.Random(shape), "umbrella", f"them-{seed}")
        # The same history in a store that the server knows nothing of.
        nowhere = open_store_in_memory(them)
        absent = history(nowhere, random.Random(shape), "raincoat", f"none-{seed}")
        self.other, self.nobody = Names(named, "umbrella"), Names(absent, "raincoat")

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


def open_store_in_memory(tenant: str) -> Any:
    from stator.store.one_tenant import one_tenant

    return one_tenant(MemoryStore(), tenant)


@pytest.fixture(params=range(SEEDS))
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    made = Pair(request.param)
    yield made
    made.close()


@pytest.mark.parametrize("role", ["read", "approve", "drive"])
def test_another_tenant_is_answered_as_one_that_is_nowhere(pair: Pair, role: str) -> None:
    """By every method, in words and in numbers; and neither it nor, for a reader, anything changes."""
    theirs = pair.theirs._tenant.number
    before = digest(None if role == "read" else theirs)
    with open_store(pair.urls[role], tenant=pair.us) as s:
        for _ in range(2):
            for name, ask in asks(s, pair.rng):
                shown = answer(name, ask, pair.other)
                assert shown == answer(name, ask, pair.nobody), name
                assert "umbrella" not in shown, name
        if role == "read":
            assert "StoreReadOnly" in answer("sync", lambda _: s.sync(), pair.nobody)
            assert "StoreReadOnly" in answer("rebuild", lambda _: s.rebuild(), pair.nobody)
    assert digest(None if role == "read" else theirs) == before


@pytest.mark.parametrize("role", ["read", "drive"])
def test_what_another_tenant_does_changes_no_answer(pair: Pair, role: str) -> None:
    """Of no method that looks through the store: rows, counts, sizes, findings."""
    texts = pair.other.texts[:12]
    with open_store(pair.urls[role], tenant=pair.us) as s:
        before = [(name, repr(ask())) for name, ask in of_store(s, texts)]
        counted = counts(pair.urls["counts"], tenant=pair.us)
        for _ in range(4):
            act(pair.other.stories[0], pair.rng, "umbrella")
        begin(pair.theirs, f"umbrella-{new_tenant()}", ids=Ids(new_tenant()), project="shop")
        after = [(name, repr(ask())) for name, ask in of_store(s, texts)]
    for one, other in zip(before, after, strict=True):
        assert without_beats(one[1]) == without_beats(other[1]), one[0]
    assert counts(pair.urls["counts"], tenant=pair.us) == counted
    shown = repr(after) + repr(counted)
    assert "umbrella" not in shown.replace("'umbrella'", "")
    assert not [text for text in pair.other.texts if len(text) > 20 and text in shown]


def without_beats(text: str) -> str:
    """Our own drivers live in the meantime."""
    return re.sub(r"beats=[0-9]+", "beats", text)


def test_ids_of_another_tenant_are_free(pair: Pair) -> None:
    """A session or a commit of ours may have one: that it is taken elsewhere does not show."""
    theirs = pair.other.stories[0]
    before = digest(pair.theirs._tenant.number)
    row, made = pair.ours.create([opening(theirs.session)])
    assert (row.id, made) == (theirs.session, True)
    taken = pair.other.logs[0][-1].id
    story = begin(pair.ours, "mine", ids=Ids(new_tenant()))
    (commit,) = pair.ours.append(
        story.session, [msgspec.structs.replace(story.drafts.decision("x"), id=taken)]
    )
    assert commit.id == taken
    assert pair.ours.locate(taken[2:]) == [(story.session, commit.seq)]
    assert digest(pair.theirs._tenant.number) == before


@pytest.mark.parametrize("role", ["read", "approve", "drive"])
def test_a_search_finds_nothing_of_another_tenant(pair: Pair, role: str) -> None:
    """Also where what it looks for is in every session of the other."""
    with stator.connect(pair.urls[role], tenant=pair.us) as store:
        assert store.search("parasol")
        assert store.search("umbrella") == store.search("raincoat") == []
        assert store.search("umbrella", project="umbrella-project") == []


def test_every_method_is_asked(pair: Pair) -> None:
    """A new one must be asked here too."""
    of_all = of_store(pair.ours, pair.other.texts[:12])
    asked = {name for name, _ in (*asks(pair.ours, pair.rng), *of_all)} | {"sync", "rebuild"}
    assert METHODS - asked <= {"info", "close"}
