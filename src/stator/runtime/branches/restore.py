"""Puts files back as they were at a position: only those the session itself wrote, and never without
a way back.

First a plan, which changes nothing. When it is applied, what is on disk now is recorded before
anything is touched, then each file is replaced whole, then the log records what was done. A process
that is killed on the way leaves every file either as it was or as it was to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from posixpath import isabs, normpath, relpath
from typing import Any, Literal

import msgspec

from stator.errors import Conflict, InvalidInput
from stator.model.exchange.kept_contents import BYTES_LIMIT
from stator.model.log.commit import Commit, Draft, Upsert
from stator.model.log.delta import Version
from stator.model.records.types import FileOp, FileRecord, file_key
from stator.model.values import paths
from stator.model.views.file_story import (
    RESTORED,
    WRITES,
    FileStory,
    Held,
    as_it_was,
    knows,
    with_sources,
)
from stator.model.views.patch import FilePatch, FileSide, file_patch
from stator.runtime.base.arguments import text, texts
from stator.runtime.driving.writer import SessionWriter
from stator.runtime.files import safe_io
from stator.runtime.files.capture import (
    FROM_FILE,
    ContentKeeper,
    KeptContents,
    Rules,
    TouchedFile,
    full_path,
    scrub_of,
    standing_in,
)
from stator.runtime.files.safe_io import Look
from stator.runtime.views import contents
from stator.runtime.views.refs import Point

SNAPSHOT = "snapshot"
"""Status of the commit before files are changed."""
Action = Literal["write", "delete", "unchanged", "not kept", "refused"]
ACTIONS = ("write", "delete")


class Restoring(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a restore: what is, or would be, done with it."""

    path: str
    action: Action
    root: str = "."
    change: FilePatch | None = None
    """From what is on disk to what was there then."""
    reason: str = ""
    changed_since: bool = False
    """Whether it is no longer as the session left it: it was changed by others."""
    needs_force: bool = False
    """Whether it is refused only because `force` was not given."""


class Restoration(msgspec.Struct, frozen=True, kw_only=True):
    """What a restore would do, or has done."""

    session: str
    at: str
    files: list[Restoring]
    applied: bool = False
    snapshot: int = 0
    """The seq to restore to in order to undo it."""
    seq: int = 0
    """Of the commit that records what was restored."""

    def of(self, *actions: str) -> list[Restoring]:
        return [file for file in self.files if file.action in actions]

    def stops(self, *, everything: bool) -> list[Restoring]:
        """What keeps it from being applied. Of everything, what may never be written is left out."""
        refused = self.of("refused")
        return [file for file in refused if file.needs_force or not everything]


class _Planned(msgspec.Struct):
    """A file on its way: where it is, what is there, what was there."""

    file: FileRecord
    item: Restoring
    base: str = ""
    path: str = ""
    """Below `base`."""
    now: Look = safe_io.NOTHING
    then: tuple[bytes, int] | None = None
    held: Held | None = None
    left: Held | None = None


def restore(
    writer: SessionWriter,
    point: Point,
    wanted: Sequence[str],
    *,
    apply: bool,
    force: bool,
    everything: bool,
    root: str,
) -> Restoration:
    """Plan a restore and, if it is to be applied, carry it out."""
    if bool(wanted) == everything:
        raise InvalidInput("which files?", hint="name files, or pass everything=True")
    if point.session != writer.id:
        raise InvalidInput(
            "a session can restore only its own files", hint="name a position of its own"
        )
    keeper = _keeper(writer)
    plan = _plan(writer, keeper, point, texts(wanted, "paths"), text(root, "root"), force)
    found = Restoration(session=writer.id, at=point.shown, files=[each.item for each in plan])
    todo = [each for each in plan if each.item.action in ACTIONS]
    if not apply:
        return found
    if stops := found.stops(everything=everything):
        raise Conflict(
            f"{stops[0].path!r:.80}: {stops[0].reason}; nothing was restored",
            hint="force=True restores it anyway" if stops[0].needs_force else "leave it out",
            session=writer.id,
        )
    # What a restore that was killed had done already, and could not record any more.
    done = [each for each in plan if each.item.action == "unchanged" and each.item.changed_since]
    if not todo:
        return msgspec.structs.replace(
            found, applied=True, seq=_say(writer, point, done, KeptContents())
        )
    snapshot, batch = _snapshot(writer, keeper, point, todo)
    try:
        for n, each in enumerate(todo):
            try:
                _carry_out(each, snapshot.id)
            except Conflict as error:
                raise _stopped(error, n, snapshot) from None
            done.append(each)
    finally:
        seq = _say(writer, point, done, batch)
    return msgspec.structs.replace(found, applied=True, snapshot=snapshot.seq, seq=seq)


