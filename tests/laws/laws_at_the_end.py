"""The laws that are checked when a history is over: on every session, over positions and pairs of them.

Everything is asked through the public API. Where an answer can be computed from another answer, both
must agree; where the oracle knows it, the oracle decides.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from laws import values
from laws.answers import Contradiction, answers, hold, plain
from laws.oracle import COLLECTIONS, NOT_MODELLED, Told
from laws.teller import Teller
from laws.telling import RULES_OF_CALLS
from stator.runtime.views.verify import verify

PlainState = dict[str, dict[str, str]]
"""Collection → id of the record → its canonical text."""
POSITIONS, PAIRS = 5, 6
"""How many of each are looked at, of every session."""
TOUCHES = ("edit", "read")
FAILED = ("error", "timeout", "cancelled", "denied", "in doubt")


@dataclass
class Counted:
    """How much was checked."""

    sessions: int = 0
    positions: int = 0
    pairs: int = 0
    renderings: int = 0


def check_all(teller: Teller, rng: random.Random, counted: Counted) -> None:
    """Every law, on every session of the history."""
    teller.leave()
    teller.note()
    for told in teller.sessions:
        counted.sessions += 1
        check_log(teller, told)
        check_lists(teller, told)
        check_positions(teller, told, rng, counted)
        check_diffs(teller, told, rng, counted)
    check_diffs_between_sessions(teller, rng, counted)
    check_verify(teller)
    check_prefixes(teller, rng, counted)


# -- positions and differences --------------------------------------------------------------------


def state_at(view: Any, ref: str) -> PlainState:
    return {
        name: {i: values.canonical(plain(r)) for i, r in records.items()}
        for name, records in view.state(ref).items()
    }


def check_log(teller: Teller, told: Told) -> None:
    """The log has no holes, each commit names the one before it, and the counts are those of the log."""
    view = teller.store.read(told.id)
    log = list(view.log())
    hold("seqs of the log", [c.seq for c in log], list(range(1, len(log) + 1)))
    hold("each prev", [c.prev for c in log[1:]], [c.hash for c in log[:-1]])
    hold("head", (view.head.seq, view.head.hash), (log[-1].seq, log[-1].hash))
    own = [c for c in log if c.session == told.id]
    counts = view.counts
    hold("counted commits", counts.commits, len(own))
    hold("counted calls", counts.calls, sum(c.kind == "call" for c in own))
    failed = sum(c.kind == "outcome" and c.status != "ok" for c in own)
    hold("counted attempts that did not end ok", counts.failed, failed)
    begun = sum(c.kind == "turn" and c.status != "continued" for c in own)
    hold("counted turns", counts.turns, begun)
    hold("newest first", [c.id for c in view.log(newest_first=True)], [c.id for c in log[::-1]])


def check_positions(teller: Teller, told: Told, rng: random.Random, counted: Counted) -> None:
    """The state at a position is the fold of the deltas up to it, and what the oracle saw there."""
    view = teller.store.read(told.id)
    log = list(view.log())
    seen = sorted(seq for seq in told.snapshots if seq)
    sampled = {rng.randint(1, len(log)) for _ in range(POSITIONS)}
    sampled |= set(rng.sample(seen, min(POSITIONS, len(seen)))) | {len(log)}
    folded: dict[str, dict[str, str]] = {name: {} for name in COLLECTIONS}
    for commit in log:
        for op in commit.delta:
            if hasattr(op, "record"):
                folded[op.collection][op.id] = values.canonical(plain(op.record))
            else:
                folded[op.collection].pop(op.id, None)
        if commit.seq not in sampled:
            continue
        counted.positions += 1
        state = view.state(f"@{commit.seq}")
        found = {
            name: {i: values.canonical(plain(r)) for i, r in records.items()}
            for name, records in state.items()
        }
        # Whether a step reads done is worked out by readers; the fold is of what was recorded.
        steps = teller.store.port.entries(told.id, "plan", at=commit.seq)
        found["plan"] = {step.id: values.canonical(plain(step.record)) for step in steps}
        hold(f"state at @{commit.seq} and the fold of the log", found, folded)
        if commit.seq in told.snapshots:
            teller.compare_state(f"@{commit.seq} of {told.id}", told.snapshots[commit.seq], state)


def apply_items(state: PlainState, items: Any) -> PlainState:
    """The items of a diff, applied to a state: what each record was gives way to what it is."""
    made = {name: dict(records) for name, records in state.items()}
    for item in items:
        if item.before is not None:
            was = made[item.collection].pop(item.before_id, None)
            hold(
                f"what {item.collection} {item.key} was", was, values.canonical(plain(item.before))
            )
    for item in items:
        if item.after is not None:
            made[item.collection][item.after_id] = values.canonical(plain(item.after))
    return made


def check_diffs(teller: Teller, told: Told, rng: random.Random, counted: Counted) -> None:
    """The items of diff(a, b), applied to state(a), give state(b)."""
    view = teller.store.read(told.id)
    head = view.head.seq
    refs = ["t0", "head", *(_ref(rng.randint(0, head)) for _ in range(4))]
    states = {ref: state_at(view, ref) for ref in refs}
    chosen = rng.sample([(a, b) for a in refs for b in refs if a != b], PAIRS)
    for a, b in [("t0", "head"), *chosen]:
        check_diff(view, a, b, states)
        counted.pairs += 1


def _ref(seq: int) -> str:
    return f"@{seq}" if seq else "t0"


def check_diff(view: Any, a: str, b: str, states: dict[str, PlainState]) -> None:
    found = view.diff(a, b)
    made, end = apply_items(states[a], found.items), states[b]
    if any(item.before is None and item.after is None for item in found.items):
        raise Contradiction(f"diff({a}, {b}) has an item that says nothing")
    for name in COLLECTIONS:
        hold(f"{name}: diff({a}, {b}) applied to the state at {a}", made[name], end[name])


def check_diffs_between_sessions(teller: Teller, rng: random.Random, counted: Counted) -> None:
    if len(teller.sessions) < 2:
        return
    for _ in range(4):
        left, right = rng.sample(teller.sessions, 2)
        view = teller.store.read(left.id)
        a = f"{left.id}:@{rng.choice(sorted(left.snapshots))}"
        b = f"{right.id}:@{rng.choice(sorted(right.snapshots))}"
        check_diff(view, a, b, {ref: state_at(view, ref) for ref in (a, b)})
        counted.pairs += 1


# -- lists ----------------------------------------------------------------------------------------


def check_lists(teller: Teller, told: Told) -> None:
    """Lists, counts and the state say the same."""
    view = teller.store.read(told.id)
    state = view.state()
    check_facts(view, told)
    check_decisions(view, state, told)
    check_places(view, told)
    check_calls(view, state, told)
    check_files(view, state, told)
    check_net_files(view, told)
    check_artifacts(view, state, told)
    live = {name: len(records) for name, records in state.items() if records}
    hold("counted live records", dict(sorted(view.counts.live.items())), dict(sorted(live.items())))
    hold("evicted keys", sorted(e.key for e in view.evicted()), _evicted(state))
    for name in state:
        everything = {entry.id: entry.record for entry in view.entries(name, erased=True)}
        hold(f"entries of {name}, erased ones among them", everything, state[name])
        listed = {entry.id: entry.record for entry in view.entries(name)}
        hold(f"entries of {name}", listed, _there(state[name]))
    turns = {row.turn: row.status for row in view.turns()}
    hold("the last turn", view.head.turn, max(turns, default=0))
    for number, status in told.turns.items():
        if status != "?" and number in turns:
            hold(f"status of turn {number}", turns[number], status)
    fields = {r.name: values.read_recorded(r.value) for r in _named(state["app"])}
    if not values.same(view.app, fields):
        raise Contradiction(f"app state: {view.app!r}, {fields!r}")
    for name, hot in view.hot().items():
        ids = {entry.id for entry in hot}
        if not ids <= state[name].keys():
            raise Contradiction(f"hot {name} lists what the state does not hold")
    view.brief(max_tokens=900, disk=False)


def _there(records: dict[str, Any]) -> dict[str, Any]:
    return {i: record for i, record in records.items() if not hasattr(record, "erased")}


def _named(records: dict[str, Any]) -> list[Any]:
    return [record for record in records.values() if not hasattr(record, "erased")]


def _evicted(state: Any) -> list[str]:
    return sorted(record.key for record in _named(state["evicted"]))


def check_facts(view: Any, told: Told) -> None:
    facts = view.facts()
    wanted = {v.data["name"]: v.data["value"] for v in told.live["facts"].values() if not v.erased}
    if not values.same(dict(sorted(facts.items())), dict(sorted(wanted.items()))):
        raise Contradiction(f"facts: {facts!r}, {wanted!r}")


def check_decisions(view: Any, state: Any, told: Told) -> None:
    """What `decisions` calls current is what the state holds."""
    standing = {line.id: line.record for line in view.decisions(standing=True)}
    there = _there(state["decisions"])
    hold("decisions that are current, listed and in the state", standing, there)
    everything = view.decisions()
    gone = {line.id for line in view.decisions(standing=False)}
    hold("all decisions", {line.id for line in everything}, gone | standing.keys())
    for line in everything:
        if line.by and line.by not in {other.id for other in everything}:
            raise Contradiction(f"decision {line.id} was superseded by unknown {line.by}")
    if told.erased:
        return
    hold("every decision that was made", [line.id for line in everything if line.id in _ids(told)],
         [made.id for made in told.choices])  # fmt: skip
    if not told.rewinds:
        by = {old.id: new.id for old, new in told.superseded.items()}
        hold("what superseded decisions", {line.id: line.by for line in everything if line.by}, by)


def _ids(told: Told) -> set[str]:
    return {made.id for made in told.choices}


def check_places(view: Any, told: Told) -> None:
    """Tags and turns lead to their positions; rewinds are listed, and so are the turns they undid."""
    head = view.head.seq
    for entry in view.entries("tags"):
        if not hasattr(entry.record, "erased"):
            hold(f"tag {entry.key}", view.at(entry.record.name).seq, entry.record.seq)
    rows = view.turns()
    for row, last in zip(rows, [*(r.first - 1 for r in rows[1:]), head], strict=False):
        hold(f"the last commit of turn {row.turn}", row.last, last)
        # A rewind, and the tag before it, leave the turn they come after as it was.
        left = [rewind.seq - 2 for rewind in view.reflog() if row.first < rewind.seq <= last]
        hold(f"the end of turn {row.turn}", view.at(f"t{row.turn}").seq, min([last, *left]))
    if told.resynced:
        return
    hold("rewinds", [(r.seq, r.end) for r in view.reflog()], told.rewinds[::-1])
    hold("rewound turns", view.rewound(), told.gone_back_behind(head))
    for item in view.evicted():
        view.recall(item.key)


def check_calls(view: Any, state: Any, told: Told) -> None:
    rows = view.calls(limit=10_000)
    last = {row.call: row.status for row in reversed(rows)}
    hold("calls", last, told.calls)
    hold("failed calls", [r.call for r in view.calls(status="failed", limit=10_000)],
         [r.call for r in rows if r.status in FAILED])  # fmt: skip
    open_calls = {r.call for r in view.calls(status="open", limit=10_000)}
    hold("open calls", open_calls, {record.call for record in _named(state["calls"])})
    hold("counted open calls", view.counts.open, len(state["calls"]))


def check_files(view: Any, state: Any, told: Told) -> None:
    """Each file of the state was touched, `why` names every touch, and `files` lists no other files."""
    paths = {record.path for record in _named(state["files"])}
    if not paths <= told.touched.keys():
        raise Contradiction(f"files nobody touched: {paths - told.touched.keys()}")
    listed = {change.path: change for change in view.files(reads=True)}
    if not listed.keys() <= told.touched.keys():
        raise Contradiction(f"listed files nobody touched: {listed.keys() - told.touched.keys()}")
    if not told.erased:
        force = told.in_force(view.head.seq)
        for path, seqs in told.touched.items():
            found = view.why(f"file:{path}", limit=10_000)
            edits = [r.seq for r in found if r.kind in TOUCHES and r.path == path]
            edits.sort(reverse=True)
            counted = [seq for seq in sorted(seqs, reverse=True) if seq in force]
            hold(f"edits of {path} that why names", edits, counted)
    if told.rewinds or told.erased:
        return
    for record in _named(state["files"]):
        change = listed.get(record.path)
        if record.op == "read":  # reading says nothing of what was done to it
            continue
        if change is None:
            if record.op != "deleted":
                raise Contradiction(f"{record.path} is {record.op} in the state and not listed")
        elif (record.op == "deleted") != (change.op == "deleted"):
            raise Contradiction(f"{record.path}: {record.op} in the state, {change.op} listed")


def check_net_files(view: Any, told: Told) -> None:
    """The net changes of files from the beginning on, in the diff and in the list of files."""
    if told.erased:
        return
    listed = {change.path: change.op for change in view.files()}
    for item in view.diff("t0", "head").of("files"):
        if (
            item.after is not None and item.after.op == "read"
        ):  # reading says nothing of what was done
            continue
        words = {"added": ("created", "renamed"), "removed": ("deleted",)}.get(item.change)
        op = listed.get(item.key, "nothing")
        if op == "nothing" or (words is not None and op not in words):
            raise Contradiction(f"{item.key} is {item.change} in the diff and {op} in the list")
        if words is None and op == "deleted":
            raise Contradiction(f"{item.key} is {item.change} in the diff and {op} in the list")


def check_artifacts(view: Any, state: Any, told: Told) -> None:
    listed = {found.name: found.version for found in view.artifacts()}
    wanted = {record.name: record.version for record in _named(state["artifacts"])}
    hold("artifacts", listed, wanted)
    if told.erased:
        return
    for record in _named(state["artifacts"]):
        seq = next(e.seq for e in view.entries("artifacts") if e.record == record)
        content = told.contents.get((record.name, seq))
        if content is not None and not values.same(view.read_artifact(record.name), content):
            raise Contradiction(f"artifact {record.name} reads otherwise than it was written")
        for version in range(1, record.version + 1):
            view.read_artifact(record.name, version)


# -- the store ------------------------------------------------------------------------------------


def check_verify(teller: Teller) -> None:
    for place in (teller.place, teller.other):
        if place is not None:
            hold("what verify finds", [str(f) for f in verify(place.store.port)], [])


def check_prefixes(teller: Teller, rng: random.Random, counted: Counted) -> None:
    """Cut anywhere, also between a call and its outcome, a session can go on: providers accept it."""
    told = rng.choice(teller.sessions)
    head = teller.store.port.head(told.id).seq
    for _ in range(2):
        at = rng.randint(1, head)
        fork = teller.store.fork(told.id, f"@{at}")
        with teller.store.open(fork.id, rules=RULES_OF_CALLS) as s, s.turn("go on", new=True) as t:
            teller.check_messages(t)
            counted.renderings += 1
        state, forked = teller.store.read(told.id).state(f"@{at}"), fork.state(f"@{at + 1}")
        for name in COLLECTIONS:
            if name not in NOT_MODELLED | {"calls", "spend"}:
                hold(f"{name} of a fork at @{at}", forked[name], state[name])


# -- two stores -----------------------------------------------------------------------------------


def check_same_answers(one: Teller, other: Teller) -> None:
    """The same history gives the same answers in memory and in a file."""
    hold("sessions", [t.id for t in one.sessions], [t.id for t in other.sessions])
    for told in one.sessions:
        left, right = answers(one.store, told), answers(other.store, told)
        for question in left:
            hold(f"{question} of {told.id} in both stores", left[question], right[question])
