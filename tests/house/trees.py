"""The source that the tests of this folder read: the package itself, and small packages made for one test."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from source_tree import SourceTree

ROOT = Path(__file__).parents[2]


@cache
def ours() -> SourceTree:
    return SourceTree(ROOT / "src" / "stator")


def made(folder: Path, files: dict[str, str]) -> SourceTree:
    """A package `stator` in `folder`, with these files; a folder gets its `__init__.py` by itself."""
    package = folder / "stator"
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        for parent in (path.parent, *path.parent.parents):
            if not parent.is_relative_to(package):
                break
            (parent / "__init__.py").touch()
    return SourceTree(package)


def one(folder: Path, text: str, name: str = "runtime/x.py") -> SourceTree:
    """A package with one module of interest."""
    return made(folder, {name: text})
