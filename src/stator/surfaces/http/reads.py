"""The table of what the service answers: sessions, their logs and states, and what was asked and done in them.

Each answer is the document that the command line prints with `--json`; a list is sent by pages of such items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar, cast, get_args

from stator.errors import BadQuery, Erased, NotFound
from stator.model.brief.compose import MAX_TOKENS, MIN_TOKENS
from stator.model.brief.sections import Target
from stator.model.log.commit import Gone, Large
from stator.model.log.query import CallQuery, SessionQuery
from stator.model.records.tables import COLLECTIONS, KINDS
from stator.model.records.types import CallStatus
from stator.model.sessions.lifecycle import SHOWN, recorded_status
from stator.runtime.base.project_flags import Trash
from stator.runtime.views.as_read import for_one_answer, prices_in
from stator.runtime.views.glance.calls import list_calls, statuses_of
from stator.runtime.views.glance.listed import listed
from stator.runtime.views.last_acts import acted
from stator.surfaces.cli.render import documents, wire
from stator.surfaces.cli.render.listed_calls import as_json, read_calls
from stator.surfaces.http import tails
from stator.surfaces.http.endpoint import (
    Attachment,
    Endpoint,
    ItemPage,
    Question,
    RouteParameter,
    WholeDocument,
)

Item = TypeVar("Item")
PAGE = 100
PAGE_MAX = 500
PAGE_BYTES = 1 << 20
"""A page of commits or turns ends here, whatever its limit."""
SEARCH_MAX = 200
TREE_MAX = 1_000
TOKENS_MAX = 200_000
SEQ_MAX = 10**12
BLOB_MAX = 64 << 20
CALL_STATUSES = (*get_args(CallStatus), "failed", "open")


# -- parameters -----------------------------------------------------------------------------------


def _limit(most: int = PAGE_MAX, default: int = PAGE) -> RouteParameter:
    about = "How many at most."
    return RouteParameter(
        name="limit", about=about, kind="whole", default=default, least=1, most=most
    )


SESSION = RouteParameter(
    name="session",
    about="An id, the end of one, or a name.",
    required=True,
    in_path=True,
)
PROJECT = RouteParameter(name="project", about="Only sessions of this project.")
AGENT = RouteParameter(name="agent", about="Only sessions of this agent.")
TOOL = RouteParameter(name="tool", about="Only calls of this tool.")
NEWEST = RouteParameter(name="newest", about="The newest first.", kind="flag", default=False)
AFTER = RouteParameter(
    name="after",
    about="Only what comes after this number.",
    kind="whole",
    default=0,
    most=SEQ_MAX,
)


# -- sessions -------------------------------------------------------------------------------------


def sessions(asked: Question) -> ItemPage:
    store, status = asked.served.store, asked["status"]
    query = SessionQuery(
        project=asked["project"], agent=asked["agent"], status=recorded_status(status)
    )
    page = store.as_read.sessions(query, cursor=asked.whole_key(), limit=asked["limit"])
    trash = Trash(store.port)
    shown = [
        row
        for row in page.rows
        if row.record.mode != "project"
        and row not in trash
        and (status is None or row.shown == status)
    ]
    reading = for_one_answer(store.as_read)
    known = acted(reading, shown)
    found = listed(reading, known, prices_in(reading))
    return ItemPage(list(map(documents.used_row, found)), page.cursor)


def session(asked: Question) -> WholeDocument:
    return WholeDocument(documents.session(asked.view))


def log(asked: Question) -> ItemPage:
    view, newest = asked.view, asked["newest"]
    bound = (asked.whole_key() or (None,))[0]
    after = asked["after"] if bound is None or newest else bound
    upto = bound - 1 if bound is not None and newest else None
    commits = asked.served.store.as_read.commits(
        view.id, after=after, upto=upto, newest_first=newest, limit=asked["limit"], load=False
    )
    return _bounded(commits, wire.commit, lambda one: one.seq, asked["limit"])


def commit(asked: Question) -> WholeDocument:
    view = asked.view
    found = view.commit(asked["ref"])
    return WholeDocument(documents.commit(asked.served.store, found.session, found))


def turns(asked: Question) -> ItemPage:
    view, newest = asked.view, asked["newest"]
    bound = (asked.whole_key() or (None,))[0]
    after = asked["after"] if bound is None or newest else bound
    upto = bound - 1 if bound is not None and newest else None
    rows = asked.served.store.as_read.turns(
        view.id, after=after, upto=upto, newest_first=newest, limit=asked["limit"], prompts=True
    )
    return _bounded(rows, documents.turn, lambda one: one.turn, asked["limit"])


def _bounded(
    found: Sequence[Item],
    document: Callable[[Item], dict[str, Any]],
    key: Callable[[Item], int],
    limit: int,
) -> ItemPage:
    """Items up to the size of a page; at least one, so that every page advances."""
    items: list[dict[str, Any]] = []
    size = 0
    for one in found:
        made = document(one)
        size += len(wire.dumps(made))
        if items and size > PAGE_BYTES:
            return ItemPage(items, [key(found[len(items) - 1])])
        items.append(made)
    return ItemPage(items, [key(found[-1])] if len(found) == limit else None)


# -- what is in a session -------------------------------------------------------------------------


def state(asked: Question) -> WholeDocument:
    return WholeDocument(documents.state(asked.view, asked["at"], asked["collection"]))


def diff(asked: Question) -> WholeDocument:
    view = asked.view
    return WholeDocument(documents.diff(view, view.diff(asked["range"])))


def calls(asked: Question) -> ItemPage:
    query = CallQuery(
        session=asked.view.id, tool=asked["tool"], statuses=statuses_of(asked["status"])
    )
    store = asked.served.store
    page = list_calls(store.as_read, query, asked.whole_key(), asked["limit"])
    found = read_calls(store, page.rows)
    fits = _bounded(found, as_json, lambda one: one.row.seq, asked["limit"])
    return fits if len(fits.items) < len(found) else ItemPage(fits.items, page.cursor)


def files(asked: Question) -> ItemPage:
    found = asked.view.files(last=asked["last"], reads=asked["reads"])
    return _part(asked, found, documents.file, lambda one: [one.root, one.path])


def decisions(asked: Question) -> ItemPage:
    wanted = {"all": None, "in force": True, "superseded": False}[asked["which"]]
    found = asked.view.decisions(standing=wanted)
    return _part(asked, found, documents.decision, lambda one: [one.id])


def evicted(asked: Question) -> ItemPage:
    found = asked.view.evicted(all=asked["all"])
    return _part(asked, found, documents.evicted, lambda one: [one.by, one.key])


def why(asked: Question) -> ItemPage:
    found = asked.view.why(asked["thing"], limit=asked["limit"], hunks=False)
    return ItemPage(
        [documents.reason(reason, answer) for answer in found.answers for reason in answer]
    )


def tree(asked: Question) -> WholeDocument:
    return WholeDocument(documents.tree(asked.view.tree(limit=asked["limit"])))


def brief(asked: Question) -> WholeDocument:
    made = asked.view.brief(
        max_tokens=asked["max_tokens"],
        target=cast("Target", asked["target"]),
        since=asked["since"],
        disk=False,
    )
    return WholeDocument(documents.brief(made))


def _part(
    asked: Question,
    found: Iterable[Item],
    document: Callable[[Item], dict[str, Any]],
    key: Callable[[Item], list[int | str]],
) -> ItemPage:
    """The next items of a list that is worked out as a whole."""
    coming = iter(found)
    if asked.after is not None and not any(key(one) == asked.after for one in coming):
        raise BadQuery(
            "what this cursor is at is no longer in the list", hint="ask again without a cursor"
        )
    part = list(islice(coming, asked["limit"]))
    is_last = next(coming, None) is None
    return ItemPage([document(one) for one in part], None if is_last else key(part[-1]))


# -- over all sessions ----------------------------------------------------------------------------


def search(asked: Question) -> ItemPage:
    found = asked.served.store.search(
        asked["q"],
        **{name: asked[name] for name in ("project", "agent", "tool", "path", "session", "limit")},
        kinds=asked["kind"],
    )
    return ItemPage([documents.hit(one) for one in found])


def blob(asked: Question) -> Attachment:
    """Content by its digest, from the commit that holds it: who may read that may read this, and erased is erased."""
    digest = asked["digest"]
    view = asked.served.store.read(asked["session"])
    ref = f"@{asked['seq']}"
    store = asked.served.store.as_read
    for found in store.commits(view.id, seqs=[asked["seq"]], load=False):
        names = [name for name, item in found.content.items() if _is(item, digest)]
        if names:
            (whole,) = store.commits(view.id, seqs=[asked["seq"]])
            item = whole.content[names[0]]
            if isinstance(item, Gone):
                raise Erased(f"the content of {ref} was erased", session=view.id)
            if isinstance(item, bytes):
                return Attachment(item, f"{view.id}-{asked['seq']}-{digest[:8]}")
    raise NotFound(
        f"no content {digest!r:.20} in {ref} of session {view.id}",
        hint="the log shows the digest and size of content that it does not hold itself",
        session=view.id,
    )


def _is(item: object, digest: str) -> bool:
    return isinstance(item, Large) and item.digest.hex() == digest and item.size <= BLOB_MAX


# -- the table ------------------------------------------------------------------------------------


def _of_session(rest: str, *parameters: RouteParameter, **more: Any) -> Endpoint:
    return Endpoint(path=f"/sessions/{{session}}{rest}", parameters=(SESSION, *parameters), **more)


TABLE = (
    Endpoint(
        path="/sessions",
        name="sessions",
        about="Sessions, most recently used first.",
        parameters=(
            PROJECT,
            AGENT,
            RouteParameter(name="status", about="Only with this status.", choices=SHOWN),
            _limit(),
        ),
        answer=sessions,
        paged=True,
    ),
    _of_session(
        "",
        name="session",
        about="A session at a glance.",
        answer=session,
        gives="document",
        schema=documents.SESSION,
        tag="read",
    ),
    _of_session(
        "/log",
        AFTER,
        NEWEST,
        _limit(),
        name="log",
        answer=log,
        paged=True,
        tag="log",
        about="Commits in order. Content that the log does not hold itself is shown by its digest and size.",
    ),
    _of_session(
        "/commits/{ref}",
        RouteParameter(
            name="ref", about="A position: @42, t5, head, a tag.", required=True, in_path=True
        ),
        name="commit",
        about="One commit in full.",
        answer=commit,
        gives="document",
        schema=documents.COMMIT,
        tag="read",
    ),
    _of_session(
        "/turns",
        AFTER,
        NEWEST,
        _limit(),
        name="turns",
        answer=turns,
        paged=True,
        tag="log",
        about="Turns: where each is in the log, how it ended and what began it.",
    ),
    _of_session(
        "/state",
        RouteParameter(name="at", about="A position: t5, @42, a tag; default: the head."),
        RouteParameter(
            name="collection",
            about="Only this collection.",
            kind="list",
            choices=tuple(COLLECTIONS),
        ),
        name="state",
        about="The state at a position.",
        answer=state,
        gives="document",
        schema=documents.STATE,
        tag="read",
    ),
    _of_session(
        "/diff/{range}",
        RouteParameter(
            name="range", about="A turn (t5) or a range (t4..t5).", required=True, in_path=True
        ),
        name="diff",
        about="What changed in a turn or between two positions.",
        answer=diff,
        gives="document",
        schema=documents.DIFF,
        tag="read",
    ),
    _of_session(
        "/calls",
        RouteParameter(name="status", about="Only calls that ended so.", choices=CALL_STATUSES),
        TOOL,
        _limit(),
        name="calls",
        about="Calls, newest first.",
        answer=calls,
        paged=True,
        tag="read",
    ),
    _of_session(
        "/files",
        RouteParameter(
            name="last", about="Only the last N turns.", kind="whole", least=1, most=10_000
        ),
        RouteParameter(
            name="reads", about="Files that were only read too.", kind="flag", default=False
        ),
        _limit(),
        name="files",
        about="Files that were touched, with their net change.",
        answer=files,
        paged=True,
        tag="log",
    ),
    _of_session(
        "/decisions",
        RouteParameter(
            name="which",
            about="Which decisions.",
            default="in force",
            choices=("in force", "superseded", "all"),
        ),
        _limit(),
        name="decisions",
        about="Decisions, with what superseded them.",
        answer=decisions,
        paged=True,
        tag="log",
    ),
    _of_session(
        "/why",
        RouteParameter(
            name="thing", about="A path, a topic, a name, a call, a commit.", required=True
        ),
        _limit(default=50),
        name="why",
        about="Why something is as it is.",
        answer=why,
    ),
    _of_session(
        "/evicted",
        RouteParameter(name="all", about="Of every compaction.", kind="flag", default=False),
        _limit(),
        name="evicted",
        about="What left the agent's view.",
        answer=evicted,
        paged=True,
        tag="log",
    ),
    _of_session(
        "/tree",
        _limit(TREE_MAX, TREE_MAX),
        name="tree",
        about="The tree of forks, retries and children that the session is in.",
        answer=tree,
        gives="document",
        schema=documents.TREE,
    ),
    _of_session(
        "/brief",
        RouteParameter(
            name="max_tokens",
            about="The most tokens.",
            kind="whole",
            default=MAX_TOKENS,
            least=MIN_TOKENS,
            most=TOKENS_MAX,
        ),
        RouteParameter(
            name="target", about="The reader.", default="generic", choices=get_args(Target)
        ),
        RouteParameter(name="since", about="Begin with what happened after this position."),
        name="brief",
        about="What the next session must know.",
        answer=brief,
        gives="document",
        schema=documents.BRIEF,
    ),
    Endpoint(
        path="/search",
        name="search",
        about="The best matches in all sessions.",
        parameters=(
            RouteParameter(name="q", about='Words, "a phrase", prefix*, -not.', required=True),
            PROJECT,
            AGENT,
            TOOL,
            RouteParameter(name="path", about="Only matches about this path or part of one."),
            RouteParameter(name="session", about="Only in this session."),
            RouteParameter(
                name="kind",
                about="Only commits of this kind.",
                kind="list",
                choices=tuple(sorted(KINDS)),
            ),
            _limit(SEARCH_MAX, 20),
        ),
        answer=search,
    ),
    Endpoint(
        path="/blobs/{digest}",
        name="blob",
        about="Content that a commit holds by its digest, as an attachment.",
        parameters=(
            RouteParameter(
                name="digest", about="As the log shows it.", required=True, in_path=True
            ),
            RouteParameter(name="session", about="The session of the commit.", required=True),
            RouteParameter(
                name="seq", about="The commit.", kind="whole", required=True, least=1, most=SEQ_MAX
            ),
        ),
        answer=blob,
        gives="attachment",
    ),
    _of_session(
        "/tail",
        RouteParameter(
            name="after", about="The last seq that you have.", kind="whole", most=SEQ_MAX
        ),
        name="tail",
        about="Commits as they come (server-sent events), each once, after `Last-Event-ID` or `after`, else from the "
        "head on. `head` comes first; `commit` has its seq as id; `reset` names your cursor and ends the stream: "
        "read the log from there.",
        stream=tails.tail,
    ),
    Endpoint(
        path="/heads",
        name="heads",
        about="Which sessions moved, and where their heads are (server-sent events). There is no cursor: `all` says "
        "that you should look at all of them.",
        stream=tails.heads,
    ),
)
"""Every route of the service, in the order of its reference."""
