"""Gives a store what its projects and its user know. The code is loaded when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stator.errors import InvalidInput
from stator.runtime.base.arguments import text
from stator.runtime.base.context import Context
from stator.runtime.views.as_read import as_read
from stator.store import port

if TYPE_CHECKING:
    from stator.model.brief.doses import Dose
    from stator.model.records.types import CandidateRecord
    from stator.model.views.project_state import ProjectState
    from stator.model.window.words import CountTokens
    from stator.runtime.retention.project_values import Forgotten
    from stator.runtime.views.search import Progress

STATE_LIMIT = 30
"""Entries of a collection that an answer about a project holds, unless more are asked for."""
FROM_HOST = "host:"


class ProjectKeeper:
    """The methods of a store about projects and the user."""

    port: port.StorePort
    context: Context

    def state(
        self,
        *,
        project: str | None = None,
        user: bool = False,
        limit: int = STATE_LIMIT,
        progress: Progress | None = None,
    ) -> ProjectState:
        """What a project knows: per key of a collection the newest value of any of its sessions, with where it comes
        from, what it replaced, and what other sessions that were used since say instead. What is true of the user is
        there where the project says nothing else; `user=True` gives that alone. The newest `limit` entries of each
        collection; `more` counts the others. Without `project`, of the current one. An index is updated first; of a
        large store that is asked for the first time, that takes a while, and `progress` hears of it.
        """
        from stator.runtime.views import project_state as states

        if user:
            return states.user_state(self.port, self.context, limit=limit)
        found = states.project_state(
            self.port, self.context, self._scope(project), limit=limit, progress=progress
        )
        return states.with_user(self.port, self.context, found)

    def brief(
        self,
        prompt: str,
        *,
        project: str | None = None,
        max_tokens: int = 800,
        count_tokens: CountTokens | None = None,
    ) -> Dose:
        """What earlier sessions of a project know that bears on a first prompt, as an agent is given it: `str(dose)` is
        the text, `dose.lines` its lines with their sessions and keys. Empty, and false, if nothing does. What the
        agent loads itself (CLAUDE.md, AGENTS.md, GEMINI.md, MEMORY.md) is left out. Of one session: `view.brief()`.
        """
        from stator.runtime.brief.doses import prompt_dose

        context = replace(self.context, project=self._scope(project))
        return prompt_dose(
            self.port, context, text(prompt, "prompt"), seen=as_read(self.port, context),
            max_tokens=max_tokens, count_tokens=count_tokens,
        )  # fmt: skip

    def prefer(
        self,
        name: str,
        value: Any,
        *,
        project: str | None = None,
        user: bool = False,
        why: str = "",
    ) -> str:
        """Record how something is to be done in every session of a project or, with `user`, in every project. The id
        of the commit. `NotProven` below an agent: this is a person's word."""
        from stator.runtime.retention import project_values

        return project_values.prefer(
            self.port, self.context, self._scope(project), name, value, user=user, why=why
        )

    def confirm(
        self, ref: str, *, project: str | None = None, user: bool = False, why: str = ""
    ) -> tuple[str, CandidateRecord]:
        """Record what a candidate says as what it would become (a preference, fact, decision or dead end), by its name
        or the end of its commit's id: the id of the commit, and the candidate. `NotProven` below an agent."""
        from stator.runtime.retention import project_values

        return project_values.confirm(
            self.port, self.context, self._scope(project), ref, user=user, why=why
        )

    def forget(
        self, ref: str, *, project: str | None = None, user: bool = False, why: str = ""
    ) -> list[Forgotten]:
        """Let the values of a key, as recorded until now, hold no longer for a project or, with `user`, for the user:
        by the key, or by the end of a commit's id. `host:NAME` or `web:NAME`: everything that was made from
        what that host said.
        The sessions keep what they recorded. `NotProven` below an agent."""
        from stator.runtime.retention import project_values

        scope = self._scope(project)
        if ref.startswith("web:"):  # as an entry that is not verified names where it came from
            ref = FROM_HOST + ref.removeprefix("web:")
        if not ref.startswith(FROM_HOST):
            return project_values.forget(self.port, self.context, scope, ref, user=user, why=why)
        host = ref.removeprefix(FROM_HOST).strip()
        if user or not host:
            raise InvalidInput(
                "what came from a host is forgotten project by project",
                path="$.ref",
                hint="host:docs.example.com",
            )
        return project_values.forget_from(self.port, self.context, scope, host, why=why)

    def _scope(self, project: str | None) -> str:
        return self.context.project if project is None else project
