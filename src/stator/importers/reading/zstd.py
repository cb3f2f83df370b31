"""Decompresses zstd transcripts chunk by chunk."""

from __future__ import annotations

import sys
from collections.abc import Callable

from stator.errors import InvalidInput

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

STEP_BYTES = 256 * 1024
"""The most bytes that one step decompresses to, so that a decompression bomb cannot fill the
memory."""


def decompressing_reader(raw: Callable[[], bytes]) -> Callable[[], bytes]:
    """Turn a source of compressed chunks into one of decompressed chunks; several frames may follow
    each other."""
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
                    # the file is cut off; the lines before that point are still complete
                    return b""
            try:
                data = decompressor.decompress(rest, STEP_BYTES)
            except zstd.ZstdError as error:
                raise InvalidInput(f"the zstd data is damaged: {error}") from None
            rest = b""
            if data:
                return data

    return feed
