"""Makes the `.stator` folder of a project, and files in it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def prepare_folder(folder: str) -> None:
    """Create a `.stator` folder that git ignores."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        write_new(Path(folder, ".gitignore"), "*\n")


def write_new(path: Path, text: str) -> None:
    """Make a file. `FileExistsError` if anything has its name, also a link that leads nowhere: a folder that was
    cloned may bring one, to have a file written elsewhere."""
    with open(path, "x", encoding="utf-8") as file:
        file.write(text)
