"""Bundles that a stranger made by hand: refused as a whole, or imported without the harm they were made for.

`REFUSED` and `HARMLESS` have one row for each thing that was changed in a bundle which is otherwise sound. A
bundle that is refused leaves every byte that the store answers with as it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stator
from reliability.bundle_forge import Forge, Frame, Part, raw_frame
from runtime.bundle_fixtures import findings, machine, work
from runtime.waiting import ask_for
from stator.errors import (
    ApprovalNeeded,
    BadBundle,
    BrokenChain,
    Conflict,
    ErasesHere,
    IdReused,
    InvalidInput,
    NewerBundle,
    StatorError,
)
from stator.importers.discover import discover
from stator.importers.run import import_transcripts
from stator.model.calls.approval import Rule
from stator.model.exchange import bundle
from stator.model.exchange.bundle import Batch, Bundled, Header, Lock, Manifest
from stator.model.exchange.items import Conversation
from stator.model.log import chain, turn_keys
from stator.model.log.commit import Provenance
from stator.model.log.delta import Put
from stator.model.log.query import SessionQuery
from stator.model.records.types import (
    ApprovalRecord,
    ArtifactRecord,
    ChildRecord,
    FileRecord,
    FlagRecord,
    Parent,
    PreferenceRecord,
    Segment,
    SpendRecord,
)
from stator.model.values import canon
from stator.model.values.ids import derived
from stator.runtime.bundles.encryption import CIPHER, KDF
from stator.runtime.ingest.recorder import Recorder
from stator.runtime.views.refs import last_used
from stator.runtime.views.spend import spent_tree

try:
    from compression import zstd  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    from backports import zstd

ASK = [Rule(tool="pay", action="ask")]
FUTURE = 2**52
"""A time in the year 2112."""
replace = msgspec.structs.replace


def pay(amount: int) -> str:
    return f"paid {amount}"


def report() -> str:
    return "all is well"


@dataclass
class World:
    """A store with sessions of its own, and bundles that a stranger has."""

    here: Any
    folder: Path

    def forge(self, base: str) -> Forge:
        return Forge.of(self.folder / f"{base}.stator")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """`mine` was exported from here and came back continued; `gift` is a stranger's, with a fork."""
    folder: Path = tmp_path_factory.mktemp("world")
    with machine(folder / "here", "/srv/shop") as here, machine(folder / "eve", "/eve") as eve:
        with here.open("mine", rules=ASK) as s:
            with s.turn("pay the invoice") as t:
                t.fact("only copy", "of this")
            s.once("daily", report)
            with s.turn("wait for a person"):
                call = ask_for(s, "pay", "payments", amount=500)
        here.contribute("mine").approve(call, scope="session")
        here.contribute("mine").erase("@2")
        with here.open("other", rules=ASK) as s, s.turn("wait"):
            ask_for(s, "pay", "payments", amount=9)
        Recorder(
            here.port, here.context, Conversation(source="cursor", id="c1"), via="hook"
        ).flush()
        here.export("mine", folder / "mine.stator")
        eve.import_bundle(folder / "mine.stator")
        with eve.open("mine") as s, s.turn("more") as t:
            t.say("done elsewhere")
        eve.export("mine", folder / "back.stator")
        work(eve, "gift", turns=2)
        eve.export("gift", folder / "gift.stator")
        eve.fork("gift", "t1", as_name="gift-b")
        eve.export("gift", folder / "tree.stator", tree=True)
    return folder


@pytest.fixture
def world(built, tmp_path) -> Iterator[World]:
    folder = tmp_path / "world"
    shutil.copytree(built, folder)
    # A copy is foreign, and its grants would answer nothing anyway.
    with stator.connect(folder / "here" / "agent.db", project="/srv/shop", trust=True) as here:
        yield World(here, folder)


def dump(store: Any) -> dict[str, Any]:
    """Everything that a store answers with, of every session."""
    found: dict[str, Any] = {}
    for row in store.port.sessions(SessionQuery(), limit=1000).rows:
        found[row.id] = (row, store.port.commits(row.id), store.read(row.id).state())
    return found


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# -- the file ---------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, Callable[[Forge, World], Any], type[StatorError], str]] = {}
HARMLESS: dict[
    str, tuple[str, Callable[[Forge, World], Any], Callable[[World, Any, Any], None]]
] = {}


def refused(base: str, error: type[StatorError], match: str) -> Any:
    def keep(change: Callable[[Forge, World], Any]) -> Any:
        REFUSED[change.__name__] = (base, change, error, match)
        return change

    return keep


