"""Follows the chain decision, call, file, revision from one end to the others, for each kind of thing."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from stator.model.exchange.failures import failure_text
from stator.model.log.commit import Commit
from stator.model.log.delta import Put, Version
from stator.model.log.edges import edges_of
from stator.model.log.query import KeyTouch, read
from stator.model.log.shown_text import cut_short
from stator.model.records.types import FileRecord, RevisionRecord, file_key
from stator.model.views import why as reasons_of
from stator.model.views.knowledge import CARRY
from stator.model.views.why import NAMED, Reason, WhyAnswer, WhyTurn
from stator.runtime.base.one_answer import ahead
from stator.runtime.views.contents import range_patches
from stator.runtime.views.file_changes import files_touched
from stator.runtime.views.reasons.doubt_story import decisions_before
from stator.runtime.views.reasons.lookup import Lookup
from stator.runtime.views.reasons.repaired import repairs_in
from stator.runtime.views.refs import last_attempt

TOUCHES_MAX = 200
"""Touches of a file that are looked at, the newest."""
TURN_WHOLE = 120
"""Turns up to this many commits are read whole; of longer ones, what the edits lead to."""
EDITS_LOOKED = 8
"""Edits of a long turn before which the agent's words are looked for."""
BEFORE_EDIT = 24
"""Commits before an edit in which the agent's words are looked for."""
AFTER_MAX = 120
"""Commits after a decision, in its turn, that are looked at."""
PATHS_MAX = 8
"""Earlier names of a renamed file that are followed."""
TURNS_MAX, FILES_MAX = 10, 50
"""Of a revision: the turns and files that are listed."""
VERSIONS_MAX = 50
COUNTED_TURNS = 4
"""Turns of a file whose added and removed lines are counted without being asked for: contents are read for it."""
EDITS_A_TURN = 4
"""A limit on edits is also one on turns: it is divided by this."""
FAILED = ("error", "timeout", "denied")
CAUSE_MAX = 180
"""Characters of why a call failed."""
REPAIRED, REPAIRS = "the same, and it worked", "the same, which this call repaired"

Turns = dict[tuple[str, int], list[Reason]]


# -- files ----------------------------------------------------------------------------------------


def file_answer(
    reading: Lookup,
    keys: Sequence[str],
    path: str,
    limit: int,
    *,
    only: Container[tuple[str, int]] | None = None,
    hunks: bool = False,
) -> WhyAnswer | None:
    """Why a file is as it is: its edits, turn by turn, also those before it was renamed. `only` these edits, by
    session and seq; with `hunks`, what each turn changed."""
    edits, reads, more = _edits(reading, list(keys), limit, only)
    if not edits and not reads:
        return None
    by_turn: dict[tuple[str, int], list[tuple[Commit, Reason]]] = {}
    for commit, reason in [*edits, *reads]:
        by_turn.setdefault((commit.session, commit.turn), []).append((commit, reason))
    turns: list[WhyTurn] = []
    for (session, turn), pairs in by_turn.items():
        found = [reason for _, reason in pairs]
        changed = [commit for commit, reason in pairs if reason.kind == "edit"]
        if changed:
            found = _with_trust(reading, found, changed)
            found += _around(reading, session, turn, changed, found[0].path or path)
            found += _led_to(reading, session, changed, {r.path for r in found if r.path})
        turns.append(reading.group(session, turn, found, "edit"))
    turns.sort(key=lambda each: each.at, reverse=True)
    for place, each in enumerate(turns):
        if hunks or place < COUNTED_TURNS:
            turns[place] = _with_patches(reading, each, hunks=hunks)
    return WhyAnswer(
        kind="file",
        name=path,
        turns=turns,
        sessions=len({commit.session for commit, _ in edits}),
        changes=len(edits),
        reads=len(reads),
        more=more,
    )


Pairs = list[tuple[Commit, Reason]]


