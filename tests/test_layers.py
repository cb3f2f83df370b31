"""The dependency rule, checked by walking every import of the package.

    surfaces  →  runtime  →  store.port  →  model

Imports inside functions and under TYPE_CHECKING count too: what a file can reach, it depends on.
Every exception stands here, with its reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
FILES = sorted((SOURCE / "stator").rglob("*.py"))
CONCRETE_STORES = ("stator.store.memory", "stator.store.sqlite")
CONTRACT = ("stator.store.contract",)
"""A test suite that ships: it makes commits in a memory store to bring them to the one under test."""

MAY_IMPORT = {
    "_moved": (),
    "extensions": ("stator.errors",),
    "approvals": ("stator.model", "stator.runtime"),
    "budgets": ("stator.model", "stator.runtime"),
    "lifecycle": ("stator.model", "stator.runtime"),
    "workflows": ("stator.model", "stator.runtime"),
    "importing": ("stator.importers",),
    "model": ("stator.errors", "stator.model", "stator._moved"),
    "store": ("stator.errors", "stator.model", "stator.store"),
    "runtime": (
        "stator.errors",
        "stator.model",
        "stator.runtime",
        "stator.store.port",
        "stator._moved",
    ),
    "importers": (
        "stator.errors",
        "stator.model",
        "stator.runtime",
        "stator.store.port",
        "stator.importers",
        "stator.locations",
        "stator.extensions",
        "stator._moved",
    ),
    "hooks": (
        "stator.errors",
        "stator.model",
        "stator.runtime",
        "stator.store.port",
        "stator.importers",
        "stator.hooks",
        "stator.locations",
    ),
    "surfaces": (
        "stator.errors",
        "stator.model",
        "stator.runtime",
        "stator.connect",
        "stator.hooks",
        "stator.importers",
        "stator.protocol",
        "stator.surfaces",
        "stator.locations",
        "stator.__version__",
    ),
    "errors": (),
    "locations": (),
    "connect": (
        "stator.errors",
        "stator.locations",
        "stator.model",
        "stator.runtime",
        "stator.store",
        "stator.extensions",
        "stator.hooks",
        "stator.importers",
    ),
    "aio": ("stator.connect", "stator.runtime", "stator.store.port"),
    "testing": (
        "stator.errors",
        "stator.model",
        "stator.runtime",
        "stator.store",
        "stator.connect",
    ),
    "pytest_plugin": ("stator.testing",),
}
"""Part of the package → what of the package it may name."""

IMPURE = frozenset(
    "asyncio concurrent fcntl ftplib getpass http io locale logging mmap multiprocessing os pathlib "
    "platform pwd queue random resource secrets select selectors shutil signal smtplib socket "
    "sqlite3 ssl subprocess sys tempfile threading time urllib apsw cyclopts rich".split()
)
"""What the model may not import: I/O, clocks, randomness, concurrency."""
INJECTED = frozenset("os random secrets socket subprocess sys time uuid uuid_utils".split())
"""What the runtime is given instead of taking."""
RUNTIME_EXCEPTIONS = {
    # asks git about the folder an agent works in; git is another program
    "stator.runtime.files.git": {"os", "subprocess"},
    # looks at the files an agent's tools touch, before and after
    "stator.runtime.driving.observe": {"os"},
    # opens and writes them, folder by folder, so that no link is followed
    "stator.runtime.files.safe_io": {"os"},
    # executes the supervisor of a run and ends what a dead one left: other programs, as git is
    "stator.runtime.runs.processes": {"os", "subprocess", "sys"},
    # a run's folder is not the store's: it is this machine's, and so is the lock that says it lives
    "stator.runtime.runs.folder": {"os"},
    # a bundle is a file that a person names; which zstd there is depends on the interpreter
    "stator.runtime.bundles.file": {"os", "sys"},
    # the type of a path that callers hand in
    "stator.runtime.facade.store": {"os"},
    # looks whether asyncio is loaded at all, so as not to load it
    "stator.runtime.base.context": {"sys"},
}
NOT_NAMES = ("utils", "util", "helpers", "helper", "manager", "common", "misc")


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def modules() -> frozenset[str]:
    return frozenset(name_of(path) for path in FILES)


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every module a file names, wherever in the file it does; names of a module count as its own."""
    found: list[str] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            base = node.module or ""
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                found.append(whole if whole in modules() or base == "stator" else base)
    return tuple(found)


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def allowed(target: str, permitted: tuple[str, ...]) -> bool:
    return any(target == name or target.startswith(name + ".") for name in permitted)


def files_of(part: str) -> list[Path]:
    return [path for path in FILES if part_of(name_of(path)) == part]


