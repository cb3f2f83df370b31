"""The key of a spool: of the placeholders for secrets in it, and of the marks of what came from it."""

from __future__ import annotations

import os

from stator.locations import KEY

# type checkers recognize the name; importing it from `typing` would take too long for the hook
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 32
ATTEMPTS = 8


def spool_key(folder: str, secret: Callable[[int], bytes]) -> bytes:
    """The key of a spool; who needs it first creates it, of `secret` bytes."""
    path = os.path.join(folder, KEY)
    for _ in range(ATTEMPTS):
        if (key := known_key(folder)) is not None:
            return key
        made = os.path.join(folder, f"{KEY}-{secret(8).hex()}")
        with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secret(SIZE))
        try:
            os.link(made, path)  # atomic: the key file is complete or does not exist
        except FileExistsError:
            pass
        finally:
            os.unlink(made)
    return secret(SIZE)


def known_key(folder: str) -> bytes | None:
    """The key of a spool, if it has one."""
    path = os.path.join(folder, KEY)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            key = file.read(SIZE)
    except FileNotFoundError:
        return None
    return key if len(key) == SIZE else None
