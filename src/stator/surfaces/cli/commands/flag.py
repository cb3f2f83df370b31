"""`stator flag`: a mark that somebody should look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.surfaces.cli.parts.annotate import mark

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        JsonFlag,
        NoPagerFlag,
        OnOption,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator flag review                 the last session
stator flag odd --on t5 --why "it never ran the tests"
"""


def flag(
    name: str,
    /,
    *,
    on: OnOption = None,
    why: str = "",
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Mark a session, a turn or a call for somebody to look at.

    Parameters
    ----------
    name
        A word for it: review, odd.
    why
        What there is to see.
    """
    return mark(
        lambda who, place: who.flag(name, on=place, why=why),
        "stator.flag/1",
        session=session, on=on, store=store, json=json, pager=not no_pager,
    )  # fmt: skip
