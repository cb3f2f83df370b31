"""Says in `stator doctor` what is wrong with the file of a store: its mode, names, filesystem and write-ahead log."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from stator.connect import StorePlace
from stator.model.log.query import Finding
from stator.surfaces.cli.render.record_line import size

WAL_MAX = 64 * 2**20
NETWORK = frozenset(
    "nfs nfs4 cifs smb3 smbfs afs ceph glusterfs lustre beegfs fuse.sshfs fuse.s3fs fuse.rclone davfs".split()
)
"""Filesystems with unreliable locks."""
LAYERED = frozenset({"overlay", "9p", "virtiofs", "aufs", "fuse.grpcfuse", "vboxsf"})
"""Filesystems of containers and shared folders: they work, but the file may vanish with the container."""


def problem(severity: str, what: str, check: str, hint: str = "", session: str = "") -> Finding:
    return Finding(what=what, check=check, hint=hint, session=session, severity=severity)


def file_findings(place: StorePlace) -> Iterator[Finding]:
    """What can be checked without opening the store."""
    path = place.url.removeprefix("sqlite:///") if place.url.startswith("sqlite:") else place.url
    try:
        found = os.stat(path)
    except OSError:
        return
    real = os.path.realpath(path)
    if os.path.islink(path):
        yield problem(
            "note",
            f"the store is a symbolic link to {real}",
            "link",
            "use the real path to be sure",
        )
    if not stat.S_ISREG(found.st_mode):
        return
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        what = f"other users can read or write the store (mode {mode:04o})"
        yield problem("warning", what, "mode", f"chmod 600 {real}")
    if found.st_nlink > 1:
        yield problem(
            "warning",
            f"the file has {found.st_nlink} names (hard links)",
            "links",
            "two programs that open different names can lose commits; remove the other names",
        )
    yield from _wal(real)
    yield from _filesystem(real)


def _wal(real: str) -> Iterator[Finding]:
    try:
        wal = os.stat(f"{real}-wal").st_size
    except OSError:
        return
    if wal > WAL_MAX:
        yield problem(
            "warning",
            f"the write-ahead log is {size(wal)}",
            "wal",
            "a reader has held it open for a long time; end old readers, and it shrinks by itself",
        )


def _filesystem(real: str) -> Iterator[Finding]:
    kind = filesystem(real, _mounts())
    if kind in NETWORK:
        yield problem(
            "warning",
            f"the store is on a network filesystem ({kind}), where locks and shared memory are unreliable",
            "filesystem",
            "move the store to a local disk",
        )
    elif kind in LAYERED:
        hint = "keep the store on a volume if it must outlive the container"
        yield problem(
            "note", f"the store is on a layered or shared filesystem ({kind})", "filesystem", hint
        )


def _mounts() -> str:
    try:
        with open("/proc/mounts", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def filesystem(path: str, mounts: str) -> str:
    """The type of the filesystem that holds a path: that of the longest mount point above it."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ").rstrip("/")
        if (path == point or path.startswith(point + "/")) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind
