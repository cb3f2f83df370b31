"""What a session should hold, kept as plain dictionaries and written from the contract alone.

Nothing here imports Stator: this is the second opinion that its answers are compared with. A
`Told` session is changed by one method per act of a program. A record is known by its natural key;
its id and its seq are learned from the log, and from then on they must not change.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from laws import values

COLLECTIONS = (
    *("session", "tags", "runs", "children", "tools", "files", "decisions", "pending", "calls"),
    *("plan", "facts", "preferences", "dead_ends", "artifacts", "working_set", "approvals"),
    *("spend", "scores", "evicted", "flags", "scratch", "app", "settings", "trust"),
    *("revisions", "candidates", "forgotten", "checks", "deliveries"),
)
KEPT_BY_REWIND = frozenset(
    (
        "session",
        "runs",
        "children",
        "tags",
        "calls",
        "approvals",
        "spend",
        "scores",
        "flags",
        "trust",
    )
)
"""What happened or was judged stays; docs/design/record.md and docs/guides/branches.md list it."""
DROPPED_BY_FORK = ("approvals", "spend", "runs")
NOT_MODELLED = frozenset(("session", "runs", "approvals", "evicted"))
"""Collections that are compared by other laws than this model."""
KEYS: dict[str, tuple[str, ...]] = {
    "tags": ("name",),
    "runs": ("id",),
    "children": ("session",),
    "tools": ("name",),
    "files": ("root", "path"),
    "decisions": ("topic",),
    "pending": ("what",),
    "calls": ("call",),
    "plan": ("step",),
    "facts": ("name",),
    "preferences": ("name",),
    "dead_ends": ("what",),
    "artifacts": ("name",),
    "working_set": ("kind", "name"),
    "approvals": ("tool", "arguments", "pattern", "scope", "call"),
    "spend": ("unit",),
    "scores": ("name", "on", "by"),
    "evicted": ("key",),
    "flags": ("name", "on"),
    "scratch": ("name",),
    "app": ("name",),
    "settings": ("name",),
    "trust": ("on",),
    "session": (),
}
SETTLE = "settle "
Key = tuple[str, ...]
Live = dict[str, dict[Key, "Version"]]


@dataclass(eq=False)
class Version:
    """One record as one commit left it."""

    collection: str
    data: dict[str, Any]
    id: str = ""
    seq: int = 0
    erased: bool = False

    @property
    def key(self) -> Key:
        if self.erased or (self.collection == "decisions" and not self.data["topic"]):
            return ("#", self.id)
        return tuple(str(self.data[name]) for name in KEYS[self.collection])


@dataclass
class Told:
    """One session as it should be now, and as it was after each act."""

    id: str
    live: Live = field(default_factory=lambda: {name: {} for name in COLLECTIONS})
    snapshots: dict[int, Live] = field(default_factory=dict)
    evicted: dict[int, list[str]] = field(default_factory=dict)
    fresh: list[Version] = field(default_factory=list)
    """Records made by the present act, whose ids and seqs are not known yet."""
    calls: dict[str, str] = field(default_factory=dict)
    """Status of every call that was ever made, by its id."""
    turns: dict[int, str] = field(default_factory=dict)
    """Status of every turn."""
    touched: dict[str, list[int]] = field(default_factory=dict)
    """Path → seqs of the commits that recorded something about it."""
    contents: dict[tuple[str, int], Any] = field(default_factory=dict)
    """Content of every version of an artifact, by name and the seq of its commit."""
    compactions: dict[int, list[Version]] = field(default_factory=dict)
    """Seq of a compaction → the notes it dropped."""
    choices: list[Version] = field(default_factory=list)
    """Every decision that was ever made, in order."""
    superseded: dict[Version, Version] = field(default_factory=dict)
    """Decision → the one that took its place."""
    rewinds: list[tuple[int, int]] = field(default_factory=list)
    """Seq of each rewind, and the seq it went back to."""
    prompts: dict[int, str] = field(default_factory=dict)
    """Turn → what was asked in it."""
    begun: dict[int, int] = field(default_factory=dict)
    """Turn → the seq of its first commit."""
    erased: bool = False
    resynced: bool = False
    """Whether another store wrote to it, so that not all of its past is known here."""
    forked: bool = False
    status: str = "active"

    # -- what is there ----------------------------------------------------------------------------

    def find(self, collection: str, *key: str) -> Version | None:
        found = self.live[collection].get(key)
        return None if found is None or found.erased else found

    def put(self, collection: str, **data: Any) -> Version:
        """A record under its key, in the place of the one that was there."""
        made = Version(collection, data)
        if collection == "decisions":  # each decision is a record of its own
            self.fresh.append(made)
            # Two without a topic in one act have no ids to tell them apart yet.
            place = made.key if data["topic"] else ("new", str(len(self.fresh)))
            if (old := self.live[collection].get(place)) is not None and old.erased:
                self.live[collection][old.key] = old
            self.live[collection][place] = made
            return made
        old = self.live[collection].pop(made.key, None)
        if old is not None and old.erased:  # it stays in the state, without its name
            self.live[collection][old.key] = old
        elif old is not None:
            made.id = old.id
        self.live[collection][made.key] = made
        self.fresh.append(made)
        return made

    def named(self, version: Version, identifier: str, seq: int) -> None:
        """The log says which id and seq a record of this act has."""
        live = self.live[version.collection]
        place = next((key for key, known in live.items() if known is version), None)
        version.id, version.seq = identifier, seq
        if place is not None and place[:1] == ("new",):
            live[version.key] = live.pop(place)

    def drop(self, collection: str, *key: str) -> None:
        del self.live[collection][key]

    def copy_live(self) -> Live:
        return {name: dict(records) for name, records in self.live.items()}

    # -- acts -------------------------------------------------------------------------------------

    def decide(
        self,
        what: str,
        *,
        topic: str = "",
        why: str = "",
        over: tuple[str, ...] = (),
        confidence: float | None = None,
        factors: dict[str, Any] | None = None,
        supersedes: str = "",
        by: str = "",
        how: str = "",
    ) -> None:
        """A decision takes the place of the one on its topic, or of the one that it names."""
        found = (v for v in self.live["decisions"].values() if supersedes and v.id == supersedes)
        if (named := next(found, None)) is not None:
            del self.live["decisions"][named.key]
        standing = self.find("decisions", topic) if topic else None
        made = self.put(
            "decisions",
            what=what,
            topic=topic,
            why=why,
            over=list(over),
            by=by,
            how=how,
            confidence=None if confidence is None else round(confidence * 1000),
            factors=factors or {},
            supersedes=supersedes or standing or "",
        )
        self.choices.append(made)
        for old in (standing, named):
            if old is not None:
                self.superseded[old] = made

    def file(
        self, path: str, op: str, *, before: str = "", after: str = "", from_path: str = ""
    ) -> None:
        """A file keeps what was known of it; a rename moves it, and its old path is deleted."""
        known = self.find("files", ".", from_path or path)
        data = {
            "path": path,
            "op": op,
            "before": before,
            "after": after,
            "from_path": from_path,
            "how": "recorded",
            "reason": "",
            "root": ".",
            "before_in": "",
            "after_in": "",
            "patch_in": "",
        }
        if known is not None:
            data["before"] = before or known.data["after"]
            if op == "read" and not after:
                data["after"] = known.data["after"]
        if from_path not in ("", path):
            self.leave_path(from_path, known, data["before"])
        self.put("files", **data)
        if op not in ("deleted", "skipped"):
            self.use("file", path, "")

    def setting(self, name: str, value: Any) -> None:
        """A setting is recorded only where it changed."""
        known = self.find("settings", name)
        if known is None or known.data["value"] != value:
            self.put("settings", name=name, value=value)

    def leave_path(self, path: str, known: Version | None, before: str) -> None:
        """The old path of a rename: deleted, whether or not anything was recorded of it before."""
        nothing = {"from_path": "", "how": "recorded", "reason": "", "root": "."}
        nothing |= {"path": path, "after": before, "before_in": "", "after_in": ""}
        nothing["patch_in"] = ""
        old = nothing if known is None else known.data
        self.put("files", **{**old, "op": "deleted", "before": old["after"], "after": ""})

    def plan(self, steps: list[str], status: str, detail: str, order: int, listed: bool) -> None:
        """A step keeps its place, detail and evidence when its status moves."""
        for place, step in enumerate(steps, 1):
            known = self.find("plan", step)
            old = known.data if known is not None else {"order": 0, "detail": "", "evidence": ""}
            self.put(
                "plan",
                step=step,
                status=status,
                detail=detail or old["detail"],
                evidence=old["evidence"],
                check="",
                files=[],
                order=(order + place if listed else order) or old["order"],
            )

    def artifact(self, name: str, content: bytes, media_type: str, commit: str) -> None:
        known = self.find("artifacts", name)
        self.put(
            "artifacts",
            name=name,
            commit=commit,
            digest=hashlib.sha256(content).hexdigest(),
            size=len(content),
            media_type=media_type,
            version=known.data["version"] + 1 if known is not None else 1,
        )

    def use(self, kind: str, name: str, detail: str) -> None:
        known = self.find("working_set", kind, name)
        uses = known.data["uses"] + 1 if known is not None else 1
        self.put("working_set", kind=kind, name=name, detail=detail, uses=uses)

    def spend(self, usage: dict[str, int]) -> None:
        for unit, amount in usage.items():
            known = self.find("spend", unit)
            self.put("spend", unit=unit, amount=amount + (known.data["amount"] if known else 0))

    def outcome(self, call: str, tool: str, status: str, effect: str, attempts: int = 1) -> None:
        """A call ended, or may have: every attempt counts in its tool."""
        known = self.find("tools", tool)
        old = known.data if known is not None else {"uses": 0, "failures": 0}
        self.put(
            "tools",
            name=tool,
            available=True,
            definition="",
            uses=old["uses"] + attempts,
            # All attempts but the last have failed.
            failures=old["failures"] + attempts - (status == "ok"),
            last=status,
        )
        self.calls[call] = status
        if status == "in doubt":
            self.put(
                "calls",
                call=call,
                tool=tool,
                effect=effect,
                status=status,
                elsewhere=False,
                proof="",
            )
            self.put("pending", what=f"{SETTLE}{call}")

    def waits(self, call: str, tool: str, effect: str) -> None:
        """A call waits for a person."""
        self.calls[call] = "awaiting approval"
        self.put(
            "calls", call=call, tool=tool, effect=effect, status="awaiting approval",
            elsewhere=False, proof="",
        )  # fmt: skip

    def settle(self, call: str, verdict: str) -> None:
        self.calls[call] = "ok" if verdict == "done" else "error"
        self.drop("calls", call)
        if self.find("pending", f"{SETTLE}{call}") is not None:
            self.drop("pending", f"{SETTLE}{call}")

    def rewind(self, to: int) -> None:
        """The state at a position, but for what happened or was judged since, and for what was erased."""
        then = self.snapshots[to]
        for name in COLLECTIONS:
            if name in KEPT_BY_REWIND:
                continue
            now = self.live[name]
            back = {k: self._again(v, now) for k, v in then[name].items() if not v.erased}
            if name == "pending":
                back = {k: v for k, v in back.items() if not k[0].startswith(SETTLE)}
                back |= {k: v for k, v in now.items() if k[0].startswith(SETTLE)}
            self.live[name] = back

    def _again(self, version: Version, now: dict[Key, Version]) -> Version:
        """An older version: as it is if it still stands, else written once more by this act."""
        for standing in now.values():
            if standing is version or (
                standing.id == version.id and values.same(standing.data, version.data)
            ):
                return standing
        written = Version(version.collection, version.data, version.id)
        self.fresh.append(written)
        return written

    def in_force(self, head: int) -> set[int]:
        """The seqs of the log that count at a position: a rewind takes away what it went back behind."""
        seqs: set[int] = set()
        while head > 0:
            seq, to = max(((s, t) for s, t in self.rewinds if s <= head), default=(0, 0))
            seqs |= set(range(seq + 1, head + 1))
            head = to
        return seqs

    def gone_back_behind(self, head: int) -> set[int]:
        """Turns that no longer count."""
        counts = self.in_force(head)
        return {turn for turn, seq in self.begun.items() if seq not in counts}

    def erase_record(self, collection: str, identifier: str) -> None:
        """Every version of a record is gone, at every position."""
        for live in (*self.snapshots.values(), self.live):
            for version in live[collection].values():
                if version.id == identifier:
                    version.erased = True
        self.erased = True

    def erase_commit(self, seq: int) -> None:
        """What one commit put is gone, at every position at which it stands."""
        for live in (*self.snapshots.values(), self.live):
            for records in live.values():
                for version in records.values():
                    if version.seq == seq and version.collection != "session":
                        version.erased = True
        self.erased = True

    def compacted(self, seq: int, names: list[str]) -> None:
        """Notes that a compaction dropped."""
        self.compactions[seq] = [self.live["scratch"].pop((name,)) for name in names]

    def undone(self, seq: int) -> None:
        """What a compaction dropped is back, unless it was written again since."""
        for note in self.compactions.get(seq, []):
            if self.find("scratch", *note.key) is None and not note.erased:
                self.put("scratch", **note.data)

    def fork(self, identifier: str, at: int) -> Told:
        """A session that begins at a position of this one."""
        live = {name: dict(records) for name, records in self.snapshots[at].items()}
        for name in DROPPED_BY_FORK:
            live[name] = {}
        live["calls"] = {
            key: Version("calls", {**old.data, "elsewhere": True}, old.id, old.seq)
            for key, old in live["calls"].items()
        }
        return Told(
            identifier,
            live=live,
            snapshots={seq: live for seq, live in self.snapshots.items() if seq <= at},
            evicted={seq: keys for seq, keys in self.evicted.items() if seq <= at},
            turns=dict(self.turns),
            touched={
                path: [seq for seq in seqs if seq <= at] for path, seqs in self.touched.items()
            },
            contents={key: value for key, value in self.contents.items() if key[1] <= at},
            compactions={seq: notes for seq, notes in self.compactions.items() if seq <= at},
            choices=[made for made in self.choices if made.seq <= at],
            superseded={old: new for old, new in self.superseded.items() if new.seq <= at},
            rewinds=[(seq, to) for seq, to in self.rewinds if seq <= at],
            prompts={t: p for t, p in self.prompts.items() if self.begun.get(t, at + 1) <= at},
            begun={turn: seq for turn, seq in self.begun.items() if seq <= at},
            erased=self.erased,
            resynced=self.resynced,
            forked=True,
            status="open",
        )
