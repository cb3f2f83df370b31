"""Finds what a person asks why about, and answers for each kind of thing that has that name.

By name first, exactly: every store finds who touched a key without reading logs. If nothing has the name, names of
the sessions used last are compared without regard to case, by their beginnings and by parts of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec

from stator.errors import BadPosition, InvalidInput, NotFound, StatorError
from stator.model.log.commit import Commit
from stator.model.log.query import SessionQuery, check_limit
from stator.model.log.shown_text import cut_short
from stator.model.records.types import file_key
from stator.model.values import paths
from stator.model.values.ids import short, suffix_of
from stator.model.views.why import (
    NAME_MAX,
    NAMED,
    AskedThing,
    Looked,
    Why,
    WhyAnswer,
    WhyLine,
    best,
    parse_thing,
    sha_spellings,
)
from stator.runtime.base.arguments import text
from stator.runtime.views.as_read import for_one_answer
from stator.runtime.views.authors.blame import blame_file, on_disk
from stator.runtime.views.reasons.chains import (
    call_answer,
    commit_answer,
    file_answer,
    named_answer,
)
from stator.runtime.views.reasons.lookup import Lookup
from stator.runtime.views.reasons.origins import Origins, is_from_here
from stator.runtime.views.reasons.recorded_names import NAMES_MAX, HeldName, held_names
from stator.runtime.views.refs import find_session, intent_of
from stator.store.port import StorePort

LIMIT = 50
"""Edits or versions that an answer lists, unless asked otherwise."""
FILES_MAX = 8
"""Files whose paths end as asked that are answered for."""
NEAR, NEAR_AMONG = 5, 2000
"""Names like the one asked about that are given."""
HOLDERS = 5
"""Sessions that have a name which are asked whether it is from here: those used last."""
COUNTED = 100
"""Sessions that are counted to say where was looked."""
LINES_MAX, LINE_MAX = 200, 400
"""Lines of a file that are answered for, and characters of each."""
COMMITS_MAX = 5
"""Commits that the same digits may mean."""

Places = Sequence[tuple[str, str]]
"""Where a file may be recorded: (root, path), as people and agents spell it."""
FindPlaces = Callable[[str], Places]


def ask(
    store: StorePort,
    thing: str,
    *,
    project: str | None = None,
    session: str | None = None,
    places: FindPlaces | None = None,
    limit: int = LIMIT,
    folder: str = "",
    hunks: bool = False,
    alone: bool = False,
) -> Why:
    """Why something is as it is: in one session, in a project, or in the store. `places` gives where a path may be
    recorded; `folder` is the project's, for lines of a file as it is on disk; `hunks`: what each turn changed.
    `alone`: the name is not looked for in a session that it begins with, for a caller who may not see them all."""
    check_limit(limit)
    thing = text(thing, "thing")
    if not thing.strip() or len(thing) > NAME_MAX * 10:
        raise InvalidInput(
            "why needs a path, a topic, a name, a revision, a call or a commit",
            path="$.thing",
            hint="stator why src/auth.py",
        )
    store = for_one_answer(store)
    wanted = parse_thing(thing)
    if wanted.session and alone:
        wanted = AskedThing(thing)
    elif wanted.session and session is None:
        session = find_session(store, wanted.session, project=project).id
    reading = Lookup(store, project=None if session else project, session=session)
    reading.folder, reading.hunks = folder, hunks
    answers = list(_exact(reading, wanted, places or _own_places, limit))
    if not answers and not wanted.kind and ":" in thing and session is None and not alone:
        answers, reading = _of_named_session(store, thing, project, limit) or (answers, reading)
    near: list[str] = []
    if not answers:
        held = list(islice(held_names(reading), NAMES_MAX))
        names = [(kind, name) for _, kind, name, _ in held]
        answers = list(_like(reading, wanted, names, limit))
        near = [] if answers else _from_here(reading, held, _near(wanted, names))
    origins = Origins(reading, answers)
    answers = [origins.on(answer) for answer in answers]
    return Why(asked=thing, looked=_looked(reading), answers=answers, near=near)


def _of_named_session(
    store: StorePort, thing: str, project: str | None, limit: int
) -> tuple[list[WhyAnswer], Lookup] | None:
    """`SESSION:NAME` without a kind, if there is such a session and it has something of that name."""
    head, _, rest = thing.partition(":")
    if not head or not rest:
        return None
    try:
        row = find_session(store, head, project=project)
    except StatorError:
        return None
    reading = Lookup(store, project=None, session=row.id)
    found = list(_exact(reading, parse_thing(rest), _own_places, limit))
    return (found, reading) if found else None


# -- by name --------------------------------------------------------------------------------------


def _own_places(path: str) -> Places:
    return [paths.split(path, "")]


def places_in(root: str, folder: str) -> FindPlaces:
    """Where a program's paths are recorded: under a root that it names, else relative to its folder."""
    return lambda path: [(root, path) if root != "." else paths.split(path, folder)]


