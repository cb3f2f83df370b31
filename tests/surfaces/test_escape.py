"""Recorded content may be hostile: a terminal only ever gets it escaped."""

from __future__ import annotations

import os
import re

import pytest

import stator
from runtime.waiting import ask_for
from stator.connect import trust_store
from stator.model.values.escape import visible
from stator.runtime.facade import run as runs
from stator.surfaces.cli.registry import COMMANDS
from stator.surfaces.cli.render.escape import bounded, lines
from surfaces.recorded import program

HOSTILE = {
    "clear screen": "\x1b[2J\x1b[H",
    "window title": "\x1b]0;owned\x07",
    "hyperlink": "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "one-byte csi": "\x9b2J",
    "overwrite": "safe\rrm -rf /",
    "backspaces": "ok\x08\x08no",
    "delete": "\x7f",
    "right to left": "\u202egnp.exe",
    "isolates": "\u2066x\u2069",
    "zero width": "a\u200bb\u200d\ufeffc",
    "tag characters": "\U000e0041\U000e0042",
    "line separators": "a\u2028b\u2029c",
    "lone surrogate": "x\udc80y",
    "markup": "[link=http://evil]click[/link] [bold red]x[/] :bomb:",
    "nul": "a\x00b",
    "fillers": "\u3164\u115f\u034f",
    "selectors": "a\ufe00\U000e0100b",
    "zalgo": "z" + "\u0301" * 50,
}
EVERYTHING = " ".join(
    text for name, text in HOSTILE.items() if name not in ("lone surrogate", "nul")
)
MAIN, SPARE = EVERYTHING[:300], "spare" + EVERYTHING[:200]
"""Sessions: one that holds everything, one to pause and close."""
DANGEROUS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u3164\u115f"
    "\ud800-\udfff\ufe00-\ufe0d\U000e0000-\U000e01ef]"
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_hostile_reaches_the_screen(name):
    assert not DANGEROUS.search(visible(HOSTILE[name]))


def test_escaped_text_is_still_readable():
    assert visible("\x1b[2J") == "\\x1b[2J"
    assert visible("a\rb\tc\u202e") == "a\\rb\\tc\\u202e"
    assert visible("größe 日本 ✓ 🚀") == "größe 日本 ✓ 🚀"


