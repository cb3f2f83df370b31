"""Commands that need an extra say which one to install when it is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None  # importing it now fails as if it were not installed
from stator.surfaces.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    ("package", "command", "extra"),
    [
        ("mcp", "mcp", "stator[mcp]"),
        ("jsonschema_rs", "mcp", "stator[mcp]"),
        ("httpx2", "proxy --http --upstream http://127.0.0.1:9", "stator[server]"),
        ("jinja2", "web", "stator[server]"),
        ("sse_starlette", "web", "stator[server]"),
        ("starlette", "web", "stator[server]"),
        ("uvicorn", "web", "stator[server]"),
        ("uvicorn", "proxy --http --upstream http://127.0.0.1:9", "stator[server]"),
    ],
)
def test_a_command_without_its_extra_says_what_to_install(package, command, extra, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, package, *command.split()],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert package in done.stderr
    assert f"pip install '{extra}'" in done.stderr
