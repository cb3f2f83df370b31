"""Tests which file effects of shell commands are certain, and that uncertain ones are left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.model.exchange.shell_effects import files_touched


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("rm a.txt", [("a.txt", "deleted")]),
        ("rm -f a.txt 'b c.txt'", [("a.txt", "deleted"), ("b c.txt", "deleted")]),
        ("mv a.py b.py", [("b.py", "renamed")]),
        ("git mv a.py b.py", [("b.py", "renamed")]),
        ("git rm a.py", [("a.py", "deleted")]),
        ("cp a.py b.py", [("b.py", "created")]),
        ("touch new", [("new", "created")]),
        ("echo x > out.txt", [("out.txt", "created")]),
        ("echo x >> out.txt", [("out.txt", "modified")]),
        ("make 2> err.log", [("err.log", "created")]),
        ("make > all.log 2>&1", [("all.log", "created")]),
        ("make | tee log.txt", [("log.txt", "created")]),
        ("make | tee -a log.txt", [("log.txt", "modified")]),
        ("sed -i 's/a/b/' x.py y.py", [("x.py", "modified"), ("y.py", "modified")]),
        ("sed -i '' 's/a/b/' x.py", [("x.py", "modified")]),
        ("rm a && rm b", [("a", "deleted"), ("b", "deleted")]),
        ("false; rm a", [("a", "deleted")]),
        ("set -e\nrm a\nrm b", [("a", "deleted"), ("b", "deleted")]),
        ("cd /x && rm a", [("/x/a", "deleted")]),
        ("cd sub && rm a", [("/home/sub/a", "deleted")]),
        ("cat > a.py <<'EOF'\nrm b $x `y`\nEOF", [("a.py", "created")]),
        ("cat > a.py <<EOF && rm b\ntext\nEOF", [("a.py", "created"), ("b", "deleted")]),
        ("rm a # b", [("a", "deleted")]),
    ],
)
def test_certain_effects_are_found(command, expected):
    found = files_touched(command, "/home")
    assert [(touch.path, touch.op) for touch in found] == expected
    assert all(touch.how == "inferred" for touch in found)


@pytest.mark.parametrize(
    "command",
    [
        "rm *.o",
        "rm $FILE",
        "rm `ls`",
        "rm $(ls)",
        'rm "$x"',
        "rm {a,b}",
        "rm ~/a",
        "rm -r folder",
        "rm a; true",
        "rm a || true",
        "rm a | cat",
        "rm -i a",
        "mv -n a.py b.py",
        "echo x >&-",
        "if true; then rm a; fi",
        "for x in a; do rm x; done",
        "(rm a)",
        "rm a &",
        "cd $HOME && rm a",
        "cd /x; rm a",
        "mv a folder",
        "mv a.py b.py folder/",
        "echo rm a",
        "echo '> a'",
        "make > /dev/null",
        "cat <<EOF > a.py\nno end",
        "sudo rm a",
        "xargs rm a",
        "sed 's/a/b/' x.py",
        "mkdir -p folder",
        "rm 'a",
        "x" * 30_000 + " > a",
        "",
    ],
)
def test_uncertain_commands_yield_nothing(command):
    assert files_touched(command, "/home") == ()


def test_a_renamed_file_names_its_old_path():
    (touch,) = files_touched("cd /x && mv a.py b.py")
    assert (touch.path, touch.from_path) == ("/x/b.py", "/x/a.py")


@given(st.text(alphabet="rm a.txt><|&;\n'\"$`*(){}#\\-/2<<EOF", max_size=60))
def test_any_command_is_accepted(command):
    for touch in files_touched(command, "/home"):
        assert touch.path


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat a.md", ["a.md"]),
        ("cat -n a.md b", ["a.md", "b"]),
        ("nl -ba a.md | sed -n '1,20p'", ["a.md"]),
        ("nl -b a a.md", ["a.md"]),
        ("nl -b t a.md", []),
        ("sed -n '1,200p' 'a (b)/c.ts'", ["a (b)/c.ts"]),
        ("sed -n '5p;9,$p' a", ["a"]),
        ("sed 's/a/b/' a", []),
        ("head -n 20 a", ["a"]),
        ("head -20 a", ["a"]),
        ("tail -n +5 a", ["a"]),
        ("tail -f a", []),
        ("rg -n rose beds/a.py", ["beds/a.py"]),
        ("rg rose beds", []),
        ("grep -A 3 rose a.py", []),
        ("cd beds && cat a", ["/garden/beds/a"]),
        ("cat *.md", []),
        ("cat - /dev/null", []),
        ("wc -l a", ["a"]),
        ("ls a", []),
    ],
)
def test_files_that_a_command_shows_are_read(command, expected):
    found = files_touched(command, "/garden", reads=True)
    assert [(touch.path, touch.op, touch.how) for touch in found] == [
        (path, "read", "inferred") for path in expected
    ]


def test_a_file_that_is_written_and_shown_is_written():
    (found,) = files_touched("echo x > a && cat a", reads=True)
    assert found.op == "created"


def test_reads_are_left_out_unless_they_are_asked_for():
    assert files_touched("cat a.md") == ()
