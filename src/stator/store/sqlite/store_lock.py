"""The locks of a store as a whole: one writer, readers that a checkpoint respects, and who is present.

SQLite has such locks of its own, and any code of a process that opens and closes one of the store's files drops
them: two processes could then both be inside a write, and a checkpoint could overwrite what a reader reads.
These cannot be dropped (see `stator.locks`). They are bytes of `<store>-lease` that are no epoch:

    byte 0            held by each write: transactions, checkpoints, rewriting the file
    2**62             shared by each reading snapshot; a checkpoint holds it alone, or is left for later
    2**62 + 1         shared by each open store; who finds itself alone folds the log into the file and removes it
    2**62 + 2         held by each write to the search index
    2**62 + 3         held by each write to the index of projects
"""

from __future__ import annotations

import errno
import os

from stator.errors import StoreBusy, StoreCorrupt, StoreError, StoreFailed, StoreFull, StoreReadOnly
from stator.locks import LockFile
from stator.store.sqlite import connection, lock_holders
from stator.store.sqlite.connection import Patience
from stator.store.sqlite.driver_lock import SUFFIX
from stator.store.sqlite.shared_memory import identity

WRITING = 0
READING = 2**62
PRESENT = READING + 1
INDEXING = READING + 2
LEARNING = READING + 3

GLIMPSE_S = 0.2
"""How long a reader waits for a checkpoint. It then reads without our lock: a checkpoint that was suspended must not
keep anybody from reading, and SQLite's own lock is there in all likelihood."""


def open_lock_file(store: str) -> LockFile:
    """The lock file of a store, readable by those who can read the store."""
    try:
        mode = os.stat(store).st_mode & 0o666 if os.path.exists(store) else None
        return LockFile(store + SUFFIX, mode=mode)
    except OSError as error:
        raise _unusable(store, error) from None


def _unusable(store: str, error: OSError) -> StoreError:
    what = f"{store}{SUFFIX}: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(what, hint="free some space; reading still works", store=store)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBADF):
        # EBADF: the file could only be opened for reading.
        why = "it is read-only" if error.errno == errno.EBADF else error.strerror
        return StoreReadOnly(
            f"{store} cannot be written: {why}",
            hint="reading it still works",
            store=store,
        )
    return StoreFailed(what, store=store)


def find_lock_file(store: str) -> LockFile | None:
    """The same for reading; None where it is not there and cannot be made."""
    try:
        return open_lock_file(store)
    except StoreError:
        return None


def check_log(store: str) -> None:
    """Refuse a store whose log was removed: its newest commits would seem never to have been.

    SQLite makes the log before the shared memory and removes it after, so only another program leaves the second
    without the first.
    """
    log, memory = store + "-wal", store + "-shm"
    if identity(log) is not None or (seen := identity(memory)) is None:
        return
    file = find_lock_file(store)
    present = file is not None and file.is_locked(PRESENT)
    if file is not None:
        file.close()
    if identity(log) is not None or identity(memory) != seen:
        return  # another process closed or opened the store just now
    if present:
        raise StoreFailed(
            f"{log} was removed while a program had the store open",
            hint="that program still has the newest commits: let it write once more or end in order, then try again",
            store=store,
        )
    raise StoreCorrupt(
        f"{log} is missing: it was removed after a program that wrote here was killed,"
        " and the newest commits were in it",
        hint=f"put {log} back; to continue with what {store} itself holds, remove {memory}",
        store=store,
    )


