"""`stator tag`: gives a position a name."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from stator.errors import BadPosition, BadQuery
from stator.model.log.query import SessionQuery
from stator.model.records.types import TagRecord
from stator.model.values.ids import short
from stator.model.values.position import check_tag
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_write
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.runtime.facade.view import SessionView
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, SessionOption, StoreOption

EXAMPLES = """
stator tag release                 the head of the last session
stator tag before-refactor t3      the end of turn 3
stator tag good fix-login:@42      then: stator diff fix-login good..head
"""


def tag(
    name: str,
    position: str | None = None,
    /,
    *,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Give a position a name.

    Parameters
    ----------
    name
        Any word that does not look like a position, such as release.
    position
        The position: t3, @42 or SESSION:t3; default: the head.
    """
    check_tag(name)
    with open_to_write(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        _refuse_session_name(opened, name)
        view, ref = opened.resolve(session, position)
        point = view.at(ref or "head")
        if point.session != view.id:
            raise BadPosition("a tag cannot name a position of another session")
        before = _where(view, name)
        opened.store.contribute(view.id).tag(name, f"@{point.seq}")
        if json:
            found = {"name": name, "session": view.id, "seq": point.seq}
            screen.document("stator.tag/1", found)
        else:
            line = Line(name, "bold").add(f" → @{point.seq} of {view.name} ")
            line.add(short(view.id), "id")
            moved = f" · it was at @{before} before" if before not in (0, point.seq) else ""
            screen.line(line.add(moved, "dim"))
    return 0


def _refuse_session_name(opened: OpenedStore, name: str) -> None:
    """A tag that is called as a session would be taken for it wherever a session is named."""
    query = SessionQuery(name=name, project=opened.project or None)
    if opened.store.as_read.sessions(query, limit=1).rows:
        raise BadQuery(
            f"{name!r:.60} is the name of a session; a tag needs another word",
            hint=f"tags of that session: stator state {shlex.quote(name)} --collection tags",
        )


def _where(view: SessionView, name: str) -> int:
    """Where a tag of a session is; 0 if it has none of that name."""
    tags = (entry.record for entry in view.entries("tags"))
    found = (one.seq for one in tags if isinstance(one, TagRecord) and one.name == name)
    return next(found, 0)
