"""Secrets are redacted before they reach disk, in every field.

Every field gets a different secret, assembled here from parts, so that a leak names its field.
"""

from __future__ import annotations

import contextlib
import json
import random
import string
from pathlib import Path

import msgspec
import pytest

import stator
from reliability.support import all_sessions, bare
from stator.connect import connect
from stator.errors import StatorError
from stator.model.log.commit import Draft, Upsert
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import SessionRecord

pytestmark = pytest.mark.usefixtures("uncompressed")

PREFIX = "ghp" + "_"
PLACEHOLDER = "‹secret:"


class Planter:
    """Makes secrets and remembers where each was planted."""

    def __init__(self) -> None:
        self.planted: dict[str, str] = {}
        self._rng = random.Random(5)

    def __call__(self, where: str) -> str:
        letters = string.ascii_letters + string.digits
        secret = PREFIX + "".join(self._rng.choice(letters) for _ in range(36))
        self.planted[where] = secret
        return secret


def plant_session(store: stator.Store, plant: Planter) -> str:
    """A session with a secret in every argument of every method."""
    options = {
        "agent": plant("agent"),
        "project": plant("project"),
        "tenant": plant("tenant"),
        "labels": {plant("label name"): plant("label value")},
        "aliases": [(plant("alias source"), plant("alias id"))],
    }
    with store.open(plant("session name"), **options) as s:  # type: ignore[arg-type]
        with s.turn(plant("prompt"), key=plant("turn key")) as t:
            plant_turn(t, plant)
        with pytest.raises(RuntimeError), s.turn([{"deep": plant("nested prompt")}]):
            raise RuntimeError(plant("turn error"))
        s.turn("x").abort(plant("abort"))
        s.tag(plant("tag"))
        s.score(plant("score"), 1, on=plant("score on"), comment=plant("score comment"))
        s.flag(plant("flag"), on=plant("flag on"), why=plant("flag why"))
        s.fork(name=plant("fork name"))
        s.close(plant("close reason"))
        return s.id


def plant_turn(t: stator.Turn, plant: Planter) -> None:
    t.say(plant("said"), usage={plant("usage key"): 1}, why=plant("say why"))
    t.decide(
        plant("decision"),
        topic=plant("topic"),
        why=plant("decision why"),
        over=[plant("over")],
        factors={plant("factor name"): plant("factor value")},
    )
    t.file(
        plant("path"), "read", before=plant("before"), after=plant("after"), why=plant("file why")
    )
    t.file(plant("new path"), "renamed", from_path=plant("old path"), reason=plant("file reason"))
    t.fact(plant("fact name"), plant("fact value"), why=plant("fact why"))
    t.fact("deep", {"list": [plant("nested fact")], plant("fact key"): 1})
    t.fact("env", "export AWS_SECRET" + "_ACCESS_KEY=" + plant("assignment"))
    t.prefer(plant("preference name"), plant("preference value"), why=plant("preference why"))
    t.dead_end(plant("dead end"), why=plant("dead end why"))
    t.plan(
        plant("step"),
        detail=plant("step detail"),
        evidence=plant("evidence"),
        why=plant("step why"),
    )
    t.pend(plant("pending"), on=plant("pending on"), why=plant("pending why"))
    t.use("app", plant("app"), detail=plant("app detail"))
    t.note(plant("note name"), plant("note value"))
    t.set(**{"state_" + plant("app name"): plant("app value")})
    t.artifact(
        plant("artifact"), plant("content"), media_type=plant("media"), why=plant("artifact why")
    )
    t.artifact("large", plant("large content") + " and more words" * 2000)

    @stator.tool(name=plant("tool"))
    def tool(**arguments: str) -> dict[str, str]:
        return {plant("result key"): plant("result")}

    @stator.tool(effect="read", name="fails")
    def fails() -> None:
        raise type("E" + plant("exception type"), (Exception,), {})(plant("exception"))

    t.call(tool, **{"a" + plant("argument name"): plant("argument")})
    t.try_call(fails)


