"""`stator score`: rates a session, a turn or a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.errors import BadQuery
from stator.surfaces.cli.parts.annotate import annotate

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        JsonFlag,
        NoPagerFlag,
        OnOption,
        SessionOption,
        StoreOption,
        WhyOption,
    )

EXAMPLES = """
stator score helpful 0.8           the last session
stator score correct 1 --on t5 --why "as asked"
"""


def score(
    name: str,
    value: str,
    /,
    *,
    on: OnOption = None,
    why: WhyOption = "",
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Rate a session, a turn or a call with a number.

    Parameters
    ----------
    name
        What the number measures: helpful, correct.
    value
        A number, stored in thousandths.
    """
    try:
        number = float(value)
    except ValueError:
        raise BadQuery(f"{value!r:.40} is not a number", hint="stator score helpful 0.8") from None
    return annotate(
        lambda who, place: who.score(name, number, on=place, comment=why),
        "stator.score/1",
        session=session, on=on, store=store, json=json, pager=not no_pager,
    )  # fmt: skip
