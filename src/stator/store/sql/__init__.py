"""Named SQL: statements are read as SQL, in files, and fetched by name. Nothing is assembled in Python."""

from __future__ import annotations

from pathlib import Path


def script(name: str) -> str:
    """A whole SQL file, such as a schema."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def statements(name: str) -> dict[str, str]:
    """The statements of a file by the name in their `-- name: …` header."""
    found: dict[str, str] = {}
    for part in script(name).split("-- name: ")[1:]:
        header, _, body = part.partition("\n")
        lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
        found[header.strip()] = "\n".join(lines).strip().rstrip(";")
    return found
