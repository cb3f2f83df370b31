"""Documented import paths of 0.4 work for one release, with a warning that names the new path."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from stator._moved import MOVED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_import_path_exports_the_names_of_the_new_module(old):
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} moved; import from stator"):
        moved = importlib.import_module(old)
    home, public = MOVED[old]
    new = importlib.import_module(home)
    assert {name for name in vars(new) if not name.startswith("_")} <= set(vars(moved))
    if public:
        importlib.import_module(public)


def test_the_warning_points_at_the_importing_line(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import json\nfrom stator.runtime import budgets\n")
    done = subprocess.run(
        [sys.executable, "-W", "always", str(program)], capture_output=True, text=True, timeout=60
    )
    assert f"{program}:2: DeprecationWarning: stator.runtime.budgets moved" in done.stderr


def test_importing_a_module_that_never_existed_fails():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("stator.runtime.nothing")


def test_the_package_imports_no_old_path():
    code = "import stator, stator.aio, stator.testing, stator.surfaces.cli.main"
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:stator", "-c", code],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
