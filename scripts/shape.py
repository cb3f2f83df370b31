"""Measures the shape of the source and fails when a number is worse than its limit.

    python scripts/shape.py                  the table: number, limit, aim
    python scripts/shape.py --quiet          only what is worse than its limit: what `make check` runs
    python scripts/shape.py --json           the table for programs
    python scripts/shape.py --list words     what a number counts, one line each (words, classes, private, …)

A limit is what the source has reached, or the aim where that is reached: no change may make it worse. When a number
gets better, tighten its limit in `LIMITS` below. An aim is where the number should be.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from source_tree import Module, SourceTree

ROOT = Path(__file__).resolve().parent.parent

ENDS_IN_ING = frozenset("ceiling king ring sibling spring string thing wing".split())
"""Nouns that are not made from a verb."""

ONE_FILE_EACH = ("surfaces/cli/commands",)
"""Folders that hold one file for each thing a user can name; their size is no defect."""

PUBLIC_UNDERSCORES = frozenset("_asdict _exit _fields _getframe _make _replace".split())
"""Attributes that begin with an underscore and are documented by Python all the same."""

NOT_FOR_READERS = ("──", "--", "noqa", "type: ignore", "pragma", "fmt:")
"""How a comment begins that explains nothing."""

UNUSUAL = (
    # persons who are not there: say "another process", "the caller", "a user"
    *(r"somebody", r"anybody", r"whoever", r"whomever", r"whom"),
    # things that speak: say "reported", "recorded", "describes"
    *(r"told", r"tells?", r"telling", r"said", r"foretell\w*"),
    # things that stand: say "is", "exists", "status"
    *(r"stands?(?! for\b)", r"stood", r"standing"),
    # movement: say "continues", "reaches", "reconciles", "imports", "admits"
    *(r"(?:go|goes|going|went|gone) on", r"(?:come|comes|coming|came) (?:to|of|upon)"),
    *(
        r"meets?",
        r"met",
        r"meeting",
        r"brings?",
        r"brought",
        r"bringing",
        r"bear",
        r"let(?:s|ting)? in",
    ),
    *(r"(?:take|takes|taking|took|taken) (?:up|in|part)",),
    # old words: say "again", "repair", "obey", "delete", "in the meantime"
    *(r"anew", r"once more", r"heeds?", r"mends?", r"mended", r"bury", r"buried", r"meanwhile"),
    *(r"thereof", r"therein", r"whence", r"hence", r"wherein", r"naught", r"how-manieth"),
    # amounts and places that are not named: say "N", "the limit", "exists"
    *(r"so many", r"so much", r"what is there", r"is none", r"are none", r"at hand", r"at it"),
    *(
        r"what became of",
        r"as it is to be",
    ),
)
"""Words and turns of phrase that make a reader stop; counted in docstrings, in any case."""

UNUSUAL_WORD = re.compile(rf"\b(?:{'|'.join(UNUSUAL)})\b", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
RECIPE = re.compile(
    r"^#+ [^\n]*\b(?:kind of record|record kind)\b[^\n]*\n(.*?)(?=^#|\Z)", re.M | re.S | re.I
)


@dataclass(frozen=True)
class Measured:
    """A number, and one line for each thing that it counts."""

    value: float | None
    """None: it cannot be measured yet."""
    counted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limit:
    what: str
    limit: float | None
    aim: str
    unit: str = ""
    is_floor: bool = False
    """Whether more is better."""

    def is_broken_by(self, value: float | None) -> bool:
        if value is None or self.limit is None:
            return False
        return value < self.limit if self.is_floor else value > self.limit


LIMITS: dict[str, Limit] = {
    "classes": Limit("class names with several meanings", 0, "≤ 2 %", " %"),
    "gerunds": Limit("modules named by a gerund", 5, "≤ 5"),
    "folder": Limit("largest folder", 20, "≤ 20"),
    "cycles": Limit("modules in import cycles", 0, "0"),
    "private": Limit("uses of another object's private attributes", 20, "< 40"),
    "comments": Limit("comment lines per 1,000", 6.5, "≥ 6", is_floor=True),
    "words": Limit("unusual words per 1,000 docstring words", 1.9, "< 2"),
    "kind": Limit("files touched to add a kind of record", 4, "≤ 4"),
    "extensions": Limit("extension points", 2, "≥ 2", is_floor=True),
    "tests": Limit("lines of tests per line of source", 0.7, "", is_floor=True),
    "module": Limit("longest module", 600, "≤ 600"),
    "function": Limit("longest function", 80, "≤ 80"),
    "p90": Limit("nine of ten functions have at most", 20, "≤ 20", " lines"),
}
"""The ratchet: key → what is measured, the worst it may be, and where it should be."""

# ── measuring ────────────────────────────────────────────────────────────────────────────────────


def shared_class_names(tree: SourceTree) -> Measured:
    """Class names that two or more modules define, as a share of all class names."""
    places: dict[str, list[str]] = {}
    for module in tree:
        for node in module.nodes(ast.ClassDef):
            places.setdefault(node.name, []).append(tree.where(module, node.lineno))
    shared = {name: found for name, found in sorted(places.items()) if len(found) > 1}
    share = 100 * len(shared) / max(len(places), 1)
    return Measured(
        round(share, 1), tuple(f"{name}: {', '.join(found)}" for name, found in shared.items())
    )


def gerunds(tree: SourceTree) -> Measured:
    """Modules and folders named by what is done in them."""
    found = [
        name
        for name in tree.modules
        for last in [name.rpartition(".")[2]]
        if last.endswith("ing") and last not in ENDS_IN_ING
    ]
    return Measured(len(found), tuple(found))


def largest_folder(tree: SourceTree) -> Measured:
    """Modules that lie side by side in one folder."""
    sizes = Counter(
        module.path.parent.relative_to(tree.folder).as_posix()
        for module in tree
        if not module.is_package
    )
    for folder in ONE_FILE_EACH:
        sizes.pop(folder, None)
    rows = [f"{size} {folder}" for folder, size in sizes.most_common()]
    return Measured(max(sizes.values(), default=0), tuple(rows))


def cycles(tree: SourceTree) -> Measured:
    """Modules that import each other in a circle; imports for type checkers count."""
    found = tree.cycles()
    return Measured(sum(map(len, found)), tuple(" ".join(cycle) for cycle in found))


def private_uses(tree: SourceTree) -> Measured:
    """`other._name`: a private attribute of anything but `self` and `cls`."""
    found = [
        f"{tree.where(module, node.lineno)}: {ast.unparse(node)}"
        for module in tree
        for node in module.nodes(ast.Attribute)
        if _is_anothers(node)
    ]
    return Measured(len(found), tuple(found))


def _is_anothers(node: ast.Attribute) -> bool:
    name, owner = node.attr, node.value
    if not name.startswith("_") or name.startswith("__") or name in PUBLIC_UNDERSCORES:
        return False
    if isinstance(owner, ast.Name):
        return owner.id not in ("self", "cls")
    is_own_class = (
        isinstance(owner, ast.Call)
        and isinstance(owner.func, ast.Name)
        and owner.func.id in ("super", "type")
    )
    return not is_own_class


def comments(tree: SourceTree) -> Measured:
    """Comments in 1,000 lines; rulers between sections and words for linters do not count."""
    lines = sum(module.text.count("\n") for module in tree)
    found = [
        f"{tree.where(module, comment.line)}: {comment.text}"
        for module in tree
        for comment in module.comments
        if not comment.text.startswith(NOT_FOR_READERS)
    ]
    return Measured(round(1000 * len(found) / max(lines, 1), 1), tuple(found))


def unusual_words(tree: SourceTree) -> Measured:
    """Words of `UNUSUAL` in 1,000 words of docstrings; strings below a constant or a field are docstrings too."""
    words, found = 0, []
    for module in tree:
        for line, text in docstrings(module):
            words += len(WORD.findall(text))
            found += [
                f"{tree.where(module, line)}: {match[0]}" for match in UNUSUAL_WORD.finditer(text)
            ]
    return Measured(round(1000 * len(found) / max(words, 1), 1), tuple(found))


def docstrings(module: Module) -> Iterator[tuple[int, str]]:
    for node in module.nodes(ast.Expr):
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def files_for_a_kind(contributing: str) -> Measured:
    """Source files that the recipe for a new kind of record in CONTRIBUTING.md changes."""
    recipe = RECIPE.search(contributing)
    if recipe is None:
        return Measured(None)
    found = tuple(dict.fromkeys(re.findall(r"^`(src/[\w./-]+\.py)`, ", recipe[1], re.M)))
    return Measured(len(found), found)


def extension_points(tree: SourceTree) -> Measured:
    """Groups of entry points in which the package looks for what others add."""
    module = tree.modules.get(f"{tree.folder.name}.extensions")
    groups = tuple(
        node.value.value
        for node in (module.tree.body if module else [])
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and re.fullmatch(rf"{tree.folder.name}\.\w+", node.value.value)
    )
    return Measured(len(groups), groups)


def tests_per_source(tree: SourceTree, tests: Path) -> Measured:
    """Lines of tests for each line of source."""
    source = sum(module.text.count("\n") for module in tree)
    lines = sum(path.read_bytes().count(b"\n") for path in sorted(tests.rglob("*.py")))
    return Measured(
        round(lines / max(source, 1), 2), (f"{lines:,} of tests, {source:,} of source",)
    )


def longest_module(tree: SourceTree) -> Measured:
    sizes = sorted(((module.text.count("\n"), module.name) for module in tree), reverse=True)
    return Measured(sizes[0][0], tuple(f"{size} {name}" for size, name in sizes[:20]))


def functions(tree: SourceTree) -> list[tuple[int, str]]:
    """Every function with its number of lines, from `def` to its end; longest first."""
    found: list[tuple[int, str]] = []
    for module in tree:
        nodes: list[ast.FunctionDef | ast.AsyncFunctionDef] = [*module.nodes(ast.FunctionDef)]
        nodes += module.nodes(ast.AsyncFunctionDef)
        for node in nodes:
            lines = 1 + (node.end_lineno or node.lineno) - node.lineno
            found.append((lines, f"{module.name} {node.name}"))
    return sorted(found, reverse=True)


def longest_function(tree: SourceTree) -> Measured:
    longest = functions(tree)[:20]
    return Measured(longest[0][0], tuple(f"{size} {where}" for size, where in longest))


def usual_function(tree: SourceTree) -> Measured:
    """Nine of ten functions are at most this long."""
    sizes = [size for size, _ in reversed(functions(tree))]
    return Measured(sizes[int(0.9 * (len(sizes) - 1))])


def measured(root: Path) -> dict[str, Measured]:
    """Every number of the table, for the repository in `root`."""
    tree = SourceTree(root / "src" / "stator")
    contributing = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    over_tree: dict[str, Callable[[SourceTree], Measured]] = {
        "classes": shared_class_names,
        "gerunds": gerunds,
        "folder": largest_folder,
        "cycles": cycles,
        "private": private_uses,
        "comments": comments,
        "words": unusual_words,
        "extensions": extension_points,
        "module": longest_module,
        "function": longest_function,
        "p90": usual_function,
    }
    return {
        **{key: measure(tree) for key, measure in over_tree.items()},
        "kind": files_for_a_kind(contributing),
        "tests": tests_per_source(tree, root / "tests"),
    }


# ── showing ──────────────────────────────────────────────────────────────────────────────────────


def rows(
    found: Mapping[str, Measured], limits: Mapping[str, Limit]
) -> list[tuple[str, str, str, str, str]]:
    made = [("", "number", "limit", "aim", "")]
    for key, limit in limits.items():
        value = found[key].value
        note = "worse than its limit" if limit.is_broken_by(value) else ""
        bound = "" if limit.limit is None else f"{'≥' if limit.is_floor else '≤'} {limit.limit:g}"
        shown = "–" if value is None else f"{value:g}{limit.unit}"
        made.append((f"{limit.what} ({key})", shown, bound, limit.aim, note))
    return made


def aligned(table: list[tuple[str, str, str, str, str]]) -> str:
    widths = [max(len(row[column]) for row in table) for column in range(5)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in (0, 4) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    )


def main(
    arguments: list[str] | None = None, root: Path = ROOT, limits: Mapping[str, Limit] = LIMITS
) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print numbers and limits as JSON")
    parser.add_argument(
        "--quiet", action="store_true", help="print only what is worse than its limit"
    )
    parser.add_argument("--list", choices=sorted(limits), help="print what one number counts")
    given = parser.parse_args(arguments)
    found = measured(root)
    if given.list:
        print("\n".join(found[given.list].counted))
        return 0
    if given.json:
        print(
            json.dumps({key: _plain(found[key], limit) for key, limit in limits.items()}, indent=2)
        )
    elif not given.quiet:
        print(aligned(rows(found, limits)))
    broken = [key for key, limit in limits.items() if limit.is_broken_by(found[key].value)]
    for key in broken:
        number = (
            f"{limits[key].what}: {found[key].value:g}, worse than its limit {limits[key].limit:g}"
        )
        print(f"{number}; see scripts/shape.py --list {key}", file=sys.stderr)
    return 1 if broken else 0


def _plain(found: Measured, limit: Limit) -> dict[str, object]:
    return {
        "what": limit.what,
        "value": found.value,
        "limit": limit.limit,
        "aim": limit.aim,
        "is_floor": limit.is_floor,
        "is_broken": limit.is_broken_by(found.value),
    }


if __name__ == "__main__":
    gc.disable()  # hundreds of thousands of nodes live to the end: looking for garbage doubles the time
    sys.exit(main())
