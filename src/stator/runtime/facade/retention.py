"""Gives a store retention and erasure: policies, holds, collecting. Their code is loaded when it is first used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stator.runtime.base.context import Context
from stator.store import port

if TYPE_CHECKING:
    from stator.model.sessions.retention import Plan
    from stator.runtime.retention.erase import Erasing, ErasureResult
    from stator.runtime.retention.policies import Done, Policies


class Keeper:
    """The retention methods of a store."""

    port: port.StorePort
    context: Context

    def retention(self, *policies: str, project: str | None = None) -> Policies:
        """How long sessions are kept; with policies (`"trash=90d"`, `"keep=20"`, `"trash=off"`), set them first.

        For the project, or for the whole store with `project=""`.
        """
        from stator.model.sessions.retention import parse
        from stator.runtime.retention import policies as retention

        scope = self.context.project if project is None else project
        if policies:
            retention.set_policies(
                self.port, self.context, parse(policies), project=scope, by=self.context.principal
            )
        return retention.policies(self.port, scope)

    def hold(self, name: str, *, why: str = "") -> None:
        """Keep a session regardless of the policies, until it is released."""
        from stator.runtime.retention import policies as retention

        by = self.context.principal
        retention.hold(self.port, self.context, self._named(name), by=by, why=why)

    def release(self, name: str) -> bool:
        """Let the policies apply to a session again; False if it was not held."""
        from stator.runtime.retention import policies as retention

        by = self.context.principal
        return retention.release(self.port, self.context, self._named(name), by=by)

    def restore(self, name: str) -> bool:
        """Take a session out of the trash, by its id or its name; False if it was not there."""
        from stator.runtime.base import project_flags
        from stator.runtime.retention import policies as retention

        session = project_flags.find_in_trash(self.port, name) or self._named(name)
        return retention.restore(self.port, self.context, session, by=self.context.principal)

    def gc(self, *, project: str | None = None, max_size: str = "") -> Plan:
        """Plan what the policies, and a maximum size ("2GB"), would remove now. Changes nothing."""
        from stator.model.sessions.retention import parse_size
        from stator.runtime.retention import policies as retention

        most = parse_size(max_size) if max_size else None
        return retention.plan(self.port, self.context, project=project, max_bytes=most)

    def collect(self, plan: Plan, *, yes: bool = False) -> list[Done]:
        """Apply the plan that `gc` returned. A plan that removes too much is `WrongState` unless `yes`."""
        from stator.runtime.retention import policies as retention

        by = self.context.principal
        return list(retention.apply(self.port, self.context, plan, by=by, yes=yes))

    def erasing(
        self,
        name: str,
        at: str = "",
        *,
        fields: Sequence[str] = (),
        record: tuple[str, str] | None = None,
        call: str = "",
        path: str = "",
    ) -> Erasing:
        """List what erasing would remove. Changes nothing.

        Of a session: content of the commit `at` a position, every put of a `record` (collection,
        key), of a `call`, or of the file at a `path`; with none of these, every payload it has.
        """
        from stator.runtime.retention import erase as erasing
        from stator.runtime.views.refs import locate

        session = self._named(name)
        if at:
            return erasing.of_commit(self.port, locate(self.port, session, at), fields)
        if record is not None:
            return erasing.of_record(self.port, session, *record)
        if call:
            return erasing.of_call(self.port, call, session=session)
        if path:
            return erasing.of_path(self.port, session, path)
        return erasing.of_session(self.port, session)

    def erase(self, plan: Erasing, *, why: str = "") -> ErasureResult:
        """Erase what `erasing` listed. The bytes are gone when this returns, unless the result is `pending`."""
        from stator.runtime.retention import erase as erasing

        return erasing.erase(self.port, self.context, plan, by=self.context.principal, why=why)

    def _named(self, name: str) -> str:
        from stator.runtime.views.refs import find_session

        return find_session(self.port, name, project=self.context.project or None).id
