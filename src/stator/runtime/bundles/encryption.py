"""Locks a bundle with a passphrase: AES-256-GCM over each frame, the key from scrypt.

A frame's place is part of what is authenticated, and so is whether it is the last: frames that were
left out, moved, or taken from another bundle are not opened. Needs the extra `stator[crypto]`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from stator.errors import BadBundle, InvalidInput
from stator.model.exchange.bundle import Lock
from stator.model.values.digest import sha256

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CIPHER, KDF = "aes-256-gcm", "scrypt"
SALT_BYTES = 16
KEY_BYTES = 32
N, R, P = 2**16, 8, 1
"""64 MB and a good part of a second for each guess."""
N_MAX, P_MAX = 2**18, 4
"""What a header may ask of a reader: 256 MB."""
_NONCE = struct.Struct(">4xQ")
_PLACE = struct.Struct(">QccI")


def new_lock(salt: bytes) -> Lock:
    """How a new bundle is locked, under a salt that no other has."""
    return Lock(cipher=CIPHER, kdf=KDF, salt=salt, n=N, r=R, p=P)


class Cipher:
    """Seals and opens the frames of one bundle."""

    def __init__(self, lock: Lock, passphrase: str, preface: bytes) -> None:
        self._aead = _aead(lock, passphrase)
        self._bundle = sha256(preface).digest()

    def seal(self, data: bytes, place: tuple[int, bytes, bytes, int]) -> bytes:
        return self._aead.encrypt(_NONCE.pack(place[0]), data, self._bundle + _PLACE.pack(*place))

    def open(self, data: bytes, place: tuple[int, bytes, bytes, int]) -> bytes:
        """What was sealed at that place: (index, kind, codec, length unpacked)."""
        from cryptography.exceptions import InvalidTag

        try:
            known = self._bundle + _PLACE.pack(*place)
            return self._aead.decrypt(_NONCE.pack(place[0]), data, known)
        except InvalidTag:
            raise BadBundle(
                "the passphrase is wrong, or the bundle was tampered with",
                hint="nothing was imported",
            ) from None


def _aead(lock: Lock, passphrase: str) -> AESGCM:
    if (lock.cipher, lock.kdf, lock.r) != (CIPHER, KDF, R):
        raise BadBundle(f"a bundle locked by {lock.cipher!r:.40} and {lock.kdf!r:.40}")
    power_of_two = lock.n > 1 and lock.n & (lock.n - 1) == 0
    if not power_of_two or lock.n > N_MAX or not 0 < lock.p <= P_MAX or len(lock.salt) > 64:
        raise BadBundle(
            f"its key derivation needs {128 * lock.n * lock.r * lock.p:,} bytes; "
            f"at most {128 * N_MAX * R:,} are given"
        )
    if not passphrase:
        raise InvalidInput("a passphrase cannot be empty")
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
    except ImportError:
        raise InvalidInput(
            "locked bundles need the package cryptography", hint="pip install 'stator[crypto]'"
        ) from None
    key = Scrypt(salt=lock.salt, length=KEY_BYTES, n=lock.n, r=lock.r, p=lock.p)
    return AESGCM(key.derive(passphrase.encode()))
