"""Changes the registry in one place at a time, and lists the changes that no test detects.

A mutant is the source of a module of the registry with one argument of one row changed: a flag
inverted, a number or a word replaced, an optional part removed. Each is first compared with the page of
`model.every_kind`, in its own process; those that the page does not detect run the table test, and then
`OTHERS`, on a copy of the source.

From the folder `tests`: `python -m model.mutants`, or with numbers of mutants.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

TESTS = Path(__file__).parent.parent
SOURCE = TESTS.parent / "src"
FILES = tuple(
    Path("stator/model/records", name) for name in ("registry.py", "session_rows.py", "reports.py")
)
PRELOADED = ("anyio", "apsw", "cyclopts", "mcp", "msgspec", "pytest", "rich")
"""What every mutant imports besides the package."""
TABLE = "tests/model/test_registry.py"
OTHERS = (
    "tests/compat",
    "tests/model/test_reduce.py",
    "tests/contract/test_sqlite.py",
    "tests/contract/test_memory.py",
    "tests/runtime/test_retention.py",
    "tests/runtime/test_replay.py",
    "tests/runtime/test_rewind.py",
)
ROW_TYPES = {
    "CommitKind", "Collection", "Hot", "Briefed", "RecallKey", "NotedAs", "Field", "Reported",
}  # fmt: skip
FLAGS = {
    "CommitKind": dict.fromkeys(
        "contributed after_the_end once compared spoken expires shown learned news barrier removes "
        "keeping silent quiet".split(),
        False,
    ),
    "Collection": {
        "bookkeeping": False,
        "tallied": False,
        "structural": False,
        "compactible": False,
        "rewound": True,
        "diffed": True,
    },
}
"""The flags of a row, and what they are where a row does not say."""
RANKS = 5
"""Ranks are below this, places above."""
PARTS = {"Hot", "Briefed", "RecallKey", "NotedAs", "Reported"}
FUNCTIONS = {
    "text": "lambda record: ''",
    "line": "lambda record, show: []",
    "search": "lambda record: ()",
    "name": "lambda record, identifier: 'x'",
    "about": "lambda record: 'x'",
    "note": "lambda record: 'x'",
}


@dataclass(frozen=True)
class Mutant:
    """One changed argument."""

    file: Path
    where: str
    start: int
    end: int
    text: str
    """What stands there instead, from one offset of the source to another."""

    @property
    def module(self) -> str:
        return ".".join(self.file.with_suffix("").parts)

    def source(self) -> str:
        """The changed source of its module."""
        source = (SOURCE / self.file).read_text(encoding="utf-8")
        return source[: self.start] + self.text + source[self.end :]


class _Finder:
    """Finds the arguments that can be changed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._source = source = (SOURCE / file).read_text(encoding="utf-8")
        lines = source.splitlines(keepends=True)
        self._starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]
        self._lines = lines

    def _at(self, line: int, column: int) -> int:
        """The character offset of a position from ast, which counts bytes."""
        before = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(before)

    def _mutant(self, where: str, node: ast.expr, text: str) -> Mutant:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._at(node.lineno, node.col_offset)
        return Mutant(
            self._file, where, start, self._at(node.end_lineno, node.end_col_offset), text
        )

    def rows(self) -> Iterator[Mutant]:
        for node in ast.parse(self._source).body:
            value = getattr(node, "value", None)
            if isinstance(value, ast.Tuple):
                for call in value.elts:
                    if isinstance(call, ast.Call):
                        yield from self._row(call, _named(call))
            elif isinstance(value, ast.Call) and _type(value) in ROW_TYPES:
                yield from self._row(value, _named(value))

    def _row(self, call: ast.Call, path: str) -> Iterator[Mutant]:
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        for flag, default in FLAGS.get(_type(call), {}).items():
            if flag not in given:
                end = self._at(call.end_lineno or 0, call.end_col_offset or 0) - 1
                comma = "" if self._source[:end].rstrip().endswith(",") else ", "
                text = f"{comma}{flag}={not default}"
                yield Mutant(self._file, f"{path}.{flag}", end, end, text)
        for place, value in enumerate(call.args):
            yield from self._argument(value, f"{path}[{place}]", "")
        for name, value in given.items():
            yield from self._argument(value, f"{path}.{name}", str(name))

    def _argument(self, value: ast.expr, path: str, name: str) -> Iterator[Mutant]:
        if isinstance(value, ast.Call) and _type(value) in ROW_TYPES:
            if _type(value) in PARTS:
                yield self._mutant(path, value, "None")
            yield from self._row(value, path)
        elif name in FUNCTIONS and isinstance(value, (ast.Lambda, ast.Attribute, ast.Name)):
            yield self._mutant(path, value, FUNCTIONS[name])
        elif isinstance(value, ast.Constant):
            yield self._mutant(path, value, repr(_other(value.value, name)))
        elif isinstance(value, ast.Tuple):
            if name == "key":
                yield self._mutant(path, value, _other_key(value))
            for place, one in enumerate(value.elts):
                if isinstance(one, ast.Call):
                    yield from self._argument(one, f"{path}[{place}]", "")


