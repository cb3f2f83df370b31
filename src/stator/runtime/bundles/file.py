"""Writes and reads a bundle as a file: frames one after the other, read within limits.

Neither side holds more than a few frames. A file gets its name when it is complete and on disk; reading first
checks its digest, and its frames are unpacked only as far as they
were announced.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from itertools import count
from typing import BinaryIO

from stator.errors import BadBundle, Conflict, InvalidInput, NotFound
from stator.model.exchange import bundle
from stator.model.exchange.bundle import (
    FRAME,
    LIMITS,
    BundleLimits,
    End,
    Header,
    Lock,
    Manifest,
    refuse,
)
from stator.model.exchange.packed import Packed
from stator.runtime.bundles.encryption import Cipher

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LEVEL = 3
AHEAD = 3
"""Frames that may be compressed before the first of them is written."""
READ = 1 << 20
WINDOW_MAX = 27
"""log2 of the memory that a frame may ask for to be unpacked: 128 MB."""


class BundleWriter:
    """Writes a bundle; it takes its name when `finish` is called, and is nowhere if it is not."""

    def __init__(
        self, path: str, header: Header, passphrase: str = "", *, replace: bool = False
    ) -> None:
        self.path = path
        self.size = 0
        self._replace = replace
        _check_target(path, replace)
        self._digest = sha256()
        self._index = 0
        self._waiting: deque[tuple[bytes, int, Future[bytes]]] = deque()
        preface = bundle.preface(header)
        self._cipher = Cipher(header.lock, passphrase, preface) if header.lock else None
        self._partial, self._file = _begun(path)
        self._pool = ThreadPoolExecutor(1)
        self._write(preface)

    def add(self, kind: bytes, data: bytes) -> None:
        """Write a frame, compressed beside what the caller does next."""
        self._waiting.append((kind, len(data), self._pool.submit(_compressed, data)))
        while len(self._waiting) > AHEAD:
            self._next()

    def _next(self) -> None:
        kind, size, made = self._waiting.popleft()
        packed = made.result()
        codec, data = packed[:1], packed[1:]
        if self._cipher is not None:
            data = self._cipher.seal(data, (self._index, kind, codec, size))
        self._index += 1
        self._write(FRAME.pack(kind, codec, len(data), size))
        self._write(data)

    def _write(self, data: bytes) -> None:
        self._digest.update(data)
        self._file.write(data)
        self.size += len(data)

    def finish(self) -> None:
        """Write what is still waiting and the digest; the file is there when this returns."""
        while self._waiting:
            self._next()
        self._write(self._digest.digest())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        if not self._replace:
            _check_target(self.path, False)  # another program may have put a file there since
        os.replace(self._partial, self.path)
        _sync_folder(self.path)

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self._pool.shutdown()
        self._file.close()
        if kind is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._partial)


def _sync_folder(path: str) -> None:
    """Have a new name on disk, where folders can be synced at all."""
    with contextlib.suppress(OSError):
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _check_target(path: str, replace: bool) -> None:
    """Refuse to overwrite, unless the target is a plain file and `replace` was given."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}", path="$.path") from None
    if stat.S_ISDIR(found.st_mode):
        raise Conflict(f"{path} is a folder", hint="name a file in it")
    if not stat.S_ISREG(found.st_mode):
        raise Conflict(f"{path} exists already and is no plain file", hint="give another name")
    if not replace:
        raise Conflict(
            f"{path} exists already",
            hint="give another name, or replace it with --force (replace=True)",
        )


def _begun(path: str) -> tuple[str, BinaryIO]:
    """A new file beside the target, under a name that no other export uses."""
    for n in count():
        partial = f"{path}.{n}.partial"
        try:
            made = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            continue
        except OSError as error:
            raise InvalidInput(f"{path} cannot be written: {error.strerror}") from None
        return partial, os.fdopen(made, "wb")
    raise AssertionError("unreachable: the numbers do not run out")


def _compressed(data: bytes) -> bytes:
    """The codec's byte and the data: compressed, unless no reader would take it so."""
    packed = zstd.compress(data, level=LEVEL)
    # A lock makes a frame longer, never shorter: what fits without it fits with it.
    codec = bundle.codec_for(len(packed), len(data))
    return codec + (packed if codec == bundle.ZSTD else data)


