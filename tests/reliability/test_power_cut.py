"""Power cuts, simulated: ext4 on a loop device is shut down without flushing its journal.

Only acknowledgements received before the cut count. `relaxed` is the control: it must lose commits.
"""

from __future__ import annotations

import fcntl
import os
import random
import struct
import subprocess
from pathlib import Path

import pytest

from reliability.support import findings, recorded_session
from stator.connect import connect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.getuid() != 0, reason="mounting needs root"),
]

SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
CYCLES = 40


def command(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False
    )


class Disk:
    """A small ext4 that can lose its power."""

    def __init__(self, folder: Path) -> None:
        self.image = folder / "image"
        self.folder = folder / "disk"
        self.folder.mkdir(exist_ok=True)
        with self.image.open("wb") as file:
            file.truncate(48 * 1024 * 1024)
        command("mkfs.ext4", "-q", "-F", self.image)

    def mount(self) -> None:
        done = command("mount", "-o", "loop", self.image, self.folder)
        if done.returncode:
            pytest.skip(f"cannot mount ext4 on a loop device: {done.stderr.strip()}")

    def cut(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def unmount(self) -> None:
        done = command("umount", self.folder)
        assert not done.returncode, done.stderr


def power_cuts(zygote, folder: Path, durability: str, cycles: int) -> dict[str, int]:
    """Cut the power under a writer repeatedly; counts acknowledged commits that are lost."""
    rng = random.Random(durability)
    total = {"cuts": cycles, "acknowledged": 0, "lost": 0, "lost before a barrier": 0, "damaged": 0}
    for cycle in range(cycles):
        disk = Disk(folder)
        disk.mount()
        path = disk.folder / "store.db"
        with connect(path, project="test") as store:
            session = recorded_session(store, "main")
        writer = zygote.start("barriers_until_killed", path, session, durability)
        heard = [writer.hear() for _ in range(rng.randint(5, 120))]
        disk.cut()
        writer.kill()
        zygote.end(writer)
        disk.unmount()
        disk.mount()
        with connect(path, project="test") as store:
            there = {commit.id for commit in store.read(session).log(load=False)}
        total["damaged"] += len(findings(path))
        disk.unmount()
        last = max((n for n, (_, barrier) in enumerate(heard) if barrier), default=-1)
        gone = [n for n, (commit, _) in enumerate(heard) if commit not in there]
        total["acknowledged"] += len(heard)
        total["lost"] += len(gone)
        total["lost before a barrier"] += sum(n <= last for n in gone)
        del cycle
    return total


@pytest.mark.parametrize("durability", ["full", "barrier", "relaxed"])
def test_a_power_cut_loses_only_what_the_durability_level_allows(
    zygote, tmp_path, durability, capsys
):
    total = power_cuts(zygote, tmp_path, durability, CYCLES)
    with capsys.disabled():
        print(f"\npower cut, ext4, {durability}: {total}")
    assert (
        total["damaged"] == 0
    )  # the remaining log is a prefix without gaps, and its chain verifies
    if durability == "full":
        assert total["lost"] == 0
    elif durability == "barrier":
        assert total["lost before a barrier"] == 0
    else:
        assert total["lost"] > 0, "the control must lose"
