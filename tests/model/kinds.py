"""One example of every kind of record, a session that holds them all, and what each surface shows of it.

`EXAMPLES` is the one place where a test finds an example of a kind. A new kind of record adds a line to
it. `python -m model.kinds crash PATH` and `… run PATH`, from the folder `tests`, are a program that records
every example in one turn; the first is killed before the turn ends.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass, field
from typing import Any, Literal

import stator
from runtime.support import Model, says
from runtime.waiting import ask_for
from stator.model.log.commit import Upsert
from stator.model.records.registry import ROWS
from stator.model.records.row_types import CommitKind
from stator.model.records.types import (
    CandidateRecord,
    CheckRecord,
    DeliveryRecord,
    ForgottenRecord,
    RevisionRecord,
)

By = Literal["agent", "program", "person"]


@dataclass(frozen=True)
class Example:
    """How a record of a kind is made: a method and its arguments."""

    method: str
    by: By
    """Who has the method. An agent has it wherever it reports from, a program only in a turn that it
    drives, a person also in a session that somebody else drives or that has ended."""
    word: str
    """A word that occurs in this example alone."""
    fields: dict[str, Any] = field(default_factory=dict)

    def write(self, session: Any, turn: Any) -> str:
        """Record the example, as a driving program does."""
        writer = session if self.by == "person" else turn
        return str(getattr(writer, self.method)(**self.fields))


EXAMPLES: dict[str, Example] = {
    "decision": Example(
        "decide",
        "agent",
        "aardvark",
        {"what": "aardvark first", "topic": "order", "why": "it sorts", "confidence": 0.9},
    ),
    "fact": Example("fact", "agent", "badger", {"name": "badger count", "value": 7}),
    "preference": Example("prefer", "agent", "caribou", {"name": "caribou", "value": "in short"}),
    "file": Example("file", "agent", "dingo", {"path": "dingo.py", "op": "created"}),
    "plan": Example("plan", "agent", "egret", {"step": "feed egret", "status": "in_progress"}),
    "artifact": Example("artifact", "agent", "ferret", {"name": "ferret", "content": "it sleeps"}),
    "dead_end": Example("dead_end", "agent", "gecko", {"what": "gecko by mail", "why": "too slow"}),
    "pending": Example("pend", "program", "heron", {"what": "ask heron", "on": "ops"}),
    "use": Example("use", "program", "ibex", {"kind": "data", "name": "ibex table"}),
    "scratch": Example("note", "program", "jackal", {"name": "jackal", "value": "asleep"}),
    "app": Example("set", "program", "koala", {"koala": 3}),
    "settings": Example("configure", "program", "ocelot", {"ocelot": "watched"}),
    "tag": Example("tag", "person", "lemur", {"name": "lemur"}),
    "score": Example("score", "person", "marmot", {"name": "marmot", "value": 0.5}),
    "flag": Example("flag", "person", "narwhal", {"name": "narwhal", "why": "look at it"}),
}
"""The records that somebody makes by a method of their own."""

BY_ITSELF = {
    "open": "opening a session puts it into `session`",
    "run": "driving a session puts a run into `runs`, and ending the run takes it out",
    "call": "a call is in `calls` until its outcome is known",
    "tools": "offering tools to a model, and calling one, puts it into `tools`",
    "approval": "approving a call puts the answer into `approvals`",
    "child": "starting a child puts it into `children`",
    "compaction": "a compaction puts what left the view into `evicted`",
    "trust": "a person who vouches for something puts that into `trust`",
    "revision": "a call that commits to version control puts the revision into `revisions`",
    "candidate": "a call that a person denies puts a candidate into `candidates`",
    "check": "a call that runs the check of a step puts how it ended into `checks`",
    "delivery": "a text of ours that arrives at an agent is in `deliveries`",
    "forget": "a person who has a project forget something puts that into `forgotten`",
}
"""The records that are made when something else is done."""


def example_of(row: CommitKind) -> Example:
    """The example of a kind of record."""
    assert row.name in EXAMPLES, (
        f"the kind {row.name!r} puts records into {row.collection and row.collection.name!r}, and "
        "tests/model/kinds.py has no example of one: add a line to EXAMPLES"
    )
    return EXAMPLES[row.name]


RECORDED = [row for row in ROWS if row.collection is not None and row.name not in BY_ITSELF]
"""Rows of the kinds of record that a method makes."""


@stator.tool(effect="read")
def look(where: str) -> str:
    return f"nothing in {where}"


@stator.tool(effect="write")
def pay(amount: int) -> None:
    raise stator.InDoubt("connection lost")


def append(session: Any, kind: str, **fields: Any) -> None:
    """Append a commit as the driver of a session does."""
    session._driver.append([session._driver.draft(kind, **fields)])


def record_found(session: Any) -> None:
    """Record what rules find, and what a person has a project forget."""
    revision = RevisionRecord(sha="64f1b9a", subject="feed them", branch="main")
    append(session, "revision", changes=(Upsert("revisions", revision),))
    candidate = CandidateRecord(name="deploy", value="ask first", quote="not now")
    append(session, "candidate", changes=(Upsert("candidates", candidate),))
    check = CheckRecord(command="make test", ended="failed", ran_in="k_0")
    append(session, "check", changes=(Upsert("checks", check),))
    delivery = DeliveryRecord(note="64f1b9aa", kind="start")
    append(session, "delivery", output="feed them", changes=(Upsert("deliveries", delivery),))
    forgotten = ForgottenRecord(collection="facts", name="old count", upto=1)
    append(session, "forget", changes=(Upsert("forgotten", forgotten),))


def say(turn: Any, text: str) -> None:
    turn.say(text, usage={"tokens": 10})


def write_examples(session: Any, turn: Any) -> None:
    for row in RECORDED:
        example_of(row).write(session, turn)


def record_everything(store: Any) -> str:
    """Make a session with a record of every collection, in three turns; returns its id."""
    with store.open("every", agent="demo") as s:
        with s.turn("what there is") as t:
            write_examples(s, t)
            t.model(Model(says(text="on it")), tools=[{"name": "look", "input_schema": {}}])
            t.call(look, where="box")
            with s.child("helper") as child, child.turn("help") as helping:
                say(helping, "helped")
        with s.turn("pay") as t:
            t.try_call(pay, amount=5)
            say(t, "paid, perhaps")
            call = ask_for(s, "ship", "parcels need a person", to="ACME")
            store.contribute("every").approve(call, scope="session")
            ask_for(s, "ship", "another parcel", to="Bell")
            known = t.try_call(pay, amount=6).call
            store.contribute("every").settle(known, "done")
            late = t.try_call(pay, amount=7).call
            append(s, "settlement", call=late, tool="pay", status="ok", cause="late result")
            record_found(s)
            store.contribute("every").budget("turns=20")
        with s.turn("and then") as t:
            t.say("be quick", actor="user")
            t.model(Model(says(text="all is said")))
            secret = t.say("what nobody may read", usage={"tokens": 10})
            store.contribute("every").erase(secret)
            say(t, "nothing more")
    store.contribute("every").vouch("tool:look", why="it is ours")  # its driver cannot
    return str(s.id)


def main(how: str, path: str) -> None:
    """Record every example in one turn, and die in it if asked."""
    with stator.connect(path, project="shop") as store, store.open("main") as s, s.turn("one") as t:
        write_examples(s, t)
        t.model(Model(says(text="on it")), tools=[{"name": "look", "input_schema": {}}])
        t.call(look, where="box")
        with s.child("helper") as child, child.turn("help") as helping:
            say(helping, "helped")
        say(t, "done")
        if how == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