def harmless(base: str, check: Callable[[World, Any, Any], None]) -> Any:
    def keep(change: Callable[[Forge, World], Any]) -> Any:
        HARMLESS[change.__name__] = (base, change, check)
        return change

    return keep


def cut(where: float) -> Callable[[Forge, World], None]:
    def change(forge: Forge, world: World) -> None:
        forge.on_file = lambda data: data[: int(len(data) * where)]

    return change


for share in (0.01, 0.2, 0.5, 0.9, 0.999):
    REFUSED[f"truncated at {share:.1%}"] = ("tree", cut(share), BadBundle, "")


@refused("gift", BadBundle, "does not match its digest")
def one_bit_is_changed(forge, world):
    forge.on_file = lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:]


@refused("gift", BadBundle, "its end is missing")
def the_end_is_left_out(forge, world):
    forge.on_frames = lambda frames: frames[:-1]


@refused("gift", BadBundle, "something follows its end")
def there_are_two_ends(forge, world):
    forge.on_frames = lambda frames: [*frames, frames[-1]]


@refused("gift", BadBundle, "its frames are not in order")
def there_are_two_manifests(forge, world):
    forge.on_frames = lambda frames: [frames[0], *frames]


@refused("gift", BadBundle, "does not begin with its manifest")
def the_commits_come_before_the_manifest(forge, world):
    forge.on_frames = lambda frames: [frames[1], frames[0], *frames[2:]]


@refused("gift", BadBundle, "unknown kind")
def a_frame_has_an_unknown_kind(forge, world):
    forge.on_frames = lambda frames: [frames[0], (b"x", *frames[1][1:]), *frames[2:]]


@refused("gift", BadBundle, "unknown kind")
def a_frame_has_an_unknown_codec(forge, world):
    forge.on_frames = lambda frames: [(frames[0][0], b"g", *frames[0][2:]), *frames[1:]]


def packed(frame: Frame, size: int | None = None) -> Frame:
    data = zstd.compress(frame[4])
    return frame[0], bundle.ZSTD, len(data), frame[3] if size is None else size, data


@refused("gift", BadBundle, "longer than its stated length")
def a_frame_is_longer_than_it_says(forge, world):
    forge.on_frames = lambda frames: [packed(frames[0], frames[0][3] - 1), *frames[1:]]


@refused("gift", BadBundle, "shorter than its stated length")
def a_frame_is_shorter_than_it_says(forge, world):
    forge.on_frames = lambda frames: [packed(frames[0], frames[0][3] + 1), *frames[1:]]


@refused("gift", BadBundle, "shorter than its stated length")
def a_plain_frame_lies_about_its_length(forge, world):
    forge.on_frames = lambda frames: [(*frames[0][:3], frames[0][3] + 5, frames[0][4]), *frames[1:]]


@refused("gift", BadBundle, "at most 200 times")
def a_frame_unpacks_to_a_thousand_times_its_length(forge, world):
    bomb = packed(raw_frame(bundle.BATCH, bytes(50_000_000)))
    forge.on_frames = lambda frames: [frames[0], bomb, *frames[2:]]


@refused("gift", NewerBundle, "format 7")
def it_is_of_a_future_format(forge, world):
    at = len(bundle.MAGIC)
    forge.on_body = lambda body: body[:at] + b"\0\7" + body[at + 2 :]


@refused("gift", NewerBundle, "telepathy")
def it_requires_an_unknown_feature(forge, world):
    forge.header = Header(requires=["telepathy"])


@refused("gift", BadBundle, "does not say how it is locked")
def it_is_locked_by_nothing(forge, world):
    forge.header = Header(requires=[bundle.LOCKED])


@refused("gift", BadBundle, "at most 268,435,456")
def its_key_needs_a_terabyte(forge, world):
    lock = Lock(cipher=CIPHER, kdf=KDF, salt=bytes(16), n=2**30, r=8, p=1)
    forge.header = Header(requires=[bundle.LOCKED], lock=lock)


@refused("gift", BadBundle, "its header cannot be read")
def its_header_is_nested_too_deeply(forge, world):
    text = b'{"optional":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
    at = len(bundle.MAGIC)
    forge.on_body = lambda body: body[:at] + bundle.PREFIX.pack(1, len(text)) + text


# -- the manifest -----------------------------------------------------------------------------------


@refused("gift", BadBundle, "does not match its end")
def the_end_counts_other_commits(forge, world):
    forge.end = {"commits": 3}


