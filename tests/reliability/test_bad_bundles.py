"""Truncated, changed, hostile or newer bundles are refused as a whole, with nothing written.

Each bundle is made by the real writer, so that it has only the defect of its test.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runtime.bundle_fixtures import bulky, machine, made, work
from stator.errors import (
    BadBundle,
    BrokenChain,
    Conflict,
    IdReused,
    InvalidInput,
    NewerBundle,
    StatorError,
)
from stator.model.exchange import bundle
from stator.model.exchange.bundle import (
    BundleLimits,
    Header,
    Lock,
    Manifest,
)
from stator.model.log import chain
from stator.model.log.commit import Commit, Draft
from stator.model.log.delta import Put
from stator.model.values import canon
from stator.runtime.bundles.file import BundleReader
from stator.runtime.bundles.transfer import read_commits


@pytest.fixture
def file(tmp_path):
    """The bundle of a small session."""
    with machine(tmp_path / "here", "/home/ann/shop") as here:
        work(here, turns=1)
        here.export("fix-login", tmp_path / "good.stator")
    return tmp_path / "good.stator"


@pytest.fixture
def there(tmp_path):
    with machine(tmp_path / "there", "/srv/shop") as store:
        yield store


def refused(
    store, path: Path, error: type[StatorError] = BadBundle, match: str | None = None
) -> StatorError:
    """The error of an import, which wrote nothing of the bundle and no other file."""
    before = sorted(os.listdir(path.parent))
    with pytest.raises(error, match=match) as caught:
        store.import_bundle(path)
    assert store.sessions().rows == []
    assert sorted(os.listdir(path.parent)) == before
    return caught.value


def resealed(path: Path, data: bytes) -> Path:
    """A changed bundle with a recomputed digest."""
    path = path.with_name("bad.stator")
    path.write_bytes(data + hashlib.sha256(data).digest())
    return path


def body(path: Path) -> bytes:
    return path.read_bytes()[: -bundle.DIGEST_BYTES]


def rechained(commits: list[Commit], n: int, **changes: Any) -> list[Commit]:
    """A log with one changed commit, and every hash from there on recomputed."""
    done = commits[:n]
    for commit in [msgspec.structs.replace(commits[n], **changes), *commits[n + 1 :]]:
        prev = done[-1].hash if done else commit.prev
        linked = msgspec.structs.replace(commit, prev=prev)
        done.append(msgspec.structs.replace(linked, hash=chain.rehash(linked)))
    return done


def log(path: Path) -> list[Commit]:
    return read_commits(str(path))[0]


# -- the file -------------------------------------------------------------------------------------


def test_a_bundle_truncated_at_any_byte_is_refused(file, there):
    data = file.read_bytes()
    cut = file.with_name("cut.stator")
    for length in range(len(data)):
        cut.write_bytes(data[:length])
        with pytest.raises(BadBundle):
            BundleReader(str(cut)).close()
    refused(there, cut)


def test_a_larger_bundle_truncated_anywhere_is_refused(tmp_path, there):
    with machine(tmp_path / "here", "p") as here:
        bulky(here)
        here.export("bulky", tmp_path / "large.stator")
    data = (tmp_path / "large.stator").read_bytes()
    cut = tmp_path / "cut.stator"
    for length in random.Random(4).sample(range(len(data)), 40):
        cut.write_bytes(data[:length])
        with pytest.raises(BadBundle):
            BundleReader(str(cut)).close()
    refused(there, cut)


def test_a_bundle_with_any_changed_byte_is_refused(file, there):
    data = file.read_bytes()
    bad = file.with_name("bad.stator")
    for at in range(len(data)):
        bad.write_bytes(data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :])
        with pytest.raises(BadBundle):
            BundleReader(str(bad)).close()
    refused(there, bad)


def test_a_changed_bundle_with_a_valid_digest_is_refused_or_reads_the_same(file, there):
    """An attacker can recompute the digest; then the frames and the chain must reveal the change."""
    data, good = body(file), log(file)
    for at in random.Random(5).sample(range(len(data)), 250):
        bad = resealed(file, data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        with contextlib.suppress(BadBundle, BrokenChain, InvalidInput):
            assert read_commits(str(bad)) == [good], at


@pytest.mark.parametrize("more", [b"\0", b"more", bytes(32)])
def test_bytes_after_the_end_are_refused(file, there, more):
    longer = file.with_name("longer.stator")
    longer.write_bytes(file.read_bytes() + more)
    refused(there, longer)
    end = len(body(file))
    refused(there, resealed(file, body(file)[:end] + bundle.FRAME.pack(b"c", b"r", 0, 0)))


@pytest.mark.parametrize(
    "data", [b"", b"PK\x03\x04", b"\x1f\x8b", b"SQLite format 3\0", b"\x80\x04."]
)
def test_another_kind_of_file_is_not_a_bundle(tmp_path, there, data):
    path = tmp_path / "x.stator"
    path.write_bytes(data + bytes(200) if data else data)
    refused(there, path, match="not a bundle")


@pytest.mark.parametrize("path", ["/dev/zero", "/proc/self/mem", "/"])
def test_a_path_that_is_not_a_file_is_refused_without_waiting(there, path):
    with pytest.raises(StatorError):
        there.import_bundle(path)


def test_a_pipe_is_refused_without_waiting(tmp_path, there):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadBundle, match="not a bundle"):
        there.import_bundle(tmp_path / "pipe")


# -- versions -------------------------------------------------------------------------------------


def test_the_error_of_a_later_format_names_the_format(file, there):
    data = bytearray(body(file))
    struct.pack_into(">H", data, len(bundle.MAGIC), 2)
    refused(there, resealed(file, bytes(data)), NewerBundle, "format 2")


def test_a_bundle_that_requires_an_unknown_feature_is_refused(file, there):
    path = made(file, log(file), header=Header(requires=["telepathy"]))
    refused(there, path, NewerBundle, "telepathy")


def test_an_unknown_optional_feature_is_ignored(file, there):
    path = made(file, log(file), header=Header(optional=["telepathy"]))
    assert there.import_bundle(path).sessions[0].fate == "new"


# -- limits ---------------------------------------------------------------------------------------


def frames(*parts: tuple[bytes, bytes, int, int, bytes]) -> bytes:
    return bundle.preface(Header()) + b"".join(
        bundle.FRAME.pack(kind, codec, stored, size) + data
        for kind, codec, stored, size, data in parts
    )


def test_a_frame_with_an_extreme_compression_ratio_is_not_unpacked(file, there):
    from backports import zstd

    bomb = zstd.compress(bytes(60_000_000))
    data = frames((bundle.MANIFEST, bundle.ZSTD, len(bomb), 60_000_000, bomb))
    refused(there, resealed(file, data), match="at most 200 times")


def test_unpacking_stops_at_the_length_that_the_frame_declares(file, there):
    from backports import zstd

    bomb = zstd.compress(bytes(60_000_000))
    data = frames((bundle.MANIFEST, bundle.ZSTD, len(bomb), 4096, bomb))
    refused(there, resealed(file, data), match="longer than its stated length")


def test_a_frame_over_the_size_limit_is_not_read(file, there):
    data = frames((bundle.MANIFEST, bundle.RAW, 2**32 - 1, 2**32 - 1, b""))
    refused(there, resealed(file, data), match="at most 83,886,080")


def test_a_header_over_the_size_limit_is_not_read(file, there):
    data = bundle.MAGIC + bundle.PREFIX.pack(1, 2**31)
    refused(there, resealed(file, data), match="at most 65,536")


def test_highly_compressible_content_can_be_exported_and_imported(tmp_path, there):
    """The writer stays within the limits of the reader."""
    with machine(tmp_path / "here", "p") as here:
        with here.open("s") as s, s.turn("one") as t:
            t.fact("zeros", "0" * 5_000_000)
        here.export("s", tmp_path / "x.stator")
        there.import_bundle(tmp_path / "x.stator")
        assert there.read("s").head == here.read("s").head


@pytest.mark.parametrize(
    ("limits", "match"),
    [
        (BundleLimits(total=100), "100 bytes in all"),
        (BundleLimits(sessions=0), "at most 0"),
        (BundleLimits(commits=3), "more than 3 commits"),
    ],
    ids=["total", "sessions", "commits"],
)
def test_every_limit_is_checked_while_reading(file, limits, match):
    with pytest.raises(BadBundle, match=match), BundleReader(str(file), limits=limits) as reader:
        list(reader.commits())


@pytest.mark.parametrize("deep", [b"[" * 100_000 + b"]" * 100_000, b"[" * 500 + b"]" * 500])
def test_too_deeply_nested_content_is_refused(file, there, deep):
    commits = log(file)
    n = next(n for n, c in enumerate(commits) if c.kind == "turn")
    path = made(file, rechained(commits, n, content={"input": deep}))
    refused(there, path)


def test_a_key_derivation_that_needs_gigabytes_is_refused(file, there):
    lock = Lock(cipher="aes-256-gcm", kdf="scrypt", salt=bytes(16), n=2**30, r=8, p=1)
    header = Header(requires=[bundle.LOCKED], lock=lock)
    path = resealed(file, bundle.preface(header) + bytes(40))
    with pytest.raises(BadBundle, match="at most 268,435,456"):
        there.import_bundle(path, passphrase="x")


# -- contents -------------------------------------------------------------------------------------


def test_the_error_names_the_commit_that_was_changed(file, there):
    commits = log(file)
    commits[4] = msgspec.structs.replace(commits[4], cause="changed")
    error = refused(there, made(file, commits), BrokenChain)
    assert error.ids["commit"] == commits[4].id


def test_a_rehashed_log_is_refused_because_its_head_differs_from_the_manifest(file, there):
    commits = log(file)
    path = made(file, rechained(commits, 4, cause="changed"), hash=commits[-1].hash)
    refused(there, path, match="not at its head")


@pytest.mark.parametrize("wrong", ["gap", "doubled", "reversed", "short", "none"])
def test_missing_repeated_or_reordered_commits_are_refused(file, there, wrong):
    commits = log(file)
    told: dict[str, Any] = {"seq": commits[-1].seq, "hash": commits[-1].hash}
    given = {
        "gap": [*commits[:4], *commits[5:]],
        "doubled": [*commits[:4], commits[3], *commits[4:]],
        "reversed": [commits[0], *commits[:0:-1]],
        "short": commits[:-1],
        "none": commits[:1],
    }[wrong]
    refused(there, made(file, given, **told))


def test_a_bundle_with_a_wrong_commit_count_is_refused(file, there):
    refused(there, made(file, log(file), end=99))


def test_a_manifest_that_contradicts_a_session_is_refused(file, there):
    refused(there, made(file, log(file), name="another"), match="manifest")
    refused(there, made(file, log(file), project="another"), match="manifest")


@pytest.mark.parametrize("name", ["../../evil", "/abs", "C:\\w", "a\0b", "", "x" * 1000])
def test_a_session_name_is_never_used_as_a_path(file, there, name):
    """Nothing is unpacked to a path: an invalid name is refused, any other is text."""
    commits = log(file)
    put = commits[0].delta[0]
    assert isinstance(put, Put)
    record = msgspec.structs.replace(put.record, name=name)
    content = {**commits[0].content, "put0": msgspec.json.encode(record, order="sorted")}
    delta = [msgspec.structs.replace(put, record=record)]
    path = made(file, rechained(commits[:1], 0, content=content, delta=delta), name=name)
    before = sorted(os.listdir(path.parent))
    try:
        there.import_bundle(path)
    except StatorError:
        assert there.sessions().rows == []
    else:
        assert name in [row.record.name for row in there.sessions().rows]
    assert sorted(os.listdir(path.parent)) == before


def test_a_manifest_that_lists_a_session_twice_is_refused(file, there):
    commits = log(file)
    with BundleReader(str(file)) as reader:
        one = reader.manifest.sessions[0]
    refused(there, made(file, commits, sessions=[one, one]), match="invalid entry")


@pytest.mark.parametrize(
    "lie",
    [
        {"mode": "project"},
        {"id": "s_" + "0" * 32},
        {"project": "/etc"},
        {"name": "(project)"},
        {"name": "somebody-else"},
    ],
    ids=str,
)
def test_a_commit_cannot_change_the_identity_of_its_session(file, there, lie):
    commits = log(file)
    n = next(
        n for n, c in enumerate(commits) if n and any(o.collection == "session" for o in c.delta)
    )
    at = next(i for i, op in enumerate(commits[n].delta) if op.collection == "session")
    op = commits[n].delta[at]
    assert isinstance(op, Put)
    record = msgspec.structs.replace(op.record, **lie)
    data = msgspec.json.encode(record, order="sorted")
    delta = list(commits[n].delta)
    delta[at] = msgspec.structs.replace(op, record=record)
    content = {**commits[n].content, chain.put_item(at): data}
    refused(there, made(file, rechained(commits, n, content=content, delta=delta)), match="another")


def test_the_session_of_a_project_is_not_imported(file, there):
    commits = log(file)[:1]
    op = commits[0].delta[0]
    assert isinstance(op, Put)
    record = msgspec.structs.replace(op.record, mode="project", name="(project)")
    content = {**commits[0].content, "put0": msgspec.json.encode(record, order="sorted")}
    delta = [msgspec.structs.replace(op, record=record)]
    path = made(file, rechained(commits, 0, content=content, delta=delta), name="(project)")
    refused(there, path, StatorError)


def test_a_different_session_under_an_existing_id_is_refused(file, there):
    there.import_bundle(file)
    head = there.read("fix-login").head
    commits = log(file)
    with pytest.raises(Conflict, match="no commit in common"):
        there.import_bundle(made(file, rechained(commits, 0, at=commits[0].at + 1)))
    assert there.read("fix-login").head == head


@pytest.mark.parametrize("by", [-5, 2, 999_999, 2**53])
def test_content_missing_without_an_erasure_is_refused(file, there, by):
    """The imported session would not verify."""
    commits = log(file)
    n = next(n for n, c in enumerate(commits) if c.kind == "turn")
    commits[n] = chain.without(commits[n], {"input"}, by)
    refused(there, made(file, commits), match="is not an erasure")


def test_commit_ids_that_another_process_just_used_are_refused(file, there, tmp_path):
    """Its commits are in no index yet."""
    commits = log(file)
    with there.open("mine"):
        pass
    with machine(tmp_path / "there", "/srv/shop") as other:
        session = other.read("mine").id
        other.port.append(session, [Draft(id=commits[3].id, session=session, kind="flag")])
        with pytest.raises(IdReused):
            there.import_bundle(file)


def test_commit_ids_used_by_other_commits_are_refused(file, there):
    commits = log(file)
    with there.open("mine"):
        pass
    there.port.append(
        there.read("mine").id,
        [
            Draft(id=commits[3].id, session=there.read("mine").id, kind="flag"),
        ],
    )
    with pytest.raises(IdReused):
        there.import_bundle(file)
    assert [row.record.name for row in there.sessions().rows] == ["mine"]


class Explosive:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("exploded",))


@pytest.mark.parametrize(
    "payload",
    [
        pickle.dumps(Explosive()),
        b"!!python/object/apply:os.mkdir ['exploded']",
        msgspec.msgpack.encode(msgspec.msgpack.Ext(5, b"exploded")),
    ],
    ids=["pickle", "yaml", "msgpack-ext"],
)
def test_an_executable_payload_is_never_executed(file, there, tmp_path, monkeypatch, payload):
    monkeypatch.chdir(tmp_path)
    commits = log(file)
    n = next(n for n, c in enumerate(commits) if c.kind == "turn")
    data = canon.dumps(payload)
    there.import_bundle(made(file, rechained(commits, n, content={"input": data}, salts={})))
    assert there.read("fix-login").turns()[0].turn == 1
    assert not (tmp_path / "exploded").exists()
    refused_raw = made(file, rechained(commits, n, content={"input": payload}))
    with pytest.raises(StatorError):
        there.import_bundle(refused_raw)
    assert not (tmp_path / "exploded").exists()


def test_an_extension_type_in_a_frame_is_refused(file, there):
    data = msgspec.msgpack.encode([0, [msgspec.msgpack.Ext(1, b"x")]])
    manifest = bundle.encode(Manifest(sessions=[]))
    packed = frames(
        (bundle.MANIFEST, bundle.RAW, len(manifest), len(manifest), manifest),
        (bundle.BATCH, bundle.RAW, len(data), len(data), data),
    )
    refused(there, resealed(file, packed))


# -- encryption -----------------------------------------------------------------------------------


@pytest.fixture
def locked(tmp_path):
    with machine(tmp_path / "here", "p") as here:
        bulky(here)
        here.export("bulky", tmp_path / "locked.stator", passphrase="open sesame")
    return tmp_path / "locked.stator"


def split(data: bytes) -> tuple[bytes, list[bytes]]:
    """The preface and the frames of a bundle."""
    start = len(bundle.MAGIC) + bundle.PREFIX.size
    at = start + bundle.header_size(data[:start])
    preface, found = data[:at], []
    while at < len(data):
        size = bundle.FRAME.size + bundle.FRAME.unpack_from(data, at)[2]
        found.append(data[at : at + size])
        at += size
    return preface, found


@pytest.mark.parametrize("wrong", ["dropped", "moved", "end first", "header"])
def test_missing_or_reordered_frames_of_an_encrypted_bundle_are_refused(locked, there, wrong):
    preface, found = split(body(locked))
    given = {
        "dropped": [*found[:2], *found[3:]],
        "moved": [found[0], found[2], found[1], *found[3:]],
        "end first": [found[0], found[-1]],
        "header": found,
    }[wrong]
    if wrong == "header":
        header = msgspec.structs.replace(bundle.read_header(preface[14:]), optional=["fixture"])
        preface = bundle.preface(header)
    path = resealed(locked, preface + b"".join(given))
    with pytest.raises(BadBundle, match="passphrase"):
        there.import_bundle(path, passphrase="open sesame")
    assert there.sessions().rows == []


# -- no code runs ---------------------------------------------------------------------------------

WATCHED = """
import sys
import stator