def _stopped(error: Conflict, n: int, snapshot: Commit) -> Conflict:
    """The error of a restore that stops in the middle: what is done, and where the rest was kept."""
    if not n:
        return error
    before = "the file before it was" if n == 1 else f"the {n} files before it were"
    return Conflict(
        error.what,
        hint=f"{before} restored; what was there is kept at @{snapshot.seq}",
        session=snapshot.session,
        snapshot=snapshot.seq,
    )


def _keeper(writer: SessionWriter) -> ContentKeeper:
    """Keeps what is on disk now: by git's rules, not by those the session was tracked with."""
    rules = Rules(writer.root, scrub_of(writer.store, writer.id), (), BYTES_LIMIT)
    standing = standing_in(writer.store, writer.id)
    return ContentKeeper(writer.root, rules, standing, lambda: writer.draft("file").id)


# -- planning -------------------------------------------------------------------------------------


def _plan(
    writer: SessionWriter,
    keeper: ContentKeeper,
    point: Point,
    wanted: Sequence[str],
    root: str,
    force: bool,
) -> list[_Planned]:
    store = writer.store
    upto = store.head(writer.id).seq
    log: dict[str, list[Version]] = {}
    versions = store.versions(writer.id, after=0, upto=upto, collections=("files",))
    for version in with_sources(versions):
        log.setdefault(version.key, []).append(version)
    back = contents.rewinds(store, writer.id)
    wrote = {key: _files(versions) for key, versions in log.items()}
    wrote = {key: files for key, files in wrote.items() if any(f.op in WRITES for f in files)}
    keys = sorted(wrote) if not wanted else [_key(path, writer.root) for path in wanted]
    reader = contents.ContentReader(store, writer.id)
    stories = (
        _story(version for version in versions if version.seq <= point.seq),
        _story(version for version in versions if version.seq not in back),
    )
    plan: list[_Planned] = []
    for key in dict.fromkeys(keys):
        if key not in wrote:
            plan.append(_foreign(key))
            continue
        each = _place(wrote[key][-1], writer.root, root)
        if each.item.action != "refused":
            each.held = _then(key, log[key], stories[0], point)
            each.left = _known(stories[1].left.get(key), reader)
            _compare(each, reader)
        plan.append(each)
    _refuse(plan, keeper, reader, force)
    return plan


def _files(versions: Sequence[Version]) -> list[FileRecord]:
    records = [getattr(version.op, "record", None) for version in versions]
    return [record for record in records if isinstance(record, FileRecord)]


def _key(path: str, base: str) -> str:
    return file_key(*paths.split(path, base))


def _foreign(key: str) -> _Planned:
    root, _, path = key.rpartition("\n")
    file = FileRecord(path=path, root=root or ".", op="skipped")
    return _refused(file, "this session did not write it")


def _refused(file: FileRecord, why: str) -> _Planned:
    item = Restoring(path=file.path, root=file.root, action="refused", reason=why)
    return _Planned(file, item)