def _type(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _named(call: ast.Call) -> str:
    names = [
        str(keyword.value.value)
        for keyword in call.keywords
        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant)
    ]
    return names[0] if names else "fields"


def _other(value: object, name: str) -> object:
    if isinstance(value, bool):
        return not value
    if not isinstance(value, int):
        return f"{value}x"
    if name in ("number", "weight", "newest"):
        return value + 7
    if value < RANKS:
        return (value + 1) % RANKS
    return 5 if value > 10 else 1000  # a position: to the front, or from the front to the end


def _other_key(value: ast.Tuple) -> str:
    fields = [ast.unparse(one) for one in value.elts]
    return (
        f"({', '.join(fields[:-1])},)" if len(fields) > 1 else "('name',)" if not fields else "()"
    )


def mutants() -> list[Mutant]:
    return [mutant for file in FILES for mutant in _Finder(file).rows()]


# -- the page -------------------------------------------------------------------------------------


class _Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a module of the registry from a mutant's source."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._origin = str(SOURCE / mutant.file)

    def find_spec(self, name, path, target=None):
        if name != self._mutant.module:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=self._origin)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._mutant.source(), self._origin, "exec"), module.__dict__)  # noqa: S102


def differs(mutant: Mutant) -> bool:
    """Whether the page differs for a mutant; this process runs only the mutant afterwards."""
    sys.meta_path.insert(0, _Instead(mutant))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            from model.every_kind import PAGE, sections

            expected = PAGE.read_text(encoding="utf-8")
            place = 0
            for part in sections(Path(folder)):
                if not expected.startswith(part, place):
                    return True
                place += len(part) + 1
        except Exception:
            return True
        return place < len(expected)


def noticed_by_page(mutant: Mutant) -> bool:
    child = os.fork()
    if child == 0:
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        seen = True
        try:
            seen = differs(mutant)
        finally:
            os._exit(int(seen))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


# -- the tests ------------------------------------------------------------------------------------


def noticed_by_tests(mutant: Mutant, *paths: str) -> bool:
    """Whether a test fails on a copy of the source with this mutant."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(
            SOURCE / "stator", copy / "stator", ignore=shutil.ignore_patterns("__pycache__")
        )
        (copy / mutant.file).write_text(mutant.source(), encoding="utf-8")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-x",
                "-n",
                "0",
                "-p",
                "no:cacheprovider",
                *paths,
            ],
            cwd=TESTS.parent,
            env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            check=False,
            capture_output=True,
        )
    return done.returncode != 0


def survivors(chosen: list[Mutant]) -> list[Mutant]:
    """The mutants that no test detects."""
    for module in PRELOADED:
        importlib.import_module(module)
    left = list(chosen)
    for name, noticed in (
        ("the page", noticed_by_page),
        ("the table test", lambda mutant: noticed_by_tests(mutant, TABLE)),
        ("other tests", lambda mutant: noticed_by_tests(mutant, *OTHERS)),
    ):
        before, left = left, []
        for mutant in before:
            if not noticed(mutant):
                print(f"{name} does not notice {mutant.where}: {mutant.text}", flush=True)
                left.append(mutant)
    return left


if __name__ == "__main__":
    every = mutants()
    wanted = [every[int(number)] for number in sys.argv[1:]] or every
    print(len(wanted), "mutants", flush=True)
    sys.exit(1 if survivors(wanted) else 0)