def _with_patches(reading: Lookup, turn: WhyTurn, *, hunks: bool) -> WhyTurn:
    """The turn with what its edits changed, as far as contents are recorded."""
    edits = [reason for reason in turn.reasons if reason.kind == "edit"]
    if not edits:
        return turn
    seqs = {edit.seq for edit in edits}
    named = {edit.path for edit in edits}
    first, last = min(seqs) - 1, max(seqs)
    versions = [
        version
        for version in reading.store.versions(
            turn.session, after=first, upto=last, collections=("files",)
        )
        if getattr(getattr(version.op, "record", None), "path", "") in named
    ]
    patches = range_patches(reading.store, turn.session, versions, first)
    return msgspec.structs.replace(
        turn,
        added=sum(patch.added for patch in patches),
        removed=sum(patch.removed for patch in patches),
        patches=patches if hunks else [],
    )


def _edits(
    reading: Lookup, keys: list[str], limit: int, only: Container[tuple[str, int]] | None
) -> tuple[Pairs, Pairs, bool]:
    """The edits and the reads of a file under these keys and its earlier names, and whether there are more."""
    edits: Pairs = []
    reads: Pairs = []
    seen: set[tuple[str, int]] = set()
    turns: set[tuple[str, int]] = set()
    followed = list(keys)
    before: dict[str, Commit] = {}
    more = False
    for key in followed:
        touches = reading.touches("files", key, max(TOUCHES_MAX, limit))
        more = more or len(touches) >= max(TOUCHES_MAX, limit)
        for touch in touches:
            if (touch.session, touch.seq) in seen:
                continue
            if only is not None and (touch.session, touch.seq) not in only:
                continue
            place = (touch.session, touch.turn)
            if len(edits) >= limit or (place not in turns and len(turns) * EDITS_A_TURN >= limit):
                more = True
                break
            if not reading.stands(touch.session, touch.seq):
                continue
            commit = reading.commit(touch.session, touch.seq)
            if not _is_earlier(commit, before.get(key)):
                continue
            seen.add((touch.session, touch.seq))
            reason = reasons_of.edit_reason(commit, [key])
            (edits if reason.kind == "edit" else reads).append((commit, reason))
            if reason.kind == "edit":
                turns.add(place)
            earlier = reasons_of.renamed_from(commit, [key])
            if earlier and earlier not in followed and len(followed) < PATHS_MAX:
                followed.append(earlier)
                before[earlier] = commit
    return edits, reads, more


def _is_earlier(commit: Commit, rename: Commit | None) -> bool:
    """Whether a touch of an old name is about the file that was renamed, and not about a later one of that name."""
    if rename is None:
        return True
    if commit.session == rename.session:
        return commit.seq < rename.seq
    return commit.when < rename.when


def _around(
    reading: Lookup, session: str, turn: int, edits: Sequence[Commit], path: str
) -> list[Reason]:
    """What lies behind the edits of one turn."""
    row = reading.turn(session, turn)
    if row is None:
        return []
    if row.last - row.first < TURN_WHOLE:
        commits = reading.store.commits(session, after=row.first - 1, upto=row.last)
    else:
        commits = _near(reading, session, row.first, row.last, edits)
    standing = [commit for commit in commits if reading.stands(session, commit.seq)]
    known = [c for c in standing if c.kind != "turn"]
    found = reasons_of.turn_reasons(known, path, edits)
    if not any(r.kind == "decision" and r.status != reasons_of.LATER for r in found):
        prompt = reading.prompt(session, turn)
        found += [reasons_of.said_reason(prompt)] if prompt is not None else []
    return _with_trust(reading, found, [c for c in known if c.kind == "decision"])


