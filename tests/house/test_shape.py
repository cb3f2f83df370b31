"""scripts/shape.py counts what it says it counts, and fails when a number is worse than its limit."""

from __future__ import annotations

import json

import pytest

import shape
from house.trees import ROOT, made, one


def test_the_source_is_within_its_limits(capsys):
    assert shape.main(["--json"]) == 0, capsys.readouterr().err
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == shape.LIMITS.keys()
    assert found["extensions"]["value"] == 2


def test_every_number_has_a_limit():
    assert shape.measured(ROOT).keys() == shape.LIMITS.keys()


def test_a_class_name_in_two_modules_is_counted_once(tmp_path):
    tree = made(
        tmp_path, {"a.py": "class A: ...\nclass B: ...", "b.py": "class A: ...\nclass C: ..."}
    )
    found = shape.shared_class_names(tree)
    assert found.value == 33.3
    assert found.counted == ("A: stator/a.py:1, stator/b.py:1",)


def test_gerunds_are_counted_in_names_of_modules_and_folders(tmp_path):
    tree = made(tmp_path, {"driving/asking.py": "", "string.py": "", "settings.py": ""})
    assert shape.gerunds(tree).counted == ("stator.driving", "stator.driving.asking")


def test_the_largest_folder_is_counted_without_its_init_and_without_the_commands(tmp_path):
    files = {f"surfaces/cli/commands/c{n}.py": "" for n in range(5)} | {"a/x.py": "", "a/y.py": ""}
    found = shape.largest_folder(made(tmp_path, files))
    assert found.value == 2
    assert found.counted[0] == "2 a"


def test_modules_in_a_circle_are_counted(tmp_path):
    files = {"a.py": "from stator import b", "b.py": "from stator.a import c", "c.py": ""}
    assert shape.cycles(made(tmp_path, files)).value == 2


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("other._name", 1),
        ("self.other._name", 1),
        ("f()._name", 1),
        ("self._name", 0),
        ("cls._name", 0),
        ("self._mine.name", 0),
        ("super()._name", 0),
        ("type(self)._name", 0),
        ("other.__class__", 0),
        ("row._replace(a=1)", 0),
    ],
)
def test_a_private_attribute_of_another_object_is_counted(tmp_path, text, count):
    assert shape.private_uses(one(tmp_path, text)).value == count


def test_comments_are_counted_where_they_explain(tmp_path):
    text = (
        "# why it is so\n"
        "a = 1  # and this\n"
        'b = "# a string"\n'
        'c = """\n# a longer string\n"""\n'
        'd = f"# {a} #"  # after a string\n'
        "import x  # noqa: F401\n"
        "# ── a ruler ───\n" + "e = 1\n" * 1
    )
    tree = one(tmp_path, text)
    found = shape.comments(tree).counted
    assert [line.partition(": ")[2] for line in found] == [
        "why it is so",
        "and this",
        "after a string",
    ]


def test_comments_are_given_per_thousand_lines(tmp_path):
    assert shape.comments(one(tmp_path, "# why\n" + "x = 1\n" * 499)).value == 2.0


def test_unusual_words_are_counted_in_docstrings_and_not_in_code(tmp_path):
    text = (
        '"""Somebody goes on; what a name stands for is usual."""\n'
        "A = 1\n"
        '"""Told once more."""\n'
        "told = 'somebody'\n"
        "# whoever\n"
    )
    found = shape.unusual_words(one(tmp_path, text))
    assert [line.partition(": ")[2] for line in found.counted] == [
        "Somebody",
        "goes on",
        "Told",
        "once more",
    ]
    assert found.value == round(4000 / 13, 1)


def test_every_unusual_word_can_be_found():
    assert shape.UNUSUAL_WORD.search("the log, anew")
    assert not shape.UNUSUAL_WORD.search("the standard, stating what a record holds")


RECIPE = """# Contributing

## A new kind of record

See `src/stator/model/log/reduce.py` for rules.

`src/stator/model/records/registry.py`, before `# -- about a session`:

`src/stator/runtime/driving/state_writer.py`, before `def plan(`:

`src/stator/model/records/registry.py`, before `RunRecord,`:

`docs/design/record.md`, before `| about |`:

## Another

`src/stator/other.py`, before `x`:
"""


def test_source_files_for_a_new_kind_are_counted_from_the_recipe():
    found = shape.files_for_a_kind(RECIPE)
    assert found.counted == (
        "src/stator/model/records/registry.py",
        "src/stator/runtime/driving/state_writer.py",
    )


def test_a_number_that_cannot_be_measured_is_not_compared():
    found = shape.files_for_a_kind("# Contributing\n")
    assert found.value is None
    assert not shape.LIMITS["kind"].is_broken_by(found.value)


def test_groups_of_entry_points_are_counted(tmp_path):
    tree = made(tmp_path, {"extensions.py": 'A = "stator.formats"\nB = "stator.stores"\nC = "x"\n'})
    assert shape.extension_points(tree).counted == ("stator.formats", "stator.stores")


def test_lengths_of_modules_and_functions(tmp_path):
    text = "\n".join(f"def f{n}():\n" + "    pass\n" * n for n in range(1, 11))
    tree = one(tmp_path, text)
    assert shape.longest_function(tree).value == 11
    assert shape.usual_function(tree).value == 10
    assert shape.longest_module(tree).value == text.count("\n")


def test_lines_of_tests_are_divided_by_lines_of_source(tmp_path):
    tree = one(tmp_path, "a = 1\n" * 4)
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_x.py").write_text("b = 1\n" * 3)
    assert shape.tests_per_source(tree, tests).value == 0.75


@pytest.mark.parametrize(
    ("is_floor", "value", "is_broken"),
    [
        (False, 11, True),
        (False, 10, False),
        (True, 9, True),
        (True, 10, False),
        (True, None, False),
    ],
)
def test_a_limit_is_broken_on_its_own_side(is_floor, value, is_broken):
    assert shape.Limit("x", 10, "", is_floor=is_floor).is_broken_by(value) is is_broken


def test_a_number_that_got_worse_fails_and_says_where_to_look(capsys):
    limits = {"folder": shape.Limit("largest folder", 1, "≤ 1")}
    assert shape.main(["--quiet"], limits=limits) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "largest folder" in printed.err
    assert "--list folder" in printed.err


def test_the_table_is_aligned():
    lines = shape.aligned([("a", "number", "limit", "aim", ""), ("longer", "1", "≤ 2", "≤ 1", "!")])
    assert lines.splitlines() == ["a       number  limit  aim", "longer       1    ≤ 2  ≤ 1  !"]
