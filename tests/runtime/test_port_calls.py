"""How many calls of the port a question costs: each may be a round trip, so none may grow with the session.

The same story is told in 30 and in 3,000 commits, with forks, sub-agents, rewinds, compactions, plans with checks and
content that nobody vouches for. Every budget holds for both, over SQLite and over memory.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import stator
import stator.store.port
from stator import testing
from stator.model.exchange.items import Conversation, Prompted
from stator.runtime.base import project_flags
from stator.runtime.facade.store import Store
from stator.runtime.ingest.recorder import Recorder
from stator.runtime.views.as_read import as_read
from stator.runtime.views.glance import overview
from stator.runtime.views.glance.listed import listed
from stator.runtime.views.glance.status import status
from stator.runtime.views.reasons.recap import recap

CHECK = "pytest -q"
PORT = {name for name in vars(stator.store.port.StorePort) if not name.startswith("_")}


class Counted:
    """A port that counts its calls."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.counted: Counter[str] = Counter()
        self.reads = 0
        """Those that were asked together count each."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name not in PORT or not callable(found):
            return found

        def counted(*args: Any, **options: Any) -> Any:
            self.counted[name] += 1
            self.reads += len(args) if name == "together" else 1
            return found(*args, **options)

        return counted


@stator.tool(effect="read", source="web")
def fetch(url):
    return "use the fast mirror"


@stator.tool(effect="read")
def look(path):
    return "x" * 30


@stator.tool(effect="write")
def bash(command):
    return {"exit_code": 0, "stdout": "ok"}


@stator.tool(effect="write")
def fails(n):
    raise RuntimeError("no")


def work(session, number, *, checks):
    with session.turn(f"do thing {number} in src/m{number % 7}.py") as t:
        t.call(look, path=f"src/m{number % 7}.py")
        if number % 5 == 1:
            t.call(fetch, url="https://a.example/x")
        if number % 4 == 2:
            t.try_call(fails, n=number)
        if number % 3 == 0:
            t.call(bash, command=CHECK)
        with t.batch():
            status = "done" if number % 2 else "in_progress"
            t.plan(f"step {number % 9}", status, check=CHECK if checks else "")
            t.decide(f"choice {number}", topic=f"topic {number % 11}", why=f"because {number}")
            t.file(f"src/m{number % 7}.py", "modified", after=f"{number:064x}")
            t.fact(f"fact {number % 13}", number)
            t.say(f"did {number}")


def tell(store, turns, *, checks=False, children=True):
    """A session with everything, and a fork of it."""
    with store.open("a", agent="x") as s:
        for number in range(turns):
            work(s, number, checks=checks)
            if children and number % 10 == 4:
                with s.turn("research") as t:
                    with s.child(f"kid {number}") as c, c.turn("dig") as u:
                        u.say("found")
                    t.say("ok")
            if number % 10 == 6:
                s.rewind("t-2")
            if number % 12 == 8:
                s.compact()
        s.compact()
    store.fork("a", "t3", as_name="b")
    with store.open("b") as s, s.turn("more") as t:
        t.decide("other", topic="topic 1")
        t.say("yes")


def with_kids(store, kids, *, deep):
    """A session whose turns each ask a sub-agent, which may ask one of its own, which reads a page."""
    with store.open("a") as s:
        for number in range(kids):
            with s.turn(f"research {number}") as t:
                with s.child(f"kid {number}") as kid, kid.turn("dig") as u:
                    if deep:
                        with kid.child(f"below {number}") as below, below.turn("deeper") as v:
                            page = v.call(fetch, url="https://deep.example/x")
                            v.say(f"found deep down: {page}")
                    u.say("found")
                t.decide(f"choice {number}", topic=f"topic {number}", why="it was found")
                t.say("ok")
    with store.open("b") as s, s.turn("else") as t:
        t.say("yes")
    return store


class Told:
    """A store with a story, and a way to count what a question costs."""

    def __init__(self, store: Store) -> None:
        self.kind = type(store.port).__name__
        self.port = Counted(store.port)
        self.store = Store(self.port, store.context)
        self.store.as_read = as_read(self.port, store.context)
        self.a, self.b = (self.store.read(name) for name in "ab")

    def cost(self, ask: Any) -> int:
        self.port.counted.clear()
        self.port.reads = 0
        ask()
        return sum(self.port.counted.values())


def in_memory(store: Store) -> Store:
    """The same log in a memory store."""
    other = testing.memory_store(project="shop", root="/project")
    rows = sorted(store.sessions(limit=1000).rows, key=lambda row: row.record.created)
    done: set[str] = set()
    for row in sorted(rows, key=lambda row: len(row.record.lineage)):
        commits = store.port.commits(row.id, after=_own(row), limit=10_000)
        other.port.ingest(commits)
        done.add(row.id)
    return other


def _own(row):
    return row.record.lineage[-1].upto if row.record.lineage else 0


@pytest.fixture(scope="module")
def long_story(tmp_path_factory):
    path = tmp_path_factory.mktemp("long") / "agent.db"
    with stator.connect(path, project="shop", durability="relaxed") as store:
        tell(store, 290, children=False)
        yield store


@pytest.fixture(scope="module")
def short_story(tmp_path_factory):
    path = tmp_path_factory.mktemp("short") / "agent.db"
    with stator.connect(path, project="shop", durability="relaxed") as store:
        tell(store, 4, children=False)
        yield store


@pytest.fixture(scope="module", params=["short", "long", "long in memory"])
def told(request):
    store = request.getfixturevalue("short_story" if request.param == "short" else "long_story")
    return Told(in_memory(store) if "memory" in request.param else store)


@pytest.fixture(scope="module", params=[12, 100])
def checked(request, tmp_path_factory):
    """Plans with checks and sub-agents, which cost more."""
    path = tmp_path_factory.mktemp("checked") / "agent.db"
    with stator.connect(path, project="shop", durability="relaxed") as store:
        tell(store, request.param, checks=True)
        yield Told(store)


def test_the_long_story_has_three_thousand_commits(told, request):
    if "short" not in request.node.name:
        assert told.a.head.seq > 3000


@pytest.mark.parametrize("at", ["head", "head~2", "@12", "t2", "t3", "t-1", "t-2"])
def test_the_hot_page_and_the_state_cost_two_calls(told, at):
    assert told.cost(lambda: told.a.hot(at)) <= 2
    assert told.cost(lambda: told.a.state(at)) <= 2


def test_a_page_of_turns_with_their_prompts_costs_one_call(told):
    assert told.cost(lambda: told.a.turns(last=100, prompts=True)) == 1
    assert all(row.began for row in told.a.turns(last=100, prompts=True))


def test_the_hot_page_of_a_turn_that_a_rewind_followed_costs_two_calls(told):
    for rewind in told.a.reflog()[-1:]:
        at = f"t{max(rewind.turns)}"
        assert told.cost(lambda at=at: told.a.hot(at)) <= 2
        assert told.cost(lambda at=at: told.a.state(at)) <= 2


SPANS = ["t2", "t1..t3", "@5..@40", "@5..head", "head~3..head", "t-3..t-1"]


@pytest.mark.parametrize("span", SPANS)
def test_a_diff_costs_six_calls(told, span):
    assert told.cost(lambda: told.a.diff(span)) <= 6


def test_a_diff_of_almost_the_whole_log_costs_six_calls(told):
    last = told.a.head.turn
    assert told.cost(lambda: told.a.diff(f"t1..t{last - 1}")) <= 6


def test_a_diff_of_the_last_turn_after_rewinds_costs_six_calls(told):
    assert told.cost(told.a.diff) <= 6


def test_a_diff_across_a_fork_costs_six_calls_and_one_for_calls(told):
    a = told.a.id
    assert told.cost(lambda: told.b.diff(f"{a}:t4", "head")) <= 6
    assert told.cost(lambda: told.b.diff("head", f"{a}:t4")) <= 7


def test_opening_costs_four_calls(told):
    opened = []
    assert told.cost(lambda: opened.append(told.store.open(f"new in {told.kind}"))) <= 4
    opened.pop().pause()
    assert told.cost(lambda: opened.append(told.store.open("a"))) <= 4
    with opened.pop() as s, s.turn("one more") as turn:  # a run without turns would cost one more
        turn.say("done")
    assert told.cost(lambda: opened.append(told.store.open("b"))) <= 5
    with opened.pop() as s, s.turn("one more") as turn:
        turn.say("done")


def test_a_brief_costs_three_calls_and_few_reads(told):
    for tokens in (700, 1000, 2000):
        assert told.cost(lambda tokens=tokens: told.a.brief(max_tokens=tokens)) <= 3
        assert told.port.reads <= 10


def test_a_brief_of_a_fork_and_one_since_a_position_cost_six_calls(told):
    assert told.cost(told.b.brief) <= 6
    assert told.cost(lambda: told.a.brief(since="t2")) <= 6


def test_a_brief_where_the_project_has_a_session_of_its_own_costs_one_call_more(tmp_path):
    with stator.connect(tmp_path / "agent.db", project="shop", durability="relaxed") as store:
        tell(store, 60, children=False)
        store.hold("b", why="for the audit")
        told = Told(store)
        assert told.cost(told.a.brief) <= 4


@pytest.mark.parametrize("kids", [1, 3, 40])
def test_a_brief_costs_the_same_calls_with_any_number_of_sub_agents(tmp_path, kids):
    with stator.connect(tmp_path / "agent.db", project="shop", durability="relaxed") as store:
        told = Told(with_kids(store, kids, deep=False))
        assert told.cost(told.a.brief) <= 5
        assert told.port.reads <= 15 + 5 * kids


@pytest.mark.parametrize("kids", [1, 20])
def test_sub_agents_of_sub_agents_cost_a_brief_two_calls_more(tmp_path, kids):
    with stator.connect(tmp_path / "agent.db", project="shop", durability="relaxed") as store:
        told = Told(with_kids(store, kids, deep=True))
        assert told.cost(told.a.brief) <= 7


def test_other_questions_cost_few_calls(told):
    a = told.a
    assert told.cost(lambda: a.files(last=5)) <= 4
    assert told.cost(a.decisions) <= 2
    assert told.cost(a.calls) <= 1
    assert told.cost(lambda: a.calls(status="open")) <= 2
    assert told.cost(a.tree) <= 12


def test_a_fork_costs_five_calls(tmp_path):
    with stator.connect(tmp_path / "agent.db", project="shop", durability="relaxed") as store:
        tell(store, 4, children=False)
        told = Told(store)
        for at in ("head", "t2", "@5"):
            assert told.cost(lambda at=at: told.store.fork("a", at)) <= 5


def test_a_session_that_an_import_begins_is_not_read_back(tmp_path):
    talk = Conversation(source="made-up", id="1")
    with stator.connect(tmp_path / "agent.db", project="shop", durability="relaxed") as store:
        port = Counted(store.port)
        recorder = Recorder(port, store.context, talk)
        for number in range(1, 9):
            recorder.take(Prompted(id=f"p{number}", at=number, content=f"do {number}"))
        recorded = recorder.flush()
        assert [one.kind for one in recorded].count("turn") == 8
        assert len(recorded) == store.port.head(talk.session).seq - 1
        assert not port.counted["commits"]


def test_a_recap_costs_three_calls(told):
    for view in (told.a, told.b):
        assert told.cost(lambda view=view: recap(told.store.as_read, sessions=[view.id])) <= 3


def test_a_recap_costs_six_calls_with_any_number_of_sub_agents(checked):
    assert checked.cost(lambda: recap(checked.store.as_read, sessions=[checked.a.id])) <= 6


@pytest.mark.parametrize("limit", [1, 20, 300])
def test_a_search_costs_five_calls_with_any_number_of_matches(told, limit):
    asked = lambda: told.store.search("did", limit=limit)  # noqa: E731
    asked()  # the index is filled
    assert told.cost(asked) <= 5


def test_a_search_of_sessions_in_the_trash_costs_two_calls_more(tmp_path):
    with stator.connect(tmp_path / "agent.db", project="shop", durability="relaxed") as store:
        for number in range(30):
            with store.open(f"s{number}") as s, s.turn("look for umbrellas") as t:
                t.say("no umbrella")
        store.open("a").pause()
        store.open("b").pause()
        for number in range(0, 30, 2):
            row = store.read(f"s{number}").row
            project_flags.put(store.port, store.context, row, project_flags.TRASH, by="ann", why="")
        told = Told(store)
        asked = lambda: told.store.search("umbrella", limit=100)  # noqa: E731
        assert {hit.name for hit in asked()} == {f"s{number}" for number in range(1, 30, 2)}
        assert told.cost(asked) <= 7


def test_what_a_search_shows_is_what_the_log_says_commit_by_commit(told):
    found = told.store.search("did", limit=300)
    assert found
    for hit in found:
        (commit,) = told.port.commits(hit.session, after=hit.seq - 1, upto=hit.seq)
        assert (hit.turn, hit.kind, hit.at, hit.tool) == (
            commit.turn,
            commit.kind,
            commit.when,
            commit.tool,
        )
        undone = {turn for one in told.store.read(hit.session).reflog() for turn in one.turns}
        assert hit.rewound == (hit.turn in undone)


def test_an_overview_costs_two_calls_for_each_session(told):
    sessions = len(told.store.sessions(limit=1000).rows)
    asked = lambda: overview.overview(told.store.as_read, everything=True)  # noqa: E731
    assert told.cost(asked) <= 1 + 2 * sessions


def test_a_list_of_sessions_costs_one_call(told):
    rows = told.store.sessions(limit=1000).rows
    assert (
        told.cost(lambda: listed(told.store.as_read, rows)) <= 2
    )  # and what a fork found of files


def test_the_status_of_a_project_costs_seven_calls(told):
    now = told.store.context.clock()
    asked = lambda: status(told.store.as_read, project="shop", now=now)  # noqa: E731
    assert told.cost(asked) <= 7


def test_the_status_of_a_project_with_checks_costs_three_calls_more(checked):
    now = checked.store.context.clock()
    asked = lambda: status(checked.store.as_read, project="shop", now=now)  # noqa: E731
    assert checked.cost(asked) <= 10


def test_steps_that_were_checked_cost_the_hot_page_and_the_state_one_call_more(checked):
    assert checked.cost(checked.a.hot) <= 2
    assert checked.cost(checked.a.state) <= 2
    for at in ("t5", "t-1", "head~2"):
        assert checked.cost(lambda at=at: checked.a.hot(at)) <= 3
        assert checked.cost(lambda at=at: checked.a.state(at)) <= 3
    assert checked.cost(lambda: checked.a.hot("@40")) <= 4  # just after a call: what it ran is read


def test_steps_that_were_checked_and_sub_agents_leave_a_brief_at_six_calls(checked):
    assert checked.cost(checked.a.brief) <= 6


@pytest.mark.parametrize("span", [None, "t2..t9", *SPANS])
def test_steps_that_were_checked_leave_a_diff_at_six_calls(checked, span):
    assert checked.cost(lambda: checked.a.diff(span)) <= 6


def test_steps_that_were_checked_cost_a_diff_across_a_fork_one_call_more(checked):
    a = checked.a.id
    assert checked.cost(lambda: checked.b.diff(f"{a}:t4", "head")) <= 8
