"""Reads the lines of a transcript, even if the file is cut off, growing, damaged, compressed or
very large.

The file is never changed, and no more than one line is held in memory. A line that cannot be read
is yielded with the reason, so that the caller can count it and continue.
"""

from __future__ import annotations

import codecs
import json
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec

from stator.errors import InvalidInput
from stator.importers.reading import sqlite_source

LINE_MAX = 48 * 2**20
"""The most bytes of one line that are read; a longer line is skipped and reported."""
CHUNK = 256 * 1024
IDENTIFYING_BYTES = 4096
"""The number of bytes at the start of a file that identify it."""
NO_ATIME = getattr(os, "O_NOATIME", 0)
"""Reading leaves the file's access time alone, where the system supports that."""
CUT_OFF = "cut off"
"""Why a record at the end of a file cannot be read: its end is missing, and may come."""
ZSTD = b"\x28\xb5\x2f\xfd"
UTF16: dict[bytes, str] = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class JsonlLine(msgspec.Struct, frozen=True):
    """One line: its number (from 1), the offset at which it begins and the offset after it."""

    number: int
    offset: int
    end: int
    data: bytes = b""
    problem: str = ""
    """Why the line cannot be read; "" if it can."""
    is_cut: bool = False
    """Whether the file ends within this line. An agent may be writing it right now, so the next
    import reads it again."""
    is_unended: bool = False
    """Whether the file ends without a newline after this line; the line itself may be whole."""


