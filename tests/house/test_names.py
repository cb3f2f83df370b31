"""Names: one meaning for each class, a telling name and a docstring for each module."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from house.lists import compared, expect_none
from house.trees import made, ours
from source_tree import SourceTree

NOT_NAMES = ("utils", "util", "helpers", "helper", "manager", "common", "misc")

SHARED_NAMES: dict[str, str] = {
    # name: why it may have two meanings
}
"""Class names that two or more modules define, each with its reason. May only shrink."""

SHARED_NOT_YET: tuple[str, ...] = ()
"""Shared without a reason, and to be renamed. May only shrink."""


def defined_twice(tree: SourceTree) -> dict[str, list[str]]:
    """Class name → the modules that define a class of this name, where they are several."""
    places: dict[str, list[str]] = {}
    for module in tree:
        for node in module.nodes(ast.ClassDef):
            places.setdefault(node.name, []).append(f"{module.name}:{node.lineno}")
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def described(found: Mapping[str, list[str]], listed: Iterable[str]) -> list[str]:
    """What the list and the source disagree about, with the places where a name is defined."""
    return [
        line if name not in found else f"{line}, defined in {', '.join(found[name])}"
        for line in compared(found, listed)
        for name in [line.rpartition(" ")[2]]
    ]


def test_a_class_name_has_one_meaning():
    expect_none(
        described(defined_twice(ours()), [*SHARED_NAMES, *SHARED_NOT_YET]),
        "Give a new class a name of its own.",
    )


def test_every_shared_class_name_has_a_reason():
    expect_none(name for name, reason in SHARED_NAMES.items() if not reason)


def test_a_class_name_that_is_defined_twice_is_found(tmp_path):
    tree = made(
        tmp_path,
        {
            "a.py": "class Line: ...\nclass Own: ...",
            "b.py": "def f():\n    class Line: ...",
        },
    )
    found = defined_twice(tree)
    assert found == {"Line": ["stator.a:1", "stator.b:2"]}
    assert described(found, []) == ["new: Line, defined in stator.a:1, stator.b:2"]
    assert described({}, ["Line"]) == ["no longer needed, take it off the list: Line"]


def test_no_module_has_a_name_that_says_nothing():
    expect_none(name for name in ours().modules if name.split(".")[-1] in NOT_NAMES)


def test_every_module_has_a_docstring():
    expect_none(module.name for module in ours() if not ast.get_docstring(module.tree))