def test_a_long_line_is_cut_and_what_was_cut_is_counted():
    assert bounded("x" * 1_000_000) == "x" * 4000 + "… (+996,000 characters)"
    assert lines("a\r\n\tb") == ["a", "    b"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A store with every hostile string in every field that takes one."""
    path = tmp_path_factory.mktemp("hostile") / "hostile.db"
    everything = EVERYTHING
    values = list(HOSTILE.values())

    def tool(**arguments):
        return values

    def failing(**arguments):
        raise RuntimeError(everything)

    def doubtful(**arguments):
        raise stator.InDoubt(everything)

    store = stator.connect(str(path), redact=False, project=everything[:200])
    store.open(SPARE).pause()
    with store, store.open(MAIN, agent=everything, budget={"tokens": 5}) as s:
        with s.turn({"text": values}) as t:
            t.call(stator.tool(effect="read", name=everything[:80])(tool), path=values)
            t.try_call(stator.tool(effect="read", name="fail" + everything[:80])(failing))
            t.try_call(stator.tool(name="doubt" + everything[:80])(doubtful), path=values)
            ask_for(s, "ask" + everything[:80], everything, path=values)
            t.decide(everything, topic=everything, why=everything, over=[everything])
            t.decide("again", topic=everything, why=everything)
            t.file(HOSTILE["clear screen"] + "f.py", "modified", why=everything, reason=everything)
            t.fact(everything, values)
            t.plan(everything, detail=everything)
            t.pend(everything, on=everything, why=everything)
            t.prefer(everything, values)
            t.dead_end(everything, why=everything)
            t.artifact(everything, values)
            t.use("app", everything, detail=everything)
            t.set(**{"field": values})
            t.note(everything, values)
            t.say("\n".join(v for v in values))
            t.say("x" * 1_000_000)
        with s.retry("t1", prompt=everything) as t:
            t.decide("another", topic=everything, why=everything, factors={everything: values})
            t.say("\n".join(reversed(values)))
        s.rewind("t0")
        s.rewind("rewind/1")
        s.compact(keep=1, summary=everything)
        s.tag("bad" + HOSTILE["right to left"])
        s.score(everything, 0.5, comment=everything, on=everything)
        s.flag(everything, why=everything, on=everything)
    with stator.connect(str(path)) as store:
        command = ["printf", "%s\n", everything]
        runs.start(store.port, store.context, command, session=s.id).wait()
    return path


RUNS = {
    "status": ["status", "--everywhere"],
    "ls": ["ls", "--all"],
    "show": ["show"],
    "log": ["log"],
    "diff": ["diff"],
    "state": ["state"],
    "files": ["files", "--reads"],
    "decisions": ["decisions", "--all"],
    "calls": ["calls"],
    "why": ["why", HOSTILE["clear screen"] + "f.py"],
    "recap": ["recap"],
    "blame": ["blame", HOSTILE["clear screen"] + "f.py"],
    "search": ["search", "--all", "owned"],
    "brief": ["brief", MAIN, "--for", "claude-code"],
    "artifact": ["artifact"],
    "du": ["du"],
    "cost": ["cost"],
    "extract": ["extract", "--all", "--again"],
    "export": ["export", MAIN, "-o", "{tmp}/x.stator"],
    "import": ["import", EVERYTHING],
    "compact": ["compact", "--dry-run"],
    "evicted": ["evicted", "--all"],
    "recall": ["recall", "fact:" + EVERYTHING],
    "sql": ["sql", "SELECT * FROM records"],
    "approvals": ["approvals", "--all"],
    "approve": ["approve", "--all", "-s", MAIN],
    "prefer": ["prefer", EVERYTHING, EVERYTHING, "--why", EVERYTHING],
    "forget": ["forget", "--from", "host:" + HOSTILE["clipboard"]],
    "check": ["check", "-s", MAIN],
    "vouch": ["vouch", "@2", "--why", HOSTILE["clipboard"], "-s", MAIN],
    "deny": ["deny", "--pattern", "*" + HOSTILE["clipboard"], "-s", MAIN],
    "budget": ["budget", MAIN],
    "settle": ["settle", "--all"],
    "resume": ["resume", MAIN],
    "restore": ["restore", "--all", "--at", "t0"],
    "pause": ["pause", SPARE],
    "close": ["close", SPARE, "--reason", "done" + HOSTILE["window title"]],
    "archive": ["archive", SPARE],
    "fork": ["fork", "t1"],
    "rewind": ["rewind", "t0", "--dry-run"],
    "retry": ["retry", "t1"],
    "adopt": ["adopt", "t1.1"],
    "tree": ["tree"],
    "reflog": ["reflog"],
    "score": ["score", EVERYTHING, "0.5", "--comment", EVERYTHING],
    "flag": ["flag", EVERYTHING, "--why", EVERYTHING],
    "retention": ["retention", "trash=1d" + HOSTILE["window title"]],
    "hold": ["hold", MAIN, "--why", HOSTILE["clipboard"]],
    "gc": ["gc", "--max-size", "0B"],
    "erase": ["erase", "--all", "-s", MAIN],
    "tag": ["tag", "x" + HOSTILE["window title"]],
    "replay": ["replay", MAIN, "builtins:id"],
    "rerun": ["rerun", MAIN, "--tools", "builtins:id"],
    "workflow": ["workflow", "extract", MAIN],
    "verify": ["verify"],
    "doctor": ["doctor"],
    "top": ["top", "--all"],
    "tail": ["tail", "--all", "--once"],
    "run": ["run", "--detach", "--again", "{run}"],
    "stop": ["stop", "{run}"],
    "ps": ["ps", "--all"],
    "attach": ["attach", "{run}"],
    "init": ["init", "{tmp}/a" + HOSTILE["window title"].replace("/", "")],
    "trust": ["trust", "--yes"],
    "copy": ["copy", "{store}", "{tmp}/copy.db"],
    "push": ["push", "{tmp}/team" + HOSTILE["window title"].replace("/", "") + ".db", "--yes"],
    "pull": ["pull", "{store}", EVERYTHING],
    "ingest": ["ingest", MAIN, "--transcripts"],
    "mcp": ["mcp", "--port", "1" + HOSTILE["window title"]],
    "web": ["web", "--no-browser", "--port", "1" + HOSTILE["window title"]],
    "share": ["share", MAIN, "-o", "{tmp}/page.html"],
    "proxy": ["proxy", "-s", MAIN, "--", "{tmp}/none" + HOSTILE["clear screen"]],
}


def test_every_command_has_a_hostile_run():
    assert set(RUNS) == set(COMMANDS)


@pytest.mark.parametrize("extra", [[], ["--json"]], ids=["people", "programs"])
@pytest.mark.parametrize("command", RUNS)
def test_no_command_prints_hostile_content_unescaped(
    command, extra, hostile, ask, monkeypatch, tmp_path
):
    monkeypatch.setenv("STATOR_STORE", str(hostile))
    monkeypatch.setenv("STATOR_SESSION", MAIN)
    with stator.connect(hostile) as opened:
        trust_store(opened, old_grants=True)
    (run,) = os.listdir(f"{hostile}-runs")
    words = [
        word.format(tmp=tmp_path, run=run, store=hostile) if "{" in word else word
        for word in RUNS[command]
    ]
    answer = ask(*words, *extra)
    ask("stop", run)
    assert answer.code in (0, 1, 2, 3), answer.err
    assert not DANGEROUS.search(answer.out)
    assert not DANGEROUS.search(answer.err)
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ["log", "--full"],
        ["show", "@3"],
        ["log", "--reverse"],
        ["diff", "t1", "t1.2", "-s", MAIN],
    ],
)
def test_content_in_full_is_escaped_too(words, hostile, ask, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(hostile))
    answer = ask(*words)
    assert answer.code == 0
    assert not DANGEROUS.search(answer.out)


def test_colour_adds_colour_and_nothing_else(hostile, ask, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(hostile))
    monkeypatch.setenv("FORCE_COLOR", "1")
    for command in ("log", "diff", "state", "show", "decisions"):
        answer = ask(*RUNS[command])
        assert "\x1b[" in answer.out
        assert not DANGEROUS.search(COLOUR.sub("", answer.out))


def test_markup_is_shown_as_text(hostile, ask, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(hostile))
    monkeypatch.setenv("COLUMNS", "400")
    assert "[link=http://evil]click[/link]" in ask("log", "--full").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = COLOUR.sub("", ask("log", "--full").out)
    assert "[link=http://evil]click[/link] [bold red]x[/] :bomb:" in coloured


def test_a_line_of_a_megabyte_is_truncated_with_a_count(hostile, monkeypatch):
    env = {"STATOR_STORE": str(hostile), "COLUMNS": "80", "STATOR_SESSION": MAIN}
    answer = program("log", "--full", env=env)
    assert answer.code == 0
    assert max(map(len, answer.lines)) < 5000
    assert "(+996,000 characters)" in answer.out
    rows = program("log", env=env).lines
    assert any("xx…" in row for row in rows)


def test_an_error_escapes_what_was_typed(store, ask):
    answer = ask("show", "--session", HOSTILE["clear screen"])
    assert answer.code == 3
    assert not DANGEROUS.search(answer.err)
