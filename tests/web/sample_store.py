"""A store with something for every page: doubts, an approval, a claim, a fork, files, costs, hostile text.

Its time is that of a clock which the sample moves itself, so that turns take minutes and calls take seconds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import stator
from stator import testing
from stator.approvals import Rule
from stator.connect import context
from stator.runtime.facade.store import Store
from stator.store.sqlite import SqliteStore, create
from web.sample_work import BEFORE, FAILS, WORK, SampleTurn

HOSTILE = (
    "<script>alert(1)</script><svg onload=alert(2)><a href='javascript:alert(3)'>x</a>"
    "data:text/html,<b>x</b> \x1b[31mred\x1b[0m \u202eevil\u202c \x00end {{ 7 * 7 }}"
)
MODEL = "claude-sonnet-4-5"
DAY_S = 86_400
BEGAN = 1_762_000_000_000_000 + 9 * 60_000_000
"""When the sample begins, unless a caller says otherwise."""
LASTS_US = 9 * DAY_S * 1_000_000
"""How much time passes in it, about."""
DIES = "from web.sample_store import pay_and_die; pay_and_die({store!r}, {at})"
TESTS = Path(__file__).parents[1]
EARLIER = (
    ("price-list", "codex", "import the price list of the new supplier", 4, 610_000),
    ("search-index", "claude-code", "make search find plurals", 7, 1_840_000),
    ("readme", "codex", "write the README of the checkout", 2, 90_000),
    ("upgrade-python", "claude-code", "upgrade to Python 3.13", 9, 3_260_000),
    ("flaky-test", "claude-code", "find out why test_mail is flaky", 5, 1_120_000),
    ("images", "codex", "serve product images as WebP", 3, 400_000),
)
"""Sessions before the one that is looked at: name, agent, request, minutes, and what they cost in millionths."""


class Sample:
    """The store while it is filled, and the shop's files."""

    def __init__(self, path: Path, began: int) -> None:
        self.path = path
        self.clock = testing.FakeClock(began)
        self.files = path.parent / "shop"
        self._failed: set[str] = set()
        self.read_file = stator.tool(effect="read", name="read_file", files="path")(self._read)
        self.write_file = stator.tool(effect="write", name="write_file", files="path")(self.write)
        self.edit_file = stator.tool(effect="write", name="edit_file", files="path")(self._edit)
        self.bash = stator.tool(effect="write", name="bash")(self._bash)

    def opened(self) -> Store:
        return opened(self.path, self.clock)

    def _read(self, path: str) -> str:
        self.clock.advance(0.2)
        return (self.files / path).read_text()

    def write(self, path: str, content: str) -> str:
        self.clock.advance(0.3)
        target = self.files / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
        return f"wrote {len(content.splitlines())} lines"

    def _edit(self, path: str, old_string: str, new_string: str) -> str:
        self.clock.advance(0.3)
        target = self.files / path
        target.write_text(target.read_text().replace(old_string, new_string))
        return "edited"

    def _bash(self, command: str) -> str:
        self.clock.advance(4.0 + len(command) % 7)
        if command in FAILS and command not in self._failed:
            self._failed.add(command)
            raise RuntimeError(f"exit status 1\n{FAILS[command]}")
        return "31 passed in 2.84s" if "pytest" in command else "ok"


def opened(path: Path, clock: testing.FakeClock) -> Store:
    """The store at a path, in the time of a clock."""
    known = replace(context(project="shop"), clock=clock, root=str(path.parent / "shop"))
    return Store(SqliteStore(str(path), clock=clock, durability="relaxed"), known)