class WriteLock:
    """What one store object holds while it writes, and for as long as it is open."""

    def __init__(self, store: str, byte: int = WRITING, file: str = "") -> None:
        """`file` is the SQLite file that is written under the lock, if it is not the store's own."""
        self._store = store
        self._byte = byte
        self._written = file or store
        self._file: LockFile | None = None
        self._present = False

    def enter(self, *, create: bool) -> None:
        """Be present from now on: nobody else removes the log. To be called before anything is opened; where there is
        no lock file yet, once it is sure that this is a store, with `create`."""
        if self._present or not (create or os.path.exists(self._store + SUFFIX)):
            return
        file = find_lock_file(self._store)
        if file is None:
            return
        patience, tries = Patience(connection.OPEN_S), 0
        # The last to leave may be at work. One that is suspended there must not keep anybody from reading.
        while not file.lock(PRESENT, shared=True) and patience(tries):
            tries += 1
        self._file, self._present = file, True

    def acquire(self, seconds: float) -> None:
        """Hold the write lock; `StoreBusy` with who has it, where that is known."""
        if self._try():
            return
        patience = Patience(seconds, self._written)
        tries = 0
        while patience(tries):
            if self._try():
                return
            tries += 1
        raise busy(self._written, patience.waited_s)

    def _try(self) -> bool:
        file = self._file
        if file is None or not file.is_in_place():
            file = self._reopened()
        try:
            return file.lock(self._byte)
        except OSError as error:
            raise _unusable(self._store, error) from None

    def _reopened(self) -> LockFile:
        made = open_lock_file(self._store)
        if self._present:
            made.lock(PRESENT, shared=True)
        old, self._file = self._file, made
        if old is not None:
            old.close()
        return made

    def release(self) -> None:
        """Give the write lock back; without it, nothing happens."""
        if self._file is not None:
            self._file.unlock(self._byte)

    def without_readers(self, seconds: float = 0.0) -> bool:
        """Keep new readers out, if there are none, until `admit_readers`."""
        patience = Patience(seconds)
        tries = 0
        while self._file is None or not self._file.lock(READING):
            if not patience(tries):
                return False
            tries += 1
        return True

    def admit_readers(self) -> None:
        if self._file is not None:
            self._file.unlock(READING)

    def is_alone(self) -> bool:
        """Whether no other store object, of any process, has this store open. To be asked with the write lock held:
        of two that close at once, the second is alone."""
        return self._file is not None and self._file.lock(PRESENT)

    def close(self) -> None:
        """Give up everything."""
        if self._file is not None:
            self._file.close()
            self._file = None


class ReadLock:
    """What one read connection holds while it shows a snapshot."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._file: LockFile | None = None
        self.open(create=False)

    def open(self, *, create: bool) -> None:
        """Open the lock file; make one only where it is sure that this is a store."""
        if self._file is None and (create or os.path.exists(self._store + SUFFIX)):
            self._file = find_lock_file(self._store)

    def acquire(self) -> None:
        """Keep checkpoints away, unless one runs for long."""
        file = self._file
        if file is None or file.lock(READING, shared=True):
            return
        patience = Patience(GLIMPSE_S)
        tries = 0
        while patience(tries) and not file.lock(READING, shared=True):
            tries += 1

    def release(self) -> None:
        if self._file is not None:
            self._file.unlock(READING)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def busy(store: str, seconds: float) -> StoreBusy:
    """The error of a writer that waited in vain: who holds the store, and what can be done."""
    found = lock_holders.writers(store)
    if not found:
        return StoreBusy(
            f"{store}: another process has been writing for {seconds:.0f} s; which one is not known",
            hint="try again; see: stator doctor",
            store=store,
        )
    holder = found[0]
    suspended = lock_holders.is_suspended(holder.pid)
    state = "is suspended inside a write" if suspended else "has been inside a write"
    return StoreBusy(
        f"{store}: process {holder.pid} ({holder.program or 'unknown program'}) {state};"
        f" waited {seconds:.0f} s for it",
        hint=f"let it continue: kill -CONT {holder.pid}; or end it: kill -KILL {holder.pid}, which loses"
        " nothing that was acknowledged"
        if suspended
        else "try again when it is done",
        store=store,
        pid=holder.pid,
        host=os.uname().nodename,
        program=holder.program,
    )
