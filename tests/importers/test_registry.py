"""Tests that our formats are found by name, and that other packages can add formats."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from importers.notebook_format import FORMAT, write_conversation
from stator import extensions
from stator.errors import BadExtension, InvalidInput
from stator.importers import registry
from stator.importers.discover import discover


@pytest.fixture
def install(monkeypatch):
    """Pretend that packages with these formats are installed."""

    def pretend(**values):
        points = EntryPoints(
            EntryPoint(name, value, extensions.FORMATS) for name, value in values.items()
        )
        monkeypatch.setattr(
            "importlib.metadata.entry_points", lambda **wanted: points.select(**wanted)
        )
        extensions.names.cache_clear()
        extensions.load.cache_clear()

    yield pretend
    monkeypatch.undo()
    extensions.names.cache_clear()
    extensions.load.cache_clear()


def test_every_format_has_the_name_it_is_listed_under():
    assert [format.name for format in registry.load_all()] == list(registry.MODULES)


def test_an_unknown_format_is_refused_with_the_known_names():
    with pytest.raises(InvalidInput, match="unknown format 'toy'"):
        registry.load("toy")


def test_a_format_of_another_package_is_loaded_by_name(install):
    install(notebook="importers.notebook_format:FORMAT")
    assert registry.has("notebook")
    assert registry.load("notebook") is FORMAT


def test_a_file_that_no_own_format_recognizes_is_read_by_another_packages_format(install, tmp_path):
    write_conversation(tmp_path / "one.jsonl", id="n1")
    assert discover([tmp_path]).candidates == []
    install(notebook="importers.notebook_format:FORMAT")
    (candidate,) = discover([tmp_path]).candidates
    assert candidate.format is FORMAT


def test_another_package_cannot_replace_a_format_of_ours(install):
    install(codex="importers.notebook_format:FORMAT")
    assert registry.load("codex") is not FORMAT
    assert registry.load_added() == []


def test_a_format_that_cannot_be_loaded_names_its_package(install):
    install(toy="importers.no_such_module:FORMAT")
    with pytest.raises(BadExtension, match="toy"):
        registry.load("toy")