def _exact(
    reading: Lookup, wanted: AskedThing, places: FindPlaces, limit: int
) -> Iterator[WhyAnswer]:
    """What has exactly that name, one answer for each kind of thing."""
    if wanted.kind in ("", "file") and not wanted.text.startswith("@"):
        found = _file(reading, wanted, places, limit)
        if found is not None:
            yield found
    for kind in NAMED:
        if wanted.kind in ("", kind) and kind != "revision":
            named = named_answer(reading, kind, wanted.text, limit)
            if named is not None:
                yield named
    if wanted.kind in ("", "revision"):
        yield from _revisions(reading, wanted.text, limit)
    if wanted.kind in ("", "call", "commit"):
        yield from _by_id(reading, wanted)


def _file(reading: Lookup, wanted: AskedThing, places: FindPlaces, limit: int) -> WhyAnswer | None:
    try:
        found = places(wanted.text)
    except InvalidInput:
        return None
    if wanted.first:
        return _lines(reading, wanted, found, limit)
    keys = list(dict.fromkeys(file_key(root, path) for root, path in found))
    return file_answer(reading, keys, found[0][1], limit, hunks=reading.hunks)


def _lines(reading: Lookup, wanted: AskedThing, places: Places, limit: int) -> WhyAnswer | None:
    """Why some lines of a file are as they are: the writes that they come from."""
    for root, path in places:
        key = file_key(root, path)
        if not reading.touches("files", key, 1):
            continue
        now = on_disk(reading.folder, path, root) if reading.folder else None
        blamed = blame_file(
            reading.store, path, root, session=reading.session, project=reading.project, now=now
        )
        picked = [line for line in blamed.lines if wanted.first <= line.line <= wanted.last]
        lines = [
            WhyLine(
                line=line.line,
                text=cut_short(line.text.rstrip("\r\n"), LINE_MAX),
                source=line.source,
                session=line.session,
                turn=line.turn,
                seq=line.seq,
            )
            for line in picked[:LINES_MAX]
        ]
        if not blamed.lines or not lines:
            what = (
                f"it has {len(blamed.lines)} lines"
                if blamed.lines
                else "its lines are not recorded"
            )
            raise NotFound(
                f"no line {wanted.first} of {path!r:.80}: {what}",
                hint=f"stator blame {path!r:.80} shows the lines that are known",
            )
        is_sure = all(
            line.source != "unknown" for line in lines
        )  # else any edit may have made them
        only = {(line.session, line.seq) for line in lines if line.session} if is_sure else None
        found = file_answer(reading, [key], path, limit, only=only, hunks=reading.hunks)
        answer = found or WhyAnswer(kind="file", name=path)
        shown = f"{path}:{wanted.first}" + (f"-{wanted.last}" if wanted.last > wanted.first else "")
        return msgspec.structs.replace(answer, name=shown, lines=lines)
    return None


def _revisions(reading: Lookup, digits: str, limit: int) -> Iterator[WhyAnswer]:
    """Revisions that are recorded under these digits, or under fewer of them, as git shortens them."""
    for sha in sha_spellings(digits):
        found = named_answer(reading, "revision", sha, limit)
        if found is not None:
            yield found
            return


def _by_id(reading: Lookup, wanted: AskedThing) -> Iterator[WhyAnswer]:
    """The calls and commits that a person means: `@12`, an id or the end of one, the beginning of a hash."""
    seen: set[tuple[str, int]] = set()
    for commit in _commits(reading, wanted.text):
        intent = commit
        if commit.call and commit.kind in ("outcome", "settlement"):
            intent = intent_of(reading.store, commit.session, commit.call) or commit
        if (intent.session, intent.seq) in seen:
            continue
        seen.add((intent.session, intent.seq))
        if intent.kind == "call" and wanted.kind in ("", "call", "commit"):
            yield call_answer(reading, intent)
        elif wanted.kind in ("", "commit"):
            yield commit_answer(reading, intent)


