"""`stator forget`: lets something that a project or the user knows hold no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.errors import BadQuery
from stator.model.values.ids import short
from stator.surfaces.cli.parts.open_store import open_to_write
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        FromRefOption,
        JsonFlag,
        NoPagerFlag,
        StoreOption,
        WhyOption,
    )

EXAMPLES = """
stator forget naming                          by its key
stator forget decisions:store --why "we moved"
stator forget --user editor
stator forget --from host:docs.example.com    all that was made from what it said (web:docs.example.com too)
"""


def forget(
    ref: str | None = None,
    /,
    *,
    user: bool = False,
    from_: FromRefOption = None,
    why: WhyOption = "",
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Let something that the project knows hold no longer.

    Values that were recorded until now do not hold any more; one that is recorded later does. The sessions keep what
    they recorded: to remove content, see stator erase. Only a person can say so: below an agent it is refused.

    Parameters
    ----------
    ref
        A key as stator state --project shows it, COLLECTION:KEY, or the end of a commit's id.
    user
        For every project of yours: something that holds for you.
    """
    if (ref is None) == (from_ is None):
        raise BadQuery("give a key, or --from host:NAME", hint="stator state --project lists keys")
    if from_ is not None and not from_.startswith(("host:", "web:")):
        raise BadQuery(f"--from takes host:NAME, not {from_!r:.60}", hint="host:docs.example.com")
    with open_to_write(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        found = opened.store.forget(str(from_ or ref), user=user, why=why)
        if json:
            plain = [
                {
                    "collection": one.collection,
                    "key": one.key,
                    "session": one.session,
                    "commit": one.commit,
                }
                for one in found
            ]
            screen.document("stator.forget/1", {"forgotten": plain})
            return 0
        if not found:
            return opened.report_empty(f"nothing that this project knows was made from {from_}")
        names = opened.names()
        for one in found:
            where = "" if user else f"  {names[one.session]}"
            line = Line(f"{one.collection} ", "dim").add(one.key.replace("\n", " "), "bold")
            screen.line(line.add(f"{where} {short(one.commit)}", "dim"))
        screen.line(
            Line(
                f"{count(len(found), 'key')} forgotten; the sessions keep what they recorded", "dim"
            )
        )
    return 0