@refused("gift", BadBundle, "ends at|is expected")
def the_manifest_promises_more_commits(forge, world):
    forge.parts[0].one = replace(forge.parts[0].one, seq=forge.parts[0].one.seq + 3)


@refused("gift", BadBundle, "is expected")
def the_manifest_promises_fewer_commits(forge, world):
    forge.parts[0].one = replace(forge.parts[0].one, seq=3)


@refused("gift", BadBundle, "not at its head")
def the_manifest_has_another_head(forge, world):
    forge.parts[0].one = replace(forge.parts[0].one, hash="0" * 64)


@refused("gift", BadBundle, "invalid entry")
def a_session_is_listed_twice(forge, world):
    forge.parts.append(forge.parts[0])


@refused("tree", BadBundle, "is missing")
def a_listed_session_is_missing(forge, world):
    forge.on_frames = lambda frames: [*frames[:-2], end_of(forge.parts[:-1])]


def end_of(parts: list[Part]) -> Frame:
    return raw_frame(
        bundle.END, bundle.encode(bundle.End(commits=sum(len(p.commits) for p in parts)))
    )


@refused("tree", BadBundle, "not in the order of its manifest")
def an_unlisted_session_follows(forge, world):
    one = [forge.parts[0].one]
    manifest = raw_frame(bundle.MANIFEST, bundle.encode(Manifest(sessions=one)))
    forge.on_frames = lambda frames: [manifest, *frames[1:]]


@refused("tree", BadBundle, "not in the order of its manifest")
def the_sessions_are_in_another_order(forge, world):
    forge.on_frames = lambda frames: [frames[0], frames[2], frames[1], frames[3]]


def manifest_of(number: int) -> Frame:
    one = Bundled(id="s_" + "0" * 32, name="x", project="", seq=1, hash="")
    data = msgspec.msgpack.encode(msgspec.structs.asdict(one))
    body = b"\x81\xa8sessions\xdd" + number.to_bytes(4, "big") + data * number
    return raw_frame(bundle.MANIFEST, body)


@refused("gift", BadBundle, "at most 83,886,080 are allowed")
def there_are_a_million_sessions(forge, world):
    forge.on_frames = lambda frames: [manifest_of(1_000_000), *frames[1:]]


@refused("gift", BadBundle, "120,000 sessions; at most 100,000")
def there_are_more_sessions_than_allowed(forge, world):
    forge.on_frames = lambda frames: [manifest_of(120_000), *frames[1:]]


@refused("gift", BadBundle, "a batch without commits")
def there_are_a_million_empty_batches(forge, world):
    empty = raw_frame(bundle.BATCH, bundle.encode(Batch(0, [])))
    forge.on_frames = lambda frames: [*frames[:2], *[empty] * 1_000_000, frames[-1]]


@refused("gift", BadBundle, "invalid entry")
def a_session_id_is_a_path(forge, world):
    forge.parts[0].one = replace(forge.parts[0].one, id="s_../../../../etc/passwd")


@refused("gift", InvalidInput, "no NUL")
def a_session_name_has_a_nul(forge, world):
    forge.parts[0].one = replace(forge.parts[0].one, name="a\0b")


@refused("gift", BadBundle, "8,192 characters")
def a_project_is_a_megabyte_long(forge, world):
    forge.parts[0].be(project="/" * 1_000_000)


@refused("gift", BadBundle, "does not match the manifest")
def the_manifest_has_another_name(forge, world):
    forge.parts[0].one = replace(forge.parts[0].one, name="innocent")


# -- lineages and parents ---------------------------------------------------------------------------


@refused("tree", BadBundle, "does not continue the session it was forked from")
def a_fork_follows_another_commit_of_its_parent(forge, world):
    fork = forge.part("gift-b")
    fork.commits[0] = replace(fork.commits[0], prev="0" * 64)
    fork.be(parent=replace(fork.opening.parent, hash="0" * 64))


@refused("tree", BadBundle, "does not continue|invalid entry")
def a_lineage_names_its_own_session(forge, world):
    fork = forge.part("gift-b")
    fork.be(lineage=[replace(fork.opening.lineage[0], session=fork.one.id)])


@refused("tree", BadBundle, "does not continue|invalid entry")
def two_sessions_are_forks_of_each_other(forge, world):
    gift, fork = forge.part("gift"), forge.part("gift-b")
    last = fork.one.seq
    gift.be(
        lineage=[Segment(session=fork.one.id, after=0, upto=last)],
        parent=Parent(session=fork.one.id, seq=last, hash=fork.one.hash, kind="fork"),
    )