def fill(path: Path, *, hostile: bool = True, began: int | None = None) -> testing.FakeClock:
    """Record sessions of every kind into a new store; the clock as it is at their end."""
    sample = Sample(path, BEGAN if began is None else began)
    create(str(path))
    with sample.opened() as store:
        _earlier(store, sample)
        _checkout(store, sample)
        _claimed(store, sample)
        _waiting(store, sample)
        if hostile:
            _hostile(store, sample)
    sample.clock.advance(240)
    program = DIES.format(store=str(path), at=sample.clock.now)
    places = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONPATH": places}
    subprocess.run([sys.executable, "-c", program], check=False, env=environment)
    sample.clock.advance(180)
    return sample.clock


def _usage(turn: int, cents: int, in_view: int) -> dict[str, int]:
    """What an answer reports: fresh tokens, those read from a cache, and money."""
    fresh, out = 900 + 137 * (turn % 5), 420 + 61 * (turn % 7)
    cached = max(0, in_view - fresh)
    return {
        "tokens": fresh + out + cached, "tokens:in": fresh, "tokens:out": out,
        "tokens:cache_read": cached, "tokens:cache_write": fresh, "money:usd": cents * 10_000,
    }  # fmt: skip


def _earlier(store: Store, sample: Sample) -> None:
    for name, agent, asked, minutes, micro in EARLIER:
        with store.open(name, agent=agent) as s:
            s.configure(model="gpt-5-codex" if agent == "codex" else MODEL)
            with s.turn(asked) as t:
                sample.clock.advance(20 * minutes)
                t.call(sample.bash, command="git status --short")
                sample.clock.advance(40 * minutes)
                usage = _usage(minutes, 1, 30_000) | {"money:usd": micro}
                t.say(f"Done: {asked}.", usage=usage)
        sample.clock.advance(1.2 * DAY_S)


def _checkout(store: Store, sample: Sample) -> None:
    for path, text in BEFORE.items():
        sample.write(path, text)
    labels = {"branch": "fix-double-charge"}
    with store.open("checkout", agent="claude-code", labels=labels) as s:
        s.configure(model=MODEL)
        s.track(str(sample.files), contents=True)
        for number, work in enumerate(WORK, 1):
            _turn(s, sample, number, work)
            sample.clock.advance(150)
            if number == 9:
                s.compact(keep=2, summary="The bank is asked three times; receipts are kept.")
    _fork(store, sample)


def _turn(s: Any, sample: Sample, number: int, work: SampleTurn) -> None:
    in_view = 12_000 + 5_400 * (number if number < 10 else number - 8)
    each = work.minutes * 60 / (len(work.reads) + len(work.writes) + len(work.edits) + 2)
    with s.turn(work.asked) as t:
        for path in work.reads:
            t.call(sample.read_file, path=path)
            sample.clock.advance(each / 2)
        for path, text in work.writes:
            t.call(sample.write_file, path=path, content=text)
            sample.clock.advance(each)
        for path, old, new in work.edits:
            t.call(sample.edit_file, path=path, old_string=old, new_string=new)
            sample.clock.advance(each)
        for command in work.runs:
            t.try_call(sample.bash, command=command)
            sample.clock.advance(each / 3)
        if work.decided:
            topic, choice, why, over = work.decided
            t.decide(choice, topic=topic, why=why, over=list(over))
        if work.step:
            status = "done" if number < 15 else "pending"
            t.plan(work.step, status, check=work.runs[-1], files=work.about, order=number)
        t.say(work.said, usage=_usage(number, 18 + 7 * (number % 4), in_view))


def _fork(store: Store, sample: Sample) -> None:
    """Another way from t14: keys instead of a lock."""
    store.fork("checkout", at="t14", as_name="checkout-keys")
    with (
        store.open("checkout-keys") as f,
        f.turn("fix the double charge: give each charge a key") as t,
    ):
        t.call(sample.read_file, path="checkout/bank.py")
        sample.clock.advance(50)
        t.call(
            sample.edit_file,
            path="checkout/bank.py",
            old_string="card=card, cents=total.amount)",
            new_string="card=card, cents=total.amount, key=order.id)",
        )
        sample.clock.advance(70)
        t.call(sample.bash, command="pytest -q tests/test_charge.py")
        t.call(sample.bash, command="pytest -q tests/test_crash.py")
        t.call(sample.bash, command="pytest -q")
        t.decide(
            "a key for every charge",
            topic="double charge",
            why="it survives a crash",
            over=["lock the row"],
        )
        t.say(
            "The bank knows a charge again by its key. All 32 tests pass.",
            usage=_usage(15, 27, 52_000),
        )
    sample.clock.advance(600)


