"""Runs the official conformance suite and the inspector against the MCP server. On demand.

They need npm. What they install goes to a temporary folder, or to the one that STATOR_NPM names.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from surfaces.agents import PROGRAM
from surfaces.test_mcp_http import serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not here"),
    pytest.mark.timeout(900),
]
SYSTEM = "darwin" if sys.platform == "darwin" else "linux"
NODE = f"node-{SYSTEM}-{'arm64' if platform.machine() in ('aarch64', 'arm64') else 'x64'}"
PACKAGES = {
    "node": f"{NODE}@22",
    "first": "first@npm:@modelcontextprotocol/conformance@0.1.16",
    "second": "second@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "inspector": "@modelcontextprotocol/inspector@2.12.0",
}
RUNS = [
    ("first", []),
    ("second", ["--spec-version", "2025-11-25"]),
    ("second", ["--spec-version", "2026-07-28"]),
]
FIXTURES = (
    # They call a tool, prompt or resource of the suite's own everything-server.
    "tools-call-",
    "prompts-get-",
    "resources-read-",
    "resources-templates-read",
    "resources-subscribe",
    "resources-unsubscribe",
    "elicitation-",
    "input-required-result-",
    "json-schema-2020-12",
    # It wants a tool whose arguments are also headers; ours are not.
    "http-custom-header-server-validation",
    # Deprecated since 2026-07-28, and not offered.
    "logging-set-level",
    # Optional, and not offered: there is nothing to complete but handles.
    "completion-complete",
)
"""Scenarios that need what this server does not have, and why."""
PARTLY = {"server-stateless": 4}
"""Scenarios, and how many of their checks need a fixture tool; the suite reports those as not tested."""


@pytest.fixture(scope="session")
def modules(tmp_path_factory) -> Path:
    """The folder that everything is installed in."""
    folder = Path(os.environ.get("STATOR_NPM") or tmp_path_factory.mktemp("npm"))
    if not (folder / "node_modules" / "second").exists():
        (folder / "package.json").write_text("{}")
        command = ["npm", "install", "--no-audit", "--no-fund", *PACKAGES.values()]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=600)
    return folder / "node_modules"


def node(modules: Path, *words: str) -> subprocess.CompletedProcess[str]:
    bin = modules / NODE / "bin"
    env = {**os.environ, "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        [str(bin / "node"), *words],
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize(("suite", "words"), RUNS, ids=["0.1.16", "2025-11-25", "2026-07-28"])
def test_every_scenario_that_needs_no_fixture_passes(modules, tmp_path, suite, words):
    script = str(modules / suite / "dist" / "index.js")
    with serving(tmp_path / "agent.db", "--no-token") as (address, _):
        done = node(modules, script, "server", "--url", address, "--suite", "all", *words)
    lines = re.findall(r"^[✓✗] ([\w-]+): (\d+) passed, (\d+) failed", done.stdout, re.M)
    assert len(lines) > 25, done.stdout[-2000:] + done.stderr[-2000:]
    failed = {
        name: int(count)
        for name, _, count in lines
        if int(count) and not name.startswith(FIXTURES) and int(count) != PARTLY.get(name)
    }
    assert failed == {}
    assert sum(int(passed) for _, passed, _ in lines) >= 9


@pytest.mark.parametrize("wire", ["stdio", "http"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_lists_and_calls_tools(modules, tmp_path, wire, era):
    script = str(modules / ".bin" / "mcp-inspector")
    store = tmp_path / "agent.db"

    def inspect(target: list[str], *words: str):
        done = node(modules, script, "--cli", *target, *words, "--protocol-era", era)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def look(target: list[str]) -> None:
        listed = inspect(target, "--method", "tools/list")
        assert len(listed["tools"]) == 8
        call = ["--method", "tools/call", "--tool-name", "stator_open"]
        made = inspect(target, *call, "--tool-arg", "purpose=inspect")["structuredContent"]
        assert made["created"]
        read = inspect(target, "--method", "resources/list")
        assert any(made["session"] in resource["uri"] for resource in read["resources"])

    if wire == "stdio":
        look([*PROGRAM, "--store", str(store)])
        return
    with serving(store) as (address, token):
        header = ["--header", f"Authorization: Bearer {token}"]
        look([address, "--transport", "http", *header])
