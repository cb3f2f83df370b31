"""A killed restore leaves each file whole, old or new, and can be undone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import stator
from reliability.support import findings
from stator.connect import connect

OLD = {"a.py": "first\n" * 5000, "deep/b.py": "second\n", "gone.py": "third\n"}
NEW = {"a.py": "changed\n" * 9000, "deep/b.py": "also changed\n", "new.py": "made\n"}


@stator.tool(files="path")
def write(path, text):
    Path(path).write_text(text)


@stator.tool(files="path")
def delete(path):
    os.remove(path)


def prepare(folder: Path, store_path: Path) -> str:
    """Make a folder in which a session changed, created and deleted files; returns the session id."""
    (folder / "deep").mkdir(parents=True)
    (folder / ".stator").mkdir()
    (folder / ".stator" / "project").write_text("test\n")
    for name, content in OLD.items():
        (folder / name).write_text(content)
    os.chdir(folder)
    with connect(store_path, project="test") as store, store.open("work") as s:
        s.track(contents=True)
        with s.turn("x") as t:
            for name, content in NEW.items():
                t.call(write, path=name, text=content)
            t.call(delete, path="gone.py")
        return s.id


def files(folder: Path) -> dict[str, str]:
    found = [p for p in folder.rglob("*") if p.is_file() and ".stator" not in p.parts]
    return {p.relative_to(folder).as_posix(): p.read_text() for p in found}


def whole(found: dict[str, str]) -> bool:
    """Whether every file has its old or its new content."""
    return all(found.get(name) in (OLD.get(name), NEW.get(name)) for name in {*OLD, *NEW})


def test_a_restore_killed_at_any_point_leaves_whole_files_and_can_be_undone(zygote, tmp_path):
    session = prepare(tmp_path / "prepared", tmp_path / "prepared.db")

    def restore(name: str, nth: int):
        folder, path = tmp_path / name, tmp_path / f"{name}.db"
        shutil.copytree(tmp_path / "prepared", folder)
        shutil.copy(tmp_path / "prepared.db", path)
        os.chdir(folder)
        return folder, path, zygote.start("restore_until_killed", path, folder, session, nth)

    folder, _, worker = restore("all", 0)
    points = worker.result()
    assert files(folder) == OLD
    for nth in range(1, points + 1):
        folder, path, worker = restore(str(nth), nth)
        worker.wait()
        found = files(folder)
        assert whole(found), (nth, sorted(found))
        with connect(path, project="test") as store:
            log = list(store.read("work").log())
            assert any(c.status == "snapshot" for c in log) or all(
                found.get(name) == NEW.get(name) for name in {*OLD, *NEW}
            )
            act = store.contribute("work")
            act.restore(everything=True, at="t0", apply=True)
            assert files(folder) == OLD, nth
            assert not any(f.changed_since for f in act.restore(everything=True, at="t0").files)
    assert findings(path) == []
