"""Two machines drive one session: one dies in the middle of a payment, the other resumes it, and the doubt is shown.

Each has a network namespace, process ids, a host name and a home of its own; the server is a third machine. Needs
root, and Debian's packages postgresql and iproute2.
"""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from campaigns.postgres import programs
from campaigns.postgres.machine import NEEDS, Machine
from campaigns.postgres.network import network
from campaigns.postgres.scenarios import ROLE
from campaigns.postgres.server import DATABASE, Server
from docs.runner import ROOT, SERVER, Block, blocks, matches, shown

MISSING = programs.missing("initdb", "pg_ctl", "setpriv", *NEEDS) or (
    "network namespaces need root" if os.geteuid() else ""
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]
AGENT = """
import os, sys, time
import stator

url, ledger, dies = sys.argv[1:]

@stator.tool(effect="write", reconcile=lambda intent: "not_done")
def pay(what):
    if dies == f"before {what}":
        print("dying", flush=True); time.sleep(600)
    with open(ledger, "a") as file:
        file.write(what + chr(10))
    if dies == f"after {what}":
        print("dying", flush=True); time.sleep(600)
    return f"paid {what}"

def buy(s, what):
    with s.turn(f"buy the {what}", key=what) as t:
        t.call(pay, what=what)
        t.say(f"paid {what}")

with stator.connect(url, project="shop") as store, store.open("order", busy="wait") as s:
    for what in ("umbrella", "parasol", "hat"):
        try:
            buy(s, what)
        except stator.InDoubt:
            print(what, "in doubt", flush=True)
            break
        print(what, "ok", flush=True)
"""


@dataclass
class Shop:
    """The two machines, the store, and what was paid."""

    laptop: Machine
    desk: Machine
    url: str
    ledger: Path
    agent: Path

    def drive(self, machine: Machine, dies: str = "") -> list[str]:
        """Run the agent on a machine; what it said until its end or its death."""
        with machine.started(self.agent, self.url, self.ledger, dies) as process:
            assert process.stdout is not None
            said: list[str] = []
            for line in process.stdout:
                if line == "dying\n":
                    break  # and with this the machine is killed
                said.append(line.rstrip())
        return said

    def stator(self, machine: Machine, *words: str) -> str:
        return machine.run("-m", "stator", *words, "--store", self.url)

    def doubts(self, machine: Machine) -> list[tuple[str, str, str]]:
        """The calls that are listed as in doubt on a machine: id, tool and what was to be paid."""
        told = map(
            json.loads, self.stator(machine, "settle", "--everywhere", "--json").splitlines()
        )
        return [(one["call"], one["tool"], one["arguments"]["what"]) for one in told]

    def paid(self) -> Counter[str]:
        return Counter(self.ledger.read_text().splitlines())


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with programs.folder() as place, network("server", "laptop", "desk") as net:
        server = Server(
            place, "server", 5432, host=net.addresses["server"], namespace=net.namespace("server")
        )
        server.make()
        server.start()
        try:
            server.ask(f"CREATE ROLE {ROLE} LOGIN")
            server.ask(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")
            url = f"postgresql://{ROLE}@{server.host}:{server.port}/{DATABASE}?tenant=acme"
            agent = tmp_path / "agent.py"
            agent.write_text(AGENT)
            laptop, desk = (Machine(net, name, tmp_path) for name in ("laptop", "desk"))
            yield Shop(laptop, desk, url, tmp_path / "ledger", agent)
        finally:
            server.stop()


@pytest.mark.parametrize(("moment", "verdict"), [("before", "--run-again"), ("after", "--done")])
def test_a_session_continues_on_another_machine_and_the_doubt_is_shown(
    shop: Shop, moment: str, verdict: str
) -> None:
    assert shop.drive(shop.laptop, f"{moment} parasol") == ["umbrella ok"]
    before = shop.paid()
    # The tool could say what became of it, and is not asked: for all that is known here, the laptop may go on.
    assert shop.drive(shop.desk) == ["umbrella ok", "parasol in doubt"]
    assert shop.paid() == before
    for machine in (shop.laptop, shop.desk):
        ((call, tool, what),) = shop.doubts(machine)
        assert (tool, what) == ("pay", "parasol")
    shop.stator(shop.desk, "settle", call, verdict)
    assert shop.drive(shop.laptop) == ["umbrella ok", "parasol ok", "hat ok"]
    assert shop.paid() == Counter(("umbrella", "parasol", "hat"))
    row = json.loads(shop.stator(shop.desk, "ls", "--everywhere", "--json"))
    logs = [shop.stator(one, "log", row["id"], "--json") for one in (shop.laptop, shop.desk)]
    assert logs[0] == logs[1]
    assert json.loads(shop.stator(shop.desk, "verify", "--json"))["ok"] is True


GUIDE = (ROOT / "docs" / "guides" / "postgres.md").read_text(encoding="utf-8")


def section(title: str) -> list[Block]:
    """The blocks of a section of the guide."""
    start = GUIDE.index(f"\n## {title}\n")
    end = GUIDE.find("\n## ", start + 1)
    return [block for block in blocks(GUIDE) if start < block.start < end]


def played(machine: Machine, command: str) -> list[str]:
    """The lines that a command of the guide prints on a machine."""
    words = shlex.split(command)
    given = dict(word.split("=", 1) for word in words if word.split("=", 1)[0].isupper())
    program, *words = words[len(given) :]
    run = {"python": (), "stator": ("-m", "stator")}[program]
    return machine.run(*run, *words, NO_COLOR="1", **given).splitlines()


def test_the_guide_shows_what_two_machines_with_networks_of_their_own_print(shop: Shop) -> None:
    address = shop.url.partition("@")[2].partition("/")[0]
    machine, compared = shop.desk, 0
    for block in section("Two machines"):
        text = block.text.replace(f"{SERVER}/", f"{address}/").replace("/agents?", f"/{DATABASE}?")
        if block.language == "python" and "file=" in block.info:
            for each in (shop.laptop, shop.desk):
                (each.home / block.info.removeprefix("file=")).write_text(text)
        elif block.language == "python":
            assert machine.run("-c", text) == ""
        for item in shown(text) if block.language == "console" else ():
            if item.command == "cd laptop":
                machine = shop.laptop
                continue
            said = played(machine, item.command)
            assert not item.output or matches(item.output, said), said
            compared += 1
    assert compared >= 5
