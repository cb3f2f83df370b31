"""Runs a program in several processes with different hash seeds."""

from __future__ import annotations

import os
import subprocess
import sys


def printed(program: str) -> bytes:
    """The output of a program, which must be the same in every process."""
    paths = os.pathsep.join(path for path in sys.path if path)
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": paths, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "77")
    }
    assert len(outputs) == 1
    return outputs.pop()
