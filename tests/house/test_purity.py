"""What a part may take from the world: files, clocks, chance, the environment, the terminal.

The model takes nothing. The runtime, importers, hooks and stores are given clocks, ids and randomness. Only surfaces
and `connect` read the environment; only surfaces print or exit. Every exception is listed here, with its reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from house.lists import expect_none
from house.trees import one, ours
from source_tree import SourceTree

IMPURE = frozenset(
    "asyncio concurrent fcntl ftplib getpass http io locale logging mmap multiprocessing os pathlib "
    "platform pwd queue random resource secrets select selectors shutil signal smtplib socket "
    "sqlite3 ssl subprocess sys tempfile threading time urllib apsw cyclopts rich".split()
)
"""What the model may not import: I/O, clocks, randomness, concurrency."""

FILE_METHODS = frozenset(
    "absolute chmod cwd exists expanduser fileno flush glob hardlink_to home is_dir is_file is_symlink iterdir "
    "lstat mkdir open read_bytes read_text readinto readline readlines readlink recv rename rglob rmdir samefile "
    "seek sendall stat symlink_to touch truncate unlink walk write_bytes write_text writelines".split()
)
"""What the model may call on nothing: an argument can be a path or an open file."""

INJECTED = frozenset("os random secrets socket subprocess sys time uuid uuid_utils".split())
"""What the runtime is given instead of importing it."""

INJECTED_EXCEPTIONS = {
    # asks git about the folder an agent works in; git is another program
    "stator.runtime.files.git": {"os", "subprocess"},
    # looks at the files an agent's tools touch, before and after
    "stator.runtime.driving.observe": {"os"},
    # makes the digests of files that a program names
    "stator.runtime.files.disk_check": {"os"},
    # opens and writes them, folder by folder, so that no link is followed
    "stator.runtime.files.safe_io": {"os"},
    # starts the supervisor of a run and ends what a dead one left: other programs, as git is
    "stator.runtime.runs.processes": {"os", "subprocess", "sys"},
    # runs a recorded command where a person said so, and looks for files by their names
    "stator.runtime.replay.recorded_tools": {"os", "subprocess"},
    # a run's folder is this machine's and not the store's, and so is the lock that shows the run is alive
    "stator.runtime.runs.folder": {"os"},
    # a bundle is a file that a person names; which zstd there is depends on the interpreter
    "stator.runtime.bundles.file": {"os", "sys"},
    # the type of a path that callers hand in
    "stator.runtime.facade.store": {"os"},
    # looks whether asyncio is loaded at all, so as not to load it
    "stator.runtime.base.context": {"sys"},
}

CLOCKS = ("time", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today")
CHANCE = ("random", "secrets", "uuid", "uuid_utils", "os.urandom", "os.getrandom")
CLOCKS_AND_CHANCE = (*CLOCKS, "datetime.date.today", *CHANCE)
DETERMINED = frozenset(
    ("uuid.UUID", "uuid.uuid3", "uuid.uuid5", "uuid.NAMESPACE_URL", "uuid.NAMESPACE_OID")
)
"""Of those modules, what gives the same each time."""

CLOCK_EXCEPTIONS = {
    # the defaults of a store that is made without a clock and without a source of salts; its own name
    "stator.store.memory.reads": {"time.time_ns", "secrets.token_bytes", "secrets.token_hex"},
    "stator.store.sqlite.store": {"time.time_ns", "os.urandom"},
    "stator.store.postgres.store": {"time.time_ns", "secrets.token_bytes"},
    # what a tenant's part and a process are known by
    "stator.store.postgres.schema": {"secrets.token_bytes"},
    "stator.store.postgres.patience": {"time.monotonic"},
    "stator.store.postgres.leases": {"secrets.token_bytes"},
    # waiting for a busy database, with jitter; the name and the salt of a new one, and when it was made
    "stator.store.sqlite.connection": {
        *("time.monotonic", "time.sleep", "random.uniform"),
        *("time.time_ns", "os.urandom"),
    },
    # ends a person's query when its time is over
    "stator.store.sandbox.process": {"time.monotonic"},
    # a new index has a name of its own, so that an old one is not taken for it
    "stator.store.sqlite.index.index_file": {"secrets.token_hex"},
}

ENVIRONMENT = ("os.environ", "os.environb", "os.getenv", "os.getenvb", "os.putenv", "os.unsetenv")
HOME = ("os.path.expanduser", "os.path.expandvars", "pathlib.Path.home")
HOME_EXCEPTIONS = {
    # a path that a person typed may begin with ~
    "stator.importers.discover": {"os.path.expanduser"},
}

PRINTING = (
    *("print", "input", "builtins.print", "rich.print", "sys.stdout", "sys.stderr"),
    *("sys.__stdout__", "sys.__stderr__"),
)
EXITING = ("exit", "quit", "SystemExit", "sys.exit", "os._exit", "os.abort")


def imports_of(tree: SourceTree, part: str, forbidden: Collection[str]) -> dict[str, set[str]]:
    """Module → which of these modules it imports."""
    return _collected(
        (module.name, imported.target.split(".")[0])
        for module in tree.part(part)
        for imported in module.imports
        if imported.target.split(".")[0] in forbidden
    )


def uses_of(tree: SourceTree, parts: Collection[str], what: Collection[str]) -> dict[str, set[str]]:
    """Module → which of these names it uses: the names themselves, and everything in them."""
    return _collected(
        (module.name, name.dotted)
        for module in tree
        if module.part in parts
        for name in (*module.names, *module.calls)
        if any(name.dotted == one or name.dotted.startswith(one + ".") for one in what)
    )


def file_methods(tree: SourceTree, part: str) -> list[str]:
    return [
        f"{tree.where(module, name.line)}: .{name.dotted}()"
        for module in tree.part(part)
        for name in module.methods_called
        if name.dotted in FILE_METHODS
    ]


def without(found: Mapping[str, set[str]], fine: Collection[str]) -> dict[str, set[str]]:
    left = {module: names - set(fine) for module, names in found.items()}
    return {module: names for module, names in left.items() if names}


def _collected(pairs) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for module, name in pairs:
        found.setdefault(module, set()).add(name)
    return found


def parts_without(*excepted: str) -> set[str]:
    return {module.part for module in ours()} - set(excepted)


# ── the package ──────────────────────────────────────────────────────────────────────────────────


def test_the_model_imports_nothing_that_reaches_the_world():
    assert imports_of(ours(), "model", IMPURE) == {}


def test_the_model_calls_nothing_that_looks_at_the_world():
    assert uses_of(ours(), ["model"], ("open", "input", "print", *CLOCKS_AND_CHANCE)) == {
        # the type alone
        "stator.model.log.check": {"uuid.UUID"},
        "stator.model.values.tagged": {"uuid.UUID"},
    }


def test_the_model_reads_and_writes_no_file_that_it_is_given():
    expect_none(file_methods(ours(), "model"))


def test_the_runtime_is_given_what_reaches_the_world():
    assert imports_of(ours(), "runtime", INJECTED) == INJECTED_EXCEPTIONS


def test_only_listed_modules_use_clocks_and_randomness():
    found = uses_of(ours(), ["runtime", "importers", "hooks", "store"], CLOCKS_AND_CHANCE)
    assert without(found, DETERMINED) == CLOCK_EXCEPTIONS


def test_only_surfaces_and_connect_read_the_environment():
    parts = parts_without("surfaces", "connect")
    assert uses_of(ours(), parts, ENVIRONMENT) == {}
    assert uses_of(ours(), parts, HOME) == HOME_EXCEPTIONS


def test_only_surfaces_print_or_exit():
    parts = parts_without("surfaces")
    found = uses_of(ours(), parts, PRINTING)
    assert found == {}
    calls = {
        (module.name, name.dotted)
        for module in ours()
        if module.part in parts
        for name in (*module.calls, *module.names)
        if name.dotted in EXITING
    }
    assert calls == set()


# ── the checks find what they are for ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.time()",
        "import time as t\nt.monotonic()",
        "from time import monotonic as now\nnow()",
        "import time\nlook = time.time_ns",
        "def f(clock=None):\n    import time\n    return (clock or time.time)()",
        "from datetime import datetime\ndatetime.now()",
        "import datetime as d\nd.datetime.utcnow()",
        "from datetime import date\ndate.today()",
        "import random\nrandom.random()",
        "from random import uniform",
        "import secrets\nsecrets.token_hex(8)",
        "from uuid import uuid4\nuuid4()",
        "import uuid_utils\nuuid_utils.uuid7()",
        "import os\nos.urandom(8)",
        "import time\nclock = time\nclock.time()",
        "import time\ngetattr(time, 'time')()",
    ],
)
@pytest.mark.parametrize("part", ["runtime", "importers", "hooks", "store", "model"])
def test_a_clock_or_chance_is_found_however_it_is_named(tmp_path, part, text):
    tree = one(tmp_path, text, f"{part}/x.py")
    assert without(uses_of(tree, [part], CLOCKS_AND_CHANCE), DETERMINED)


@pytest.mark.parametrize(
    "text",
    [
        "from uuid import UUID, uuid5\nuuid5(UUID(int=0), 'x')",
        "def f(time):\n    return time.monotonic()",
        "def f(context):\n    return context.clock()",
        "from datetime import datetime\ndatetime.fromtimestamp(0)",
    ],
)
def test_what_is_given_or_determined_is_accepted(tmp_path, text):
    assert without(uses_of(one(tmp_path, text), ["runtime"], CLOCKS_AND_CHANCE), DETERMINED) == {}


@pytest.mark.parametrize(
    "call", ["path.read_text()", "path.parent.open()", "f(path).exists()", "paths[0].unlink()"]
)
def test_a_file_method_on_an_argument_is_found_in_the_model(tmp_path, call):
    tree = one(tmp_path, f"def f(path, paths):\n    return {call}", "model/x.py")
    assert len(file_methods(tree, "model")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.environ['A']",
        "import os as o\no.environ.get('A')",
        "from os import environ\nenviron['A']",
        "from os import environ as e",
        "from os import getenv\ngetenv('A')",
        "import os\nsurroundings = os\nsurroundings.environ",
        "import os\ngetattr(os, 'environ')",
        "import os\ngetattr(os, 'environ').get('A')",
    ],
)
def test_reading_the_environment_is_found_however_it_is_named(tmp_path, text):
    assert uses_of(one(tmp_path, text), ["runtime"], ENVIRONMENT)


@pytest.mark.parametrize(
    "text",
    [
        "print('x')",
        "import builtins\nbuiltins.print('x')",
        "import sys\nsys.stdout.write('x')",
        "import sys as s\nout = s.stderr\nout.write('x')",
        "from sys import stdout\nstdout.write('x')",
        "from rich import print as show\nshow('x')",
        "import sys\nprinted = sys.__stdout__",
    ],
)
def test_printing_is_found_however_it_is_named(tmp_path, text):
    assert uses_of(one(tmp_path, text), ["runtime"], PRINTING)


@pytest.mark.parametrize(
    "text", ["import sys\nsys.exit(1)", "raise SystemExit", "raise SystemExit(2)", "exit()"]
)
def test_leaving_the_program_is_found(tmp_path, text):
    module = one(tmp_path, text).modules["stator.runtime.x"]
    assert {name.dotted for name in (*module.calls, *module.names)} & set(EXITING)


def test_a_method_of_the_same_name_is_no_printing(tmp_path):
    tree = one(tmp_path, "def f(screen):\n    screen.print('x')\n    screen.stdout.write('y')")
    assert uses_of(tree, ["runtime"], PRINTING) == {}