def plant_drafts(store: stator.Store, plant: Planter) -> str:
    """Plant secrets in what only the port accepts."""
    mint = store.context.mint
    record = SessionRecord(
        id=mint("session"), name="drafts", project="test", mode="recorded",
        retention={"note": plant("retention")}, reason=plant("reason"),
    )  # fmt: skip
    opening = Draft(
        id=mint("commit"), session=record.id, kind="open", key="ab" * 16,
        principal=plant("open principal"), changes=(Upsert("session", record),),
    )  # fmt: skip
    store.port.create([opening])
    fields = {
        "cause": plant("cause"),
        "effect": plant("effect"),
        "input": plant("input"),
        "inputs": (plant("inputs"),),
        "key": plant("key"),
        "origin": (plant("origin source"), plant("origin id")),
        "output": plant("output"),
        "output_summary": plant("summary"),
        "principal": plant("principal"),
        "status": plant("status"),
        "tool": plant("draft tool"),
        "trace": plant("trace"),
        "usage": {plant("draft usage"): 1},
        "why": plant("why"),
    }
    for name, value in fields.items():
        draft = Draft(id=mint("commit"), session=record.id, kind="raw", **{name: value})  # type: ignore[arg-type]
        with contextlib.suppress(StatorError):  # a refusal is as safe as redaction
            store.port.append(record.id, [draft])
    return record.id


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """All files and outputs of a store with planted secrets, and the secrets."""
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("secrets")
    patch.chdir(folder)
    path = folder / "store.db"
    plant = Planter()
    with connect(path, project="test") as store:
        patch_compression(patch)
        plant_session(store, plant)
        plant_drafts(store, plant)
        shown = {"files while open": files(path), "tables": tables(path), "dump": dump(store)}
        store.port.rebuild()
        shown["rebuilt tables"] = tables(path)
    shown["files after close"] = files(path)
    patch.undo()
    return shown, plant.planted


def patch_compression(patch: pytest.MonkeyPatch) -> None:
    from stator.store import compress, rows

    patch.setattr(rows, "compress", lambda data: compress.RAW + data)


def files(path: Path) -> bytes:
    return b"".join(
        Path(f"{path}{suffix}").read_bytes()
        for suffix in ("", "-wal", "-shm", "-lease")
        if Path(f"{path}{suffix}").exists()
    )


def tables(path: Path) -> bytes:
    db = bare(path)
    names = [
        name
        for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')")
    ]
    found = [repr(row) for name in names for row in db.execute(f"SELECT * FROM {name}")]
    db.close()
    return "\n".join(found).encode()


def dump(store: stator.Store) -> bytes:
    """Commits and state as programs see them, as JSON."""
    told = []
    for row in all_sessions(store):
        view = store.read(row.id)
        told.append(msgspec.to_builtins(row))
        told.append([msgspec.to_builtins(commit, enc_hook=repr) for commit in view.log()])
        told.append(msgspec.to_builtins({name: view.entries(name) for name in COLLECTIONS}))
        told.append([text_of(commit) for commit in view.log()])
        told.append(msgspec.to_builtins(view.diff("t0..head"), enc_hook=repr))
    return json.dumps(told, ensure_ascii=False, default=repr).encode()


def text_of(commit) -> dict[str, str]:
    return {
        name: item.decode("utf-8", "replace")
        for name, item in commit.content.items()
        if isinstance(item, bytes)
    }


PLACES = ["files while open", "tables", "dump", "rebuilt tables", "files after close"]


ROW = ("tenant", "alias source", "alias id")
"""What the session's row and its aliases hold beside the log."""


def leaks(planted, place: str, fields) -> list[str]:
    shown, secrets = planted
    return [where for where in fields if secrets[where].encode() in shown[place]]


@pytest.mark.parametrize("place", PLACES)
def test_no_planted_secret_reaches_any_file_or_output(planted, place):
    found = leaks(planted, place, [where for where in planted[1] if where not in ROW])
    assert not found, f"leaked: {found}"


@pytest.mark.parametrize("place", PLACES)
def test_no_planted_secret_reaches_the_session_row(planted, place):
    found = leaks(planted, place, ROW)
    assert not found, f"leaked: {found}"


@pytest.mark.parametrize("place", PLACES)
def test_secrets_are_replaced_by_placeholders(planted, place):
    shown, _ = planted
    assert PLACEHOLDER.encode() in shown[place]


def test_secrets_are_stored_when_redaction_is_off(tmp_path):
    """The control: the search can find the text."""
    plant = Planter()
    path = tmp_path / "plain.db"
    with connect(path, project="test", redact=False) as store, store.open("main") as session:
        session.turn(plant("prompt")).end()
    assert plant.planted["prompt"].encode() in files(path)


def test_errors_do_not_repeat_a_secret(store):
    plant = Planter()
    with store.open("main") as session, session.turn() as turn, pytest.raises(StatorError) as error:
        turn.fact(plant("name"), {plant("key"): object()})
    shown = str(error.value) + json.dumps(error.value.wire())
    assert [where for where, secret in plant.planted.items() if secret in shown] == []