def _place(file: FileRecord, base: str, root: str) -> _Planned:
    """Where a recorded file is here; refused if it is outside of what may be written."""
    folder, path = base, file.path
    if file.root != ".":
        full = full_path(base, file)
        folder = normpath(root) if root else ""
        if not folder or not isabs(full) or not full.startswith(folder.rstrip("/") + "/"):
            return _refused(file, "outside the session's root; --root names a folder it may be in")
        path = relpath(full, folder)
    if not folder:
        return _refused(file, "there is no folder that paths are relative to")
    try:
        names = safe_io.parts(path)
    except InvalidInput as error:
        return _refused(file, error.what)
    if forbidden := [name for name in names if name.casefold() in safe_io.FORBIDDEN]:
        return _refused(file, f"nothing is written into {forbidden[0]}")
    item = Restoring(path=file.path, root=file.root, action="unchanged")
    return _Planned(file, item, folder, path)


def _story(versions: Iterable[Version]) -> FileStory:
    story = FileStory()
    for version in versions:
        story.take(version)
    return story


def _known(held: Held | None, reader: contents.ContentReader) -> Held | None:
    """A file with its digest, also where that must be worked out from changed places."""
    if held is None or held.digest or not held.is_known:
        return held
    loaded = reader.load(held)
    if isinstance(loaded, str):
        return held
    return msgspec.structs.replace(held, digest=safe_io.digest_of(loaded[0]))


def _compare(each: _Planned, reader: contents.ContentReader) -> None:
    """What is there now against what was there then. A rewind left nothing on disk."""
    each.now = safe_io.look(each.base, each.path)
    each.held = _known(each.held, reader)
    loaded = reader.load(each.held) if each.held is not None else None
    if isinstance(loaded, str):
        _decide(each, "not kept", loaded)
        return
    if loaded is not None:  # a mode that no source says is the one that is there
        each.then = loaded[0], loaded[1] or each.now.mode or 0o644
    if each.now.why == "unreadable":
        _decide(each, "refused", "what is there now is not a plain file")
    elif each.then is None:
        _decide(each, "delete" if each.now.there else "unchanged")
    elif each.held is not None and _same(each.now, each.held, each.then[1]):
        _decide(each, "unchanged")
    else:
        _decide(each, "write")


def _then(key: str, versions: Sequence[Version], story: FileStory, point: Point) -> Held | None:
    """The file at the position."""
    sofar = _files([version for version in versions if version.seq <= point.seq])
    known = [file for file in sofar if knows(file)]
    later = [version for version in versions if version.seq > point.seq]
    return as_it_was(known[-1] if known else None, story.left.get(key), later)


def _same(now: Look, held: Held, mode: int) -> bool:
    return now.digest == held.digest and now.mode & 0o777 == mode & 0o777


def _decide(each: _Planned, action: Action, reason: str = "") -> None:
    left = each.left.digest if each.left is not None else ""
    since = each.now.digest != left or not (left or each.left is None)
    change = None
    if action in ACTIONS and (each.now.data is not None or not each.now.there):
        mode = each.now.mode & 0o777
        now = FileSide(each.path, each.now.data, mode) if each.now.data is not None else None
        then = FileSide(each.path, each.then[0], each.then[1] & 0o777) if each.then else None
        change = file_patch(each.path, each.file.root, now, then)
    each.item = msgspec.structs.replace(
        each.item, action=action, reason=reason, change=change, changed_since=since
    )


def _refuse(
    plan: Sequence[_Planned], keeper: ContentKeeper, reader: contents.ContentReader, force: bool
) -> None:
    """Refuse files whose content would be lost or that others changed, unless `force` is given."""
    todo = [each for each in plan if each.item.action in ACTIONS]
    unfit = keeper.unfit({_id(each): (each.file, each.now) for each in todo if each.now.there})
    for each in todo:
        lost = unfit.get(_id(each), "") or _lost(each, keeper, reader)
        if lost == "secret":  # which is on disk, and need not be on a screen too
            each.item = msgspec.structs.replace(each.item, change=None)
        why = "changed since the session left it" if each.item.changed_since else ""
        why = f"what is there now cannot be kept: {lost}" if lost else why
        if why and not force:
            each.item = msgspec.structs.replace(
                each.item, action="refused", reason=why, needs_force=True
            )
        elif lost:
            each.item = msgspec.structs.replace(each.item, reason=why)


