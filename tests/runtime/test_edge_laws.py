"""Edges over random histories: an answer was made from what its model was shown, and from nothing else."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.conftest import memory_store
from runtime.edge_stories import TOOLS, asks, look
from stator.errors import StatorError
from stator.model.log.edges import edges_of, is_shown
from stator.model.window.compaction import WINDOW

ACTS = [
    "answer", "ask", "rendered", "trimmed", "hand", "decide", "fact", "file", "inside", "nested", "batch",
    "child", "end", "reopen", "rewind", "compact", "undo", "fork",
]  # fmt: skip
histories = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 3)), min_size=3, max_size=16)


class Teller:
    """Carries a history out in a store, and keeps the views of all sessions it made."""

    def __init__(self):
        self.store = memory_store()
        self.names = ["a"]
        self.session: Any = None
        self.turn: Any = None
        self.texts = 0

    def tell(self, history):
        for act, n in history:
            self.begin()
            getattr(self, act)(n)
        self.leave()
        return [self.store.read(name) for name in self.names]

    def begin(self):
        if self.session is None:
            self.session = self.store.open(self.names[-1])
            self.session.__enter__()
        if self.turn is None:
            self.texts += 1
            self.turn = self.session.turn(f"prompt {self.texts}", new=True)
            self.turn.__enter__()

    def end(self, n):
        if self.turn is not None:
            self.turn.__exit__(None, None, None)
        self.turn = None

    def leave(self):
        self.end(0)
        if self.session is not None:
            self.session.__exit__(None, None, None)
        self.session = None

    def reopen(self, n):
        self.leave()

    def answer(self, n):
        self.turn.reply(asks(text="answer " * (1 + 50 * n)))

    def ask(self, n):
        self.turn.results(self.turn.reply(asks(*["look"] * n)), TOOLS, parallel=n == 3)

    def rendered(self, n):
        self.turn.model(lambda messages: asks(), messages=self.turn.messages("anthropic"))

    def trimmed(self, n):
        messages = self.turn.messages("openai-chat", max_tokens=100 * (n + 1))
        self.turn.model(lambda messages: asks(), messages=messages)

    def hand(self, n):
        self.turn.call(look, n=n)

    def decide(self, n):
        self.turn.decide(f"decision {n}")

    def fact(self, n):
        self.turn.fact(f"fact {n}", n)

    def file(self, n):
        self.turn.file(f"f{n}.py", "modified")

    def inside(self, n):
        def tool():
            self.turn.fact("inside", n)

        self.turn.call(tool)

    def nested(self, n):
        def tool():
            self.turn.call(look, n=n)

        self.turn.call(tool)

    def batch(self, n):
        with self.turn.batch():
            self.turn.decide("in a batch")
            self.turn.say("an answer")
            self.turn.fact("after it", n)

    def child(self, n):
        self.texts += 1
        with self.session.child(f"kid {self.texts}") as c, c.turn("work") as u:
            u.reply(asks())
            u.decide("a child's")
        self.names.insert(0, c.name)

    def rewind(self, n):
        self.end(0)
        with contextlib.suppress(StatorError):  # there are not so many turns
            self.session.rewind(f"t-{n + 1}")

    def compact(self, n):
        self.end(0)
        strategy = [["outputs"], ["mask"], ["summarise"], ["mask", "summarise"]][n]
        self.session.compact(strategy=strategy, summary=lambda *_: "so far", keep=1)

    def undo(self, n):
        self.end(0)
        with contextlib.suppress(StatorError):  # there is none
            self.session.undo_compaction()

    def fork(self, n):
        self.leave()
        view = self.store.read(self.names[-1])
        self.names.append(self.store.fork(view.id).name)


def shown(log, upto):
    """What a model is shown at a seq: an oracle that reads the whole log."""
    seen, cut = _read(log, upto)
    prompts = [c for c in seen if c.kind == "turn" and c.seq <= cut]
    return [c for c in seen if c.seq > cut or c in prompts[-1:]]


def _read(log, upto):
    seen, cut = [], 0
    for commit in log[:upto]:
        if commit.kind == "rewind":
            seen, cut = _read(log, commit.inputs[0])
        elif commit.kind == "compaction" and commit.status != WINDOW:
            cut = commit.inputs[-1]
            seen = [*seen, commit]
        elif is_shown(commit):
            seen = [*seen, commit]
    return seen, cut


def held(log, commit):
    """The commits of the log that one was made from."""
    edges = edges_of(commit)
    return [c for c in log if any(edge.holds(c) for edge in edges)]


def seqs(commits):
    return {c.seq for c in commits if c.kind != "compaction"}


@settings(deadline=None, max_examples=60)
@given(histories)
def test_nothing_was_made_from_what_it_could_not_have_seen(history):
    for view in Teller().tell(history):
        log = list(view.log())
        results = {c.seq for c in log if c.kind in ("outcome", "settlement")}
        for commit in log:
            made = held(log, commit)
            assert all(c.seq < commit.seq for c in made)
            assert all(abs(n) < commit.seq for n in commit.inputs if isinstance(n, int))
            if commit.kind == "call":
                assert not seqs(made) & results
            if commit.kind == "entry":
                assert seqs(made) <= seqs(shown(log, commit.seq - 1))


@settings(deadline=None, max_examples=40)
@given(histories)
def test_an_answer_to_messages_of_ones_own_was_made_from_all_that_is_shown(history):
    for view in Teller().tell([item for item in history if item[0] != "trimmed"]):
        log = list(view.log())
        for answer in [c for c in log if c.kind == "entry" and not c.call]:
            assert seqs(shown(log, answer.seq - 1)) <= seqs(held(log, answer))


@settings(deadline=None, max_examples=40)
@given(histories)
def test_every_decision_fact_and_file_reaches_a_prompt(history):
    teller, logs = Teller(), dict[str, Any]()
    for view in teller.tell(history):
        for commit in view.log():
            if commit.kind in ("decision", "fact", "file", "outcome", "entry", "call"):
                assert "turn" in kinds_behind(teller.store, view.id, commit, logs), commit


def kinds_behind(store, session, commit, logs=None):
    """The kinds of what a commit reaches, also in other sessions, until a prompt is among them. `logs` keeps what
    was read."""
    logs = {} if logs is None else logs
    waiting, seen, kinds = [(session, commit)], set(), set()
    while waiting:
        place, one = waiting.pop()
        if one.id in seen:
            continue
        seen.add(one.id)
        kinds.add(one.kind)
        if "turn" in kinds:
            break
        if place not in logs:
            logs[place] = list(store.read(place).log())
        found = held(logs[place], one)
        waiting += [(place, c) for c in found]
        known = {c.id for c in found}
        for edge in edges_of(one):
            wanted = f"k_{edge.id[2:]}"
            if edge.id and wanted not in known:
                waiting += [
                    (owner, next(c for c in store.read(owner).log() if c.seq == seq))
                    for owner, seq in store.port.locate(wanted)
                ]
    return kinds