def open_regular_file(path: str) -> BinaryIO:
    """Open a regular file for reading. Anything else, such as a pipe, is refused without waiting."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            handle = os.open(path, flags | NO_ATIME)
        except PermissionError:  # only the owner of a file may leave its access time alone
            handle = os.open(path, flags)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}", path=path) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InvalidInput(f"{path} is not a file", path=path, hint="name a file or a folder")
    return os.fdopen(handle, "rb", buffering=0)


def read_beginning(path: str, size: int = 65_536) -> bytes:
    """The first bytes of a file, decompressed and in UTF-8. The bytes of a database are not
    converted."""
    if sqlite_source.has_database_name(path):
        return sqlite_source.first_bytes(path, size)
    with open_regular_file(path) as file:
        feed = _chunk_reader(file, None)
        data = b""
        while len(data) < size and (more := feed()):
            data += more
    return data[:size].removeprefix(codecs.BOM_UTF8)


def read_whole(path: str, limit: int, progress: Callable[[int], None] | None = None) -> bytes:
    """Read a whole file as UTF-8, for formats that cannot be read in parts; refuse files above a
    limit."""
    chunks: list[bytes] = []
    pending_bytes = 0
    with open_regular_file(path) as file:
        feed = _chunk_reader(file, progress)
        while chunk := feed():
            pending_bytes += len(chunk)
            if pending_bytes > limit:
                raise InvalidInput(
                    f"{path} is larger than {limit // 2**20} MB, the limit for a file that is read as a whole",
                    hint="split it, or import a smaller one",
                )
            chunks.append(chunk)
    return b"".join(chunks).removeprefix(codecs.BOM_UTF8)


def fingerprint(path: str, offset: int) -> str:
    """Identify a file's content up to an offset, by its first bytes and the bytes right before the
    offset.

    A file that has grown since keeps its fingerprint; a file that was rewritten does not. Up to offset 0
    there is nothing to compare, and a database must not be opened here.
    """
    from hashlib import sha256  # takes time to load, and few programs follow a file

    if not offset:
        return sha256().hexdigest()[:32]
    with open_regular_file(path) as file:
        # nothing is ever appended to a compressed file, so its size identifies it
        if file.read(4)[:4] == ZSTD:
            return f"packed {os.fstat(file.fileno()).st_size}"
        seen = sha256()
        for start, length in (
            (0, min(IDENTIFYING_BYTES, offset)),
            (max(0, offset - IDENTIFYING_BYTES), IDENTIFYING_BYTES),
        ):
            file.seek(start)
            seen.update(file.read(min(length, offset - start)))
    return seen.hexdigest()[:32]


def read_lines(
    path: str, *, offset: int = 0, number: int = 0, progress: Callable[[int], None] | None = None
) -> Iterator[JsonlLine]:
    """Yield the lines of a file, starting at an offset, up to the size it has now.

    `number` is the number of the line before the offset. `progress` is called with the number of
    bytes read.
    """
    with open_regular_file(path) as file:
        position = start = _seek(file, offset)
        feed = _chunk_reader(file, progress)
        pieces: list[bytes] = []
        pending_bytes = 0
        too_long = False
        while chunk := feed():
            scan = 0
            while (found := chunk.find(b"\n", scan)) >= 0:
                end = position + found + 1
                piece = b"" if too_long else chunk[scan:found]
                whole = b"".join([*pieces, piece])
                if end > offset:
                    number += 1
                    yield _checked_line(
                        number, start, end, whole, too_long or len(whole) > LINE_MAX
                    )
                pieces, pending_bytes, too_long = [], 0, False
                start, scan = end, found + 1
            rest = chunk[scan:]
            pending_bytes += len(rest)
            too_long = too_long or pending_bytes > LINE_MAX
            if too_long:
                pieces = []
            elif rest:
                pieces.append(rest)
            position += len(chunk)
        if pending_bytes:
            data = b"".join(pieces)
            number += 1
            yield _final_line(number, start, position, data, too_long)


def _seek(file: BinaryIO, offset: int) -> int:
    """Seek to an offset if the file's bytes are its text; otherwise start at 0. Return the
    position."""
    first = file.read(4)
    recoded = first == ZSTD or any(first.startswith(mark) for mark in UTF16)
    file.seek(0 if recoded else offset)
    return file.tell()


def _checked_line(number: int, start: int, end: int, data: bytes, too_long: bool) -> JsonlLine:
    if too_long:
        return JsonlLine(number, start, end, problem=f"longer than {LINE_MAX // 2**20} MB")
    data = data.removesuffix(b"\r")
    if number == 1:
        data = data.removeprefix(codecs.BOM_UTF8)
    if b"\0" in data:
        return JsonlLine(number, start, end, problem="NUL bytes")
    return JsonlLine(number, start, end, data)


def _final_line(number: int, start: int, end: int, data: bytes, too_long: bool) -> JsonlLine:
    """The end of a file without a final newline. It is a whole line if it parses, and cut off
    otherwise: an agent may be in the middle of writing it."""
    line = msgspec.structs.replace(
        _checked_line(number, start, end, data, too_long), is_unended=True
    )
    if line.problem or not line.data.strip():
        return line
    try:
        decode_json(line.data)
    except ValueError:
        return JsonlLine(number, start, end, problem=CUT_OFF, is_cut=True, is_unended=True)
    return line


def _chunk_reader(file: BinaryIO, progress: Callable[[int], None] | None) -> Callable[[], bytes]:
    """Return a function that yields chunks of a file as UTF-8. It stops at the size the file has
    now, because an agent may append to it during the import."""
    begun = file.tell()
    left = os.fstat(file.fileno()).st_size - begun
    first = b"" if begun else file.read(4)
    file.seek(begun)

    def raw() -> bytes:
        nonlocal left
        data = file.read(min(CHUNK, left)) if left > 0 else b""
        left -= len(data)
        if progress is not None and data:
            progress(len(data))
        return data

    if first == ZSTD:
        return _decompressed(raw)
    for mark, name in UTF16.items():
        if first.startswith(mark):
            return _as_utf8(raw, name)
    return raw


def _decompressed(raw: Callable[[], bytes]) -> Callable[[], bytes]:
    from stator.importers.reading.zstd import decompressing_reader

    return decompressing_reader(raw)


def _as_utf8(raw: Callable[[], bytes], name: str) -> Callable[[], bytes]:
    decoder = codecs.getincrementaldecoder(name)("replace")

    def feed() -> bytes:
        while data := raw():
            text = decoder.decode(data).removeprefix("\ufeff")
            if text:
                return text.encode("utf-8", "surrogatepass")
        return b""

    return feed


def decode_json(data: bytes) -> Any:
    """Decode JSON. Lone surrogates are kept, and NaN and Infinity become text, because commits hold
    neither."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(data.decode("utf-8", "surrogateescape"), parse_constant=str)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_line(line: JsonlLine) -> tuple[dict[str, Any] | None, str]:
    """The object in a line, or why there is none ("" for an empty line)."""
    if line.problem:
        return None, line.problem
    if not line.data.strip():
        return None, ""
    try:
        value = decode_json(line.data)
    except ValueError:
        return None, "not JSON"
    return (value, "") if isinstance(value, dict) else (None, "not an object")
