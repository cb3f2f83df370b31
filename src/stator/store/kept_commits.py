"""Keeps the commits that a process decoded last: who watches a session decodes each row of its log once.

A commit is what its row says and nothing else, so that a row that is still the same, byte for byte, is not decoded
again. After an erasure the row is another one. Blobs are not kept.
"""

from __future__ import annotations

from threading import Lock

from stator.model.log.commit import Commit

COMMITS_MAX = 2_048
"""More than the newest commits of a session and its whole unflushed tail."""
BYTES_MAX = 4 * 1024 * 1024
ONE_MAX = 64 * 1024
"""Bytes of content that are kept, of all commits and of one."""
Row = tuple[bytes, bytes, bytes, bytes]
"""id, hash, salts, body."""


class KeptCommits:
    """The commits of rows, bare; the ones kept first leave first."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], tuple[Row, bytes, Commit, int]] = {}
        self._bytes = 0
        self._lock = Lock()

    def find(self, session: str, seq: int, prev: bytes, row: Row) -> Commit | None:
        """The commit in a row, if it was decoded lately."""
        held = self._kept.get((session, seq))
        return held[2] if held is not None and held[0] == row and held[1] == prev else None

    def keep(self, prev: bytes, row: Row, commit: Commit) -> None:
        size = sum([len(item) for item in commit.content.values() if isinstance(item, bytes)])
        if size > ONE_MAX:
            return
        place = (commit.session, commit.seq)
        with self._lock:
            self._drop(place)
            self._kept[place] = (row, prev, commit, size)
            self._bytes += size
            while len(self._kept) > COMMITS_MAX or self._bytes > BYTES_MAX:
                self._drop(next(iter(self._kept)))

    def _drop(self, place: tuple[str, int]) -> None:
        held = self._kept.pop(place, None)
        if held is not None:
            self._bytes -= held[3]
