"""Marks of redaction: what was written or scanned under the rules is scanned again only where the user's own key does
not say so."""

from __future__ import annotations

import shutil
from hashlib import sha256

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

import stator
from stator.model.exchange import redaction_mark
from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.bundle_redaction import Sieve
from stator.model.log.commit import Draft
from stator.model.log.redact import Redactor
from stator.runtime.bundles.file import BundleReader
from stator.runtime.bundles.redaction_marks import redacted_upto

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def scanned(monkeypatch):
    """How many items an export looked at for secrets."""
    looked: list[bytes] = []
    look = Sieve._has_secret

    def counted(self, name, item, redactor):
        looked.append(item)
        return look(self, name, item, redactor)

    monkeypatch.setattr(Sieve, "_has_secret", counted)
    return looked


def store_at(folder, **options):
    folder.mkdir(parents=True, exist_ok=True)
    return stator.connect(folder / "agent.db", project="p", **options)


def write(store, text="nothing", name="s"):
    with store.open(name) as s, s.turn("one") as t:
        t.fact("note", text)


def keep(store, mark):
    session = store.read("s").id
    known = store.port.bookmark(session, redaction_mark.NOTE)
    number = 1 if known is None else known.number + 1
    store.port.append(
        session, [], bookmark=Bookmark(redaction_mark.NOTE, number, to_builtins(mark))
    )


def head_mark(store):
    head = store.port.head(store.read("s").id)
    return redaction_mark.RedactionMark(
        rules=redaction_mark.RULES, seq=head.seq, hash=head.hash, mac="signed:" + "0" * 32
    )


def test_what_a_store_wrote_with_redaction_is_not_scanned_again(tmp_path, scanned):
    with store_at(tmp_path / "a") as store:
        write(store)
    with store_at(tmp_path / "a") as store:
        write(store, "more")
    with store_at(tmp_path / "a") as store:
        assert store.export("s", tmp_path / "x.stator").withheld == 0
    assert scanned == []


@pytest.mark.parametrize("how", [{"transcript": False}, {"redact": [SECRET]}])
def test_a_bundle_that_leaves_content_out_vouches_for_none(tmp_path, how):
    with store_at(tmp_path / "a", redact=False) as store, store.open("s") as s, s.turn("one") as t:
        t.say(f"the token is {SECRET}")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with store_at(tmp_path / "a") as store:
        write(store, "more")
        store.export("s", tmp_path / "thin.stator", **how)
    with store_at(tmp_path / "b", trust=True) as store:
        store.import_bundle(tmp_path / "thin.stator")
        assert store.export("s", tmp_path / "whole.stator").secrets == 1


def test_what_came_without_content_is_vouched_for_by_no_later_bundle(tmp_path):
    with store_at(tmp_path / "a", redact=False) as store, store.open("s") as s, s.turn("one") as t:
        t.say(f"the token is {SECRET}")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with store_at(tmp_path / "a") as store:
        store.export("s", tmp_path / "thin.stator", transcript=False)
    with store_at(tmp_path / "c") as store:
        store.import_bundle(tmp_path / "thin.stator")
        write(store, "more")
        store.export("s", tmp_path / "later.stator")
    with store_at(tmp_path / "b", trust=True) as store:
        store.import_bundle(tmp_path / "later.stator")
        assert store.export("s", tmp_path / "whole.stator").secrets == 1


def test_what_was_written_without_redaction_is_scanned(tmp_path):
    with store_at(tmp_path / "a") as store:
        write(store)
    with store_at(tmp_path / "a", redact=False) as store:
        write(store, SECRET)
    with store_at(tmp_path / "a") as store:
        write(store, "more")
    with store_at(tmp_path / "a") as store:
        assert store.export("s", tmp_path / "x.stator").secrets == 1


def test_a_fork_of_what_was_written_without_redaction_is_scanned(tmp_path):
    with store_at(tmp_path / "a", redact=False) as store:
        write(store, SECRET)
    with store_at(tmp_path / "a") as store:
        store.fork("s", as_name="f")
        with store.open("f") as s, s.turn("two") as t:
            t.fact("note", "other")
    with store_at(tmp_path / "a") as store:
        assert redacted_upto(store.port, store.read("f").id) == 0


def test_an_erasure_keeps_the_mark(tmp_path, scanned):
    with store_at(tmp_path / "a") as store:
        write(store)
        store.contribute("s").erase("@3")
        store.export("s", tmp_path / "x.stator")
    assert scanned == []


@pytest.mark.parametrize("wrong", ["mac", "hash", "rules", "seq"])
def test_a_forged_mark_does_not_stop_the_scan(tmp_path, wrong):
    with store_at(tmp_path / "a", redact=False) as store:
        write(store, SECRET)
        true = head_mark(store)
        signed = redaction_mark.made(
            store.port.ownership,
            store.read("s").id,
            true.seq,
            "0" * 64 if wrong == "hash" else true.hash,
        )
        assert signed is not None
        forged = {
            "mac": true,
            "hash": signed,
            "rules": replace(signed, rules=redaction_mark.RULES + 1),
            "seq": replace(signed, seq=signed.seq + 1),
        }[wrong]
        keep(store, forged)
        assert store.export("s", tmp_path / "x.stator").secrets == 1


