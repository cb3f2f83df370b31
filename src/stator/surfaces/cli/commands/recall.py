"""`stator recall`: shows the content behind a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stator.model.values import canon
from stator.model.values.json_text import shown
from stator.runtime.views.refs import with_session
from stator.runtime.window.recall import Recalled
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, SessionOption, StoreOption

EXAMPLES = """
stator recall decision:auth        the decision on a topic
stator recall call:c_7f2a91bc      the arguments and the result of a call
stator recall entry:@12            the message at that commit
stator recall file:auth.py --session fix-login
stator recall auth.py              the only key that left the view and ends so
stator recall @12                  what left the view and is at that commit
"""


def recall(
    key: str,
    /,
    *,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show the content behind a key, and where it came from.

    Parameters
    ----------
    key
        The key, as stator evicted lists it: decision:auth, call:c_7f2a91bc, entry:@12. With its session, as agents
        are told it: s_7f2a91bc:decision:auth. Of what left the view, the end of its key, the name of a file or its
        position, @12, is enough.
    """
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        named, key = with_session(key)
        found = opened.session(named or session).recall(key)
        if json:
            screen.document("stator.recalled/1", _as_json(found))
        else:
            _show(screen, found)
    return 0 if found.status == "recallable" else 1


def _as_json(found: Recalled) -> dict[str, Any]:
    return {**msgspec.structs.asdict(found), "content": canon.to_plain(found.content)}


def _show(screen: Screen, found: Recalled) -> None:
    line = Line(found.key, "bold").add(f"  @{found.seq}", "id").add(f" · t{found.turn}", "dim")
    line.add(f" · {found.actor} · from {found.source}, {found.trust}", "dim")
    if found.status != "recallable":
        line.add(f" · {found.status}", "bad")
    screen.line(line)
    content = found.content
    if isinstance(content, dict):
        for name, value in content.items():
            text = shown(value)
            label = Line(f"{name}: ", "dim")
            rows = text.split("\n")
            screen.whole([label.add(rows[0]) if len(rows) == 1 else label])
            if len(rows) > 1:
                screen.whole(Line(f"  {row}") for row in rows)
    elif content is not None:
        screen.whole(Line(row) for row in shown(content).split("\n"))
