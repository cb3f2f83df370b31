"""Compression of what a store keeps: zstd with a dictionary that ships with the package.

A frame is one codec byte and the data. The dictionary is named by that byte and never changes: a
better one would be a new byte. It was trained on public source text, never on a store's content, so
it holds nothing of anybody's sessions.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Final

from stator.errors import StoreCorrupt

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RAW: Final = b"\x00"
DICT_1: Final = b"\x01"
LEVEL = 3
SMALL = 48
"""Bytes below which a frame is longer than what it saves."""
FRAME_MAX = 80 * 1024 * 1024
"""Nothing longer than this was ever written, so nothing longer is unpacked."""

_dictionary = zstd.ZstdDict(Path(__file__).with_name("dictionary_1.bin").read_bytes(), is_raw=False)
_options: dict[int, int] = {
    zstd.CompressionParameter.compression_level: LEVEL,
    zstd.CompressionParameter.dict_id_flag: 0,
    zstd.CompressionParameter.checksum_flag: 0,
}
_local = threading.local()


def compress(data: bytes) -> bytes:
    """`data` as a frame, compressed where that is shorter."""
    if len(data) < SMALL:
        return RAW + data
    try:
        compressor = _local.compressor
    except AttributeError:
        compressor = _local.compressor = zstd.ZstdCompressor(
            options=_options, zstd_dict=_dictionary.as_digested_dict
        )
    packed: bytes = compressor.compress(data, mode=zstd.ZstdCompressor.FLUSH_FRAME)
    return DICT_1 + packed if len(packed) < len(data) else RAW + data


def decompress(frame: bytes) -> bytes:
    """What `compress` was given; `StoreCorrupt` for anything else."""
    codec = frame[:1]
    if codec == RAW:
        return frame[1:]
    if codec != DICT_1:
        raise StoreCorrupt(f"unknown compression {codec!r}", hint="a newer release may read it")
    decompressor = zstd.ZstdDecompressor(zstd_dict=_dictionary)
    try:
        data: bytes = decompressor.decompress(frame[1:], max_length=FRAME_MAX)
    except zstd.ZstdError as error:
        raise StoreCorrupt(f"a compressed value is damaged: {error}") from None
    if not decompressor.eof:
        raise StoreCorrupt("a compressed value is cut short or too large")
    return data