class BundleReader:
    """Reads a bundle that is whole: its digest was checked before anything is given out."""

    def __init__(
        self,
        path: str,
        passphrase: Callable[[], str] | None = None,
        *,
        limits: BundleLimits = LIMITS,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.path = path
        self.limits = limits
        self.end: End | None = None
        """What its last frame says, once that was read."""
        self._progress = progress or (lambda done, size: None)
        self._file = _open(path)
        try:
            self.size = os.fstat(self._file.fileno()).st_size
            self.header, self._body, preface = self._begin()
            self._check_digest()
            self._cipher = _cipher(self.header.lock, passphrase, preface)
            self.manifest = self._manifest()
        except BaseException:
            self._file.close()
            raise

    def _begin(self) -> tuple[Header, int, bytes]:
        start = self._file.read(len(bundle.MAGIC) + bundle.PREFIX.size)
        size = bundle.header_size(start, self.limits)
        data = self._file.read(size)
        if len(data) < size:
            raise refuse("it is cut short inside its header")
        return bundle.read_header(data), self._file.tell(), start + data

    def _check_digest(self) -> None:
        """Hold the file against the digest at its end."""
        digest, left = sha256(), self.size - bundle.DIGEST_BYTES
        if left < self._body:
            raise refuse("it is cut short")
        self._file.seek(0)
        while left:
            data = self._file.read(min(READ, left))
            if not data:
                raise refuse("it is cut short")
            digest.update(data)
            left -= len(data)
        if self._file.read(bundle.DIGEST_BYTES) != digest.digest():
            raise refuse(
                "it does not match its digest: damaged, cut short or changed",
                hint="nothing was imported; copy it again",
            )

    def _manifest(self) -> Manifest:
        for kind, data in self._frames():
            if kind == bundle.MANIFEST:
                return bundle.read_manifest(data, self.limits)
            break
        raise refuse("it does not begin with its manifest")

    def _frames(self) -> Iterator[tuple[bytes, bytes]]:
        """(kind, data) of every frame, in order, the end included."""
        at, end, total = self._body, self.size - bundle.DIGEST_BYTES, 0
        index, last = 0, b""
        while at < end:
            if last == bundle.END:
                raise refuse("something follows its end")
            self._file.seek(at)
            head = self._file.read(FRAME.size)
            if at + FRAME.size > end:
                raise refuse("a frame is cut short")
            kind, codec, stored, size = FRAME.unpack(head)
            bundle.check_frame(kind, codec, stored, size, self.limits)
            total += size
            if total > self.limits.total:
                raise refuse(f"more than {self.limits.total:,} bytes in all")
            at += FRAME.size + stored
            if at > end:
                raise refuse("a frame is cut short")
            data = self._file.read(stored)
            if self._cipher is not None:
                data = self._cipher.open(data, (index, kind, codec, size))
            yield kind, _unpacked(codec, data, size)
            index, last = index + 1, kind
            self._progress(at, self.size)
        if last != bundle.END:
            raise refuse("its end is missing")

    def commits(self) -> Iterator[tuple[int, list[Packed]]]:
        """Batches of commits with the place of their session in the manifest; `BadBundle` at the first bad frame."""
        counted = 0
        for n, (kind, data) in enumerate(self._frames()):
            if (n == 0) != (kind == bundle.MANIFEST):
                raise refuse("its frames are not in order")
            if kind == bundle.BATCH:
                batch = bundle.read_batch(data)
                counted += len(batch.commits)
                yield batch.session, batch.commits
            elif kind == bundle.END:
                self.end = bundle.read_end(data)
                if self.end.commits != counted:
                    raise refuse("its number of commits does not match its end")

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> BundleReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _open(path: str) -> BinaryIO:
    """The file to read, if it is one: nothing that waits or never ends."""
    try:
        found = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise NotFound(f"no file {path}") from None
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(found).st_mode) or not os.fstat(found).st_size:
        os.close(found)
        raise BadBundle(f"{path} is not a bundle", hint="stator export makes one")
    return os.fdopen(found, "rb")


def _cipher(
    lock: Lock | None, passphrase: Callable[[], str] | None, preface: bytes
) -> Cipher | None:
    if lock is None:
        return None
    if passphrase is None:
        raise InvalidInput("this bundle is locked", hint="give its passphrase")
    return Cipher(lock, passphrase(), preface)


def _unpacked(codec: bytes, data: bytes, size: int) -> bytes:
    """A frame's data: exactly as long as it was announced."""
    if codec == bundle.ZSTD:
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: WINDOW_MAX}
        unpacker = zstd.ZstdDecompressor(options=options)
        try:
            data = unpacker.decompress(data, max_length=size + 1)
        except zstd.ZstdError as error:
            raise refuse(f"a frame cannot be unpacked: {error}") from None
        if not unpacker.eof or unpacker.unused_data:
            raise refuse("a frame is longer than its stated length")
    if len(data) != size:
        wrong = "longer" if len(data) > size else "shorter"
        raise refuse(f"a frame is {wrong} than its stated length")
    return data
