"""The user's own key: what marks a grant as given by this user.

`$STATOR_OWNER_KEY` if it is set (for containers, and for teams that share one), else a file in the user's data
folder, made when it is first needed.
"""

from __future__ import annotations

import os

from stator.owner.folder import KEY_VARIABLE, UserFolder, user_folder

# type checkers recognize the name; importing it from `typing` would take too long for the hook
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "owner-key"
SIZE = 32
TEXT_MIN = 16
"""Characters that a key in the environment has at least."""


def owner_key(environ: Mapping[str, str], *, make: bool) -> bytes | None:
    """The key; None if there is none and none is to be made. `NoOwner` if it cannot be made or read."""
    given = environ.get(KEY_VARIABLE, "")
    if given:
        return _from_text(given)
    folder = user_folder(environ)
    if folder is None:
        if make:
            raise _missing("there is no home folder to keep your key in")
        return None
    try:
        return _from_folder(folder, make=make)
    except OSError as error:
        raise _missing(f"{folder.file(FILE)}: {error.strerror or error}") from None


def _from_text(given: str) -> bytes:
    from hashlib import sha256

    if len(given) < TEXT_MIN:
        raise _missing(f"${KEY_VARIABLE} is shorter than {TEXT_MIN} characters")
    return sha256(b"stator owner key\0" + os.fsencode(given)).digest()


def _from_folder(folder: UserFolder, *, make: bool) -> bytes | None:
    found = folder.read(FILE)
    if found is None and make:
        folder.create(FILE, os.urandom(SIZE).hex().encode() + b"\n")
        found = folder.read(FILE)
    if found is None:
        return None
    try:
        key = bytes.fromhex(found.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != SIZE:
        raise _missing(f"{folder.file(FILE)} does not hold a key; move it away to get a new one")
    return key


def _missing(why: str) -> Exception:
    from stator.errors import NoOwner  # the hook never needs it

    return NoOwner(
        f"no approval can be recorded as yours: {why}",
        hint=f"set {KEY_VARIABLE} to a secret text, the same each time, or give this user a home folder",
    )
