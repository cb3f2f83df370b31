"""What the runtime is given instead of taking: time, ids, and who is running.

Filled in by `connect` (and by `testing`, with fakes); nothing in `runtime` reads a clock, draws
randomness or looks at the environment by itself.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import msgspec

from stator.model.log.commit import Draft
from stator.model.log.query import SessionRow
from stator.model.values.ids import Mint
from stator.store.port import Index, ProjectIndex, StorePort


class OpenIndex(Protocol):
    """Opens and closes the search index of a store."""

    def __call__(
        self, store: StorePort, create: bool, *, on_disk: bool = True
    ) -> AbstractContextManager[Index | None]:
        """`create` a missing one; without `on_disk`, one in memory."""
        ...


class OpenProjectIndex(Protocol):
    """Opens and closes the index of what the projects of a store know."""

    def __call__(
        self, store: StorePort, create: bool, *, on_disk: bool = True
    ) -> AbstractContextManager[ProjectIndex | None]:
        """`create` a missing one; without `on_disk`, one in memory."""
        ...


class OpenUserStore(Protocol):
    """Opens and closes the store that holds what is true of the user, whatever the project."""

    def __call__(self, store: StorePort, create: bool) -> AbstractContextManager[StorePort | None]:
        """`create` a missing one. It may be the store itself."""
        ...


@contextmanager
def itself(store: StorePort, create: bool) -> Iterator[StorePort | None]:
    """The store itself, where the user has no other."""
    yield store


class Launch(msgspec.Struct, frozen=True):
    """The supervised run that this program belongs to, and how often it was started before."""

    id: str
    start: int = 0
    process: str = ""
    """Distinguishes the processes of one start."""


class Approvers(Protocol):
    """The keys of the people who may sign approvals here."""

    def load(self) -> None:
        """Find the keys now. From then on they stay the same, also if there are none."""
        ...

    def verifies(self, proof: str, signature: str, signed: bytes) -> bool:
        """Whether a known key of that kind of proof made the signature, of just these bytes."""
        ...


class NoApprovers:
    """No keys: nothing that is signed can be verified, so it approves nothing."""

    def load(self) -> None:
        pass

    def verifies(self, proof: str, signature: str, signed: bytes) -> bool:
        return False


MADE_ID = "p_"
"""How the ids begin that `init` gives projects; other ids are paths of folders, or names of sources."""
ID_SHOWN = 10
"""Characters of such an id that are shown where nothing better is known."""


class Context(msgspec.Struct, frozen=True, eq=False):
    """The world as the runtime sees it."""

    clock: Callable[[], int]
    """µs since 1970. Displayed and recorded; never used to order anything."""
    mint: Mint
    secret: Callable[[int], bytes]
    host: str = ""
    pid: int = 0
    program: str = ""
    principal: str = ""
    project: str = ""
    sleep: Callable[[float], object] = lambda seconds: None
    """Seconds. By default no time passes, as in tests with a clock of their own."""
    monotonic: Callable[[], float] = lambda: 0.0
    """Seconds on a clock that only goes forward."""
    jitter: Callable[[], float] = lambda: 0.5
    """From 0 to 1, at random."""
    root: str = ""
    """The folder that file paths are relative to; may be empty."""
    policy: Callable[[], str] = str
    """The text of the project's policy file, read when it is needed; empty without such a file."""
    policy_is_own: bool = True
    """Whether the project is this user's own: if not, its policy file may only ask and deny."""
    call: str = ""
    """The call of a session that this process was started in, by its id: what it contributes was made in that call."""
    is_joined: bool = False
    """Whether the folder is the project's only as a clone of its repository, which could be anyone's copy: what was
    approved for the whole project does not answer there."""
    home_of: Callable[[str], tuple[str, str] | None] = lambda folder: None
    """The project of any folder of this machine, and that project's own folder; None where neither is known."""
    folder_of: Callable[[str], str] = lambda project: ""
    """Where a project is that has an id which nobody knows it by; empty if that is not known."""
    instructions: Callable[[], list[str]] = list
    """The texts that agents load by themselves in this project: nothing in them is given again."""
    launch: Launch | None = None
    """Set where a supervisor started this program."""
    index: OpenIndex | None = None
    project_index: OpenProjectIndex | None = None
    user_store: OpenUserStore = itself
    approvers: Approvers = msgspec.field(default_factory=NoApprovers)
    below: Callable[[StorePort], str] = lambda store: ""
    """The driver or agent of a store that this process runs below, in words; empty if none is found."""
    started_by: Callable[[StorePort, str], str] = lambda store, session: ""
    """The driver of a session, or an agent that is recorded, if one of them started this process; in words."""
    at_rest: Callable[[StorePort, SessionRow], bool] = lambda store, row: (
        row.record.status != "active"
    )
    """Whether nothing more is expected of the agent of a recorded session for now."""
    touch_folder: Callable[[StorePort], str] = lambda store: ""
    """The folder beside a store in which its sessions note the files they touch; empty if there is none."""
    started: Callable[[StorePort, SessionRow], int] = lambda store, row: 0
    """When the agent of a recorded session last started, as hooks report it: what it was doing before is over."""
    unplaced: Callable[[StorePort, SessionRow], list[Draft]] = lambda store, row: []
    """What hooks and the end of a transcript report of a recorded session and its log does not hold yet, in order."""
    boot: Callable[[], str] = str
    """The boot of this machine and the µs since, suspended time included, as `7f0c…:81000000`; empty if unknown."""
    process: Callable[[], str] = str
    """The process that asks, distinct from all others of this machine; empty if unknown."""
    is_gone: Callable[[str], bool] = lambda process: False
    """Whether a process is known to have ended: only one of this machine can be."""

    def project_name(self, project: str) -> str:
        """A project as people call it: by the last part of its folder, where that is known."""
        folder = project
        if project.startswith(MADE_ID):
            folder = self.root if project == self.project else self.folder_of(project)
        if folder.startswith("/"):
            return folder.rstrip("/").rpartition("/")[2] or folder
        return project[:ID_SHOWN] if project.startswith(MADE_ID) else project


def nap(seconds: float) -> None:
    """Wait, unless something better is given: an interrupt ends it at once, as it ends a sleep."""
    threading.Event().wait(seconds)


def warn_on_loop() -> None:
    """Say so when the synchronous API is used where an event loop runs: it would stall every task."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        warnings.warn(
            "the synchronous API blocks the running event loop; use stator.aio here",
            RuntimeWarning,
            stacklevel=3,
        )