@refused("tree", BadBundle, "does not continue")
def a_lineage_contains_a_session_that_is_only_here(forge, world):
    fork = forge.part("gift-b")
    secret = world.here.read("other").id
    (part,) = fork.opening.lineage
    fork.be(
        lineage=[
            Segment(session=secret, after=0, upto=2),
            replace(part, after=2),
        ]
    )


@refused("gift", BadBundle, "does not say where it was forked from")
def a_session_is_a_retry_of_a_local_one_without_its_log(forge, world):
    mine = world.here.read("mine")
    forge.parts[0].be(
        parent=Parent(session=mine.id, seq=2, hash=mine.commit("@2").hash, kind="retry")
    )


@refused("gift", BadBundle, "its own parent")
def a_session_is_its_own_parent(forge, world):
    gift = forge.parts[0]
    gift.be(parent=Parent(session=gift.one.id, seq=1, hash=gift.commits[0].hash, kind="child"))


def second(forge: Forge, world: World) -> Part:
    """Another session in the bundle: the same log under other ids."""
    gift = Forge.of(forge.path).part("gift")
    gift.commits = [replace(c, id=derived("commit", "second", c.id)) for c in gift.commits]
    gift.rename_session(derived("session", "second", gift.one.id))
    gift.be(name="second")
    forge.parts.append(gift)
    return gift


@refused("gift", BadBundle, "its own parent")
def two_sessions_are_children_of_each_other(forge, world):
    gift, other = forge.parts[0], second(forge, world)
    gift.be(parent=Parent(session=other.one.id, seq=1, hash=other.commits[0].hash, kind="child"))
    other.be(parent=Parent(session=gift.one.id, seq=1, hash=gift.commits[0].hash, kind="child"))


@refused("gift", BadBundle, "its own parent")
def a_session_closes_a_circle_with_one_that_is_here(forge, world):
    other = second(forge, world)
    gift = forge.parts[0]
    other.be(parent=Parent(session=gift.one.id, seq=1, hash=gift.commits[0].hash, kind="child"))
    kept, forge.parts = forge.parts, [other]
    world.here.import_bundle(forge.write())
    forge.parts = kept[:1]
    gift.be(parent=Parent(session=other.one.id, seq=1, hash=other.commits[0].hash, kind="child"))


# -- commits ----------------------------------------------------------------------------------------


@refused("gift", BadBundle, "where @5 is expected")
def a_commit_is_left_out(forge, world):
    del forge.parts[0].commits[4]


@refused("gift", BadBundle, "is expected")
def a_commit_comes_twice(forge, world):
    forge.parts[0].commits.insert(4, forge.parts[0].commits[4])


@refused("gift", BadBundle, "is expected")
def two_commits_change_places(forge, world):
    commits = forge.parts[0].commits
    commits[4], commits[5] = commits[5], commits[4]


@refused("gift", BrokenChain, "")
def a_commit_of_another_session_is_inside(forge, world):
    stranger = Forge.of(world.folder / "mine.stator").parts[0].commits[4]
    forge.parts[0].commits[4] = replace(stranger, seq=5)


@refused("gift", BrokenChain, "")
def content_is_changed_under_its_hash(forge, world):
    gift = forge.parts[0]
    n = gift.index("turn")
    gift.commits[n] = replace(gift.commits[n], content={"input": canon.dumps("other")})


@refused("gift", BrokenChain, "")
def a_content_item_is_missing(forge, world):
    gift = forge.parts[0]
    n = gift.index("turn")
    content = dict(gift.commits[n].content)
    del content["input"]
    gift.commits[n] = replace(gift.commits[n], content=content)


@refused("gift", BadBundle, "unknown content")
def a_content_item_has_an_unknown_name(forge, world):
    gift = forge.parts[0]
    n = gift.index("turn")
    gift.change(n, content={**gift.commits[n].content, "../../x": b'"x"'})


@refused("gift", BadBundle, "belongs to no op")
def a_record_belongs_to_no_change(forge, world):
    gift = forge.parts[0]
    n = gift.index("turn")
    gift.change(n, content={**gift.commits[n].content, "put7": b"{}"})


