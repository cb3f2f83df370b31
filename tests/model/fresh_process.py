"""The same program in several processes, each with its own order of hashing."""

from __future__ import annotations

import os
import subprocess
import sys


def printed(program: str) -> bytes:
    """What a program prints, whichever process runs it; it may not differ."""
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
