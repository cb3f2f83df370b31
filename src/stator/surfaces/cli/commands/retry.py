"""`stator retry`: try a turn again, beside the session it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stator.model.values import canon
from stator.model.values.ids import short
from stator.runtime.branches import retry as retries
from stator.runtime.branches.retry import Retry
from stator.surfaces.cli.commands import fork
from stator.surfaces.cli.parts.hand_over import become, check_program, environ_for
from stator.surfaces.cli.parts.scope import Asking, telling
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import brief
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EffectsOption,
        JsonFlag,
        NoPagerFlag,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator retry t5                    a sibling of turn 5, to go on in
stator retry t5 -- python agent.py     and go on, with a program
stator retry t5 --effects run      it may write without asking
stator diff t5 t5.2                then: how the two differ
"""


def retry(
    turn: str,
    /,
    *command: str,
    name: str | None = None,
    effects: EffectsOption = "ask",
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Try a turn again, in a session of its own that begins where the turn did.

    Parameters
    ----------
    turn
        The turn: t5, t-1, SESSION:t5.
    command
        After --: the program to go on with; it finds $STATOR_STORE and $STATOR_SESSION.
    name
        What the new session is called; default: NAME~t5.2.
    """
    if command:
        check_program(command)
    with telling(store) as ask:
        view, _ = ask.aim(session, turn)
        opened = ask.store
        made = retries.make(
            opened.port, opened.context, view.id, turn, effects=effects, name=name or ""
        )
        if not command:
            with Screen(json=json, pager=not no_pager) as screen:
                _show(screen, made, ask)
            return 0
        environ = environ_for(made.row, ask)
        environ["STATOR_SESSION"] = made.row.id
    return become(command, environ)


def _show(screen: Screen, made: Retry, ask: Asking) -> None:
    if screen.json:
        screen.document("stator.retry/1", _plain(made))
        return
    screen.lines(fork.made(made.row, ask, f"t{made.turn}"))
    ref = f"{short(made.original)}:t{made.turn}"
    if made.prompt is not None:
        screen.line(Line("  asked: ", "dim").add(brief(made.prompt), "user"))
    screen.line(Line(f"  stator diff {ref} {ref}.{made.number}", "dim"))
    screen.line(Line(f"  stator adopt {ref}.{made.number}", "dim"))


def _plain(made: Retry) -> dict[str, Any]:
    return {
        **fork.plain(made.row),
        "turn": made.turn,
        "number": made.number,
        "made": made.made,
        "prompt": canon.to_plain(made.prompt),
    }
