"""The dependency rule, checked by walking every import of the package.

    surfaces  →  hooks  →  importers  →  runtime  →  store.port  →  model

and, inside a part, from room to room. Imports inside functions and under TYPE_CHECKING count too: what a file can
reach, it depends on. Every exception is listed here, with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import pytest

from house.lists import compared, expect_none
from house.trees import made, one, ours
from source_tree import ANYTHING, Module, SourceTree, circles, is_below

PARTS: dict[str, str] = {
    "errors": "model.log.shown_text",
    "worktrees": "",
    "locations": "worktrees",
    "locks": "",
    "owner": "errors locations locks worktrees model.sessions.ownership owner",
    "extensions": "errors",
    "model": "errors model",
    "store": "errors locks model store",
    "runtime": "errors locks touched_files model store.port runtime",
    "importers": "errors locations extensions model store.port runtime importers",
    "touched_files": "locks model.brief.shared_files",
    "hooks": "errors locations locks model store.port runtime importers hooks",
    "machine": "model runtime hooks owner store.port",
    "homes": "owner model store.port",
    "instruction_files": "owner",
    "index_files": "errors model store runtime",
    "connect": "errors locations extensions machine homes instruction_files index_files owner model store"
    " runtime importers hooks",
    "aio": "store.port runtime connect",
    "approvals": "model runtime",
    "budgets": "model runtime",
    "lifecycle": "model runtime",
    "workflows": "model runtime",
    "importing": "model importers",
    "testing": "errors model store runtime connect index_files",
    "pytest_plugin": "testing",
    "__main__": "surfaces",
    "surfaces": "errors locations locks touched_files owner model runtime importers hooks connect index_files surfaces"
    " __version__",
}
"""Part of the package → what of the package it may import."""

Steps = tuple[tuple[str, ...], ...]
ROOMS: dict[str, Steps] = {
    "model": (
        ("values",),
        ("records",),
        ("sessions",),
        ("log",),
        ("exchange",),
        ("extraction",),
        ("window",),
        ("calls",),
        ("views",),
        ("brief",),
        ("outlets",),
    ),
    "store": (
        ("port", "compress", "kept_commits", "reads_together", "sql"),
        ("rows", "one_tenant", "drafts", "kept_stores"),
        ("sandbox",),
        ("sqlite.lock_holders", "sqlite.shared_memory"),
        ("sqlite.connection", "sqlite.versions", "sqlite.driver_lock"),
        ("sqlite.projection",),
        ("sqlite.queries",),
        ("postgres.patience", "postgres.text"),
        ("postgres.wire",),
        ("postgres.connection",),
        ("postgres.session_row",),
        ("postgres.queries",),
        ("sqlite", "memory", "postgres"),
        ("sqlite.index",),
        ("contract",),
    ),
    "runtime": (
        ("base",),
        ("files",),
        ("views",),
        ("tails", "window"),
        ("brief",),
        ("driving",),
        ("branches", "runs"),
        ("bundles", "ingest", "retention"),
        ("exchange",),
        ("facade",),
        ("replay",),
    ),
    "importers": (
        ("reading", "default_folders"),
        ("format",),
        (
            *("claude_code", "codex", "gemini", "opencode", "copilot", "pi", "inspect_ai"),
            *("cline", "openhands", "swe_agent", "mini_swe_agent"),
        ),
        ("registry",),
        ("discover", "conversation", "agent_sessions", "memory_files"),
        ("again",),
        ("run",),
    ),
    "hooks": (
        ("event_names", "spool", "spool_key"),
        ("hook_note", "witness"),
        ("claude_code", "codex", "gemini", "cursor", "opencode"),
        ("mappers", "repeated_lines", "transcript_file", "given_notes"),
        ("witnesses", "unrecorded", "at_rest"),
        ("unplaced", "ingest"),
    ),
    "surfaces": (
        ("told_marks", "spool_counter", "light_start"),
        (
            "loopback",
            "web_addresses",
            "target",
            "hook_answer",
            "hook_reply",
            "write_notice_text",
            "agent_settings",
            "cli.registry",
            "cli.options",
        ),
        ("write_notice", "handover_request"),
        ("hook", "supervisor", "ingester"),
        ("cli.render cli.exits",),
        ("mcp", "proxy", "outlets", "http"),
        ("web",),
        ("cli.parts",),
        ("cli.commands",),
        ("cli",),
    ),
}
"""The rooms of each part, lowest first. A room imports itself and the rooms of earlier steps; rooms of one step do
not import each other. A room is a folder or a module, or several of them; the longest name that fits counts."""

NOT_YET: tuple[str, ...] = ()
"""Imports against the order of the rooms that are still there. May only shrink."""

CIRCLES_NOT_YET = frozenset[str]()
"""Modules that still import each other in a circle. May only shrink."""

DYNAMIC = {
    # the public names of the package are loaded when they are used
    "stator": {ANYTHING},
    # one module per agent, loaded when its first event arrives
    "stator.hooks.mappers": {"stator.hooks"},
    # one module per format, loaded when a file may be of that format
    "stator.importers.registry": {"stator.importers"},
    # one module per command, loaded when it is typed
    "stator.surfaces.cli.commands": {"stator.surfaces.cli.commands"},
    # the user's own functions, named on the command line
    "stator.surfaces.cli.parts.load_function": {ANYTHING},
    "stator.surfaces.target": {ANYTHING},
}
"""The modules that import by a name made while running, and the package that such a name begins with."""

CONCRETE_STORES = ("stator.store.memory", "stator.store.sqlite", "stator.store.postgres")
KNOW_STORES = (
    "stator.connect",
    "stator.index_files",
    "stator.testing",
    "stator.store.contract",
)
"""Who may name a concrete store: where things are put together, and the suite that compares stores with memory."""


def against_the_parts(tree: SourceTree, parts: Mapping[str, str]) -> list[str]:
    """Every import from a part that names something the part may not know."""
    root = tree.folder.name
    return [
        f"{module.name} imports {imported.target} ({tree.where(module, imported.line)})"
        for module in tree
        if module.part
        for imported in module.imports
        if imported.target.split(".")[0] == root
        and not is_below(
            imported.target,
            [f"{root}.{name}" for name in parts.get(module.part, "").split()],
        )
        # a package's own prefix is what a dynamic import of its modules names
        and not (imported.is_dynamic and imported.target == f"{root}.{module.part}")
    ]


def against_the_rooms(tree: SourceTree, rooms: Mapping[str, Steps]) -> list[str]:
    """Every import from a room of a room that does not come before it: "a.b imports a.c"."""
    return sorted(
        {
            f"{module.name} imports {imported.target}"
            for part, steps in rooms.items()
            for module in tree.part(part)
            for imported in module.imports
            if not _in_order(module, imported.target, f"{tree.folder.name}.{part}", steps)
        }
    )


def _in_order(module: Module, target: str, part: str, steps: Steps) -> bool:
    if not is_below(target, [part]):
        return True  # another part: `against_the_parts` has looked at it
    here, there = room_of(module.name, part, steps), room_of(target, part, steps)
    if here == there or there is None:
        return True
    return here is not None and there[0] < here[0]


def room_of(name: str, part: str, steps: Steps) -> tuple[int, str] | None:
    """The step and the room of a module; None for the part's own `__init__`."""
    fitting = [
        (len(prefix), step, room)
        for step, rooms in enumerate(steps)
        for room in rooms
        for prefix in room.split()
        if is_below(name, [f"{part}.{prefix}"])
    ]
    if not fitting:
        return None
    _, step, room = max(fitting)
    return step, room


