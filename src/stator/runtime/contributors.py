"""Contributors: whoever adds to a session without driving it."""

from __future__ import annotations

from typing import Any

from stator.model.commit import Draft
from stator.runtime.context import Context
from stator.runtime.marks import Marker
from stator.store import port


class Contributor(Marker):
    """Adds to a session without driving it: the closed list of kinds that need no lease."""

    def __init__(self, store: port.Store, session: str, context: Context, principal: str) -> None:
        self._store = store
        self._id = session
        self._context = context
        self._principal = principal
        self._root = context.root
        self._app_version = 1

    def _draft(self, kind: str, **fields: Any) -> Draft:
        fields.setdefault("actor", "user")
        return Draft(
            id=self._context.mint("commit"),
            session=self._id,
            kind=kind,
            principal=fields.pop("principal", self._principal),
            **fields,
        )

    def _submit(self, draft: Draft) -> str:
        return self._store.append(self._id, [draft], barrier=True)[0].id
