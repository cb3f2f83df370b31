"""`stator vouch`: records a person's word that something is believed, or is not believed any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.errors import BadQuery
from stator.model.values.ids import short
from stator.surfaces.cli.parts.open_store import open_to_write
from stator.surfaces.cli.parts.person import refuse_agents
from stator.surfaces.cli.render import record_line
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        JsonFlag,
        NeededWhyOption,
        NoPagerFlag,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator vouch @42 --why "read it, it is our own page"
stator vouch host:docs.example.com --why "we write these docs"
stator vouch tool:fetch --withdraw --why "it followed a redirect"
"""


def vouch(
    ref: str,
    /,
    *,
    why: NeededWhyOption,
    withdraw: bool = False,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Vouch for something that came from the web, from a bundle or from another tool.

    A fact that was made from it can then be verified. Only a person can say so: below an agent it is refused, and
    in another store, or in a bundle, it means nothing.

    Parameters
    ----------
    ref
        A commit (@42, t5, its id), a call (its result is meant), host:NAME or tool:NAME.
    withdraw
        Take it back: it is not believed any more, and neither is what was made from it.
    """
    with open_to_write(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        owner, ref = ("", ref) if ref.startswith(("host:", "tool:")) else _parted(ref)
        if owner and session is not None:
            raise BadQuery(f"two sessions are named: {owner!r:.60} and {session!r:.60}")
        view = opened.session(owner or session)
        refuse_agents(
            opened.store.context.below(opened.store.port), "what is believed is a person's word"
        )
        made = opened.store.contribute(view.id).vouch(ref, why=why, withdraw=withdraw)
        commit = view.commit(made[2:])
        if json:
            found = {
                "session": view.id,
                "commit": made,
                "seq": commit.seq,
                "believed": not withdraw,
            }
            screen.document("stator.vouch/1", found)
        else:
            line = Line(view.name, "bold").add(" ").add(short(view.id), "id").add(": ")
            screen.line(line.extend(record_line.of_commit(commit)).add(f"  @{commit.seq}", "id"))
    return 0


def _parted(ref: str) -> tuple[str, str]:
    """The session that is named before a position, if one is, and the position."""
    owner, _, position = ref.rpartition(":")
    return owner, position
