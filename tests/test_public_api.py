"""The front door: small, sorted, lazy, documented."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import stator

ROOT = Path(__file__).parent.parent

LOADED_BY_IMPORT = {"stator"}
"""What `import stator` may load of its own; everything else waits until it is used."""
HEAVY = "msgspec apsw cyclopts rich asyncio jsonpatch jsonschema_rs mcp httpx sqlite3".split()

PUBLIC_MODULES = ("stator", "stator.aio", "stator.errors", "stator.connect")
PUBLIC_CLASSES = [
    stator.Store,
    stator.Session,
    stator.SessionView,
    stator.Turn,
    stator.Outcome,
    stator.Run,
]
SPEAK_FOR_THEMSELVES = {
    # properties named after the field they show
    "id", "head", "counts", "name", "status", "record", "ok",
    # closing a store is closing a store
    "close", "info",
    # turns an outcome into the error it stands for; `result` says when
    "to_error",
}  # fmt: skip


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_all_is_sorted_and_holds_no_name_twice():
    assert list(stator.__all__) == sorted(set(stator.__all__))


def test_all_is_complete():
    declared = next(
        node
        for node in ast.parse(Path(stator.__file__).read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    names = [
        alias.name
        for node in declared.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert sorted(names) == list(stator.__all__)


@pytest.mark.parametrize("name", stator.__all__)
def test_every_public_name_can_be_had(name):
    assert getattr(stator, name) is not None
    assert name in dir(stator)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'checkpoint'"):
        stator.checkpoint  # noqa: B018


def test_importing_stator_loads_nothing_else():
    code = (
        "import sys; old = set(sys.modules); import stator; print(*sorted(set(sys.modules) - old))"
    )
    loaded = fresh(code).split()
    assert {name for name in loaded if name.split(".")[0] == "stator"} == LOADED_BY_IMPORT
    assert not [name for name in loaded if name.split(".")[0] in HEAVY]


def test_connecting_loads_no_more_than_msgspec_and_apsw():
    code = (
        "import sys, stator; stator.connect; "
        "print(*(n for n in 'cyclopts rich jsonpatch jsonschema_rs asyncio'.split() if n in sys.modules))"
    )
    assert fresh(code).split() == []


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_every_public_function_and_class_has_a_docstring(module):
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", [name for name in vars(loaded) if not name.startswith("_")])
    missing = [
        name
        for name in names
        for value in [getattr(loaded, name)]
        if (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__.startswith("stator")
        and not _documented(value)
    ]
    assert missing == []


def _documented(value):
    """An error whose line stands in the drawn tree need not repeat it."""
    if inspect.isclass(value) and issubclass(value, BaseException):
        tree = importlib.import_module("stator.errors").__doc__ or ""
        return bool(value.__dict__.get("__doc__")) or f"── {value.__name__} " in tree
    return bool(value.__doc__)


@pytest.mark.parametrize("kind", PUBLIC_CLASSES, ids=lambda kind: kind.__name__)
def test_every_public_method_has_a_docstring(kind):
    missing = [
        name
        for name, value in inspect.getmembers(kind)
        if not name.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, property))
        and name not in SPEAK_FOR_THEMSELVES
        and not inspect.getdoc(value)
    ]
    assert missing == []


def test_the_version_is_the_one_that_is_released():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert stator.__version__ == project["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{re.escape(stator.__version__)}\]", changelog, re.M)


def test_the_package_says_that_it_is_typed():
    assert (Path(stator.__file__).parent / "py.typed").exists()


def test_reading_a_store_does_not_load_what_only_writing_needs(tmp_path):
    code = (
        "import sys, stator; from stator.connect import connect;"
        f"connect({str(tmp_path / 'a.db')!r}).sessions();"
        "print([name for name in ('stator.model.log.redact', 'rich', 'cyclopts', 'asyncio') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_exported_errors_are_shown_under_the_name_to_import():
    exported = [
        value
        for value in (getattr(stator, name) for name in stator.__all__)
        if inspect.isclass(value) and issubclass(value, Exception)
    ]
    assert len(exported) == 6
    for error in exported:
        assert error.__module__ == "stator"
        assert pickle.loads(pickle.dumps(error)) is error
