"""Workflows: a recorded chain of calls as a file with parameters, run again; and reruns of recorded calls.

    with stator.connect() as store:
        workflow = stator.workflows.extract(store.read("release"), "t3..t5")
        print(stator.workflows.run(store, workflow, {"build": build, "publish": publish}))

See the guide on workflows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stator.model.calls.workflow import Parameter, Workflow, parse
from stator.runtime.branches import rerun as reruns
from stator.runtime.branches.rerun import Effects, Rerun, Tools
from stator.runtime.facade.store import Store
from stator.runtime.replay import workflow as workflows
from stator.runtime.replay.recorded_tools import RecordedTools
from stator.runtime.replay.workflow import Ran, extract

__all__ = [
    "Parameter",
    "Ran",
    "RecordedTools",
    "Rerun",
    "Workflow",
    "extract",
    "parse",
    "rerun",
    "run",
]


def run(
    store: Store,
    workflow: Workflow,
    tools: Tools,
    given: Mapping[str, Any] | None = None,
    *,
    session: str = "",
    effects: Effects = "ask",
    recorded: RecordedTools | None = None,
) -> Ran:
    """Run a workflow in a session of its own, up to its end, the first failure, or the first write that needs approval.

    `given` has its parameters. Run again under the same session name, it continues. Writes wait for a person's
    approval; `effects="run"` lets them run. `recorded` does what the shell and file tools of other agents did, below a
    folder, where `tools` has no tool of that name: `RecordedTools("inbox", workflow.root)`.
    """
    return workflows.run(
        store.port,
        store.context,
        workflow,
        tools,
        given,
        session=session,
        effects=effects,
        recorded=recorded,
    )


def rerun(
    store: Store,
    session: str,
    tools: Tools,
    span: str | None = None,
    *,
    effects: Effects = "ask",
    name: str = "",
) -> Rerun:
    """Run the recorded calls of a session again, of all turns or of some ("t3..t5"), and compare their results.

    It happens in a retry beside the session. Writes wait for a person's approval; `effects="run"` lets them run.
    """
    found = store.read(session).id
    return reruns.rerun(store.port, store.context, found, tools, span, effects=effects, name=name)