def without_a_room(tree: SourceTree, rooms: Mapping[str, Steps]) -> list[str]:
    return [
        module.name
        for part, steps in rooms.items()
        for module in tree.part(part)
        if module.name != f"{tree.folder.name}.{part}"
        and room_of(module.name, f"{tree.folder.name}.{part}", steps) is None
        and not any(is_below(other.name, [module.name]) for other in tree if other is not module)
    ]


def rooms_that_are_not_there(tree: SourceTree, rooms: Mapping[str, Steps]) -> list[str]:
    return [
        f"{part}.{prefix}"
        for part, steps in rooms.items()
        for step in steps
        for room in step
        for prefix in room.split()
        if f"{tree.folder.name}.{part}.{prefix}" not in tree.modules
    ]


def dynamic_imports(tree: SourceTree) -> list[str]:
    return [
        f"{module.name} imports {imported.target}"
        for module in tree
        for imported in module.imports
        if imported.is_dynamic
    ]


def acquainted(tree: SourceTree, one: str, other: str) -> list[str]:
    """Imports from one package of another, in either direction."""
    return [
        f"{module.name} imports {imported.target}"
        for module in tree
        for imported in module.imports
        if (is_below(module.name, [one]) and is_below(imported.target, [other]))
        or (is_below(module.name, [other]) and is_below(imported.target, [one]))
    ]


