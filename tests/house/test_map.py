"""ARCHITECTURE.md is a map of the tree: it names every module once, in its folder, and nothing that is not there.

The map is the indented block below "## The tree", from `src/stator/` on. A line is

    <two spaces for each folder it is in><names>  <what they are>

where the names are one folder (`views/`) or one or more modules without `.py`. A line that is indented further than
its folder continues the line above it. The `__init__.py` of a folder is the folder's own line.
"""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from house.lists import expect_none
from house.trees import ROOT, made, ours
from source_tree import SourceTree

PAGE = ROOT / "ARCHITECTURE.md"
LINE = re.compile(r"^ *(?P<names>[\w.]+/?(?: [\w.]+/?)*)(?:  +(?P<text>\S.*))?$")
PATH = re.compile(
    r"`((?:src/stator|tests|docs|scripts|examples|bench)/[\w./-]*|[\w/]+\.(?:py|md|toml))`"
)


def tree_block(page: str) -> list[str]:
    """The lines of the map, without the four spaces that make them a block."""
    _, _, rest = page.partition("## The tree\n")
    lines = [line[4:] for line in rest.split("\n## ")[0].splitlines() if line.startswith("    ")]
    return lines


def mapped(page: str, top: str = "src/stator/") -> list[tuple[str, str]]:
    """Every module of the map, as (name, what the map says of it)."""
    lines = tree_block(page)
    lines = lines[lines.index(top) + 1 :]
    found: list[tuple[str, str]] = []
    folders = ["stator"]
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2
        if depth == 0:
            break  # another folder of the repository
        if depth > len(folders):
            continue  # it continues the line above
        match = LINE.match(line)
        assert match, f"not a line of a map: {line!r}"
        del folders[depth:]
        for name in match["names"].split():
            found.append((".".join([*folders, name.rstrip("/")]), match["text"] or ""))
            if name.endswith("/"):
                folders.append(name.rstrip("/"))
    return found


def differences(page: str, tree: SourceTree) -> list[str]:
    """What map and tree disagree about, with the line to add."""
    counts = Counter(name for name, _ in mapped(page))
    expected = tree.modules.keys() - {tree.folder.name}
    first = {tree.folder.name, *(f"{tree.folder.name}.__init__",)}
    return [
        *(f"named {count} times: {name}" for name, count in counts.items() if count > 1),
        *(f"not there: {name}" for name in counts if name not in expected | first),
        *(to_add(tree, name) for name in sorted(expected - counts.keys())),
    ]


def to_add(tree: SourceTree, name: str) -> str:
    """The line that the map lacks for a module."""
    folder, _, last = name.rpartition(".")
    module = tree.modules[name]
    said = (ast.get_docstring(module.tree) or "").split("\n")[0]
    indent = "    " + "  " * name.count(".")
    shown = f"{last}/" if module.is_package else last
    return f"missing below {folder.replace('.', '/')}/, add: {indent}{shown:<12}  {said}"


def paths_that_are_not_there(page: str) -> list[str]:
    """Paths in backticks that name no file; one that begins inside the package may leave `src/stator/` out."""
    return [
        path
        for path in dict.fromkeys(PATH.findall(page))
        if "NAME" not in path
        and not (ROOT / path).exists()
        and not (ROOT / "src" / "stator" / path).exists()
    ]


def without_first_columns(page: str, section: str) -> str:
    """A page without the first column of the tables of one section: the walks of the release before."""
    before, heading, rest = page.partition(f"{section}\n")
    walks, following, after = rest.partition("\n## ")
    lines = [
        line.split(" | ", 1)[-1] if line.startswith("| ") else line for line in walks.splitlines()
    ]
    return before + heading + "\n".join(lines) + following + after


# ── the page ─────────────────────────────────────────────────────────────────────────────────────


def test_the_map_names_every_module_once_and_in_its_folder():
    expect_none(differences(PAGE.read_text(encoding="utf-8"), ours()), "ARCHITECTURE.md:")


def test_every_line_of_the_map_says_what_the_module_is():
    expect_none(name for name, text in mapped(PAGE.read_text(encoding="utf-8")) if not text)


def test_every_path_in_the_page_is_there():
    page = without_first_columns(PAGE.read_text(encoding="utf-8"), "## Walks")
    expect_none(paths_that_are_not_there(page), "ARCHITECTURE.md names:")


# ── the check finds what it is for ───────────────────────────────────────────────────────────────

FILES = {"a.py": "", "runtime/b.py": '"""Does b."""', "runtime/views/c.py": ""}
MAP = """
## The tree

    src/stator/
      __init__    the front door
      a           first
      runtime/    use cases
        b         second
        views/    reading
          c       third; a long text
                  continues here, as it likes
    tests/        other things

## More
"""


def test_a_map_of_everything_is_accepted(tmp_path):
    assert differences(MAP, made(tmp_path, FILES)) == []


def test_a_module_that_the_map_lacks_is_reported_with_the_line_to_add(tmp_path):
    page = MAP.replace("        b         second\n", "")
    (missing,) = differences(page, made(tmp_path, FILES))
    assert missing == "missing below stator/runtime/, add:         b             Does b."


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("      a     ", "      a b   ", "not there: stator.b"),
        ("        b     ", "        b b   ", "named 2 times: stator.runtime.b"),
        ("          c     ", "        c       ", "not there: stator.runtime.c"),
    ],
)
def test_a_wrong_line_of_the_map_is_reported(tmp_path, old, new, said):
    assert said in differences(MAP.replace(old, new), made(tmp_path, FILES))


def test_a_path_that_is_not_there_is_reported():
    page = (
        "see `tests/house/test_map.py`, `connect.py`, `runtime/no/such.py` and `commands/NAME.py`"
    )
    assert paths_that_are_not_there(page) == ["runtime/no/such.py"]


def test_only_the_first_column_of_the_walks_may_name_files_of_the_release_before():
    page = "## A\n| `x.py` | `y.py` |\n## Walks\n| `old.py` | `new.py` |\n\n## B\n`z.py`"
    assert paths_that_are_not_there(without_first_columns(page, "## Walks")) == [
        *("x.py", "y.py", "new.py", "z.py")
    ]