def _near(
    reading: Lookup, session: str, first: int, last: int, edits: Sequence[Commit]
) -> list[Commit]:
    """Of a long turn: its decisions and approvals, the calls of the edits, and the agent's words just before."""
    store = reading.store
    seqs = {
        version.seq
        for version in store.versions(
            session, after=first - 1, upto=last, collections=("decisions", "approvals")
        )
    }
    found = {seq: reading.commit(session, seq) for seq in sorted(seqs)[-VERSIONS_MAX:]}
    places = _spread(sorted({edit.seq for edit in edits}), EDITS_LOOKED)
    asked = [
        read(
            "commits", session, after=max(first - 1, seq - BEFORE_EDIT), upto=seq, limit=BEFORE_EDIT
        )
        for seq in places
    ]
    ahead(store, *asked)
    for one in asked:
        page = store.commits(*one.args, **one.options)
        found.update((commit.seq, commit) for commit in page)
    kept = [found[seq] for seq in sorted(found)]
    spoken = [commit for commit in kept if reasons_of.is_spoken(commit)]
    said = [c for seq in places for c in [c for c in spoken if c.seq < seq][-1:]]
    inside = {edit.call for edit in edits}
    return [
        commit
        for commit in kept
        if commit.kind in ("decision", "approval")
        or commit in said
        or (commit.call in inside and commit.kind in ("call", "outcome", "settlement"))
    ]


