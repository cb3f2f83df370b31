"""The fixture `stator_replay`, as a user's test suite has it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

SUITE = """
import stator

def agent(s, amount=5):
    with s.turn("pay") as t:
        t.call(print, amount)

def record():
    store = stator.connect("memory:")
    with store.open("pay") as s, s.turn("pay") as t:
        t.call(print, 5)
    return store.read("pay")

def test_as_recorded(stator_replay):
    assert stator_replay(record(), agent).calls == 1

def test_changed(stator_replay):
    stator_replay(record(), lambda s: agent(s, amount=6))
"""


@pytest.mark.parametrize("begin", ["", "from stator.testing import stator_replay\n"])
def test_a_changed_agent_fails_its_test_with_the_report(pytester, begin):
    pytester.makepyfile(begin + SUITE)
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(
        ["replay of pay s_*: diverged", "*print was called with other arguments*"]
    )


def test_loading_the_plugin_imports_no_other_module():
    code = (
        "import sys, pytest\nbefore = set(sys.modules)\nimport stator.pytest_plugin\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["stator", "stator.pytest_plugin"]
