"""Reads sessions of another store and keeps them until they are imported, in a file that has no name.

The store that they come from may be far away, and the import is one transaction of the store that they go to: nothing
waits for the other store while that is open. A file without a name is gone with its process.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from tempfile import TemporaryFile

from stator.model.exchange import bundle
from stator.model.exchange.bundle import Batch, Bundled, End, Manifest
from stator.model.exchange.bundle_redaction import Sieve
from stator.model.exchange.packed import Packed
from stator.model.exchange.redaction_mark import RedactionMark
from stator.runtime.bundles.redaction_marks import marked, redacted_upto
from stator.runtime.bundles.selection import batches
from stator.runtime.exchange.send import Progress
from stator.store.port import StorePort

_LENGTH = struct.Struct(">I")


class FetchedSessions:
    """Sessions as a bundle would hold them; they are read from their store when they are first gone through."""

    def __init__(
        self,
        store: StorePort,
        listed: Sequence[Bundled],
        progress: Progress | None = None,
        *,
        redact: Sequence[str] = (),
    ) -> None:
        """`redact`: texts; content that contains one of them is left out."""
        self.path = store.info().url
        self.size = 0
        self.manifest = Manifest(sessions=list(listed), exporter=f"stator {version('stator')}")
        self.end: End | None = None
        self._store = store
        self._progress = progress
        self._redact = redact
        self._file = TemporaryFile()  # noqa: SIM115 - closed by `close`

    def commits(self) -> Iterator[tuple[int, list[Packed]]]:
        """Their commits in batches, each with the place of its session in the manifest."""
        if self.end is None:
            self._fetch()
        self._file.seek(0)
        while length := self._file.read(_LENGTH.size):
            batch = bundle.read_batch(self._file.read(_LENGTH.unpack(length)[0]))
            yield batch.session, batch.commits

    def _fetch(self) -> None:
        total = sum(one.seq - one.after for one in self.manifest.sessions)
        self._file.seek(0)
        self._file.truncate()
        commits = withheld = secrets = 0
        marks: list[RedactionMark | None] = []
        for n, one in enumerate(self.manifest.sessions):
            sieve = self._sieve(one)
            for batch, _ in batches(self._store, one, sieve):
                data = bundle.encode(Batch(n, batch))
                self._file.write(_LENGTH.pack(len(data)) + data)
                commits, self.size = commits + len(batch), self.size + len(data)
                if self._progress is not None:
                    self._progress(f"fetching {one.name}", commits, total)
            withheld, secrets = withheld + sieve.withheld, secrets + sieve.secrets
            marks.append(marked(self._store, one) if sieve.is_whole else None)
        self._file.flush()
        self.end = End(commits=commits, withheld=withheld, secrets=secrets, redacted=marks)

    def _sieve(self, one: Bundled) -> Sieve:
        from stator.model.log.redact import Redactor

        return Sieve(
            redactor=Redactor(one.id.encode()),
            words=self._redact,
            upto=one.seq,
            clean=redacted_upto(self._store, one.id),
        )

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> FetchedSessions:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
