"""`stator flag`: flags a session, a turn or a call for review."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
stator flag review                 the last session
stator flag odd --on t5 --why "it never ran the tests"
"""


def flag(
    name: str,
    /,
    *,
    on: OnOption = None,
    why: WhyOption = "",
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Flag a session, a turn or a call for review.

    Parameters
    ----------
    name
        The kind of flag: review, odd.
    """
    return annotate(
        lambda who, place: who.flag(name, on=place, why=why),
        "stator.flag/1",
        session=session, on=on, store=store, json=json, pager=not no_pager,
    )  # fmt: skip
