"""Maps every byte of a SQLite store file to what it belongs to: which row of the log, which table, or nothing.

Read from the pages themselves, independently of the code under test.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import apsw

PAGE = 4096
SEQ_BITS = 40


@dataclass(frozen=True)
class Region:
    """What some bytes are for."""

    kind: str
    """`log row`, `log page`, `unused`, `header`, `pointer map`, `free page`, or the name of a table or index."""
    key: int = 0
    """Of a log row: its key."""

    @property
    def seq(self) -> int:
        return self.key & ((1 << SEQ_BITS) - 1)

    @property
    def ordinal(self) -> int:
        return self.key >> SEQ_BITS


class StoreMap:
    """The regions of a closed store file."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        self._regions: list[Region] = [Region("free page")] * len(self.data)
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        trees = [
            (int(str(root)), str(table))
            for root, table in db.execute(
                "SELECT rootpage, tbl_name FROM sqlite_schema WHERE rootpage > 0"
            ).fetchall()
        ]
        db.close()
        for first in range(2, len(self.data) // PAGE + 1, PAGE // 5 + 1):  # every 820th page
            self._fill(self._start(first), PAGE, Region("unused"))
            entries = min(PAGE // 5, len(self.data) // PAGE - first)
            self._fill(self._start(first), 5 * entries, Region("pointer map"))
        self._tree(1, "schema")
        self._fill(0, 100, Region("header"))
        for root, table in trees:
            self._tree(root, table)

    def at(self, byte: int) -> Region:
        return self._regions[byte]

    def bytes_of(self, kind: str) -> list[int]:
        return [place for place, region in enumerate(self._regions) if region.kind == kind]

    @staticmethod
    def _start(page: int) -> int:
        return (page - 1) * PAGE

    def _fill(self, start: int, size: int, region: Region) -> None:
        self._regions[start : start + size] = [region] * size

    def _number(self, place: int, size: int) -> int:
        return int.from_bytes(self.data[place : place + size], "big")

    def _varint(self, place: int) -> tuple[int, int]:
        value = 0
        for n in range(9):
            byte = self.data[place + n]
            if n == 8:
                return value << 8 | byte, place + 9
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                return value, place + n + 1
        raise AssertionError

    def _tree(self, page: int, table: str) -> None:
        start = self._start(page)
        head = start + (100 if page == 1 else 0)
        kind = self.data[head]
        is_interior, is_table = kind in (2, 5), kind in (5, 13)
        own = Region("log page" if table == "log" else table)
        self._fill(start, PAGE, Region("unused"))
        cells = self._number(head + 3, 2)
        array = head + (12 if is_interior else 8)
        self._fill(head, array + 2 * cells - head, own)
        self._freeblocks(start, self._number(head + 1, 2), own)
        for n in range(cells):
            self._cell(start, start + self._number(array + 2 * n, 2), kind, own, table)
        if is_interior:
            self._tree(self._number(head + 8, 4), table)
        assert is_table or kind in (2, 10), (page, kind)

    def _freeblocks(self, start: int, block: int, own: Region) -> None:
        """The chain of free blocks: four bytes of each are used."""
        while block:
            self._fill(start + block, 4, own)
            block = self._number(start + block, 2)

    def _cell(self, start: int, place: int, kind: int, own: Region, table: str) -> None:
        end = place
        if kind in (2, 5):
            self._tree(self._number(place, 4), table)
            end += 4
        if kind == 5:
            _, end = self._varint(end)
            self._fill(place, end - place, own)
            return
        size, end = self._varint(end)
        region = own
        if kind == 13:
            k, end = self._varint(end)
            if table == "log":
                region = Region("log row", k)
        most = PAGE - 35 if kind == 13 else (PAGE - 12) * 64 // 255 - 23
        least = (PAGE - 12) * 32 // 255 - 23
        local = size
        if size > most:
            local = least + (size - least) % (PAGE - 4)
            local = least if local > most else local
            self._overflow(self._number(end + local, 4), size - local, region)
            end += 4
        end += local
        self._fill(place, max(4, end - place), region)

    def _overflow(self, page: int, left: int, region: Region) -> None:
        while left > 0:
            start = self._start(page)
            self._fill(start, PAGE, Region("unused"))
            self._fill(start, 4 + min(left, PAGE - 4), region)
            left -= PAGE - 4
            page = self._number(start, 4)
