"""One flipped bit anywhere in a store: `verify` finds it, and names the commit by session and seq if it hit the log."""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reliability.store_map import Region, StoreMap
from reliability.support import answers, bare, incompressible, one_turn, populate
from stator.connect import connect, verify_damaged
from stator.errors import SchemaChanged, StatorError, StoreCorrupt, StoreError
from stator.model.log.query import VerifyReport
from stator.store.compress import decompress

RAW = re.compile(r"Expected|got int|object has no|takes \d|NoneType|index out of range|unpack")
"""Words of decoders, which say nothing to a person."""
UNUSED = ("unused", "free page")


class Damaged:
    """A small store with every kind of session, and copies of it with one bit flipped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        original = folder / "original.db"
        _make(original, folder)
        self.map = StoreMap(original)
        self.path = folder / "flipped.db"
        db = bare(original)
        self.ids = {
            int(str(s)): "s_" + bytes(found).hex()  # type: ignore[arg-type]
            for s, found in db.execute("SELECT s, id FROM session").fetchall()
        }
        db.close()
        self.write(self.map.data)
        self.contents = contents(self.path)
        self.truth = self.answered()
        clean = self.verified()
        assert isinstance(clean, VerifyReport)
        assert clean.ok, clean.damages

    def write(self, data: bytes | bytearray) -> None:
        for suffix in ("-wal", "-shm", "-lease"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        self.path.write_bytes(data)

    def flip(self, bit: int) -> Region:
        data = bytearray(self.map.data)
        data[bit // 8] ^= 1 << bit % 8
        self.write(data)
        return self.map.at(bit // 8)

    def verified(self) -> VerifyReport | StoreError:
        try:
            with connect(self.path, create=False, read_only=True, project="test") as store:
                return store.verify()
        except (SchemaChanged, StoreCorrupt) as error:
            try:
                return verify_damaged(str(self.path), error)
            except StoreError as refused:
                return refused
        except StoreError as refused:
            return refused

    def answered(self) -> str:
        try:
            with connect(self.path, create=False, read_only=True, project="test") as store:
                return answers(store) + repr(store.info().id)
        except StatorError as error:
            return f"{type(error).__name__}: {error}"

    def judge(self, bit: int) -> tuple[str, str]:
        """(what the byte is for, what became of the flip); the second begins with MISSED if it is a defect."""
        region = self.flip(bit)
        report = self.verified()
        if isinstance(report, StoreError):
            fine = region.kind in ("header", "schema")
            return region.kind, "store unusable" if fine else f"MISSED: unusable: {report}"
        if report.ok:
            if self.answered() != self.truth:
                return region.kind, "MISSED: an answer changed"
            return region.kind, self._harmless(region)
        raw = [found.what for found in report.damages if RAW.search(found.what)]
        if raw:
            return region.kind, f"MISSED: raw words: {raw[0]}"
        return region.kind, self._named(region, report)

    def _harmless(self, region: Region) -> str:
        """Why a flip that verify does not report did no harm: every row of every table holds what it held."""
        if region.kind in UNUSED:
            return "harmless, the byte is unused"
        if region.kind == "header":
            return "harmless, a field of SQLite's header that no reader needs"
        now = contents(self.path)
        if now == self.contents:
            return "harmless, it decodes to the same bytes"
        changed = {name for name in now if now[name] != self.contents[name]}
        if changed == {"meta"} and now["meta"] - self.contents["meta"] <= {
            ("epoch", self._epoch())
        }:
            return "harmless, some numbers of epochs are skipped"
        return f"MISSED: {changed} changed"

    def _epoch(self) -> object:
        db = bare(self.path)
        found = db.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchall()
        db.close()
        return found[0][0]

    def _named(self, region: Region, report: VerifyReport) -> str:
        logs = [found for found in report.damages if found.check in ("chain", "pages")]
        if region.kind == "log row":
            session = self.ids[region.ordinal]
            for found in logs:
                if found.session == session and found.seq <= region.seq <= (
                    found.last or found.seq
                ):
                    return "found, session and seq named"
            return f"MISSED: names no commit: {report.damages[0]}"
        if region.kind == "blob" and not any(f.session and f.seq for f in report.damages):
            return f"MISSED: a blob without its commit: {report.damages[0]}"
        if report.log_ok != (not any(found.check == "chain" for found in report.damages)):
            return "MISSED: the first line is false"
        return "found, " + ("commits named" if any(f.seq for f in logs) else "named")


def contents(path: Path) -> dict[str, set[Any]]:
    """Every row of every table, unpacked."""
    db = bare(path)
    tables = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    found = {
        str(name): {tuple(map(_unpacked, row)) for row in db.execute(f"SELECT * FROM {name}")}
        for (name,) in tables
    }
    db.close()
    return found


def _unpacked(value: Any) -> Any:
    try:
        return decompress(value) if isinstance(value, bytes) else value
    except StoreCorrupt:
        return value


def _make(path: Path, folder: Path) -> None:
    """Sessions that were driven, forked and imported, with blobs, erased content and a compaction."""
    other = folder / "other.db"
    with connect(other, project="test") as store:
        with store.open("elsewhere") as s, s.turn("there") as t:
            t.fact("place", "elsewhere")
            t.artifact("far", incompressible(16_384, "far"))
        store.export("elsewhere", folder / "elsewhere.stator")
    with connect(path, project="test") as store:
        populate(store, turns=2)
        store.fork("main", "t1", as_name="branch")
        with store.open("branch") as s:
            one_turn(s, 3)
        store.import_bundle(folder / "elsewhere.stator")
        with store.open("other") as s:
            for number in range(2):
                with s.turn(f"long {number}") as t:
                    t.fact("secret", incompressible(600, str(number)))
                    t.say("words " * 200)
            s.compact(max_tokens=100, keep=1)
            s.erase(record=("facts", s.entries("facts")[0].id))


def bits(damaged: Damaged, count: int, seed: int) -> Iterator[int]:
    """Half of them anywhere in the file, a third in rows of the log, the rest in the small tables."""
    rng = random.Random(seed)
    log = damaged.map.bytes_of("log row")
    small = [
        byte
        for kind in ("session", "meta", "blob_use", "alias", "log page")
        for byte in damaged.map.bytes_of(kind)
    ]
    for _ in range(count):
        place = rng.random()
        if place < 0.5:
            yield rng.randrange(len(damaged.map.data) * 8)
        else:
            yield rng.choice(log if place < 0.85 else small) * 8 + rng.randrange(8)


def campaign(damaged: Damaged, count: int, seed: int) -> Counter[tuple[str, str]]:
    told: Counter[tuple[str, str]] = Counter()
    missed: list[Any] = []
    for bit in bits(damaged, count, seed):
        kind, verdict = damaged.judge(bit)
        if verdict.startswith("MISSED"):
            missed.append((bit, kind, verdict))
            verdict = "MISSED"
        told[kind, verdict] += 1
    assert not missed, f"seed {seed}: {len(missed)} of {count}: {missed[:5]}"
    return told


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flips")
    yield Damaged(folder)
    shutil.rmtree(folder)


def test_verify_finds_and_names_a_flipped_bit_wherever_it_is(damaged):
    told = campaign(damaged, 150, 6)
    assert told["log row", "found, session and seq named"] > 30


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_verify_finds_and_names_ten_thousand_flipped_bits(damaged, capsys, part):
    told = campaign(damaged, 2_500, 60 + part)
    with capsys.disabled():
        print(f"\n{len(damaged.map.data):,} bytes")
        for (kind, verdict), size in sorted(told.items()):
            print(f"{size:6,}  {kind}: {verdict}")