def test_a_mark_by_another_users_key_does_not_stop_the_scan(tmp_path, monkeypatch):
    monkeypatch.setenv("STATOR_OWNER_KEY", "the key of another user")
    with store_at(tmp_path / "a", redact=False) as store:
        write(store, SECRET)
        true = head_mark(store)
        signed = redaction_mark.made(store.port.ownership, store.read("s").id, true.seq, true.hash)
        keep(store, signed)
    monkeypatch.setenv("STATOR_OWNER_KEY", "the key of this very user")
    with store_at(tmp_path / "a") as store:
        assert store.export("s", tmp_path / "x.stator").secrets == 1


def test_a_bundle_of_ones_own_brings_its_mark_along(tmp_path, scanned):
    with store_at(tmp_path / "a") as here, store_at(tmp_path / "b") as there:
        write(here)
        here.export("s", tmp_path / "x.stator")
        there.import_bundle(tmp_path / "x.stator")
        there.export("s", tmp_path / "y.stator")
        write(there, "more")
    with store_at(tmp_path / "b") as there:
        there.export("s", tmp_path / "z.stator")
    assert scanned == []


def test_the_bundle_of_another_user_is_scanned_when_it_is_exported_again(
    tmp_path, monkeypatch, scanned
):
    monkeypatch.setenv("STATOR_OWNER_KEY", "the key of another user")
    with store_at(tmp_path / "a") as here:
        write(here)
        here.export("s", tmp_path / "x.stator")
    assert scanned == []
    monkeypatch.setenv("STATOR_OWNER_KEY", "the key of this very user")
    with store_at(tmp_path / "b") as there:
        there.import_bundle(tmp_path / "x.stator")
        there.export("s", tmp_path / "y.stator")
    assert len(scanned) > 5


def test_a_log_from_which_a_secret_was_withheld_gets_no_mark(tmp_path):
    with store_at(tmp_path / "a", redact=False) as store:
        write(store, SECRET)
        store.export("s", tmp_path / "x.stator")
    with BundleReader(str(tmp_path / "x.stator")) as reader:
        assert len(list(reader.commits())) == 1
        assert reader.end is not None
        assert reader.end.redacted == [None]


def test_a_planted_secret_of_a_foreign_bundle_does_not_leave_with_the_next_export(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("STATOR_OWNER_KEY", "the key of another user")
    monkeypatch.setattr(Sieve, "_has_secret", lambda *given: False)
    with store_at(tmp_path / "a", redact=False) as here:
        write(here, SECRET)
        assert here.export("s", tmp_path / "x.stator").secrets == 0
    monkeypatch.undo()
    monkeypatch.setenv("STATOR_OWNER_KEY", "the key of this very user")
    with store_at(tmp_path / "b") as there:
        there.import_bundle(tmp_path / "x.stator")
        assert there.export("s", tmp_path / "y.stator").secrets == 1


def test_the_number_of_the_rules_rises_with_the_rules():
    texts = [
        SECRET,
        "password: 'correct horse battery'",
        "https://user:hunter2hunter2@host/x",
        "Authorization: Bearer abcdefghijklmnopqrstuvwxyz012345",
        "AKIA" + "IOSFODNN7EXAMPLE",
        "export API_TOKEN=0123456789abcdef0123456789abcdef",
    ]
    clean = "\n".join(Redactor(b"key").scrub(text) for text in texts)
    # If this differs, the rules find something else than before: raise RULES, then write the new digest here.
    assert (redaction_mark.RULES, sha256(clean.encode()).hexdigest()[:16]) == (
        1,
        "8b33ccc924e2a6a9",
    )


def test_bytes_that_were_given_by_name_are_left_out_where_they_hold_a_secret_or_a_word(tmp_path):
    with store_at(tmp_path / "a", redact=False) as store:
        write(store)
        session = store.read("s").id
        data = {"env": b"TOKEN=" + SECRET.encode(), "raw": b"\0\xff Miller \xfe", "plain": b"\0\1"}
        draft = Draft(id=store.context.mint("commit"), session=session, kind="flag", data=data)
        store.port.append(session, [draft])
        report = store.export("s", tmp_path / "x.stator", redact=["miller"])
    assert (report.withheld, report.secrets) == (2, 1)
    with store_at(tmp_path / "b") as there:
        there.import_bundle(tmp_path / "x.stator")
        found = there.port.commits(session, newest_first=True, limit=1)[0]
        assert found.bytes("plain") == b"\0\1"
        assert there.verify().ok