def _commits(reading: Lookup, typed: str) -> Iterator[Commit]:
    store = reading.store
    if typed.startswith("@"):
        yield from _at(reading, typed)
        return
    digits = suffix_of(typed, "call") or suffix_of(typed, "commit")
    if not digits:
        return
    whole = f"k_{digits}" if len(digits) == len("0" * 32) else digits
    for session, seq in store.locate(whole, reading.session)[:COMMITS_MAX]:
        if reading.is_asked(session) and reading.stands(session, seq):
            yield reading.commit(session, seq)


def _at(reading: Lookup, typed: str) -> Iterator[Commit]:
    """The commit at a position of the one session that is looked in."""
    if not typed[1:].isdecimal() or len(typed) > len("@") + 13:
        raise BadPosition(f"not a position: {typed!r:.60}", hint="stator why @42 -s SESSION")
    if reading.session is None:
        raise InvalidInput(
            f"{typed} is a position in a session: say in which",
            path="$.thing",
            hint=f"stator why SESSION:{typed}, or stator why {typed} -s SESSION",
        )
    seq = int(typed[1:])
    if not 0 < seq <= reading.store.head(reading.session).seq:
        raise NotFound(
            f"no commit {typed} in session {reading.session}",
            hint=f"stator log {short(reading.session)} lists its commits",
            session=reading.session,
        )
    yield reading.commit(reading.session, seq)


# -- names like it --------------------------------------------------------------------------------


def _like(
    reading: Lookup, wanted: AskedThing, names: Sequence[tuple[str, str]], limit: int
) -> Iterator[WhyAnswer]:
    """What fits best where nothing has the name itself."""
    among = [(kind, name) for kind, name in names if wanted.kind in ("", kind)]
    for kind, fitting, how in best(among, wanted.text):
        if kind == "file" and wanted.first:
            places = [paths.split(path, "") for path in fitting]
            found = [_lines(reading, wanted, places, limit)]
        elif kind == "file":  # one answer each: two repositories may have files of the same name
            found = [
                file_answer(
                    reading, [file_key(*paths.split(path, ""))], path, limit, hunks=reading.hunks
                )
                for path in fitting[:FILES_MAX]
            ]
        else:
            found = [named_answer(reading, kind, fitting[0], limit)]
        for answer in found:
            if answer is not None:
                yield msgspec.structs.replace(answer, matched=how)


def _near(wanted: AskedThing, names: Sequence[tuple[str, str]]) -> list[str]:
    """Names that a person may have meant, as they can be asked about."""
    low = wanted.text.casefold()
    by_name: dict[str, str] = {}
    for kind, name in names:
        if wanted.kind in ("", kind) and len(name) <= NAME_MAX:
            by_name.setdefault(name, name if kind == "file" else f"{kind}:{name}")
    folded = {name.casefold(): name for name in by_name}
    parts = [name for known, name in folded.items() if low in known]
    close = difflib.get_close_matches(low, list(folded)[:NEAR_AMONG], NEAR, 0.6)
    return [by_name[name] for name in dict.fromkeys([*parts, *(folded[each] for each in close)])][
        :NEAR
    ]


def _from_here(reading: Lookup, held: Sequence[HeldName], near: Sequence[str]) -> list[str]:
    """Of these names, those that did not come from elsewhere."""
    found: list[str] = []
    for shown in near:
        holders = (
            (session, entry)
            for session, kind, name, entry in held
            if shown == (name if kind == "file" else f"{kind}:{name}")
        )
        if is_from_here(reading, islice(holders, HOLDERS)):
            found.append(shown)
    return found


def _looked(reading: Lookup) -> Looked:
    info = reading.store.info()
    if reading.session is not None:
        name = reading.store.session(reading.session).record.name
        return Looked(store=info.url, session=name, sessions=1)
    page = reading.store.sessions(SessionQuery(project=reading.project), limit=COUNTED)
    counted = [row for row in page.rows if row.record.mode != "project"]
    return Looked(
        store=info.url,
        project=reading.project or "",
        sessions=len(counted),
        more=page.cursor is not None,
    )