def calls(path: Path) -> Iterator[tuple[str, int]]:
    """What a file calls, and every dotted name it reads: `print`, `os.environ`, `sys.exit`."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node.lineno
        elif isinstance(node, ast.Attribute):
            yield ast.unparse(node), node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module in ("os", "sys"):
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(SOURCE)}:{line}"


@pytest.mark.parametrize("part", sorted(MAY_IMPORT))
def test_a_part_names_only_the_parts_below_it(part):
    wrong = [
        f"{name_of(path)} imports {target}"
        for path in files_of(part)
        for target in imports(path)
        if target.split(".")[0] == "stator" and not allowed(target, MAY_IMPORT[part])
    ]
    assert wrong == []


def test_every_part_of_the_package_has_a_rule():
    parts = {part_of(name_of(path)) for path in FILES} - {""}
    assert parts <= MAY_IMPORT.keys()


def test_the_model_does_no_io_reads_no_clock_and_draws_no_randomness():
    wrong = [
        f"{name_of(path)} imports {target}"
        for path in files_of("model")
        for target in imports(path)
        if target.split(".")[0] in IMPURE
    ]
    assert wrong == []


def test_the_model_calls_nothing_that_looks_at_the_world():
    clocks = (".now", ".today", ".utcnow", "uuid.uuid1", "uuid.uuid4")
    wrong = [
        f"{where(path, line)}: {name}"
        for path in files_of("model")
        for name, line in calls(path)
        if name in ("open", "input", "print") or name.endswith(clocks)
    ]
    assert wrong == []


def test_the_model_takes_only_the_type_from_uuid():
    wrong = [
        name_of(path)
        for path in files_of("model")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom)
        and node.module == "uuid"
        and {alias.name for alias in node.names} != {"UUID"}
    ]
    assert wrong == []


def test_the_runtime_is_given_time_ids_and_randomness():
    wrong = [
        f"{name_of(path)} imports {target}"
        for path in files_of("runtime")
        for target in imports(path)
        if target.split(".")[0] in INJECTED
        and target not in RUNTIME_EXCEPTIONS.get(name_of(path), set())
    ]
    assert wrong == []


def test_every_exception_is_still_needed():
    for module, excepted in RUNTIME_EXCEPTIONS.items():
        path = next(path for path in FILES if name_of(path) == module)
        assert excepted <= set(imports(path))


def test_concrete_stores_are_named_only_where_things_are_put_together():
    wrong = [
        f"{name_of(path)} imports {target}"
        for path in FILES
        for target in imports(path)
        if allowed(target, CONCRETE_STORES)
        and name_of(path) not in ("stator.connect", "stator.testing")
        and not allowed(name_of(path), CONCRETE_STORES)  # a store's own modules know each other
        and not allowed(name_of(path), CONTRACT)
    ]
    assert wrong == []


def test_one_store_does_not_know_the_other():
    for path in files_of("store"):
        if allowed(name_of(path), CONTRACT):
            continue
        own = next((name for name in CONCRETE_STORES if allowed(name_of(path), (name,))), "")
        others = [name for name in CONCRETE_STORES if name != own]
        assert not [target for target in imports(path) if allowed(target, tuple(others))]


def test_only_surfaces_and_connect_read_the_environment():
    wrong = [
        where(path, line)
        for path in FILES
        if part_of(name_of(path)) not in ("surfaces", "connect")
        for name, line in calls(path)
        if name.startswith(("os.environ", "os.getenv"))
    ]
    assert wrong == []


def test_only_surfaces_print_or_exit():
    ways = (
        "print",
        "exit",
        "quit",
        "SystemExit",
        "sys.exit",
        "sys.stdout",
        "sys.stderr",
        "os._exit",
    )
    wrong = [
        f"{where(path, line)}: {name}"
        for path in FILES
        if part_of(name_of(path)) != "surfaces"
        for name, line in calls(path)
        if name in ways or name.startswith(("sys.stdout.", "sys.stderr."))
    ]
    assert wrong == []


def test_no_module_is_named_after_nothing():
    assert not [name for name in modules() if name.split(".")[-1] in NOT_NAMES]


PROXY_MAY = {("stator.surfaces.proxy.http", "httpx2"), ("stator.surfaces.loopback", "uvicorn")}
"""A proxy over HTTP is a server and a client of its own, without the SDK."""


def test_only_the_mcp_server_knows_its_sdk():
    """It takes over a second to load."""
    sdk = {"mcp", "mcp_types", "anyio", "pydantic", "starlette", "uvicorn", "httpx2"}
    wrong = [
        f"{name_of(path)} imports {target}"
        for path in FILES
        for target in imports(path)
        if target.split(".")[0] in sdk
        and not allowed(name_of(path), ("stator.surfaces.mcp",))
        # these look whether it is installed
        and name_of(path)
        not in [f"stator.surfaces.cli.commands.{name}" for name in ("mcp", "proxy")]
        and (name_of(path), target) not in PROXY_MAY
    ]
    assert wrong == []


def test_nobody_uses_the_standard_librarys_sqlite():
    assert not [name_of(path) for path in FILES if "sqlite3" in imports(path)]


def test_recorded_content_cannot_be_executed():
    dangerous = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}
    assert not [name_of(path) for path in FILES if dangerous & set(imports(path))]


def test_every_module_says_what_it_is_for():
    assert not [name_of(path) for path in FILES if not ast.get_docstring(tree_of(path))]
