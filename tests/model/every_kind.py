"""The page `data/every_kind.txt`: how the library and each surface treat every kind of record.

One session holds a record of every collection; the page has everything shown of it, and what each kind of
commit may do. `python -m model.every_kind`, from the folder `tests`, writes the page.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import stator
from model.kinds import EXAMPLES, look, record_everything, say
from runtime.support import Model
from stator.errors import StatorError
from stator.model.log.commit import Commit, Draft
from stator.model.log.delta import Put
from stator.model.log.edges import edges_of
from stator.model.log.rewinds import visible
from stator.model.records.tables import COLLECTIONS, KINDS
from stator.model.sessions.lifecycle import check_lease, check_transition
from stator.model.sessions.retention import tier_of
from stator.model.values import canon
from stator.model.views.search_text import document
from stator.runtime.brief.away import Away
from stator.runtime.retention.subjects import is_upkeep
from stator.runtime.views import reflog
from stator.runtime.window.recall import _of_rank
from stator.store.drafts import is_barrier
from stator.surfaces.cli.commands import log as log_command
from stator.surfaces.cli.main import main
from stator.surfaces.cli.render import record_line
from stator.surfaces.mcp.tools.definitions import BY_NAME
from stator.testing import replay
from surfaces.agents import talking
from surfaces.recorded import World, normal

MANY = 205
"""Records of one collection: more than is ever shown."""


PAGE = Path(__file__).parent / "data" / "every_kind.txt"


def sections(folder: Path) -> Iterator[str]:
    """The sections of the page."""
    for title, text in chain(_commits(), _one_session(folder), _crowded(folder)):
        shown = re.sub(r"(head @\d+) [0-9a-f]{16}", r"\1 …", normal(text).rstrip())
        shown = re.sub(r"\d+ (s|min|h|days) ago", "<when>", shown)
        yield f"=== {title} ===\n\n{shown}\n"


def page(folder: Path) -> str:
    return "\n".join(sections(folder))


# -- what each kind of commit may do --------------------------------------------------------------


def _commits() -> Iterator[tuple[str, str]]:
    lines = [f"{kind}: {', '.join(_allowed(kind))}" for kind in sorted(KINDS)]
    yield "What each kind of commit is let do", "\n".join(lines)


def _allowed(kind: str) -> Iterator[str]:
    """What the parts of the library do with a commit by its kind alone."""
    lease = {"mode": "driven", "epoch": 0, "current": 1, "session": "s_1"}
    commit = _commit(kind, content={"why": canon.dumps("because")})
    of_a_run = _commit(kind, run="r_1")
    yield f"kept as {tier_of(kind)}"
    probes = {
        "needs no lease": _is_let(lambda: check_lease(kind=kind, **lease)),  # type: ignore[arg-type]
        "taken when closed": _is_let(lambda: check_transition(kind, "closed", "s_1")),
        "taken when archived": _is_let(lambda: check_transition(kind, "archived", "s_1")),
        "synced": is_barrier(Draft(id="k_1", session="s_1", kind=kind)),
        "searched": document(commit) is not None,
        "of retention": is_upkeep(commit),
        "leaves the view": any(True for rank in range(5) for _ in _of_rank(commit, rank)),
        "news": Away._is_news(SimpleNamespace(_run=""), of_a_run, whole=True),  # type: ignore[arg-type]
        "read on after a rewind": any(reflog.shown(_Log([commit]), "s_1", 0, 1, [])),  # type: ignore[arg-type]
        "in the background": kind != "turn" and _style(commit) == "dim",
    }
    yield from (words for words, holds in probes.items() if holds)


class _Log:
    """A store that has only a log."""

    def __init__(self, log: list[Commit]) -> None:
        self._log = log

    def commits(self, session: str, **where: Any) -> list[Commit]:
        return self._log


def _is_let(act: Callable[[], object]) -> bool:
    try:
        act()
    except StatorError:
        return False
    return True


def _style(commit: Commit) -> str:
    """How the log writes the kind of a commit."""
    row = log_command.row(commit, 60)
    return next(style for text, style in row.pieces if text.strip() == commit.kind)


def _commit(kind: str, **fields: Any) -> Commit:
    return Commit(
        id="k_1", session="s_1", seq=1, kind=kind, turn=1, at=1, hash="", prev="", actor="system",
        **fields,
    )  # fmt: skip


# -- one session with every collection ------------------------------------------------------------


def _one_session(folder: Path) -> Iterator[tuple[str, str]]:
    path = folder / "every.db"
    with World().open(path) as store:
        session = record_everything(store)
        view = store.read(session)
        yield "The state", _state(view)
        yield "Its lines", _lines(view)
        yield "Records beside others in a commit", _beside(view)
        yield "What is hot", ", ".join(view.hot())
        yield "The brief", str(view.brief(max_tokens=4000))
        yield "The brief since a position", str(view.brief(max_tokens=4000, since="@1"))
        yield "The diffs of two turns", f"{view.diff('t1')}\n{view.diff('t2')}"
        for turn in ("t1", "t2"):
            yield f"stator diff {turn}", _run(path, "diff", f"{session}:{turn}")
        yield "stator diff --all", _run(path, "diff", f"{session}:t1", "--all")
        yield "What a search finds", _searched(path)
        yield "Over MCP", asyncio.run(_over_mcp(store, session))
        yield "What an answer derives from", _inputs(view)
        yield "What a replay misses", _missed(view)
        yield "What a fork begins with", _forked(store)
        yield from _compacted(store, path)
        yield "What a rewind leaves", _rewound(store)
        yield "What erasing the session leaves", _erased(store, session)


def _beside(view: Any) -> str:
    """The line of a commit that also puts a record of another collection."""
    found = {op.collection: op for c in view.log() for op in c.delta if isinstance(op, Put)}
    lines = [record_line.of_commit(_commit("app", delta=[op])).plain for op in found.values()]
    return "\n".join(f"{name}: {line}" for name, line in zip(found, lines, strict=True))


def _state(view: Any) -> str:
    return "\n".join(
        f"{name} {entry.key!r}" for name in view.state() for entry in view.entries(name)
    )


def _lines(view: Any) -> str:
    """Every record as a screen shows it, with its styles."""
    found = [op for commit in view.log() for op in commit.delta if isinstance(op, Put)]
    return "\n".join(f"{op.collection} {record_line.of_record(op.record).pieces}" for op in found)


def _run(path: Path, *words: str) -> str:
    """The output of a command."""
    out = io.StringIO()
    kept = {name: os.environ.get(name) for name in ("COLUMNS", "TZ", "FORCE_COLOR", "NO_COLOR")}
    os.environ.update(COLUMNS="100", TZ="UTC")
    os.environ.pop("FORCE_COLOR", None)
    try:
        with contextlib.redirect_stdout(out):
            main([*words, "--store", str(path)])
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    return out.getvalue()


def _searched(path: Path) -> str:
    words = [*(example.word for example in EXAMPLES.values()), "every", "ACME", "sleeps", "look"]
    with stator.connect(path, project="shop") as store:
        found = {word: [f"{hit.kind} @{hit.seq}" for hit in store.search(word)] for word in words}
    return "\n".join(f"{word}: {', '.join(hits)}" for word, hits in found.items())


async def _over_mcp(store: Any, session: str) -> str:
    async with talking(store) as agent:
        state = await agent.call("stator_log", session=session, what="state", limit=100)
        diff = await agent.call("stator_diff", session=session, start="t1")
        resource = await agent.read(f"session://{session}/state")
    tools = {name: BY_NAME[name] for name in ("stator_record", "stator_log")}
    told = [tool.description for tool in tools.values()]
    taken = [json.dumps(tool.input_schema) for tool in tools.values()]
    rows = [f"{row['collection']} {row['name']}: {row['what']}" for row in state["rows"]]
    changes = [f"{one['collection']} {one['name']}" for one in diff["changes"]]
    return "\n".join(
        [*told, *taken, "", *rows, "", *changes, "", "state: " + ", ".join(resource["state"])]
    )


def _inputs(view: Any) -> str:
    """The kinds of commits that each commit was made from."""
    log = list(view.log(load=False))
    made = {c.seq: [o.kind for o in log if any(e.holds(o) for e in edges_of(c))] for c in log}
    return "\n".join(f"@{c.seq} {c.kind}: {', '.join(made[c.seq])}" for c in log if made[c.seq])


def _missed(view: Any) -> str:
    """The replay report of an agent that makes the recorded calls and records nothing."""

    def agent(session: Any) -> None:
        with session.turn("what there is") as t:
            t.model(Model(), tools=[{"name": "look", "input_schema": {}}])
            t.call(look, where="box")
            with session.child("helper") as child, child.turn("help") as helping:
                say(helping, "helped")

    return str(replay(view, agent, turns="t1"))


def _forked(store: Any) -> str:
    with store.open("every"):
        view = store.fork("every", as_name="other")
    (commit,) = [commit for commit in view.log(load=False) if commit.kind == "fork"]
    return "\n".join(f"{type(op).__name__} {op.collection}" for op in commit.delta)


def _compacted(store: Any, path: Path) -> Iterator[tuple[str, str]]:
    with store.open("every") as s:
        before = f"@{s.head.seq}"
        s.compact(keep=1, strategy=["summarise"], summary="all of it", scratch=True)
        yield (
            "What left the view",
            "\n".join(f"{item.rank} {item.key}: {item.what}" for item in s.evicted()),
        )
        yield "What a compaction leaves", ", ".join(n for n in COLLECTIONS if s.entries(n))
        recalled = [item.key for item in s.evicted()] + ["artifact:ferret", "decisions:t1"]
        recalled += ["constraints:t1..t2", "facts:t1", "files:t1", "entries:t1..t2"]
        yield "What is recalled", "\n".join(f"{key}: {s.recall(key).content}" for key in recalled)
        yield "The line of what left the view", _beside(s).rpartition("\n")[2]
        yield "The diff of a compaction", str(s.diff(before, "head"))
        yield "stator diff of it", _run(path, "diff", f"{s.id}:{before}", "head")
        with s.turn("go on") as t:
            yield "What the model is shown", t.messages("plain")[0]["content"]
        yield "The brief after it", str(s.brief(max_tokens=4000))


def _rewound(store: Any) -> str:
    """The collections that changed, and the commits that are still read."""
    with store.open("every") as s:
        before = s.state("@3")
        s.rewind("@3")
        after = s.state()
        kept = [name for name in COLLECTIONS if before[name] != after[name]]
        stretches = visible(reflog.rewinds(store.port, s.id), s.head.seq)
        read = [c.kind for c in reflog.shown(store.port, s.id, 3, s.head.seq, stretches)]
    return f"{', '.join(kept)}\nread on: {', '.join(read)}"


def _erased(store: Any, session: str) -> str:
    """The records that can still be read in the log of a session that was erased."""
    from stator.runtime.retention import erase

    erase.erase(store.port, store.context, erase.of_session(store.port, session), by="local:ann")
    log = store.read(session).log()
    left = {
        op.collection
        for commit in log
        for op in commit.delta
        if isinstance(op, Put) and not hasattr(op.record, "erased")
    }
    return ", ".join(name for name in COLLECTIONS if name in left)


# -- many records ---------------------------------------------------------------------------------


def _crowded(folder: Path) -> Iterator[tuple[str, str]]:
    with (
        World().open(folder / "many.db") as store,
        store.open("many") as s,
        s.turn("what there is") as t,
    ):
        with t.batch():
            for n in range(MANY):
                t.decide(f"choice {n}", topic=f"topic {n}")
                t.prefer(f"preference {n}", n)
                t.fact(f"fact {n}", n)
                t.plan(f"step {n}")
                t.artifact(f"artifact {n}", n)
                t.file(f"file{n}.py", "created")
                t.dead_end(f"dead end {n}")
                t.pend(f"pending {n}")
        hot = s.hot()
        yield "How much is hot", "\n".join(f"{name}: {len(found)}" for name, found in hot.items())
        yield "A brief of 700 tokens", str(s.brief(max_tokens=700))
        sizes = [(size, s.brief(max_tokens=size)) for size in (800, 1500, 3000, 6000)]
        yield "How many lines larger briefs have", "\n".join(map(_counted, sizes))


def _counted(sized: tuple[int, Any]) -> str:
    size, brief = sized
    return f"{size}: " + ", ".join(f"{one.name} {len(one.lines)}" for one in brief.sections)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        os.chdir(made)
        text = page(Path(made))
    PAGE.write_text(text, encoding="utf-8")
