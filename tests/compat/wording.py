"""Write what `make.py` omits: every kind of commit, what importers, hooks and the proxy record,
and the words of rare outcomes:
PYTHONPATH=tests python -m compat.wording FOLDER.

Each section has its own stores and writes FOLDER/SECTION.jsonl, one line per commit, so that a change
shows only where it belongs. The files in data/wording were written by the code of 0.4.0 and are never
replaced; a later release adds sections, and those that it writes otherwise on purpose, in a folder of its own.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from compat import commits, sections_driven, sections_kept, sections_outside
from compat.make import refuse_git
from compat.place import Place, Section

SECTIONS: dict[str, Section] = {
    **sections_driven.SECTIONS,
    **sections_kept.SECTIONS,
    **sections_outside.SECTIONS,
}


def main() -> None:
    folder = Path(os.path.abspath(sys.argv[1]))
    os.umask(0o022)  # the mode of a captured file is recorded
    for name in sys.argv[2:] or SECTIONS:
        with tempfile.TemporaryDirectory() as root:
            refuse_git(root)
            place = Place(Path(os.path.realpath(root)))
            os.chdir(place.root)
            SECTIONS[name](place)
            commits.write(folder / f"{name}.jsonl", place.lines())
            os.chdir("/")


if __name__ == "__main__":
    main()
