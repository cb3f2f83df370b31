"""The person's passphrase as a key: only who knows it can sign an approval, and every program can verify one.

`stator init --approver` makes an Ed25519 key pair. The public half is kept plainly, the private half sealed by
AES-256-GCM under a key that scrypt derives from the passphrase: an agent that reads the file can verify, and cannot
sign. Other keys may sign too, if their public half is listed beside it. Needs the extra `stator[crypto]`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from stator.errors import InvalidInput, NotFound, NotProven
from stator.owner.folder import UserFolder, user_folder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FILE = "approver"
KEYS_FILE = "approver-keys"
VARIABLE = "STATOR_APPROVER_KEYS"
"""Public keys in hex, separated by commas. If it is set, only these count: files that an agent can replace do not."""
KEY_BYTES, SALT_BYTES, NONCE_BYTES = 32, 16, 12
N, R, P = 2**16, 8, 1
"""64 MB and a good part of a second for each guess."""
N_MAX = 2**20
KEY_FILE_MAX = 65536
_SEAL = b"stator approver 1\0"
_LISTED = b"stator approver key 1\0"


class Signer:
    """A private key that is unlocked in this process."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes_raw().hex()

    def sign(self, data: bytes) -> str:
        """The public key and the signature."""
        return f"{self.public}:{self._key.sign(data).hex()}"


class Approver:
    """The files about approvers in a user's data folder."""

    def __init__(self, folder: UserFolder) -> None:
        self._folder = folder
        self.path = folder.file(FILE)
        self.keys_path = folder.file(KEYS_FILE)

    @property
    def public(self) -> str:
        """The public key of the passphrase, in hex; empty if no passphrase is set."""
        found = self._read()
        return "" if found is None else str(found["public"])

    def set_passphrase(self, passphrase: str) -> str:
        """Make a new key under that passphrase; returns the public key. Grants signed with an older one are void."""
        made = _ed25519().Ed25519PrivateKey.generate()
        public: bytes = made.public_key().public_bytes_raw()
        salt, nonce = os.urandom(SALT_BYTES), os.urandom(NONCE_BYTES)
        cipher = _cipher(passphrase, salt, N, R, P)
        sealed = cipher.encrypt(nonce, made.private_bytes_raw(), _SEAL + public)
        fields = {"version": 1, "public": public.hex(), "n": N, "r": R, "p": P}
        fields |= {"salt": salt.hex(), "nonce": nonce.hex(), "sealed": sealed.hex()}
        self._folder.replace(FILE, json.dumps(fields, indent=1).encode() + b"\n")
        return public.hex()

    def unlock(self, passphrase: str) -> Signer | None:
        """The key that the passphrase opens; None if it is the wrong one."""
        found = self._read()
        if found is None:
            raise NotProven(
                "no passphrase is set for approvals", hint="set one: stator init --approver"
            )
        from cryptography.exceptions import InvalidTag

        public = bytes.fromhex(found["public"])
        cipher = _cipher(
            passphrase, bytes.fromhex(found["salt"]), found["n"], found["r"], found["p"]
        )
        try:
            private = cipher.decrypt(
                bytes.fromhex(found["nonce"]), bytes.fromhex(found["sealed"]), _SEAL + public
            )
        except InvalidTag:
            return None
        return Signer(_ed25519().Ed25519PrivateKey.from_private_bytes(private))

    def list_key(self, public: str, signer: Signer | None) -> None:
        """Accept signatures of another key; where a passphrase is set, its key vouches for the line."""
        vouched = signer.sign(_LISTED + bytes.fromhex(public)).partition(":")[2] if signer else "-"
        if not self._folder.append(KEYS_FILE, f"{public} {vouched}\n".encode()):
            raise NotProven(
                f"{self.keys_path} is in use by another process", hint="run the command again"
            )

    def listed(self) -> list[str]:
        """The other public keys that may sign. Where a passphrase is set, only those it vouched for."""
        text = self._bytes(KEYS_FILE) or b""
        lines = [line.split() for line in text.decode("utf-8", "replace").splitlines()]
        public = self.public
        return [
            line[0]
            for line in lines
            if len(line) == 2
            and _is_public(line[0])
            and (
                not public
                or is_signed(public, f"{public}:{line[1]}", _LISTED + bytes.fromhex(line[0]))
            )
        ]

    def _read(self) -> dict[str, Any] | None:
        text = self._bytes(FILE)
        if text is None:
            return None
        try:
            found = json.loads(text)
            sizes = found["n"], found["r"], found["p"]
            for name in ("salt", "nonce", "sealed"):
                bytes.fromhex(found[name])
            valid = found["version"] == 1 and _is_public(found["public"])
            valid = valid and all(type(size) is int for size in sizes)
            valid = valid and 1 < sizes[0] <= N_MAX and sizes[1:] == (R, P)
        except (ValueError, KeyError, TypeError):
            valid = False
        if not valid:
            raise NotProven(
                f"{self.path} does not hold an approver's key",
                hint="move it away, and set a passphrase again: stator init --approver",
            )
        assert isinstance(found, dict)
        return found

    def _bytes(self, name: str) -> bytes | None:
        try:
            return self._folder.read(name)
        except OSError as error:
            raise NotProven(
                f"{self._folder.file(name)}: {error.strerror or error}",
                hint="no signed approval can be verified until that is repaired",
            ) from None


