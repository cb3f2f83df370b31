"""The documentation is true: its examples run, and its lists are complete."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
import tempfile
from pathlib import Path

import pytest

import stator
from docs.runner import PAGES, ROOT, Page, blocks, loose, runs
from stator import errors
from stator.model.records.tables import COLLECTIONS, KINDS
from stator.store.sandbox.view_tables import VIEWS
from stator.surfaces.cli.registry import COMMANDS
from stator.surfaces.cli.render import wire

DOCS = ROOT / "docs"
EVERYTHING = [*PAGES, "ARCHITECTURE.md", "GLOSSARY.md", "CHANGELOG.md", "CONTRIBUTING.md"]


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in PAGES if any(map(runs, blocks(page(name))))])
def test_every_example_on_a_page_runs_and_prints_what_the_page_shows(name, tmp_path):
    for block, now in Page(name, tmp_path).run():
        assert loose(now) == loose(block.text), (
            f"{name}:{block.line} does not print this any more; scripts/refresh_docs.py writes it anew"
        )


@pytest.mark.parametrize("name", EVERYTHING)
def test_every_link_between_pages_has_a_target(name):
    text = page(name)
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        if not target.startswith(("http://", "https://")):
            assert (ROOT / name).parent.joinpath(target).exists(), f"{name}: {target}"


def test_every_page_can_be_reached_from_the_readme():
    seen, todo = set(), ["README.md"]
    while todo:
        name = todo.pop()
        seen.add(name)
        for target in re.findall(r"\]\(([^)#]+\.md)", page(name)):
            path = (ROOT / name).parent.joinpath(target).resolve()
            if ROOT in path.parents and (inside := path.relative_to(ROOT).as_posix()) not in seen:
                todo.append(inside)
    assert set(PAGES) <= seen


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_cli_reference_matches_the_help_texts():
    generated = script("gen_cli_docs").generate()
    assert page("docs/reference/cli.md") == generated, "run scripts/gen_cli_docs.py"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_reference(command):
    assert f"## stator {command}\n" in page("docs/reference/cli.md")


def every_error():
    found = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, errors.StatorError)
    ]
    return sorted(found, key=lambda error: error.code)


@pytest.mark.parametrize("error", every_error(), ids=lambda error: error.code)
def test_every_error_code_is_documented(error):
    row = rf"^\| `{error.code}` \| `{error.__name__}` \|.*\S.*\|$"
    assert re.search(row, page("docs/reference/errors.md"), re.M)


def test_no_error_is_documented_that_does_not_exist():
    codes = set(re.findall(r"^\| `(E_\w+)` \|", page("docs/reference/errors.md"), re.M))
    assert codes == {error.code for error in every_error()}


def test_every_error_has_a_unique_code():
    codes = [error.code for error in every_error()]
    assert len(codes) == len(set(codes))


def test_the_documented_tree_of_errors_is_complete():
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or ""))
    assert drawn == {error.__name__ for error in every_error()} - {"StatorError"}


@pytest.mark.parametrize("name", sorted(COLLECTIONS))
def test_every_collection_is_documented_with_all_its_fields(name):
    text = page("docs/design/record.md")
    row = re.search(rf"^\| `{name}` \|(.*)\|$", text, re.M)
    assert row is not None
    documented = set(re.findall(r"`(\w+)`", row[1]))
    assert set(COLLECTIONS[name].type.__struct_fields__) <= documented


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_of_commit_is_documented(kind):
    assert f"`{kind}`" in page("docs/design/record.md")


@pytest.mark.parametrize("field", wire.FIELDS)
def test_every_field_of_a_commit_is_documented(field):
    assert re.search(rf"`{field}`", page("docs/design/record.md"))


PUBLIC = [
    pytest.param(kind, name, id=f"{kind.__name__}.{name}")
    for kind in (stator.Store, stator.Session, stator.SessionView, stator.Turn, stator.Run)
    for name in dir(kind)
    if not name.startswith("_")
]


@pytest.mark.parametrize(("kind", "name"), PUBLIC)
def test_every_public_method_is_documented(kind, name):
    assert re.search(rf"`\w*\.?{name}\b", page("docs/reference/library.md"))


@pytest.mark.parametrize("name", stator.__all__)
def test_every_public_name_is_documented(name):
    assert re.search(rf"`(stator\.)?{name}\b", page("docs/reference/library.md"))


def columns(view, tmp_path):
    with stator.connect(tmp_path / "agent.db") as store:
        with store.open("a") as s, s.turn("one") as t:
            t.call(len, "x")
            t.file("a.py", "read")
            t.decide("x", topic="y")
        names, _ = store.port.sql(f"SELECT * FROM {view}", row_limit=1)
    return names


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_documented_with_its_columns(view, tmp_path):
    text = page("docs/reference/sql.md")
    section = re.search(rf"^## {view}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert section is not None
    assert re.findall(r"^\| `(\w+)` \|", section[1], re.M) == columns(view, tmp_path)


def schemas():
    """Every schema name the command line can print, from its source."""
    found = set()
    for path in (ROOT / "src/stator/surfaces/cli").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.findall(r"^stator\.\w+/\d+$", node.value))
    return sorted(found)


@pytest.mark.parametrize("schema", schemas())
def test_every_json_document_is_documented(schema):
    assert f"`{schema}`" in page("docs/reference/json.md")


def test_json_examples_are_json():
    for block in blocks(page("docs/reference/json.md")):
        if block.language == "json":
            for line in block.text.strip().splitlines() if "lines" in block.info else [block.text]:
                json.loads(line)


def test_no_page_contains_paths_of_the_build_machine():
    own = (f"{ROOT}/", f"{Path.home()}/", f"{tempfile.gettempdir()}/")
    assert not [(name, path) for name in EVERYTHING for path in own if path in page(name)]


@pytest.mark.parametrize(
    "path",
    [
        *(ROOT / "docs" / "guides").glob("*.md"),
        *(ROOT / "docs" / "reference").glob("*.md"),
        ROOT / "README.md",
    ],
    ids=lambda path: path.stem,
)
def test_guides_and_reference_import_only_public_modules(path):
    rooms = "(?:runtime|model|importers|hooks)"
    internal = rf"(?:from|import) stator\.{rooms}\b|`stator\.{rooms}\."
    assert re.findall(internal, path.read_text(encoding="utf-8")) == []
