"""Where an outlet continues: a private file in the user's data folder, named by the outlet and its store.

It is replaced in one step, after what it speaks for was taken by the other side; a kill in between repeats that, and
loses nothing. A lock beside it keeps a second outlet of the same name from running.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Self

import msgspec

from stator.errors import BadQuery, Busy, Conflict, StoreFailed
from stator.locks import LockFile
from stator.owner.folder import SIZE_MAX, UserFolder, user_folder

FOLDER = "outlets"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
NAME_DIGITS = 12


class _OutletFile(msgspec.Struct):
    """What the file holds."""

    cursor: str
    store: str
    project: str | None = None
    outlet: int = 1


def name_of(kind: str, target: str) -> str:
    """The name of an outlet that was given none: the same target has the same."""
    return f"{kind}-{sha256(os.fsencode(target)).hexdigest()[:NAME_DIGITS]}"


class KeptCursor:
    """The cursor of one outlet of one store, held by this process until it is closed."""

    def __init__(
        self, environ: Mapping[str, str], store: str, name: str, project: str | None
    ) -> None:
        """`store` is the id of the store. `Busy` if an outlet of that name runs."""
        if not _NAME.match(name):
            raise BadQuery(
                f"an outlet cannot be called {name!r:.80}",
                hint="use letters, digits, dots and dashes, at most 64",
            )
        base = user_folder(environ)
        if base is None:
            raise BadQuery(
                "there is no folder to keep the cursor in", hint="set XDG_DATA_HOME or HOME"
            )
        self._folder = UserFolder(os.path.join(base.path, FOLDER))
        self._file = f"{name}-{sha256(store.encode()).hexdigest()[:NAME_DIGITS]}"
        self._store, self._project, self.name = store, project, name
        try:
            os.makedirs(self._folder.path, mode=0o700, exist_ok=True)
            self._lock = LockFile(self._folder.file(f"{self._file}.lock"), mode=0o600)
        except OSError as error:
            raise StoreFailed(f"{self._folder.path}: {error.strerror}") from None
        if not self._lock.lock(0):
            self._lock.close()
            raise Busy(
                f"the outlet {name!r} of this store is running already",
                hint="stop it first, or give this one another --name",
                outlet=name,
            )

    def load(self) -> str | None:
        """The cursor; None if the outlet has not run yet."""
        try:
            data = self._folder.read(self._file)
        except OSError as error:
            raise StoreFailed(f"{error.filename}: {error.strerror}") from None
        if data is None:
            return None
        try:
            kept = msgspec.json.decode(data, type=_OutletFile)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise StoreFailed(
                f"{self._folder.file(self._file)}: this is not the cursor of an outlet",
                hint="remove the file to begin again, or give another --name",
            ) from None
        if kept.project != self._project:
            wider = "every project" if kept.project is None else f"project {kept.project!r:.80}"
            raise Conflict(
                f"the outlet {self.name!r} follows {wider}",
                hint="use the same scope as before, or give another --name",
                outlet=self.name,
            )
        return kept.cursor

    def save(self, cursor: str) -> None:
        """Keep the cursor: what comes before it is not given out again."""
        data = msgspec.json.encode(_OutletFile(cursor, self._store, self._project))
        if len(data) > SIZE_MAX:
            raise StoreFailed(
                "the cursor is too large to be kept", hint="follow one project instead of all"
            )
        try:
            self._folder.replace(self._file, data)
        except OSError as error:
            raise StoreFailed(f"{self._folder.path}: {error.strerror}") from None

    def close(self) -> None:
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