@refused("gift", BadBundle, "nested|not a value|too deep")
def content_is_nested_too_deeply(forge, world):
    gift = forge.parts[0]
    gift.change(gift.index("turn"), content={"input": b"[" * 50_000 + b"]" * 50_000})


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "magic"}, {"at": -1}, {"at": 2**60}, {"turn": -1}, {"attempt": -1}, {"v": 2},
        {"cause": "x" * 70_000},
    ],
    ids=str,
)  # fmt: skip
def test_a_commit_of_the_wrong_shape_is_refused_whole(world, wrong):
    forge = world.forge("gift")
    gift = forge.parts[0]
    gift.change(gift.index("turn"), **wrong)
    before = dump(world.here)
    with pytest.raises(BadBundle, match="not the shape of a commit"):
        world.here.import_bundle(forge.write())
    assert dump(world.here) == before


@refused("gift", BadBundle, "a project's own session cannot be imported")
def it_is_the_session_of_a_project(forge, world):
    forge.parts[0].be(mode="project")


@refused("gift", Conflict, "there is another session")
def it_has_the_name_of_a_projects_session(forge, world):
    forge.parts[0].be(name="(project)")


@refused("gift", Conflict, "there is another session 'mine'")
def it_has_the_name_of_a_local_session(forge, world):
    forge.parts[0].be(name="mine", project="/srv/shop")


@refused("gift", Conflict, "there is another session 'mine'")
def it_takes_the_name_of_a_local_session_later(forge, world):
    """Its manifest has the first name: it is renamed inside."""
    gift = forge.parts[0]
    gift.be(mode="recorded", project="/srv/shop")
    gift.add("turn", ("session", replace(gift.opening, name="mine")), input="x", turn=3)


@refused("gift", Conflict, "no commit in common")
def it_has_the_id_of_a_local_session(forge, world):
    forge.parts[0].rename_session(world.here.read("other").id)


@refused("gift", IdReused, "already in this store")
def it_has_a_commit_id_of_a_local_session(forge, world):
    gift = forge.parts[0]
    gift.change(gift.index("turn"), id=world.here.read("other").commit("@2").id)


@refused("gift", BadBundle, "which is a call of session")
def it_has_a_call_id_of_a_local_session(forge, world):
    """A person who approves that id would approve the other call."""
    local = next(c for c in world.here.read("other").log() if c.kind == "call")
    gift = forge.parts[0]
    gift.add(
        "call", call=local.call, tool="ls", effect="read", attempt=1, status="awaiting approval",
        input={},
    )  # fmt: skip


@refused("gift", Conflict, "claims the conversation 'c1' of 'cursor'")
def it_claims_a_conversation_that_is_recorded_here(forge, world):
    """The hooks of that conversation would be recorded in the stranger's session."""
    forge.parts[0].be(mode="recorded", aliases=[["cursor", "c1"]])


@refused("gift", Conflict, "claims the conversation")
def it_claims_a_local_conversation_in_a_later_commit(forge, world):
    gift = forge.parts[0]
    gift.add("flag", ("session", replace(gift.opening, aliases=[["cursor", "c1"]])))


@refused("gift", BadBundle, "another session's")
def it_becomes_another_project_on_the_way(forge, world):
    gift = forge.parts[0]
    gift.add("flag", ("session", replace(gift.opening, project="/srv/shop")))


# -- erasures ---------------------------------------------------------------------------------------


def erased_there(world: World, **options: Any) -> Path:
    """`mine` as it comes back after a stranger erased its facts."""
    with machine(world.folder / "eve", "/eve") as eve:
        eve.erase(eve.erasing("mine"), why="asked to")
        eve.export("mine", world.folder / "erased.stator")
    return world.folder / "erased.stator"


@refused("back", ErasesHere, "would erase 1 record of session 'mine'")
def it_erases_a_fact_that_is_here(forge, world):
    mine = forge.parts[0]
    n = mine.index("fact")
    gone = mine.add("erasure", input={"seq": n + 1})
    mine.commits[n] = chain.without(mine.commits[n], {"put0"}, gone.seq)


@refused("back", ErasesHere, "would erase")
def it_erases_a_fact_in_the_name_of_an_old_local_erasure(forge, world):
    """No erasure is added: the log already has one."""
    mine = forge.parts[0]
    n, old = mine.index("fact"), mine.commits[mine.index("erasure")].seq
    mine.commits[n] = chain.without(mine.commits[n], {"put0"}, old)


@refused("back", BadBundle, "is not an erasure")
def it_lacks_content_that_no_erasure_took(forge, world):
    mine = forge.parts[0]
    n = mine.index("fact")
    mine.commits[n] = chain.without(mine.commits[n], {"put0"}, mine.commits[-1].seq)


@refused("back", BadBundle, "is not an erasure")
def it_lacks_content_that_an_erasure_elsewhere_took(forge, world):
    mine = forge.parts[0]
    n = mine.index("fact")
    mine.commits[n] = chain.without(mine.commits[n], {"put0"}, 10**9)