def _claimed(store: Store, sample: Sample) -> None:
    """A step that is called done while its check fails."""
    check = "pytest -q tests/test_mail.py"
    with store.open("mail-twice", agent="codex") as s, s.turn("stop sending receipts twice") as t:
        s.configure(model="gpt-5-codex")
        t.plan("Receipts are sent once", "done", check=check, order=1)
        t.plan("Tell support", "pending", order=2)
        t.try_call(sample.bash, command=check)
        sample.clock.advance(90)
        t.decide(
            "write a receipt anew when its mail is lost", topic="receipts", why="customers ask"
        )
        t.say("Receipts are sent once now.", usage=_usage(3, 34, 21_000))
    sample.clock.advance(300)


def _waiting(store: Store, sample: Sample) -> None:
    """A call that a rule lets nobody run without a person."""

    @stator.tool(effect="write")
    def migrate(database: str, statement: str) -> str:
        return "migrated"

    rules = [Rule(tool="migrate", action="ask")]
    try:
        with (
            store.open("order-keys", agent="claude-code", rules=rules) as s,
            s.turn("give orders a key") as t,
        ):
            s.configure(model=MODEL)
            sample.clock.advance(60)
            t.say("The table needs a column first.", usage=_usage(2, 12, 18_000))
            t.call(migrate, database="shop.db", statement="alter table orders add column key text")
    except stator.ApprovalNeeded:
        sample.clock.advance(120)


def _hostile(store: Store, sample: Sample) -> None:
    with store.open(f"hostile {HOSTILE[:30]}", agent="<b>agent</b>") as s:
        with s.turn(HOSTILE) as t:
            t.call(stator.tool(effect="read", files="path")(_echo), path=HOSTILE)
            t.decide(HOSTILE, topic=HOSTILE, why=HOSTILE)
            t.fact(HOSTILE, HOSTILE)
            t.file("src/<img src=x onerror=alert(4)>.py", "modified")
            t.say(HOSTILE)
        with s.turn("a very long line") as t:
            t.call(sample.bash, command="y" * 10_000_000)
            t.say("<b>" * 500_000)


def _echo(path: str) -> str:
    return f"text of {path}\n" * 20


def pay_and_die(path: str, at: int) -> None:
    """Begin a payment, and be killed in the middle of it."""

    @stator.tool(effect="write")
    def pay(to: str, cents: int) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return "paid"

    with (
        opened(Path(path), testing.FakeClock(at)) as store,
        store.open("pay-acme", agent="payer") as s,
        s.turn("pay the invoice of ACME", key="17") as t,
    ):
        t.call(pay, to="ACME", cents=4200)


@contextmanager
def at_work(store: Store, clock: testing.FakeClock) -> Iterator[None]:
    """Keep a session at work: its tests run until the block ends."""
    begun, enough = threading.Event(), threading.Event()

    @stator.tool(effect="write")
    def bash(command: str) -> str:
        begun.set()
        enough.wait(120)
        return "ok"

    def work() -> None:
        with (
            store.open("faster-search", agent="claude-code") as s,
            s.turn("make search faster") as t,
        ):
            t.say("An index on names is missing.", usage=_usage(4, 22, 24_000))
            t.call(bash, command="pytest -q tests/test_search.py")

    worker = threading.Thread(target=work)
    worker.start()
    try:
        assert begun.wait(60)
        clock.advance(42)
        yield
    finally:
        enough.set()
        worker.join(60)