def _lost(each: _Planned, keeper: ContentKeeper, reader: contents.ContentReader) -> str:
    """Why the commit that is to hold what is there now does not, if it does not.

    What was erased from the log is not put into it again because it is still on disk.
    """
    known = keeper.already(each.file, each.now) if each.now.there else ""
    loaded = reader.load(Held(each.now.digest, known)) if known else None
    if isinstance(loaded, str):
        return loaded.partition(":")[0]
    if loaded is not None and loaded[1] & 0o777 != each.now.mode & 0o777:
        keeper.keep_anew(each.now)
    return ""


def _id(each: _Planned) -> str:
    return file_key(each.file.root, each.file.path)


# -- doing ----------------------------------------------------------------------------------------


def _snapshot(
    writer: SessionWriter, keeper: ContentKeeper, point: Point, todo: Sequence[_Planned]
) -> tuple[Commit, KeptContents]:
    """Record what is there now; on disk when this returns."""
    batch = keeper.keep([TouchedFile(_found(each), safe_io.NOTHING, each.now) for each in todo])
    news = [
        Upsert("files", record)
        for each, record in zip(todo, batch.records, strict=True)
        if _is_news(each, record)
    ]
    said = {"at": point.shown, "paths": [each.item.path for each in todo]}
    snapshot = _commit(writer, SNAPSHOT, said, news)
    for each in todo:
        if each.then is not None and each.held is not None and not each.held.within:
            data, mode = each.then
            look = Look(each.held.digest, data, mode)
            within = batch.put(look, lambda: writer.draft("file").id)
            each.held = Held(look.digest, within)
    commits = writer.append([*batch.drafts(writer.draft), snapshot])
    writer.store.sync()
    return commits[-1], batch


def _is_news(each: _Planned, found: FileRecord) -> bool:
    """Whether the log does not know yet that this is what is there."""
    if each.left is None or not each.now.there:
        return each.now.there or each.left is not None
    return (found.after, found.after_in) != (each.left.digest, each.left.within)


def _found(each: _Planned) -> FileRecord:
    """The file as it was found: a look, not a write of the session's."""
    op: FileOp = "read" if each.now.there else "deleted"
    return FileRecord(path=each.file.path, root=each.file.root, op=op, how="observed")


def _carry_out(each: _Planned, tag: str) -> None:
    if each.then is None:
        safe_io.remove(each.base, each.path, each.now)
    else:
        safe_io.write(each.base, each.path, *each.then, each.now, tag)


def _say(writer: SessionWriter, point: Point, done: Sequence[_Planned], batch: KeptContents) -> int:
    """Record what was restored; the seq of that commit."""
    if not done:
        return 0
    kept = {file_key(record.root, record.path): record for record in batch.records}
    news = [Upsert("files", _restored(each, kept.get(_id(each)))) for each in done]
    said = {"at": point.shown, "paths": [each.item.path for each in done]}
    return writer.append([_commit(writer, RESTORED, said, news)])[0].seq


def _restored(each: _Planned, found: FileRecord | None) -> FileRecord:
    op: FileOp = "modified" if each.now.there else "created"
    return FileRecord(
        path=each.file.path,
        root=each.file.root,
        op=op if each.held is not None else "deleted",
        before=found.after if found is not None else "",
        before_in=found.after_in if found is not None else "",
        after=each.held.digest if each.held is not None else "",
        after_in=each.held.within if each.held is not None else "",
    )


def _commit(
    writer: SessionWriter, status: str, said: dict[str, Any], news: Sequence[Upsert]
) -> Draft:
    return writer.draft(
        "file",
        input=said,
        changes=tuple(news),
        status=status,
        actor="user",
        principal=writer.principal,
        provenance=FROM_FILE,
        why=f"restore to {said['at']}",
    )
