"""Writes a page that a script generates; with `--check`, says whether it is as the script would write it."""

from __future__ import annotations

import sys
from pathlib import Path


def write_or_check(page: Path, text: str) -> int:
    """0, or with `--check` 1 if the page differs."""
    if "--check" in sys.argv[1:]:
        return 0 if page.exists() and page.read_text(encoding="utf-8") == text else 1
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")
    return 0
