"""For the whole suite: no product code may open a database file behind SQLite's back.

POSIX drops every lock a process holds on a file when any descriptor of it is closed, so one `open`
of the database, its -wal or its -shm from Python could lose commits that were acknowledged.
SQLite's own opens do not raise Python's audit event; everything else does.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import types

from hypothesis import HealthCheck, settings

PRODUCT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src", "stator")
HOLDS_SHM = os.path.join(PRODUCT, "store", "sqlite", "shared_memory.py")
GUARDED = (".db", ".db-wal", ".db-shm", ".db-journal")


def forbid_stray_opens(event, arguments):
    """An audit hook: raises when code under src/stator opens a database file from Python."""
    if event != "open" or not isinstance(arguments[0], (str, bytes)):
        return
    path = os.fsdecode(arguments[0])
    if not path.endswith(GUARDED):
        return
    files = [frame.f_code.co_filename for frame in _callers()]
    if path.endswith("-shm") and HOLDS_SHM in files:
        return  # it is closed only when no connection of the process uses the file
    for name in files:
        if name.startswith(PRODUCT):
            raise RuntimeError(f"{name} opens {path} outside SQLite; its locks would be lost")


def _callers():
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


sys.addaudithook(forbid_stray_opens)

# The user's data folder of the whole suite: the list of stores and the owner's key of the person who runs it stay
# as they are, and every store that a test makes belongs to the same user in all its processes.
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="stator-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_DATA_HOME"], ignore_errors=True)


# Hooks only queue: a program that takes the queue in, in the background, would race with the tests.
os.environ["STATOR_INGESTER"] = "off"

# The same examples every time, so that a red run is red for its author too; a campaign explores.
# No test fails because the machine was busy.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", patient, derandomize=True)
settings.register_profile("explore", patient, max_examples=1000)
settings.load_profile(os.environ.get("STATOR_HYPOTHESIS", "fixed"))
