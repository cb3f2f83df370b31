"""Tests that a shell command counts as reading only if it certainly changes nothing."""

from __future__ import annotations

import pytest

from stator.importers.reading.shell_reads import only_reads

READING = [
    "cat cart.py",
    "ls -la *.py",
    "find . -name '*.py' -not -path './x/*'",
    "grep -rn tax src | head -20",
    "cd src && sed -n 10,20p cart.py",
    "sed -n '/def/,/return/p' cart.py",
    "git log --oneline -5; git diff HEAD~1",
    "cat cart.py 2>/dev/null | sort | uniq -c",
    "/usr/bin/wc -l cart.py",
    "echo done",
]
WRITING = [
    "",
    "make",
    "rm a.py",
    "cat a.py > b.py",
    "cat a.py | tee b.py",
    "find . -name '*.pyc' -delete",
    "find . -exec rm {} +",
    "find . $ACTION",
    "sed -i s/a/b/ cart.py",
    "sed -n 's/a/b/w out' cart.py",
    "sort -o out.txt in.txt",
    "uniq a.txt b.txt",
    "cat `rm a.py`",
    "cat $(rm a.py)",
    "grep tax . && rm a.py",
    "git checkout .",
    "git diff --output=a.patch",
    "yq -i .a=1 b.yaml",
    "if true; then cat a; fi",
    "cat a || rm b",
]


@pytest.mark.parametrize("command", READING)
def test_a_command_of_readers_only_reads(command):
    assert only_reads(command)


@pytest.mark.parametrize("command", WRITING)
def test_a_command_that_may_write_is_no_read(command):
    assert not only_reads(command)
