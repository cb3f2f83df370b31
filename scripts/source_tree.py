"""Reads the source of a package: its modules, what each of them imports and names, and where imports go in a circle.

Nothing is executed. Imports count wherever they are written: in functions, under TYPE_CHECKING, relative, renamed,
and made while running (`import_module("stator.x")`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from pathlib import Path
from typing import TypeVar, cast

ANYTHING = "*"
"""The target of an import whose name is only known while the program runs."""

IMPORTERS = frozenset(
    (
        "__import__",
        "builtins.__import__",
        "importlib.__import__",
        "importlib.import_module",
        "pkgutil.resolve_name",
        "runpy.run_module",
    )
)
"""Functions that import a module by its name."""


Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True)
class Import:
    """One import: `target` is the module, as precisely as the tree knows it."""

    target: str
    line: int
    is_dynamic: bool = False
    """Whether a function does it while the program runs; `target` is then a prefix, or ANYTHING."""


@dataclass(frozen=True)
class Name:
    """A name that a module uses; a dotted one begins with the module that it is from."""

    dotted: str
    line: int


@dataclass(frozen=True)
class Comment:
    """The text after a `#`."""

    text: str
    line: int


@dataclass
class Module:
    """One file of the package."""

    name: str
    path: Path
    text: str
    known: frozenset[str] = field(repr=False)
    """The names of all modules of the package."""

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def part(self) -> str:
        """`runtime` for `stator.runtime.views.tail`; "" for the package itself."""
        return self.name.split(".")[1] if "." in self.name else ""

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    @cached_property
    def _by_kind(self) -> dict[type[ast.AST], list[ast.AST]]:
        found: dict[type[ast.AST], list[ast.AST]] = {}
        ahead: list[ast.AST] = [self.tree]
        while ahead:
            node = ahead.pop()
            found.setdefault(type(node), []).append(node)
            children: list[ast.AST] = []
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    children += [item for item in value if isinstance(item, ast.AST)]
                elif isinstance(value, ast.AST) and value._fields:
                    children.append(value)
            ahead += reversed(children)
        return found

    def nodes(self, kind: type[Node]) -> list[Node]:
        """Every node of one kind, in the order of the file."""
        return cast("list[Node]", self._by_kind.get(kind, []))

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """Every import of the file."""
        found = [
            Import(alias.name, node.lineno)
            for node in self.nodes(ast.Import)
            for alias in node.names
        ]
        for node in self.nodes(ast.ImportFrom):
            base = self._base(node)
            found += [Import(self._imported(base, a.name), node.lineno) for a in node.names]
        for call in self.nodes(ast.Call):
            target = self._dynamic(call)
            if target:
                found.append(Import(target, call.lineno, is_dynamic=True))
        return tuple(sorted(found, key=lambda imported: imported.line))

    @cached_property
    def relative_imports(self) -> tuple[int, ...]:
        """The lines of imports that begin with a dot."""
        return tuple(node.lineno for node in self.nodes(ast.ImportFrom) if node.level)

    @cached_property
    def names(self) -> tuple[Name, ...]:
        """Every use of something imported, as the thing that it is.

        `from os import environ as e` and later `e` gives `os.environ` twice: at the import and at the use.
        """
        found: list[Name] = []
        for node in self.nodes(ast.ImportFrom):
            base = self._base(node)
            found += [Name(f"{base}.{alias.name}", node.lineno) for alias in node.names]
        inner = {id(node.value) for node in self.nodes(ast.Attribute)}
        for use in (*self.nodes(ast.Name), *self.nodes(ast.Attribute)):
            dotted = self._imported_name(use)
            if dotted and id(use) not in inner:  # not the `os` of `os.environ`
                found.append(Name(dotted, use.lineno))
        for call in self.nodes(ast.Call):
            if self._called(call) == "getattr":
                base, name = self._imported_name(call.args[0]), call.args[1]
                if base and isinstance(name, ast.Constant) and isinstance(name.value, str):
                    found.append(Name(f"{base}.{name.value}", call.lineno))
        return tuple(found)

    @cached_property
    def calls(self) -> tuple[Name, ...]:
        """What is called by its name, and what is raised: `print`, `sys.exit`, `SystemExit`."""
        called = [Name(self._called(node), node.lineno) for node in self.nodes(ast.Call)]
        raised = [
            Name(node.exc.id, node.lineno)
            for node in self.nodes(ast.Raise)
            if isinstance(node.exc, ast.Name)
        ]
        return tuple(name for name in (*called, *raised) if name.dotted)

    @cached_property
    def methods_called(self) -> tuple[Name, ...]:
        """The last name of every call on something: `read_text` for `path.read_text()`."""
        return tuple(
            Name(node.func.attr, node.lineno)
            for node in self.nodes(ast.Call)
            if isinstance(node.func, ast.Attribute)
        )

    @cached_property
    def comments(self) -> tuple[Comment, ...]:
        """What follows each `#` that is not in a string."""
        lines = self.text.splitlines()
        strings: dict[int, list[tuple[float, float]]] = {
            number: [] for number, line in enumerate(lines, 1) if "#" in line
        }
        for constant in self.nodes(ast.Constant):
            if isinstance(constant.value, str):
                _mark(constant, strings)
        for formatted in self.nodes(ast.JoinedStr):
            _mark(formatted, strings)
        found: list[Comment] = []
        for number, spans in strings.items():
            text = _comment(lines[number - 1].encode(), spans)
            if text:
                found.append(Comment(text, number))
        return tuple(found)

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        folder = self.name.split(".")
        folder = folder[: len(folder) - node.level + (1 if self.is_package else 0)]
        return ".".join([*folder, *([node.module] if node.module else [])])

    def _imported(self, base: str, name: str) -> str:
        """The module in `from base import name`: `base.name` where that is a module of the package."""
        root = self.name.split(".")[0]
        whole = f"{base}.{name}"
        return whole if whole in self.known or base == root else base

    def _called(self, node: ast.Call) -> str:
        """The name of a called function: an imported one, or one of Python's own; "" for a method."""
        if isinstance(node.func, ast.Name) and node.func.id not in self._aliases:
            return node.func.id
        return self._imported_name(node.func)

    def _imported_name(self, node: ast.expr) -> str:
        """The dotted name of something that was imported; "" for anything else."""
        return _resolved(node, self._aliases)

    @cached_property
    def _aliases(self) -> Mapping[str, str]:
        """What a name of the file stands for: from its imports, and from assignments such as `env = os.environ`."""
        aliases: dict[str, str] = {}
        for node in self.nodes(ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                aliases[alias.asname or first] = alias.name if alias.asname else first
        for statement in self.nodes(ast.ImportFrom):
            for alias in statement.names:
                aliases[alias.asname or alias.name] = f"{self._base(statement)}.{alias.name}"
        for assignment in self.nodes(ast.Assign):
            value = _resolved(assignment.value, aliases)
            for target in assignment.targets:
                if value and isinstance(target, ast.Name):
                    aliases.setdefault(target.id, value)
        return aliases

    def _dynamic(self, node: ast.Call) -> str:
        """What a call imports: a module, a prefix of one, ANYTHING; "" where it imports nothing."""
        if self._called(node) not in IMPORTERS:
            return ""
        given = node.args[0] if node.args else next((k.value for k in node.keywords), None)
        text, is_whole = self._text(given)
        if is_whole:
            return text
        return text.rpartition(".")[0] or ANYTHING

    def _text(self, node: ast.expr | None) -> tuple[str, bool]:
        """How far a text can be read in the source, and whether that is all of it."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value, True
        if isinstance(node, ast.Name) and node.id in ("__name__", "__package__"):
            at_home = node.id == "__name__" or self.is_package
            return self.name if at_home else self.name.rpartition(".")[0], True
        if isinstance(node, ast.FormattedValue):
            return self._text(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._joined((node.left, node.right))
        if isinstance(node, ast.JoinedStr):
            return self._joined(node.values)
        return "", False

    def _joined(self, nodes: Iterable[ast.expr]) -> tuple[str, bool]:
        whole = ""
        for node in nodes:
            text, is_whole = self._text(node)
            whole += text
            if not is_whole:
                return whole, False
        return whole, True


class SourceTree:
    """All modules of one package, by name."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the package's own: `src/stator`."""
        self.folder = folder
        paths = {_name(path, folder): path for path in sorted(folder.rglob("*.py"))}
        known = frozenset(paths)
        self.modules = {
            name: Module(name, path, path.read_text(encoding="utf-8"), known)
            for name, path in paths.items()
        }

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules.values())

    def part(self, name: str) -> list[Module]:
        return [module for module in self if module.part == name]

    def where(self, module: Module, line: int) -> str:
        """`stator/runtime/x.py:12`."""
        return f"{module.path.relative_to(self.folder.parent)}:{line}"

    @cached_property
    def edges(self) -> Mapping[str, frozenset[str]]:
        """Which modules of the package each module imports; importing from the package itself is no edge."""
        return {
            module.name: frozenset(
                imported.target
                for imported in module.imports
                if imported.target in self.modules
                and imported.target not in (module.name, self.folder.name)
            )
            for module in self
        }

    def cycles(self) -> list[list[str]]:
        """Groups of modules that reach each other by imports; none is how it should be."""
        return circles(self.edges)


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The groups of names that reach each other, largest first."""
    reached = {name: _reached(name, edges) for name in edges}
    groups = {
        frozenset(other for other in reached[name] if name in reached.get(other, ()))
        for name in edges
        if name in reached[name]
    }
    return sorted((sorted(group) for group in groups), key=lambda group: (-len(group), group))


def _reached(name: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    ahead = list(edges[name])
    while ahead:
        here = ahead.pop()
        if here not in found:
            found.add(here)
            ahead += edges.get(here, ())
    return found


def is_below(name: str, prefixes: Iterable[str]) -> bool:
    """Whether a module is one of these, or in one of these packages."""
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def _name(path: Path, folder: Path) -> str:
    parts = path.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _resolved(node: ast.expr, aliases: Mapping[str, str]) -> str:
    """A dotted name, with its first part replaced by what that stands for; "" where it stands for nothing known."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in aliases:
        return ""
    return ".".join([aliases[node.id], *reversed(names)])


def _mark(
    node: ast.Constant | ast.JoinedStr, strings: dict[int, list[tuple[float, float]]]
) -> None:
    """Note which bytes of these lines a string takes."""
    first, last = node.lineno, node.end_lineno or node.lineno
    for number in range(first, last + 1):
        if number in strings:
            begin = node.col_offset if number == first else 0
            end = (node.end_col_offset or 0) if number == last else inf
            strings[number].append((begin, end))


def _comment(line: bytes, strings: list[tuple[float, float]]) -> str:
    at = line.find(b"#")
    while at >= 0:
        if not any(begin <= at < end for begin, end in strings):
            return line[at + 1 :].decode("utf-8", "replace").strip()
        at = line.find(b"#", at + 1)
    return ""
