"""Reads the policy file of a project."""

from __future__ import annotations

from pathlib import Path

from stator.errors import InvalidInput
from stator.owner.regular_file import read_regular

POLICY_FILE = "stator.toml"
POLICY_MAX = 1_000_000
"""Characters of a policy file that are read."""


def policy_text(root: Path) -> str:
    """The project's policy file; empty if there is none. A file that cannot be read is an error, because an
    empty policy allows everything.
    """
    try:
        return read_regular(root / POLICY_FILE, POLICY_MAX).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise InvalidInput(
            f"{POLICY_FILE} cannot be read: {error.strerror}", hint=str(root / POLICY_FILE)
        ) from None