class KnownApprovers:
    """The public keys that verify approvals: those of the environment, else those of the user's data folder.

    Once it has looked they stay the same, also if there are none: a file that is made or replaced while a driver runs
    changes nothing for that driver.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._keys: dict[str, list[str]] | None = None

    def load(self) -> None:
        if self._keys is None:
            self._keys = _found(self._environ)

    def verifies(self, proof: str, signature: str, signed: bytes) -> bool:
        self.load()
        keys = self._keys.get(proof, ()) if self._keys else ()
        return any(is_signed(key, signature, signed) for key in keys)


def _found(environ: Mapping[str, str]) -> dict[str, list[str]]:
    given = [key.strip() for key in environ.get(VARIABLE, "").split(",") if key.strip()]
    if wrong := [key for key in given if not _is_public(key)]:
        raise NotProven(
            f"${VARIABLE} holds something that is no public key: {wrong[0]!r:.80}",
            hint="64 hex digits, as stator init --approver prints them",
        )
    if given:
        return {"passphrase": given, "signed": given}
    approver = approver_of(environ)
    if approver is None:
        return {}
    return {"passphrase": list(filter(None, [approver.public])), "signed": approver.listed()}


def approver_of(environ: Mapping[str, str]) -> Approver | None:
    """The approver's files of this user; None without a home folder."""
    folder = user_folder(environ)
    return None if folder is None else Approver(folder)


def is_signed(public: str, signature: str, signed: bytes) -> bool:
    """Whether that key made the signature, of just these bytes."""
    from_key, _, digits = signature.partition(":")
    if from_key != public or not _is_public(public):
        return False
    from cryptography.exceptions import InvalidSignature

    try:
        key = _ed25519().Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(digits), signed)
    except (InvalidSignature, ValueError):
        return False
    return True


def read_private(path: str, ask: Callable[[str], str]) -> Signer:
    """The private key of a PEM file; `ask` is asked for its passphrase if it has one."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    module, data = _ed25519(), _key_file(path)
    try:
        try:
            key = load_pem_private_key(data, None)
        except TypeError:  # it is encrypted
            key = load_pem_private_key(data, ask(f"passphrase of {path}").encode())
    except ValueError as error:
        raise NotProven(f"cannot read a private key from {path!r:.200}: {error}") from None
    if not isinstance(key, module.Ed25519PrivateKey):
        raise NotProven(f"{path!r:.200} holds a key of another kind", hint="an Ed25519 key in PEM")
    return Signer(key)


def read_public(path: str) -> str:
    """The public key of a PEM file, in hex."""
    module, data = _ed25519(), _key_file(path)
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, module.Ed25519PublicKey):
        raise InvalidInput(
            f"{path!r:.200} holds no public Ed25519 key",
            hint="openssl genpkey -algorithm ed25519 -out KEY; openssl pkey -in KEY -pubout -out PUBFILE",
        )
    public: bytes = key.public_bytes_raw()
    return public.hex()


def _key_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(KEY_FILE_MAX)
    except FileNotFoundError:
        raise NotFound(f"no file {path!r:.200}") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path!r:.200}: {error.strerror}") from None


def _is_public(key: object) -> bool:
    return (
        isinstance(key, str)
        and len(key) == 2 * KEY_BYTES
        and all(digit in "0123456789abcdef" for digit in key)
    )


def _cipher(passphrase: str, salt: bytes, n: int, r: int, p: int) -> Any:
    _ed25519()  # says what is missing
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    try:
        key = Scrypt(salt=salt, length=KEY_BYTES, n=n, r=r, p=p).derive(passphrase.encode())
    except (ValueError, MemoryError) as error:
        raise NotProven(f"no key can be derived from the passphrase: {error}") from None
    return AESGCM(key)


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise NotProven(
            "signed approvals need the package cryptography", hint="pip install 'stator[crypto]'"
        ) from None
    return ed25519
