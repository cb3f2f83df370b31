"""Marks which conversations were given something already. Imports almost nothing, because the hook must start fast.

A mark is an empty file in a folder of the spool. It is made by the process that answers, before it answers: of hooks
that run at once one answers, and no conversation is answered twice. Old marks are removed.
"""

from __future__ import annotations

import os
import time
import zlib

from stator.locations import TOLD

KEPT_MAX, KEPT_S = 1000, 60 * 86_400
"""Marks that are kept: how many, and for how many seconds."""


def told_path(folder: str, conversation: str) -> str:
    """The mark of a conversation in a spool."""
    plain = "".join(one if one.isalnum() and one.isascii() else "-" for one in conversation[:60])
    return os.path.join(folder, TOLD, f"{plain}-{zlib.crc32(conversation.encode()):08x}")


def claim(folder: str, conversation: str) -> bool:
    """Whether this process is the first to answer the first prompt of a conversation; from then on none is."""
    path = told_path(folder, conversation)
    for _ in range(2):
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            return True
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        except OSError:
            return False
    return False


def withdraw(folder: str, conversation: str) -> None:
    """Remove a mark: what it was made for did not happen."""
    path = told_path(folder, conversation)
    if os.path.exists(path):
        os.unlink(path)


def remove_old(folder: str) -> None:
    """Remove marks of conversations that are long over, once there are many."""
    marks = os.path.join(folder, TOLD)
    try:
        names = os.listdir(marks)
        if len(names) <= KEPT_MAX:
            return
        times = {name: os.lstat(os.path.join(marks, name)).st_mtime for name in names}
        oldest = time.time() - KEPT_S
        newest = set(sorted(names, key=lambda name: -times[name])[: KEPT_MAX // 2])
        for name in names:
            if name not in newest or times[name] < oldest:
                os.unlink(os.path.join(marks, name))
    except OSError:
        pass  # another hook removes them at the same time
