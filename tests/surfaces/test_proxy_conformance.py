"""Compares the official conformance suite with and without the proxy. On demand.

`STATOR_CONFORMANCE` names a folder with `node` (22 or later), `conf016/` and `conf020/` (the npm package
`@modelcontextprotocol/conformance` at 0.1.16 and 0.2.0-alpha.12) and the address of the SDK's
everything-server in a file `url`.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from surfaces.test_proxy_http import Front

FOLDER = os.environ.get("STATOR_CONFORMANCE", "")
SUITES = [
    ("conf016", [], 40),
    ("conf020", ["--suite", "all", "--spec-version", "2025-11-25"], 84),
    ("conf020", ["--suite", "all", "--spec-version", "2026-07-28"], 152),
]


def scenarios(folder, package, url, words):
    done = subprocess.run(
        [folder / "node", folder / package / "dist" / "index.js", "server", "--url", url, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    return re.findall(r"^(?:[✓✗] .*|Total: .*)$", done.stdout, re.M)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not FOLDER, reason="STATOR_CONFORMANCE names no folder")
@pytest.mark.parametrize(("package", "words", "checks"), SUITES)
def test_the_conformance_suite_gives_the_same_counts_through_the_proxy(
    tmp_path, package, words, checks
):
    folder = Path(FOLDER)
    url = (folder / "url").read_text().strip()
    front = Front(tmp_path, url)
    through = scenarios(folder, package, f"http://localhost:{front.port}/mcp", words)
    front.end()
    assert through == scenarios(folder, package, url, words)
    assert through[-1] == f"Total: {checks} passed, 0 failed"