def _spread(seqs: Sequence[int], most: int) -> list[int]:
    """At most `most` of some seqs: the first, the last, and others at equal distances."""
    if len(seqs) <= most:
        return list(seqs)
    return [seqs[n * (len(seqs) - 1) // (most - 1)] for n in range(most)]


def _led_to(
    reading: Lookup, session: str, edits: Sequence[Commit], paths: set[str]
) -> list[Reason]:
    """The first revision of the session after the edits that names the file, or names no files."""
    oldest = min(commit.seq for commit in edits)
    found: dict[int, Reason] = {}
    versions = reading.store.versions(
        session, after=oldest, upto=reading.store.head(session).seq, collections=("revisions",)
    )
    for edit in edits:
        for version in versions:
            record = getattr(version.op, "record", None)
            if version.seq <= edit.seq or not isinstance(record, RevisionRecord):
                continue
            if record.files and not any(_same_file(name, paths) for name in record.files):
                continue
            if version.seq not in found and reading.stands(session, version.seq):
                commit = reading.commit(session, version.seq)
                found[version.seq] = reasons_of.revision_reason(commit, _newest(versions, record))
            break
    return list(found.values())


def _newest(versions: Sequence[Version], record: RevisionRecord) -> RevisionRecord:
    """What is known of a revision in the end: that it was pushed is recorded later."""
    known = [getattr(version.op, "record", None) for version in versions]
    same = [each for each in known if isinstance(each, RevisionRecord) and each.sha == record.sha]
    return same[-1] if same else record


def _same_file(name: str, paths: Iterable[str]) -> bool:
    """Whether a path of a revision, which is relative to its repository, is one of these."""
    return any(
        path == name or path.endswith(f"/{name}") or name.endswith(f"/{path}") for path in paths
    )


def _with_trust(
    reading: Lookup, reasons: Sequence[Reason], commits: Sequence[Commit]
) -> list[Reason]:
    """The reasons, with what those that these commits recorded rest on."""
    known = {(commit.session, commit.seq): commit for commit in commits}
    found: list[Reason] = []
    for reason in sorted(reasons, key=lambda each: -each.seq):
        commit = known.get((reason.session, reason.seq))
        if commit is not None:
            trust, grounds = reading.trust.of(commit)
            reason = msgspec.structs.replace(reason, trust=trust, grounds=grounds)
        found.append(reason)
    return found


# -- things with a name ---------------------------------------------------------------------------


def named_answer(reading: Lookup, kind: str, name: str, limit: int) -> WhyAnswer | None:
    """Why a decision, a fact, a preference, a plan step, an artifact or a dead end is what it is: its versions, and
    what followed each."""
    most = min(-(-limit // EDITS_A_TURN), VERSIONS_MAX)
    touches = reading.touches(NAMED[kind], name, 4 * VERSIONS_MAX)
    standing = [touch for touch in _puts(touches) if _counts(reading, kind, touch)]
    versions = _versions(reading, standing, most + 1)
    if not versions:
        return None
    commits = versions[:most]
    status = _statuses(reading, kind, name, commits, touches)
    groups: Turns = {}
    for commit in commits:
        reason = reasons_of.version_reason(commit, kind, name)
        reason = msgspec.structs.replace(reason, status=reason.status or status[commit.id])
        found = _with_trust(reading, [reason], [commit])
        after = _revision_reasons if kind == "revision" else _what_followed
        for each in [*found, *after(reading, commit)]:
            _add(groups, each)
    return _answer(reading, kind, name, groups, commits, more=len(versions) > most)


def _versions(reading: Lookup, touches: Sequence[KeyTouch], most: int) -> list[Commit]:
    """The newest commits that gave something its value. One that only took it over from an earlier session is no
    version, unless that session is gone."""
    carried: list[Commit] = []
    found: list[Commit] = []
    for touch in touches:
        commit = reading.commit(touch.session, touch.seq)
        (carried if commit.kind == CARRY else found).append(commit)
        if len(found) >= most:
            break
    return found or carried[:most]


def _counts(reading: Lookup, kind: str, touch: KeyTouch) -> bool:
    """Whether a version is still part of the state. A rewind takes back no revision: it is in the repository."""
    if kind == "revision":
        return reading.row(touch.session) is not None
    return reading.stands(touch.session, touch.seq)


def _puts(touches: Sequence[KeyTouch]) -> list[KeyTouch]:
    found: dict[tuple[str, int], KeyTouch] = {}
    for touch in touches:
        if not touch.dropped:
            found.setdefault((touch.session, touch.seq), touch)
    return list(found.values())


def _add(groups: Turns, reason: Reason) -> None:
    listed = groups.setdefault((reason.session, reason.turn), [])
    if all(
        (each.kind, each.seq, each.text) != (reason.kind, reason.seq, reason.text)
        for each in listed
    ):
        listed.append(reason)


def _answer(
    reading: Lookup, kind: str, name: str, groups: Turns, places: Sequence[Any], *, more: bool
) -> WhyAnswer:
    turns = [reading.group(*place, found) for place, found in groups.items()]
    turns.sort(key=lambda each: (each.at, each.turn), reverse=True)
    return WhyAnswer(
        kind=kind,
        name=name,
        turns=turns,
        sessions=len({place.session for place in places}),
        changes=len(places),
        more=more,
    )


def _statuses(
    reading: Lookup, kind: str, name: str, commits: Sequence[Commit], touches: Sequence[KeyTouch]
) -> dict[str, str]:
    """The status of each version: in force, superseded by another, taken back, forgotten, or that it does not count
    for the project. `in force` is the newest of those that still hold in their sessions."""
    if kind == "revision":
        return {commit.id: "" for commit in commits}
    found: dict[str, str] = {}
    upto = _forgotten(reading, NAMED[kind], name)
    newest: Commit | None = None
    for session in {commit.session for commit in commits}:
        own = sorted((c for c in commits if c.session == session), key=lambda c: -c.seq)
        drops = (t.seq for t in touches if t.session == session and t.dropped)
        dropped = max((seq for seq in drops if reading.stands(session, seq)), default=0)
        for later, commit in zip([None, *own], own, strict=False):
            if later is not None:
                found[commit.id] = f"superseded by @{later.seq}"
            elif dropped > commit.seq:
                found[commit.id] = "taken back"
            elif commit.when <= upto:
                found[commit.id] = "forgotten"
            elif why := reading.left_out(session, commit.seq):
                found[commit.id] = why
            else:
                found[commit.id] = "earlier"
                if newest is None or commit.when > newest.when:
                    newest = commit
    if newest is not None:
        found[newest.id] = "in force"
    return found


def _forgotten(reading: Lookup, collection: str, name: str) -> int:
    """The time up to which values of a key were forgotten; 0 if none were."""
    for touch in reading.store.touches(
        "forgotten", f"{collection}\n{name}", project=reading.project, limit=1
    ):
        record = reasons_of.put_of(reading.commit(touch.session, touch.seq), "forgotten")
        return int(getattr(record, "upto", 0))
    return 0


def _what_followed(reading: Lookup, commit: Commit) -> list[Reason]:
    """What came after a version in its turn: calls that write, files that were changed, revisions."""
    row = reading.turn(commit.session, commit.turn)
    if row is None:
        return []
    store = reading.store
    rest = store.commits(commit.session, after=commit.seq, upto=row.last, limit=AFTER_MAX)
    rest = [each for each in rest if reading.stands(commit.session, each.seq)]
    ends = {c.call: c for c in rest if c.kind in ("outcome", "settlement")}
    found = [
        _ended_call(reading, each, ends.get(each.call))
        for each in rest
        if each.kind == "call" and each.effect != "read"
    ]
    found += [edit for each in rest for edit in _files_in(each)]
    found += [
        reasons_of.revision_reason(each, record)
        for each in rest
        if isinstance(record := reasons_of.put_of(each, "revisions"), RevisionRecord)
    ]
    return found


def _ended_call(reading: Lookup, intent: Commit, end: Commit | None) -> Reason:
    """A call with how it ended: as its turn tells, else as readers see it now."""
    if end is None:
        row = last_attempt(reading.store, intent.session, intent)
        status, how = (row.status, row.cause) if row is not None else ("", "")
    else:
        status = end.status
        how = reasons_of.settled_by(end) if end.kind == "settlement" else ""
    return reasons_of.call_reason(intent, approved=how, status=status)


def _files_in(commit: Commit) -> list[Reason]:
    """The changes of files that a commit records."""
    records = [op.record for op in commit.delta if isinstance(op, Put)]
    keys = [
        file_key(record.root, record.path)
        for record in records
        if isinstance(record, FileRecord) and record.op not in ("read", "skipped")
    ]
    return [reasons_of.edit_reason(commit, [key]) for key in keys[:FILES_MAX]]


# -- revisions ------------------------------------------------------------------------------------


def _revision_reasons(reading: Lookup, commit: Commit) -> list[Reason]:
    """What went into a revision: the prompts, decisions and files since the revision before it in the session."""
    store, session = reading.store, commit.session
    record = reasons_of.put_of(commit, "revisions")
    names = list(getattr(record, "files", []))
    before = [
        version.seq
        for version in store.versions(
            session, after=0, upto=commit.seq - 1, collections=("revisions",)
        )
        if isinstance(version.op, Put)
        and getattr(version.op.record, "sha", "") != getattr(record, "sha", "")
    ]
    after = before[-1] if before else 0
    decided = store.versions(session, after=after, upto=commit.seq, collections=("decisions",))
    seqs = sorted({version.seq for version in decided if isinstance(version.op, Put)})
    found = [
        reasons_of.decision_reason(reading.commit(session, seq))
        for seq in seqs[-TURNS_MAX:]
        if reading.stands(session, seq)
    ]
    changes = files_touched(store, session, after=after, upto=commit.seq)
    for change in changes[:FILES_MAX]:
        if names and not any(_same_file(name, [change.path]) for name in names):
            continue
        edit = reasons_of.edit_reason(
            reading.commit(session, change.seq), [file_key(change.root, change.path)]
        )
        found.append(edit)
    turns = {reason.turn for reason in found} | {commit.turn}
    for turn in sorted(turns, reverse=True)[:TURNS_MAX]:
        prompt = reading.prompt(session, turn)
        if prompt is not None:
            found.append(reasons_of.said_reason(prompt))
    return found


# -- calls and commits ----------------------------------------------------------------------------


def call_answer(reading: Lookup, intent: Commit) -> WhyAnswer:
    """Why a call was made: who asked for it, who approved it, how it ended and what it did."""
    store, session = reading.store, intent.session
    row = last_attempt(store, session, intent)
    upto = max(intent.seq, row.outcome if row is not None else 0)
    inside = [intent]
    if upto > intent.seq:
        page = store.commits(session, after=intent.seq, upto=upto, limit=AFTER_MAX)
        last = store.commits(session, after=upto - 1, upto=upto)
        kept = {each.seq: each for each in [*page, *last] if each.call == intent.call}
        inside += list(kept.values())
    approved = reasons_of.approvals_of(inside).get(intent.call, "")
    status = row.status if row is not None else ""
    cause = row.cause if row is not None else ""
    if inside[-1].kind == "settlement":
        cause = reasons_of.settled_by(inside[-1])
    elif status in FAILED and inside[-1].kind == "outcome":
        cause = cut_short(failure_text(cause, _returned(inside[-1])), CAUSE_MAX)
    made = reasons_of.call_reason(
        intent, approved="; ".join(filter(None, [approved, cause])), status=status
    )
    found = _with_trust(reading, [made], [intent])
    found += [edit for each in inside[1:] for edit in _files_in(each)]
    found += [reasons_of.decision_reason(each) for each in inside[1:] if each.kind == "decision"]
    found += [
        reasons_of.revision_reason(each, record)
        for each in inside[1:]
        if isinstance(record := reasons_of.put_of(each, "revisions"), RevisionRecord)
    ]
    found += [
        reasons_of.decision_reason(each)
        for each in decisions_before(store, session, intent.turn, intent.seq)
    ]
    found += _asked_for(reading, intent)
    found += _repairs(reading, intent)
    groups: Turns = {}
    for reason in found:
        _add(groups, reason)
    return _answer(reading, "call", intent.call, groups, [intent], more=False)


def _returned(outcome: Commit) -> str:
    """What came back from a call that failed."""
    output = outcome.known("output", "")
    message = output.get("message", "") if isinstance(output, Mapping) else output
    return message if isinstance(message, str) else ""


def _asked_for(reading: Lookup, intent: Commit) -> list[Reason]:
    """The answer that asked for a call, or the last words before it; and the prompt."""
    row = reading.turn(intent.session, intent.turn)
    first = row.first if row is not None else intent.seq
    after = max(first - 1, intent.seq - BEFORE_EDIT)
    page = reading.store.commits(intent.session, after=after, upto=intent.seq - 1)
    edges = [edge for edge in edges_of(intent) if not edge.is_range]
    spoken = [commit for commit in page if reasons_of.is_spoken(commit)]
    asked = [c for c in spoken if any(edge.holds(c) for edge in edges)] or spoken[-1:]
    prompt = reading.prompt(intent.session, intent.turn)
    return [reasons_of.said_reason(c) for c in [*([prompt] if prompt else []), *asked]]


def _repairs(reading: Lookup, intent: Commit) -> list[Reason]:
    """The call that repaired this one, or those that it repaired: in the same turn, by doing the same."""
    found: list[Reason] = []
    for good, repaired in repairs_in(reading.store, intent.session, intent.turn).items():
        pairs = [(good, "ok", REPAIRED)] if intent.seq in repaired else []
        if good == intent.seq:
            pairs = [(seq, "error", REPAIRS) for seq in repaired]
        for seq, status, how in pairs:
            again = reasons_of.call_reason(reading.commit(intent.session, seq), status=status)
            found.append(msgspec.structs.replace(again, detail=how))
    return found


def commit_answer(reading: Lookup, commit: Commit) -> WhyAnswer:
    """Why any other commit was made: what it holds, and what it was made from."""
    found = [reasons_of.commit_reason(commit)]
    for kind, collection in NAMED.items():
        record = reasons_of.put_of(commit, collection)
        if record is not None:
            found = [reasons_of.version_reason(commit, kind, reasons_of.key_of(record))]
            break
    else:
        found = _files_in(commit) or found
    found = _with_trust(reading, found, [commit])
    found += _what_followed(reading, commit) if commit.kind not in ("turn", "entry") else []
    groups: Turns = {}
    for reason in found:
        _add(groups, reason)
    return _answer(reading, "commit", f"@{commit.seq}", groups, [commit], more=False)
