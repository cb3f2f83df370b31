"""Run the commands in the documentation and write their present output into the pages.

    python scripts/refresh_docs.py                    every page
    python scripts/refresh_docs.py docs/tutorial.md   one

A line `…`, which matches any lines, is kept if the rest still matches. Read the difference before you
commit it: if a page reads badly, change the command, not the page.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from docs.runner import PAGES, rewritten  # noqa: E402


def main() -> int:
    for name in sys.argv[1:] or PAGES:
        page = ROOT / name
        with tempfile.TemporaryDirectory(prefix="stator-docs-") as folder:
            text = rewritten(name, Path(folder))
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            print(f"rewritten: {name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