def importing(tree: SourceTree, wanted: str, except_in: tuple[str, ...]) -> list[str]:
    """Every import of a module outside the places that may have it."""
    return [
        f"{module.name} imports {imported.target} ({tree.where(module, imported.line)})"
        for module in tree
        if module.name not in except_in
        for imported in module.imports
        if is_below(imported.target, [wanted])
    ]


# ── the package ──────────────────────────────────────────────────────────────────────────────────


def test_a_part_imports_only_the_parts_below_it():
    expect_none(against_the_parts(ours(), PARTS))


def test_every_part_has_a_rule_and_every_rule_has_a_part():
    assert {module.part for module in ours()} - {""} == PARTS.keys()


def test_a_room_imports_only_the_rooms_before_it():
    expect_none(compared(against_the_rooms(ours(), ROOMS), NOT_YET))


def test_every_module_is_in_a_room():
    expect_none(without_a_room(ours(), ROOMS))


def test_every_room_is_there():
    expect_none(rooms_that_are_not_there(ours(), ROOMS))


def test_no_imports_go_in_a_circle():
    cycles = ours().cycles()
    found = {name for cycle in cycles for name in cycle}
    expect_none(compared(found, CIRCLES_NOT_YET), f"{len(cycles)} circles")


def test_modules_are_imported_by_a_made_up_name_only_in_named_places():
    listed = [f"{module} imports {name}" for module, names in DYNAMIC.items() for name in names]
    expect_none(compared(dynamic_imports(ours()), listed))


def test_imports_are_absolute():
    expect_none(ours().where(module, line) for module in ours() for line in module.relative_imports)


def test_concrete_stores_are_named_only_where_things_are_put_together():
    expect_none(
        f"{module.name} imports {imported.target}"
        for module in ours()
        for imported in module.imports
        if is_below(imported.target, CONCRETE_STORES)
        and not is_below(module.name, KNOW_STORES)
        and not is_below(module.name, CONCRETE_STORES)  # a store's own modules know each other
    )


def test_only_the_module_of_locks_imports_fcntl():
    expect_none(importing(ours(), "fcntl", ("stator.locks",)))


def test_one_store_does_not_know_the_other():
    for first, second in combinations(CONCRETE_STORES, 2):
        expect_none(acquainted(ours(), first, second))


# ── the checks find what they are for ────────────────────────────────────────────────────────────

STEPS: dict[str, Steps] = {"runtime": (("base",), ("views", "files"), ("facade",))}


@pytest.mark.parametrize(
    "line",
    [
        "from stator.surfaces.cli import main",
        "import stator.surfaces.cli.main",
        "import stator.surfaces.cli.main as m",
        "from stator.surfaces import cli as c",
        "from ..surfaces.cli import main",
        "from .. import surfaces",
        "def f():\n    from stator.surfaces.cli import main",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import stator.surfaces.cli",
        "import importlib\nimportlib.import_module('stator.surfaces.cli')",
        "from importlib import import_module as load\nload('stator.surfaces.cli')",
        "from importlib import import_module\nimport_module(f'stator.surfaces.{name}')",
        "from importlib import import_module\nimport_module('stator.surfaces.' + name)",
        "from importlib import import_module\nimport_module(name='stator.surfaces.cli')",
        "__import__('stator.surfaces.cli')",
        "import builtins\nbuiltins.__import__('stator.surfaces.cli')",
        "import runpy\nrunpy.run_module('stator.surfaces.cli')",
    ],
)
def test_an_import_of_a_part_above_is_found_however_it_is_written(tmp_path, line):
    tree = made(tmp_path, {"runtime/x.py": line, "surfaces/cli/main.py": ""})
    wrong = against_the_parts(tree, {"runtime": "model runtime", "surfaces": "runtime surfaces"})
    assert len(wrong) == 1, wrong
    assert wrong[0].startswith("stator.runtime.x imports stator.surfaces")


def test_an_import_of_a_part_below_is_accepted(tmp_path):
    tree = made(tmp_path, {"runtime/x.py": "from stator.model import y", "model/y.py": ""})
    assert against_the_parts(tree, {"runtime": "model runtime", "model": "model"}) == []


