"""Writes a file for a person: completely or not at all, and never over another one unless that was asked for."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from stator.errors import BadQuery, InvalidInput

FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def write_new(path: Path, pieces: Iterable[str], *, replace: bool = False, hint: str) -> int:
    """Write the pieces and return how many bytes they are; `hint` is for a file that is there already."""
    if path.is_dir():
        raise BadQuery(f"{path} is a folder", hint="name a file in it")
    if os.path.lexists(path) and not replace:
        raise BadQuery(f"{path} exists already", hint=hint)
    partial = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
    try:
        handle = os.open(partial, FLAGS, 0o600)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            for piece in pieces:
                file.write(piece.encode("utf-8", "surrogatepass"))
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        if replace:
            os.replace(partial, path)
        else:
            os.link(partial, path)
    except FileExistsError:
        raise BadQuery(f"{path} exists already", hint=hint) from None
    finally:
        partial.unlink(missing_ok=True)
    return size
