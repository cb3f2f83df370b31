"""Whether a text may hold a secret: a look for letters, no patterns, so cheap that the hook can afford it.

Where this says no, `model.log.redact` finds nothing; a law in the tests says so. Where it says yes, there
may be nothing all the same: most texts with "key" in them hold none.
"""

from __future__ import annotations

NAMES = (
    b"key",
    b"token",
    b"pass",
    b"pwd",
    b"secret",
    b"cred",
    b"auth",
    b"cookie",
    b"\xe2\x84\xaa",
    b"\\u212a",
)
"""Part of every name of a secret, in lower case; the last two contain U+212A KELVIN SIGN, which lower-cases to "k"."""
HARMLESS = (b"bypasspermissions",)
"""What agents say in every line of theirs."""
MARKS = tuple(
    mark.encode()
    for mark in (
        "AGE-SECRET-KEY-1 ATATT3xFf AKIA ASIA Bearer bearer BEARER dapi dop_v1_ doo_v1_ dor_v1_"
        " webhooks ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- AIza ya29. gsk_ hf_ eyJ lin_api_ npm_"
        " sk- pplx- pypi-AgE r8_ SG. shpat_ shpca_ shppa_ shpss_ xoxb- xoxp- xoxa- xoxr- xoxs- xoxe-"
        " xapp- services/ services\\/ sk_live_ sk_test_ rk_live_ rk_test_ whsec_ :AA hvs. xai-"
    ).split()
)
"""How vendors' keys begin."""
_WORD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_IS_WORD = bytes(1 if byte in _WORD else 0 for byte in range(256))
_RUN = b"\1" * 20
"""No vendor's key is shorter."""
_STARTS = frozenset(b"MNOS")
"""What keys begin with that have no mark."""
_ESCAPES = frozenset(b"\\%[")
"""Characters before an escape, whose letters then seem to belong to the key."""


def suspicious(data: bytes) -> bool:
    """Whether JSON, as it is written, may hold a secret."""
    folded = data.lower()
    for harmless in HARMLESS:
        folded = folded.replace(harmless, b"")
    if any(name in folded for name in NAMES) or any(mark in data for mark in MARKS):
        return True
    if b"@" in data and b":/" in data.replace(b"\\/", b"/"):
        return True
    return _spells(folded) or _has_bare(data)


def _spells(folded: bytes) -> bool:
    """Whether a plain character is written as its number: then the letters show nothing."""
    at = folded.find(b"\\u00")
    while at >= 0:
        if folded[at + 4 : at + 5] in (b"2", b"3", b"4", b"5", b"6", b"7"):
            return True
        at = folded.find(b"\\u00", at + 4)
    return False


def _has_bare(data: bytes) -> bool:
    """Whether a long word begins as a key without a mark does."""
    runs = data.translate(_IS_WORD)
    start = runs.find(_RUN)
    while start >= 0:
        skips = (0, 1, 2, 3, 5) if start and data[start - 1] in _ESCAPES else (0,)
        if any(data[start + skip] in _STARTS for skip in skips):
            return True
        end = runs.find(b"\0", start)
        start = runs.find(_RUN, end) if end >= 0 else -1
    return False