path, folder = sys.argv[1:]
with stator.connect(f"{folder}/first.db") as warm:
    warm.import_bundle(path)
    list(warm.read("fix-login").log())
with stator.connect(f"{folder}/second.db") as store:
    heard = []
    sys.addaudithook(lambda name, given: heard.append((name, given)))
    store.import_bundle(path)
    list(store.read("fix-login").log())
    found = list(heard)
for name, given in found:
    if name in ("exec", "compile", "import", "pickle.find_class", "marshal.loads"):
        print(name, given)
    elif name.startswith(("subprocess", "os.system", "os.exec", "os.posix_spawn", "socket")):
        print(name, given)
    elif name in ("open", "os.mkdir", "os.remove", "os.rename", "os.link", "os.symlink"):
        if isinstance(given[0], str) and not given[0].startswith((folder, path)):
            print(name, given)
"""


def test_importing_executes_no_code_and_opens_no_other_file(file, tmp_path):
    """For any content: no code, no import of a recorded name, no program, no connection."""
    commits = log(file)
    n = next(n for n, c in enumerate(commits) if c.kind == "turn")
    hostile = canon.dumps({"__class__": "os.system", "py/object": "os.mkdir", "b": pickle.dumps(1)})
    path = made(file, rechained(commits, n, content={"input": hostile}))
    (tmp_path / "stores").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(path), str(tmp_path / "stores")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
