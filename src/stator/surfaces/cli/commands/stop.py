"""`stator stop`: stops a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.model.sessions.detached_run import GRACE_S
from stator.surfaces.cli.commands.ps import as_json, ending
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, StoreOption

EXAMPLES = """
stator stop 3fa91c07               send SIGTERM, then SIGKILL after ten seconds
stator stop r_3fa91c07 --grace 60
"""


def stop(
    run: str,
    /,
    *,
    grace: float = GRACE_S,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Stop a run, and record that the stop was requested.

    Sends SIGTERM to the program and its process group, and SIGKILL after the grace period. Does nothing if the
    run has already ended. Exits with 1 if the run is still running.

    Parameters
    ----------
    run
        The id of the run, or the last characters of it.
    grace
        Seconds the program has to end by itself.
    """
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        found = opened.store.attach(run)
        status = found.stop(grace_s=grace)
        standing = found.standing()
        if json:
            screen.document("stator.run/1", as_json(standing))
        else:
            screen.line(ending(standing))
    return FINDING if status == "running" else OK
