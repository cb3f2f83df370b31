"""Reads Inspect's log files: a JSON document, or a zip of JSON files with one file per sample.

A zip is read in memory, one file at a time and up to a limit. Nothing is unpacked to disk, and
names in the zip are never used as paths.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import msgspec

from stator.errors import InvalidInput
from stator.importers.reading.fields import record, records
from stator.importers.reading.json_document import (
    DOCUMENT_MAX,
    JsonDocument,
    decode_document,
    read_document,
)
from stator.importers.reading.jsonl import open_regular_file
from stator.model.exchange.items import Skipped

ZIP = b"PK\x03\x04"
MEMBERS_MAX = 200_000
"""The most files in a zip."""
PIECE = 2**20
_SAMPLE = re.compile(r"samples/.{1,500}_epoch_\d{1,9}\.json", re.DOTALL)


class Sample(msgspec.Struct, frozen=True):
    """One sample of an evaluation, in one of its epochs."""

    part: str
    """Its place in the log."""
    given: dict[str, Any]
    eval: dict[str, Any]
    skipped: tuple[Skipped, ...] = ()
    is_readable: bool = True


def read_samples(path: str, is_zip: bool, part: str = "") -> Iterator[Sample]:
    """The samples of a log, or only the one at `part`; an unreadable `part` raises `InvalidInput`."""
    if is_zip:
        yield from _samples_in_zip(path, part)
        return
    whole = _document(path, _version(path))
    log = record(whole.value)
    header = record(log.get("eval"))
    if whole.skipped and not records(log.get("samples")):
        raise InvalidInput(f"{path} was cut off before the end of its first sample")
    for number, sample in enumerate(records(log.get("samples"))):
        if not part or part == str(number):
            yield Sample(str(number), sample, header, whole.skipped if number == 0 else ())


@lru_cache(maxsize=1)
def _document(path: str, version: tuple[int, int]) -> JsonDocument:
    """Read a log. Its samples are read one after another, so the last document is cached."""
    return read_document(path)


def clear_cache() -> None:
    """Drop the cached document."""
    _document.cache_clear()


def _version(path: str) -> tuple[int, int]:
    with open_regular_file(path) as file:
        found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def _samples_in_zip(path: str, part: str) -> Iterator[Sample]:
    with _opened(path) as archive:
        names = {info.filename: info for info in archive.infolist()}
        header: dict[str, Any] = {}
        # the second exists while the evaluation is running
        for name in ("header.json", "_journal/start.json"):
            if name in names and not part:
                header = record(_read(archive, names[name], path).value)
                break
        for name, info in names.items():
            if not _SAMPLE.fullmatch(name) or (part and part != name):
                continue
            try:
                whole = _read(archive, info, path)
            except InvalidInput:
                if part:
                    raise
                yield Sample(name, {}, record(header.get("eval")), is_readable=False)
                continue
            yield Sample(name, record(whole.value), record(header.get("eval")), whole.skipped)


@contextmanager
def _opened(path: str) -> Iterator[zipfile.ZipFile]:
    with open_regular_file(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                if len(archive.infolist()) > MEMBERS_MAX:
                    raise InvalidInput(f"{path} has more than {MEMBERS_MAX:,} files in it")
                yield archive
        except zipfile.BadZipFile as error:
            raise InvalidInput(
                f"{path} is not a complete zip file: {error}",
                hint="it may be incomplete; import it again later",
            ) from None
        except (NotImplementedError, RuntimeError, EOFError, OSError) as error:
            raise InvalidInput(f"cannot read {path}: {error}") from None


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> JsonDocument:
    """Read a file of a zip. The limit applies to the actual bytes, not to the size in the zip's
    header."""
    where = f"{path}:{info.filename[:200]}"
    pieces: list[bytes] = []
    held = 0
    with archive.open(info) as member:
        while piece := member.read(PIECE):
            held += len(piece)
            if held > DOCUMENT_MAX:
                raise InvalidInput(
                    f"{where} is larger than {DOCUMENT_MAX // 2**20} MB, the limit for a file that is read as a whole"
                )
            pieces.append(piece)
    return decode_document(b"".join(pieces), where)
