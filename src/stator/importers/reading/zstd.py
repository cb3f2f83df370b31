"""Transcripts packed with zstd, unpacked piece by piece."""

from __future__ import annotations

import sys
from collections.abc import Callable

from stator.errors import InvalidInput

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE = 256 * 1024
"""Bytes that one step unpacks to at most: a bomb goes off slowly."""


def unpacker(raw: Callable[[], bytes]) -> Callable[[], bytes]:
    """From packed chunks to unpacked ones; several frames may follow each other."""
    decompressor = zstd.ZstdDecompressor()
    rest = b""

    def feed() -> bytes:
        nonlocal decompressor, rest
        while True:
            if decompressor.eof:
                rest = decompressor.unused_data or raw()
                if not rest:
                    return b""
                decompressor = zstd.ZstdDecompressor()
            elif decompressor.needs_input and not rest:
                rest = raw()
                if not rest:
                    return b""  # cut off: what came before is whole lines all the same
            try:
                data = decompressor.decompress(rest, PIECE)
            except zstd.ZstdError as error:
                raise InvalidInput(f"not a zstd file any more: {error}") from None
            rest = b""
            if data:
                return data

    return feed
