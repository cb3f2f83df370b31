"""`stator prefer`: records how something is to be done in a project, or in all of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.errors import BadQuery
from stator.model.values import canon
from stator.surfaces.cli.parts.open_store import open_to_write
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import brief
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
stator prefer naming "kebab-case, date first"
stator prefer --user editor vim            in every project of yours
stator prefer --from 3fa91c07              what a session suggested, confirmed
"""


def prefer(
    name: str | None = None,
    value: str | None = None,
    /,
    *,
    user: bool = False,
    from_: FromRefOption = None,
    why: WhyOption = "",
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Record how something is to be done in this project, or in all of yours.

    It holds for every session of the project until a session records another value later. Only a person can say so:
    below an agent it is refused.

    Parameters
    ----------
    name
        What it is about.
    value
        How it is to be done.
    user
        For every project of yours; what a project says is stronger.
    """
    if (from_ is None) == (name is None or value is None) or (
        from_ is not None and name is not None
    ):
        raise BadQuery("give a name and a value, or --from REF", hint='stator prefer naming "…"')
    with open_to_write(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        if from_ is not None:
            made, candidate = opened.store.confirm(from_, user=user, why=why)
            said = candidate.quote if candidate.value is None else candidate.value
            name, shown = candidate.name, brief(canon.from_plain(said))
        else:
            assert name is not None
            assert value is not None
            made, shown = opened.store.prefer(name, value, user=user, why=why), brief(value)
        if json:
            screen.document("stator.prefer/1", {"commit": made, "name": name, "user": user})
        else:
            where = "in every project of yours" if user else "in this project"
            screen.line(Line(name, "bold").add(f" = {shown}").add(f"  {where}", "dim"))
    return 0
