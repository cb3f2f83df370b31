"""Text as the server can hold it, and digests where an index holds text.

PostgreSQL has neither U+0000 nor halves of pairs in text. They are written as U+0001 and four digits, and so is U+0001
itself; other texts stay as they are.
"""

from __future__ import annotations

import re
from hashlib import sha256

DIGEST_BYTES = 16
_strange = re.compile("[\0\x01\ud800-\udfff]")
_escaped = re.compile("\x01([0-9a-f]{4})")


def packed(text: str) -> str:
    """A text that the server can hold, from which this one can be had again."""
    return _strange.sub(lambda found: f"\x01{ord(found[0]):04x}", text)


def unpacked(text: str) -> str:
    """The text that was packed."""
    return _escaped.sub(lambda found: chr(int(found[1], 16)), text) if "\x01" in text else text


def digest(*texts: str) -> bytes:
    """What an index holds for these texts."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    joined = b"".join(b"%d:%s" % (len(data), data) for data in encoded)
    return sha256(joined).digest()[:DIGEST_BYTES]
