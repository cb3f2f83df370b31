"""Records a score or a flag on a session, a turn or a call."""

from __future__ import annotations

from collections.abc import Callable

from stator.model.values.ids import short
from stator.runtime.facade.contributor import Contributor
from stator.runtime.views.refs import annotated
from stator.surfaces.cli.parts.open_store import open_to_write
from stator.surfaces.cli.render import record_line
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen


def annotate(
    make: Callable[[Contributor, str], str],
    schema: str,
    *,
    session: str | None,
    on: str | None,
    store: str | None,
    json: bool,
    pager: bool,
) -> int:
    """Record the annotation that `make` returns, as the current user, and show it."""
    with open_to_write(store) as opened, Screen(json=json, pager=pager) as screen:
        view = opened.session(session)
        place = annotated(opened.store.port, view.id, on) if on else ""
        made = make(opened.store.contribute(view.id), place)
        commit = view.commit(made[2:])
        if json:
            found = {"session": view.id, "commit": made, "seq": commit.seq, "on": place}
            screen.document(schema, found)
        else:
            line = Line(view.name, "bold").add(" ").add(short(view.id), "id").add(": ")
            screen.line(line.extend(record_line.of_commit(commit)).add(f"  @{commit.seq}", "id"))
    return 0
