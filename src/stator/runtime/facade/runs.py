"""Gives a store its detached runs. Their code is loaded when one of them is first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stator.runtime.base.context import Context
from stator.store import port

if TYPE_CHECKING:
    from stator.runtime.facade.run import Run


class Runner:
    """The methods of a store for runs."""

    port: port.StorePort
    context: Context

    def run(
        self, function: Callable[..., Any], /, *args: Any, session: str = "", restart: str = "no"
    ) -> Run:
        """Call a function in a process of its own, which outlives this one.

        The new process imports the function by its module and name; its arguments pass through JSON. In that
        process, `stator.open()` drives the session: the one named here, or a new one.
        """
        from stator.runtime.facade.run import start_function

        return start_function(
            self.port, self.context, function, args, session=session, restart=restart
        )

    def attach(self, run: str) -> Run:
        """Find a run by its id or the end of its id."""
        from stator.runtime.facade.run import find

        return find(self.port, self.context, run)

    def runs(self, *, session: str = "") -> list[Run]:
        """Every run of the store, or of a session; the newest first."""
        from stator.runtime.facade.run import every

        return every(self.port, self.context, session)
