"""Keeps documented import paths of 0.4 working for one release, each with a DeprecationWarning.

One table says where each of them went. The packages whose modules moved import this file; it is consulted only
for a module that Python did not find, so a program that uses the new paths pays nothing. To be removed in 0.8.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as type checkers know it, without the time that loading `typing` takes
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

MOVED = {
    "stator.importers.bringing": ("stator.importers.run", "stator.importing"),
    "stator.importers.finding": ("stator.importers.discover", "stator.importing"),
    "stator.model.approval": ("stator.model.calls.approval", "stator.approvals"),
    "stator.model.budget": ("stator.model.calls.budget", "stator.budgets"),
    "stator.model.canon": ("stator.model.values.canon", ""),
    "stator.model.chain": ("stator.model.log.chain", ""),
    "stator.model.compaction": ("stator.model.window.compaction", ""),
    "stator.model.delta": ("stator.model.log.delta", ""),
    "stator.model.drafting": ("stator.model.exchange.item_commits", ""),
    "stator.model.fold": ("stator.model.log.fold", ""),
    "stator.model.foreign": ("stator.model.exchange.items", ""),
    "stator.model.seal": ("stator.model.log.seal", ""),
    "stator.model.state": ("stator.model.records.types", ""),
    "stator.model.transcript": ("stator.model.window.transcript", ""),
    "stator.runtime.approvals": ("stator.runtime.driving.approvals", "stator.approvals"),
    "stator.runtime.budgets": ("stator.runtime.driving.budgets", "stator.budgets"),
    "stator.runtime.lifecycle": ("stator.runtime.driving.lifecycle", "stator.lifecycle"),
    "stator.runtime.recording": ("stator.runtime.ingest.recorder", ""),
    "stator.runtime.reruns": ("stator.runtime.branches.rerun", "stator.workflows"),
    "stator.runtime.settling": ("stator.runtime.driving.settlement", "stator.lifecycle"),
    "stator.runtime.workflows": ("stator.runtime.replay.workflow", "stator.workflows"),
}
"""Old module → the module that has its names now, and the public module to import from instead, if there is one."""

RENAMED: dict[tuple[str, str], str] = {
    ("stator.importers.bringing", "Bringing"): "ImportRun",
    ("stator.importers.bringing", "Brought"): "ImportResult",
    ("stator.importers.bringing", "Taken"): "ImportedConversation",
    ("stator.importers.bringing", "bring"): "import_transcripts",
    ("stator.importers.finding", "Sight"): "Discovery",
    ("stator.importers.finding", "Told"): "ImportCandidate",
    ("stator.importers.finding", "look"): "discover",
}
"""(Old module, old name) → what that name is called in the new module."""


class MovedModules:
    """A finder of last resort for the modules in `MOVED`; it is also their loader."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module that moved; None for every other name."""
        if name not in MOVED:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self)  # type: ignore[arg-type]  # a loader by its two methods

    def create_module(self, spec: ModuleSpec) -> None:
        """Python makes the module itself."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill the old module with the names of the new one, and warn the program that asked for it."""
        import importlib
        import warnings

        home, public = MOVED[module.__name__]
        warnings.warn(
            f"{module.__name__} moved; import from {public or home} instead (the old path works until 0.8)",
            DeprecationWarning,
            stacklevel=2,
        )
        found = importlib.import_module(home)
        names = {name: value for name, value in vars(found).items() if not name.startswith("__")}
        old = {old: names[new] for (where, old), new in RENAMED.items() if where == module.__name__}
        module.__dict__.update(names | old)


if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
    sys.meta_path.append(MovedModules())
