"""Sections about files, retention, erasure and bundles."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec

import stator
from compat.make import write
from compat.place import Place, Section
from stator.runtime.facade.session import Session
from stator.runtime.facade.store import Store

DAY_S = 86_400
GIT = {
    "GIT_AUTHOR_DATE": "1790000000 +0000",
    "GIT_COMMITTER_DATE": "1790000000 +0000",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
tool = stator.tool(files="path", name="write")(write)


def remove(path: str) -> str:
    os.unlink(path)
    return "gone"


def many(path: str) -> str:
    for n in range(3):
        Path(f"{path}{n}").write_text(str(n), encoding="utf-8")
    return "written"


def commit(command: str) -> str:
    return "[main 64f1b9a] sort the photos\n 2 files changed, 3 insertions(+)\n create mode 100644 a.txt\n"


# -- what is known --------------------------------------------------------------------------------


def known(place: Place) -> None:
    """What one session leaves to the next, to the project and to the user; written since 0.9.0."""
    with place.open() as store:
        with store.open("monday") as s, s.turn("sort the photos") as t:
            t.decide("one folder a year", topic="folders", over=["by camera"])
            t.prefer("names", "YYYY-MM-DD")
            t.fact("target", "~/photos")
            t.dead_end("by place", why="half have none")
            t.plan("photos", "done", check="ls photos", files=["photos"])
            t.plan("videos")
            t.pend("ask Ann")
            t.artifact("notes", "blurred ones stay")
            t.file("scan.pdf", "skipped", reason="no date")
            t.use("app", "Photos")
            t.call(stator.tool(name="bash")(commit), command="git commit -m 'sort the photos'")
            t.call(stator.tool(name="bash")(commit), command="ls photos")
        with store.open("tuesday", after="last") as s, s.turn("go on") as t:
            t.plan("videos", "in_progress")
        store.prefer("tone", "short", why="always")
        store.forget("facts:target", why="moved")


# -- files ----------------------------------------------------------------------------------------


def files(place: Place) -> None:
    """Contents that are captured and that are not, and files that are restored."""
    secret = "token = " + "ghp_" + "A1b2" * 9
    with place.open() as store:
        with store.open("kept") as s:
            s.track(contents=True, ignore=["*.log"], max_bytes=64)
            for n in range(3):
                with s.turn(f"turn {n}") as t:
                    t.call(tool, path="a.py", text=f"n = {n}\n")
                    t.call(tool, path="big.txt", text="x" * (100 + n))
                    t.call(tool, path="a.log", text=f"{n}")
                    t.call(tool, path="secret.py", text=f"{secret}{n}")
                    t.call(stator.tool(many), path="seen")
            with s.turn("remove") as t:
                t.call(stator.tool(files="path")(remove), path="a.py")
                t.file("b.py", "created", why="by hand")
                t.file("seen0", "modified", after="0123456789abcdef")
            s.restore("a.py", at="t2", apply=True)
            s.restore("a.py", at="t1", apply=True, force=True)
        Path("a.py").write_text("changed by hand\n", encoding="utf-8")
        boss = store.contribute("kept", principal="local:boss")
        boss.restore("a.py", at="t3", apply=True, force=True)
        with store.open("seen") as s:
            s.track()
            with s.turn("look") as t:
                t.call(stator.tool(many), path="more")
                t.call(stator.tool(effect="read", files="path")(lambda path: "x"), path="a.py")
                listed = stator.tool(files=lambda given, result: [result], name="listed")
                t.call(listed(lambda: "a.py"))
                t.call(tool, path="x.db-wal", text="a database")


def in_git(place: Place) -> None:
    """The git state of the folder at the end of a turn, and ignored files."""
    Path(".gitignore").write_text("*.tmp\n", encoding="utf-8")
    git("init", "--quiet", "--initial-branch=main")
    git("add", ".gitignore")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    git(*identity, "commit", "--quiet", "--message=first")
    with place.open() as store, store.open("git") as s:
        s.track(contents=True)
        with s.turn("clean"):
            pass
        with s.turn("dirty") as t:
            t.call(tool, path="a.py", text="n = 1\n")
            t.call(tool, path="a.tmp", text="ignored\n")


def git(*words: str) -> None:
    subprocess.run(["git", *words], check=True, env={**os.environ, **GIT})


# -- removal --------------------------------------------------------------------------------------


def work(session: Session[Any], turns: int = 2) -> None:
    for n in range(turns):
        with session.turn(f"turn {n}") as t:
            t.call(stator.tool(name="pay")(lambda amount: f"paid {amount}"), amount=n)
            t.fact("last", n)
            t.artifact("notes", f"notes {n}")
            t.say(f"answer {n}")


def expired(place: Place) -> None:
    """What policies do over time: archive, expire, trash, restore, hold, purge."""
    with place.open() as store:
        for name in ("one", "two", "held"):
            with store.open(name) as s:
                work(s)
        store.retention("archive=5d", "transcript=20d", "trash=90d", "purge=200d")
        store.retention("keep=1", project="")
        store.hold("held", why="a question of law")
    for day in (6, 30, 100, 400):
        with place.open(f"day {day}", later_s=day * DAY_S) as store:
            plan = store.gc()
            # the tombstone has the bytes on disk, which are not the same with every zstd
            actions = [msgspec.structs.replace(action, bytes=1) for action in plan.actions]
            assert store.collect(msgspec.structs.replace(plan, actions=actions), yes=True)
            if day == 100:
                store.restore("two")
                store.release("held")
    with place.open("off", later_s=401 * DAY_S) as store:
        store.retention("trash=off")


def erased(place: Place) -> None:
    """Each way to select what is erased."""
    with place.open() as store:
        for name in ("commit", "record", "call", "path", "all"):
            with store.open(name) as s:
                s.track(contents=True)
                work(s)
                with s.turn("file") as t:
                    t.call(tool, path=f"{name}.py", text=name)
        erase(store, "commit", at="@3", fields=["input"])
        erase(store, "record", record=("facts", "last"))
        (call, *_) = store.read("call").calls(status="ok")
        erase(store, "call", call=call.call)
        erase(store, "path", path="path.py")
        erase(store, "all")
        with store.open("commit") as s:
            s.erase(record=("artifacts", next(iter(s.state()["artifacts"]))))


def erase(store: Store, name: str, **what: Any) -> None:
    store.erase(store.erasing(name, **what), why="somebody asked")


# -- bundles --------------------------------------------------------------------------------------


def bundled(place: Place) -> None:
    """Exported and imported sessions: new, continued, diverged, erased elsewhere, and incomplete ones."""
    bundle = place.folder / "main.stator"
    with place.open() as store:
        with store.open("shared") as s:
            work(s)
            with s.turn("below"), s.child("below") as child:
                work(child, 1)
        store.fork("shared", "t1", as_name="fork")
        with store.open("asks", rules=[stator.Rule(tool="pay", action="ask")]) as s, s.turn("x"):
            pass
        store.export(["shared", "asks"], bundle, tree=True)
    with place.open("other", store="other") as other:
        other.import_bundle(bundle)
        with other.open("shared") as s:
            work(s, 1)
    with place.open("more") as store:
        with store.open("shared") as s:
            work(s, 1)
        store.erase(store.erasing("shared", "@3", fields=["input"]), why="somebody asked")
        store.export("shared", bundle, replace=True, redact=["answer 1"])
    with place.open("met", store="other") as other:
        other.import_bundle(bundle, erasures="apply")
        other.import_bundle(bundle, erasures="apply")
    with place.open("brief") as store:
        store.export("shared", bundle, replace=True, transcript=False)
    with place.open("third", store="third") as third:
        third.import_bundle(bundle, project="elsewhere")
        third.contribute(third.sessions().rows[0].id, principal="local:boss").flag("seen")


SECTIONS: dict[str, Section] = {
    "bundled": bundled,
    "erased": erased,
    "expired": expired,
    "files": files,
    "git": in_git,
    "known": known,
}
