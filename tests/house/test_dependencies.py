"""Every package that the source imports is declared where it is needed, and nothing else is declared."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping

from house.lists import expect_none
from house.trees import ROOT, made, ours
from source_tree import SourceTree, is_below

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

EXTRAS: dict[str, tuple[str, ...]] = {
    "crypto": ("stator.runtime.bundles.encryption", "stator.owner.approver"),
    "server": (
        "stator.surfaces.proxy.upstream_direct",
        "stator.surfaces.proxy.upstream_far",
        "stator.surfaces.loopback",
        "stator.surfaces.http",
        "stator.surfaces.web",
        # look whether they are installed, and name the extra where they are not
        "stator.surfaces.cli.commands.proxy",
        "stator.surfaces.cli.commands.web",
        "stator.surfaces.cli.commands.share",
    ),
    "postgres": ("stator.store.postgres",),
    "mcp": (
        "stator.surfaces.mcp",
        "stator.surfaces.loopback",
        # looks whether they are installed, and names the extra where they are not
        "stator.surfaces.cli.commands.mcp",
    ),
}
"""Extra → the modules that may import what it brings."""

TEST_ONLY = {"pytest": ("stator.pytest_plugin", "stator.testing", "stator.store.contract")}
"""Package → the modules that only a test run loads; a test run has it."""

FORBIDDEN = {
    # its connection lets a statement commit behind our back, and differs from one Python to the next
    "sqlite3",
    # recorded content must not be executed
    *("pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"),
}


def third_party(tree: SourceTree) -> dict[str, set[str]]:
    """Package that is neither ours nor Python's → the modules that import it, at any place."""
    found: dict[str, set[str]] = {}
    for module in tree:
        for imported in module.imports:
            package = imported.target.split(".")[0]
            if package not in (tree.folder.name, "*") and not _is_pythons(package):
                found.setdefault(package, set()).add(module.name)
    return found


def _is_pythons(package: str) -> bool:
    return package in sys.stdlib_module_names or package in (
        "_sha2",
        "compression",
    )  # since 3.12, 3.14


def declared(project: Mapping[str, object], extra: str = "") -> set[str]:
    """What is declared, by the name that it is imported under; extras within extras are opened."""
    lists = project["optional-dependencies"] if extra else {"": project["dependencies"]}
    assert isinstance(lists, dict)
    found: set[str] = set()
    for requirement in lists[extra]:
        match = re.match(r"([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?", requirement)
        assert match, requirement
        if match[1] == project["name"]:
            for inner in match[2].split(","):
                found |= declared(project, inner.strip())
        else:
            found.add(match[1].lower().replace("-", "_").split(".")[0])
    return found


def imported_but_not_declared(
    tree: SourceTree, project: Mapping[str, object], extras: Mapping[str, tuple[str, ...]]
) -> list[str]:
    core = declared(project)
    return [
        f"{module} imports {package}"
        for package, modules in sorted(third_party(tree).items())
        for module in sorted(modules)
        if package not in core
        and not is_below(module, TEST_ONLY.get(package, ()))
        and not any(
            package in declared(project, extra) and is_below(module, places)
            for extra, places in extras.items()
        )
    ]


def declared_but_not_imported(
    tree: SourceTree, project: Mapping[str, object], extras: Mapping[str, tuple[str, ...]]
) -> list[str]:
    used = third_party(tree)
    unused = [f"{package} (dependencies)" for package in sorted(declared(project) - used.keys())]
    for extra, places in extras.items():
        for package in sorted(declared(project, extra)):
            if not any(is_below(module, places) for module in used.get(package, ())):
                unused.append(f"{package} ({extra})")
    return unused


def declared_too_widely(
    tree: SourceTree, project: Mapping[str, object], extras: Mapping[str, tuple[str, ...]]
) -> list[str]:
    """What everybody has to install although only the modules of one extra import it."""
    return [
        f"{package} belongs to the extra {extra}"
        for package, modules in sorted(third_party(tree).items())
        for extra, places in extras.items()
        if package in declared(project) and all(is_below(module, places) for module in modules)
    ]


# ── the package ──────────────────────────────────────────────────────────────────────────────────


def test_what_is_imported_is_declared_where_it_is_needed():
    expect_none(imported_but_not_declared(ours(), PROJECT, EXTRAS))


def test_what_is_declared_is_imported():
    expect_none(declared_but_not_imported(ours(), PROJECT, EXTRAS))


def test_what_only_an_extra_needs_is_declared_there():
    expect_none(declared_too_widely(ours(), PROJECT, EXTRAS))


def test_every_extra_says_which_modules_need_it():
    collections = {"all", "dev"}
    assert PROJECT["optional-dependencies"].keys() - collections == EXTRAS.keys()


def test_every_module_that_may_import_an_extra_does():
    unneeded = [
        f"{place} ({extra})"
        for extra, places in EXTRAS.items()
        for place in places
        if not any(
            is_below(module, [place])
            for package in declared(PROJECT, extra)
            for module in third_party(ours()).get(package, ())
        )
    ]
    expect_none(unneeded)


def test_developers_have_every_extra():
    everything = {package for extra in EXTRAS for package in declared(PROJECT, extra)}
    # what another package of the same extra brings along need not be listed again
    assert {"cryptography", "httpx2", "mcp", "uvicorn"} <= declared(PROJECT, "dev") & everything


def test_forbidden_modules_are_imported_nowhere():
    expect_none(
        f"{module.name} imports {imported.target}"
        for module in ours()
        for imported in module.imports
        if imported.target.split(".")[0] in FORBIDDEN
    )


# ── the checks find what they are for ────────────────────────────────────────────────────────────

SMALL = {
    "name": "stator",
    "dependencies": [
        "msgspec>=0.19",
        "uuid-utils>=0.11",
        "backports.zstd>=1; python_version<'3.14'",
    ],
    "optional-dependencies": {"web": ["uvicorn>=0.35"], "all": ["stator[web]"]},
}


def test_names_are_read_as_they_are_imported_and_collections_of_extras_are_opened():
    assert declared(SMALL) == {"msgspec", "uuid_utils", "backports"}
    assert declared(SMALL, "all") == {"uvicorn"}


def test_a_package_that_is_not_declared_is_found_also_in_a_function(tmp_path):
    tree = made(
        tmp_path,
        {"a.py": "def f():\n    import requests", "b.py": "import json, uvicorn", "web.py": ""},
    )
    assert imported_but_not_declared(tree, SMALL, {"web": ("stator.web",)}) == [
        "stator.a imports requests",
        "stator.b imports uvicorn",
    ]


def test_a_package_that_is_declared_and_not_imported_is_found(tmp_path):
    tree = made(tmp_path, {"a.py": "import msgspec, uuid_utils\nimport uvicorn"})
    assert declared_but_not_imported(tree, SMALL, {"web": ("stator.web",)}) == [
        "backports (dependencies)",
        "uvicorn (web)",
    ]


def test_a_package_that_only_an_extra_needs_is_found_among_the_dependencies(tmp_path):
    tree = made(tmp_path, {"web.py": "import msgspec", "a.py": "import uuid_utils"})
    assert declared_too_widely(tree, SMALL, {"web": ("stator.web",)}) == [
        "msgspec belongs to the extra web"
    ]