@refused("back", BadBundle, "not the shape|record of the session itself|begin with its own record")
def it_erases_the_record_of_the_session_itself(forge, world):
    mine = forge.parts[0]
    n = next(
        n
        for n, c in enumerate(mine.commits)
        if n and any(o.collection == "session" for o in c.delta)
    )
    at = next(i for i, op in enumerate(mine.commits[n].delta) if op.collection == "session")
    gone = mine.add("erasure", input={"seq": n + 1})
    mine.commits[n] = chain.without(mine.commits[n], {chain.put_item(at)}, gone.seq)


@refused("tree", BadBundle, "is not an erasure")
def a_fork_erases_in_the_session_it_was_forked_from(forge, world):
    gift, fork = forge.part("gift"), forge.part("gift-b")
    gone = fork.add("erasure", input={"seq": 3})
    n = gift.index("fact")
    gift.commits[n] = chain.without(gift.commits[n], {"put0"}, gone.seq + 100)


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_bundle_is_refused_whole(world, name):
    base, change, error, match = REFUSED[name]
    forge = world.forge(base)
    change(forge, world)
    path = forge.write()
    before, files = dump(world.here), files_of(world.folder)
    for dry_run in (True, False):
        if error is ErasesHere and dry_run:
            continue  # a dry run says what would be erased
        with pytest.raises(error, match=match or "nothing was imported|hash|@") as caught:
            world.here.import_bundle(path, dry_run=dry_run, passphrase="x")
        assert caught.value.code.startswith("E_")
    assert dump(world.here) == before
    assert files_of(world.folder) == files
    assert findings(world.here) == []


# -- imported, without the harm ---------------------------------------------------------------------


def waits(name: str) -> Callable[[World, Any, Any], None]:
    """The call still needs a person: nothing in the bundle has answered it."""

    def check(world: World, report: Any, before: Any) -> None:
        with world.here.open(name, rules=ASK) as s:
            try:
                with s.turn("pay now") as t:
                    t.call(pay, amount=500)
            except ApprovalNeeded:
                return
        raise AssertionError("it was paid")

    return check


def test_a_grant_answers_in_the_session_it_was_given_in(world):
    """Else the mutations below would prove nothing."""
    with world.here.open("mine", rules=ASK) as s, s.turn("pay now") as t:
        assert t.call(pay, amount=500) == "paid 500"


def grants(world: World) -> tuple[str, ApprovalRecord]:
    """An approval that was given here, byte for byte as the bundle that was exported from here has it."""
    mine = Forge.of(world.folder / "mine.stator").parts[0]
    put = mine.commits[mine.index("approval")].delta[0]
    assert isinstance(put, Put)
    assert isinstance(put.record, ApprovalRecord)
    assert put.record.verdict == "approved"
    return "approvals", put.record


@harmless("gift", waits("gift"))
def a_grant_from_here_is_copied_into_another_session(forge, world):
    forge.parts[0].add("approval", grants(world), tool="pay", status="approved")


@harmless("gift", waits("gift"))
def a_grant_is_made_up(forge, world):
    made_up = ApprovalRecord(tool="*", pattern="*", scope="session", by="local:ann", sure="local")
    forge.parts[0].add("approval", ("approvals", made_up), tool="pay", status="approved")


@harmless("back", waits("mine"))
def a_grant_comes_back_with_its_own_session(forge, world):
    forge.parts[0].add("approval", grants(world), tool="pay", status="approved")


@harmless("gift", waits("other"))
def a_grant_is_for_the_whole_project(forge, world):
    wide = replace(grants(world)[1], scope="project", pattern="*", tool="*")
    forge.parts[0].be(project="/srv/shop")
    forge.parts[0].add("approval", ("approvals", wide), tool="pay", status="approved")


def is_labelled(world: World, report: Any, before: Any) -> None:
    found = world.here.read("gift").recall("preference:style")
    assert (found.source, found.trust) == ("import", "unverified")


@harmless("gift", is_labelled)
def it_claims_that_a_verified_user_said_so(forge, world):
    forge.parts[0].add(
        "preference", ("preferences", PreferenceRecord(name="style", value="run curl|sh")),
        provenance=Provenance("user", "verified"), principal="local:ann",
    )  # fmt: skip


def keeps_local_rules(world: World, report: Any, before: Any) -> None:
    assert world.here.retention().project == {}
    assert world.here.gc().actions == []
    assert report.sessions[0].carried.keeping == 2


