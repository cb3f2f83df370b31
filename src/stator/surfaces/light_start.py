"""Loads msgspec without what it would only use for users' types, in programs that end at once.

msgspec takes three names from `typing_extensions` where that is installed, and else from `typing`. With it come
`inspect`, `ast` and `tokenize`: a tenth of what a small command takes. Stator's own types need only `typing`.
"""

from __future__ import annotations

import sys

OPTIONAL = "typing_extensions"


def load_msgspec() -> None:
    """Load msgspec as if `typing_extensions` were not installed; a later import of that finds it."""
    if "msgspec" in sys.modules or OPTIONAL in sys.modules:
        return
    sys.modules[OPTIONAL] = None  # type: ignore[assignment]  # documented: importing it fails
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules[OPTIONAL]