def test_an_import_of_a_later_room_is_found(tmp_path):
    tree = made(
        tmp_path,
        {
            "runtime/base/a.py": "def f():\n    from stator.runtime.facade.b import c",
            "runtime/facade/b.py": "from stator.runtime.base import a",
        },
    )
    assert against_the_rooms(tree, STEPS) == [
        "stator.runtime.base.a imports stator.runtime.facade.b"
    ]


def test_rooms_of_one_step_do_not_import_each_other(tmp_path):
    tree = made(
        tmp_path,
        {"runtime/views/a.py": "import stator.runtime.files.b as b", "runtime/files/b.py": ""},
    )
    assert against_the_rooms(tree, STEPS) == [
        "stator.runtime.views.a imports stator.runtime.files.b"
    ]


def test_an_import_of_fcntl_elsewhere_is_found(tmp_path):
    tree = made(tmp_path, {"locks.py": "import fcntl", "runtime/x.py": "from fcntl import flock"})
    (found,) = importing(tree, "fcntl", ("stator.locks",))
    assert found.startswith("stator.runtime.x imports fcntl")


def test_stores_that_know_each_other_are_found(tmp_path):
    tree = made(
        tmp_path,
        {"store/memory.py": "from stator.store.sqlite import x", "store/sqlite/x.py": ""},
    )
    assert acquainted(tree, *CONCRETE_STORES[:2]) == [
        "stator.store.memory imports stator.store.sqlite.x"
    ]


def test_the_longest_name_decides_in_which_room_a_module_is():
    steps: Steps = (("sqlite.queries",), ("sqlite",))
    assert room_of("stator.store.sqlite.queries.x", "stator.store", steps) == (0, "sqlite.queries")
    assert room_of("stator.store.sqlite.x", "stator.store", steps) == (1, "sqlite")
    assert room_of("stator.store", "stator.store", steps) is None


def test_a_module_without_a_room_and_a_room_without_a_module_are_found(tmp_path):
    tree = one(tmp_path, "", "runtime/lonely.py")
    assert without_a_room(tree, STEPS) == ["stator.runtime.lonely"]
    assert "runtime.facade" in rooms_that_are_not_there(tree, STEPS)


def test_a_list_that_may_only_shrink_names_what_is_new_and_what_is_no_longer_needed():
    assert compared(["a", "b"], ["b", "c"]) == [
        "new: a",
        "no longer needed, take it off the list: c",
    ]
    assert compared(["a"], ["a"]) == []


def test_a_circle_is_found_also_when_one_half_is_only_for_type_checkers(tmp_path):
    checked = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from stator.runtime.a import A"
    )
    tree = made(
        tmp_path,
        {"runtime/a.py": "def f():\n    from stator.runtime import b", "runtime/b.py": checked},
    )
    assert tree.cycles() == [["stator.runtime.a", "stator.runtime.b"]]


def test_import_cycles_are_separated_and_the_largest_comes_first():
    edges = {"a": "b", "b": "a", "c": "de", "d": "c", "e": "f", "f": "c", "g": "a"}
    assert circles(edges) == [["c", "d", "e", "f"], ["a", "b"]]


def test_a_chain_is_no_circle():
    assert circles({"a": "b", "b": "c", "c": ""}) == []


def test_an_import_by_a_made_up_name_is_known_as_far_as_the_source_says(tmp_path):
    text = (
        "from importlib import import_module\n"
        "import_module(name)\n"
        "import_module(f'{__name__}.{name}')\n"
        "import_module(f'stator.importers.{name}.x')\n"
        "__import__('json')\n"
    )
    assert dynamic_imports(one(tmp_path, text)) == [
        f"stator.runtime.x imports {ANYTHING}",
        "stator.runtime.x imports stator.runtime.x",
        "stator.runtime.x imports stator.importers",
        "stator.runtime.x imports json",
    ]


@pytest.mark.parametrize("line", ["from . import y", "from ..model.y import z"])
def test_a_relative_import_is_found_and_resolved(tmp_path, line):
    tree = made(tmp_path, {"runtime/x.py": line, "runtime/y.py": "", "model/y.py": ""})
    module = tree.modules["stator.runtime.x"]
    assert module.relative_imports == (1,)
    assert {imported.target for imported in module.imports} <= {
        "stator.runtime.y",
        "stator.model.y",
    }