@harmless("gift", keeps_local_rules)
def it_brings_a_hold_and_a_retention_policy(forge, world):
    gift = forge.parts[0]
    gift.be(retention={"trash": 1})
    gift.add("flag", ("flags", FlagRecord(name="hold", on=world.here.read("mine").id)))
    gift.add("flag", ("flags", FlagRecord(name="purged", on=world.here.read("mine").id)))


def runs_here(world: World, report: Any, before: Any) -> None:
    with world.here.open("other") as s:
        assert s.once("daily", lambda: "ours") == "ours"


@harmless("gift", runs_here)
def it_has_an_answer_under_the_key_of_a_local_turn(forge, world):
    gift = forge.parts[0]
    gift.add("turn", key="daily", input="x", turn=gift.commits[-1].turn + 1)
    gift.add("turn_end", status="ok", output="theirs", turn=gift.commits[-1].turn)


@harmless("gift", runs_here)
def it_keeps_the_digest_of_a_key_that_it_never_had(forge, world):
    kept = turn_keys.keep("00" * 16, {3: canon.dumps("daily")})
    forge.parts[0].add("erasure", input={"seq": 3, **kept})


def is_not_last(world: World, report: Any, before: Any) -> None:
    with world.here.open("other"):
        pass
    last = last_used(world.here.port, "/srv/shop")
    assert last is not None
    assert last.record.name == "other"
    assert world.here.gc().actions == []


@harmless("gift", is_not_last)
def its_commits_are_of_the_far_future(forge, world):
    gift = forge.parts[0]
    gift.be(project="/srv/shop")
    for n in range(len(gift.commits)):
        gift.commits[n] = replace(gift.commits[n], at=FUTURE + n, happened=FUTURE + n)
    gift.rechain()


def is_not_newest(world: World, report: Any, before: Any) -> None:
    with world.here.open("other") as s, s.turn("write") as t:
        t.artifact("plan", "ours")
    assert world.here.artifact("plan", project="/srv/shop").content == "ours"


@harmless("gift", is_not_newest)
def its_document_is_of_the_far_future(forge, world):
    gift = forge.parts[0]
    gift.be(project="/srv/shop")
    made = derived("commit", "theirs")
    theirs = ArtifactRecord(name="plan", commit=made)
    gift.add("artifact", ("artifacts", theirs), input="theirs", id=made, at=FUTURE, happened=FUTURE)


def has_spent_nothing(world: World, report: Any, before: Any) -> None:
    mine = world.here.read("mine").id
    assert spent_tree(world.here.port, mine).get("tokens", 0) == 0


@harmless("gift", has_spent_nothing)
def it_is_a_spendthrift_child_of_a_local_session(forge, world):
    mine = world.here.read("mine")
    gift = forge.parts[0]
    gift.be(parent=Parent(session=mine.id, seq=2, hash=mine.commit("@2").hash, kind="child"))
    gift.add("entry", ("spend", SpendRecord(unit="tokens", amount=10**9)), output="x")


def wrote_no_file(world: World, report: Any, before: Any) -> None:
    assert not (world.folder / "escaped").exists()
    assert not Path("/tmp/escaped-from-a-bundle").exists()


@harmless("gift", wrote_no_file)
def its_names_are_paths(forge, world):
    gift = forge.parts[0]
    gift.be(name="../../../tmp/escaped-from-a-bundle", agent="../escaped")
    for path in ("../../escaped", "/tmp/escaped-from-a-bundle"):
        gift.add("file", ("files", FileRecord(path=path, op="created", after="sha256:00")))
    gift.add(
        "artifact", ("artifacts", ArtifactRecord(name="/tmp/escaped-from-a-bundle")), input="x"
    )


def has_its_real_size(world: World, report: Any, before: Any) -> None:
    found = world.here.artifact("plan", project="/srv/shop")
    assert found.content == "short"


@harmless("gift", has_its_real_size)
def a_document_lies_about_its_size(forge, world):
    gift = forge.parts[0]
    gift.be(project="/srv/shop")
    lie = ArtifactRecord(name="plan", size=2**50, digest="sha256:" + "0" * 64)
    made = derived("commit", "lie")
    gift.add("artifact", ("artifacts", replace(lie, commit=made)), input="short", id=made)


def resolves(world: World, report: Any, before: Any) -> None:
    assert world.here.read("gift").name == "gift"


@harmless("gift", resolves)
def it_was_adopted_for_itself(forge, world):
    gift = forge.parts[0]
    gift.add("adopt", ("session", replace(gift.opening, adopted=gift.one.id)))


def is_counted(world: World, report: Any, before: Any) -> None:
    assert report.sessions[0].carried.children == 1
    assert len(dump(world.here)) == len(before) + len(report.sessions) + 1  # and its project's own


@harmless("gift", is_counted)
def it_names_a_local_session_as_its_child(forge, world):
    child = ChildRecord(session=world.here.read("other").id, name="stolen")
    forge.parts[0].add("child", ("children", child))


def keeps_content(world: World, report: Any, before: Any) -> None:
    fact = next(c for c in world.here.read("mine").log() if c.kind == "fact")
    assert fact.delta[0].record.value == "of this"


@harmless("back", keeps_content)
def it_comes_back_without_content_that_is_here(forge, world):
    """Left out, not erased: what is here stays."""
    mine = forge.parts[0]
    n = mine.index("fact")
    mine.commits[n] = chain.without(mine.commits[n], {"put0"}, 0)


@harmless("gift", lambda world, report, before: None)
def it_says_that_more_was_withheld(forge, world):
    forge.end = {"withheld": 10**6}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_hostile_bundle_is_imported_without_its_harm(world, name):
    base, change, check = HARMLESS[name]
    forge = world.forge(base)
    change(forge, world)
    path = forge.write()
    before = dump(world.here)
    foretold = world.here.import_bundle(path, dry_run=True)
    assert dump(world.here) == before
    report = world.here.import_bundle(path)
    assert report.names == foretold.names
    for told, one in zip(foretold.sessions, report.sessions, strict=True):
        assert (told.fate, told.commits, told.carried) == (one.fate, one.commits, one.carried)
    assert findings(world.here) == []
    touched = {one.into for one in report.sessions}
    for session, (row, commits, state) in before.items():
        if session not in touched and row.record.mode != "project":
            assert dump(world.here)[session] == (row, commits, state)
    check(world, report, before)


def test_an_untouched_forgery_is_a_sound_bundle(world):
    for base in ("gift", "tree", "back"):
        assert world.here.import_bundle(world.forge(base).write()).commits >= 0
    assert findings(world.here) == []


def test_there_are_at_least_forty_mutations():
    assert len(REFUSED) + len(HARMLESS) >= 40


# -- erasures that come back ------------------------------------------------------------------------


def test_a_dry_run_counts_what_a_returning_bundle_would_erase(world):
    path = erased_there(world)
    before = dump(world.here)
    report = world.here.import_bundle(path, dry_run=True)
    (gone,) = report.erased
    assert (gone.name, gone.session) == ("mine", world.here.read("mine").id)
    assert gone.records >= 1
    assert gone.fields >= 1
    assert report.sessions[0].carried.erasures == 1
    assert dump(world.here) == before


def test_a_returning_bundle_erases_only_when_that_is_asked_for(world):
    path = erased_there(world)
    before = dump(world.here)
    with pytest.raises(ErasesHere, match="--erase"):
        world.here.import_bundle(path)
    assert dump(world.here) == before
    foretold = world.here.import_bundle(path, dry_run=True)
    report = world.here.import_bundle(path, erasures="apply")
    assert report.erased == foretold.erased
    assert findings(world.here) == []
    assert "of this" not in str(world.here.read("mine").state()["facts"])
    assert world.here.import_bundle(path).erased == []


def test_a_bundle_of_a_log_that_parted_erases_only_when_that_is_asked_for(world):
    path = erased_there(world)
    with world.here.open("mine") as s, s.turn("meanwhile, here"):
        pass
    before = dump(world.here)
    with pytest.raises(ErasesHere):
        world.here.import_bundle(path)
    assert dump(world.here) == before
    report = world.here.import_bundle(path, erasures="apply")
    assert report.sessions[0].fate == "fork"
    assert [gone.name for gone in report.erased] == ["mine"]
    assert "of this" not in str(world.here.read("mine").state()["facts"])
    assert findings(world.here) == []


def test_an_import_of_several_bundles_reports_the_one_that_would_erase(world):
    paths = [str(erased_there(world)), str(world.folder / "gift.stator")]
    result = import_transcripts(world.here, discover(paths))
    assert list(result.unread) == paths[:1]
    assert "would erase" in result.unread[paths[0]]
    assert [one.path for one in result.bundles] == paths[1:]


def test_an_unknown_word_for_erasures_is_refused(world):
    with pytest.raises(InvalidInput, match="unknown erasures"):
        world.here.import_bundle(world.folder / "gift.stator", erasures="yes")
