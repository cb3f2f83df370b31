"""Every error Stator raises: one tree, each with a wire code, the ids it is about and what to do
next.

    StatorError
    ├── InvalidInput          the caller's value cannot be recorded; nothing was written
    │   ├── BadType           E_TYPE      a value of a type that has no recorded form
    │   ├── BadNumber         E_NUMBER    NaN or infinity
    │   ├── BadText           E_ENCODING  text that cannot be kept exactly
    │   ├── TooLarge          E_SIZE      over a stated limit
    │   ├── TooDeep           E_DEPTH     nested past the limit
    │   ├── Cyclic            E_CYCLE     a value that contains itself
    │   ├── BadId             E_ID        not an id of the expected kind
    │   ├── BadBudget         E_BUDGET    a limit that is zero, negative or absurd
    │   ├── BadTurn           E_TURN      a turn that is not the open one
    │   ├── BadDelta          E_DELTA     a change to something that does not exist
    │   ├── BadPosition       E_POSITION  a position or range that does not parse
    │   ├── BadQuery          E_QUERY     a filter, limit or time that makes no sense
    │   └── BadWorkflow       E_WORKFLOW  a workflow file with invalid content
    ├── NotFound              E_NOT_FOUND
    │   ├── Erased            E_ERASED    it existed; its content has been erased
    │   └── Removed           E_REMOVED   it existed; it is in the trash, or was purged
    ├── Ambiguous             E_AMBIGUOUS several things match that name
    ├── Conflict              E_CONFLICT
    │   ├── HeadMoved         E_HEAD      compare-and-set failed; carries the head found
    │   ├── IdReused          E_IDEMPOTENCY  same commit id, another body
    │   └── ErasesHere        E_ERASES    a bundle's erasures would take content away here; nothing was imported
    ├── WrongState            E_STATE     the session's lifecycle does not allow it
    ├── Busy                  E_BUSY      a live driver holds the session
    ├── LeaseLost             E_LEASE     this driver was displaced; its append was refused
    ├── ApprovalNeeded        E_APPROVAL  a call waits for a person's approval; its request is on disk
    ├── NotProven             E_PROOF     an approval does not prove what its call demands; nothing was recorded
    ├── Unverified            E_UNVERIFIED  a fact rests on something that nobody vouches for; nothing was recorded
    ├── BudgetSpent           E_BUDGET_SPENT  a limit is used up; nothing more begins until it is raised
    ├── CallError             a call that did not end ok, carries its outcome
    │   ├── CallFailed        E_CALL_FAILED
    │   ├── CallCancelled     E_CALL_CANCELLED
    │   ├── CallDenied        E_CALL_DENIED  denied by a person or a rule
    │   ├── CallTimeout       E_CALL_TIMEOUT
    │   └── InDoubt           E_IN_DOUBT  it may or may not have happened
    ├── NotDone               E_NOT_DONE  raised by a tool that had no effect
    ├── Paused                E_PAUSED    the run stops here and can be continued
    ├── Diverged              E_DIVERGED  the program asked for something its recorded turn did not do
    ├── BrokenChain           E_CHAIN     a commit does not match its hash
    │   └── LogDamaged        E_LOG_DAMAGED  commits of the store do not verify; carries which
    ├── BadBundle             E_BUNDLE    a bundle that is damaged, cut short or locked; nothing was imported
    │   └── NewerBundle       E_BUNDLE_VERSION  written by a newer release
    ├── BadExtension          E_EXTENSION  a package adds a format or store that cannot be loaded
    ├── OutletFailed          E_OUTLET    a file or receiver did not take a commit; the next run continues there
    └── StoreError            the store cannot be used as asked
        ├── NotAStore         E_NOT_A_STORE
        ├── ForeignStore      E_FOREIGN   another user's store, or one of unknown origin: it can only be read
        ├── NoOwner           E_OWNER     there is no key that could mark a grant as this user's
        ├── SchemaChanged     E_SCHEMA    tables, triggers or views that are not ours
        ├── NewerStore        E_VERSION   written by a newer release; it can only be read
        ├── StoreReplaced     E_GENERATION  the file was replaced while it was open
        ├── StoreCorrupt      E_CORRUPT
        ├── StoreFull         E_FULL
        ├── StoreReadOnly     E_READ_ONLY
        ├── StoreBusy         E_STORE_BUSY
        ├── StoreFailed       E_IO        the disk reported an error
        ├── StoreUnreachable  E_UNREACHABLE  no answer from a store at a distance: it may or may not have landed
        └── WrongProcess      E_FORK      a store used after fork, or after close

No text of an error repeats a secret that the rules about secrets find.
Catch `StatorError` for all of them. Those that `stator` exports name it as their module, so that a traceback
shows the name to import. `str(error)` is for people; `error.wire()` is for programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from stator.model.log.shown_text import without_secrets


class StatorError(Exception):
    """What happened, to which id, and what to do next."""

    __module__ = "stator"
    code: ClassVar[str] = "E_STATOR"

    def __init__(self, what: str, *, hint: str = "", **ids: Any) -> None:
        self.what = without_secrets(what)
        super().__init__(self.what)
        self.hint = without_secrets(hint) if hint else ""
        self.ids = {
            name: without_secrets(value) if type(value) is str else value
            for name, value in ids.items()
            if value is not None
        }

    def __str__(self) -> str:
        return f"{self.what} ({self.hint})" if self.hint else self.what

    def wire(self) -> dict[str, Any]:
        """The error as plain data, for JSON surfaces."""
        return {
            "code": self.code,
            "what": self.what,
            "hint": self.hint,
            "ids": {name: _plain(value) for name, value in self.ids.items()},
        }


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, bool, list)) else str(value)


class InvalidInput(StatorError):
    """The caller's value cannot be recorded; nothing was written."""

    code = "E_INVALID"

    def __init__(self, what: str, *, path: str = "", hint: str = "", **ids: Any) -> None:
        super().__init__(f"{what} - at {path}" if path else what, hint=hint, **ids)
        self.path = without_secrets(path) if path else ""


class BadType(InvalidInput):
    code = "E_TYPE"


class BadNumber(InvalidInput):
    code = "E_NUMBER"


class BadText(InvalidInput):
    code = "E_ENCODING"


class TooLarge(InvalidInput):
    code = "E_SIZE"


class TooDeep(InvalidInput):
    code = "E_DEPTH"


class Cyclic(InvalidInput):
    code = "E_CYCLE"


class BadId(InvalidInput):
    code = "E_ID"


class BadBudget(InvalidInput):
    code = "E_BUDGET"


class BadTurn(InvalidInput):
    code = "E_TURN"


class BadDelta(InvalidInput):
    code = "E_DELTA"


class BadPosition(InvalidInput):
    code = "E_POSITION"


class BadQuery(InvalidInput):
    code = "E_QUERY"


class BadWorkflow(InvalidInput):
    code = "E_WORKFLOW"


class NotFound(StatorError):
    code = "E_NOT_FOUND"


class Erased(NotFound):
    code = "E_ERASED"


class Removed(NotFound):
    """A session that existed: it is in the trash, or was purged; `ids` say when, by which policy and by whom."""

    code = "E_REMOVED"


class Ambiguous(StatorError):
    """Several things match that name; `candidates` lists them."""

    code = "E_AMBIGUOUS"

    def __init__(self, what: str, *, candidates: list[str], hint: str = "", **ids: Any) -> None:
        super().__init__(what, hint=hint, candidates=candidates, **ids)
        self.candidates = candidates


class Conflict(StatorError):
    code = "E_CONFLICT"


class HeadMoved(Conflict):
    """Compare-and-set failed: `head` is the hash that was found instead."""

    code = "E_HEAD"

    def __init__(self, what: str, *, head: str, hint: str = "", **ids: Any) -> None:
        super().__init__(what, hint=hint, head=head, **ids)
        self.head = head


class IdReused(Conflict):
    code = "E_IDEMPOTENCY"


class ErasesHere(Conflict):
    """A bundle's erasures would take content away that is in this store; nothing was imported."""

    code = "E_ERASES"


class WrongState(StatorError):
    code = "E_STATE"


class Busy(StatorError):
    """A live driver holds the session; `holder` says who, where and since when."""

    code = "E_BUSY"

    def __init__(self, what: str, *, holder: Any = None, hint: str = "", **ids: Any) -> None:
        super().__init__(what, hint=hint, **ids)
        self.holder = holder


class LeaseLost(StatorError):
    code = "E_LEASE"


class ApprovalNeeded(StatorError):
    """A call waits for a person's approval. Its request is on disk: the process may end, a later run continues."""

    __module__ = "stator"
    code = "E_APPROVAL"


class NotProven(StatorError):
    """An approval does not prove what its call demands: the wrong passphrase, no terminal, or a process below an
    agent. Nothing was recorded."""

    code = "E_PROOF"


class Unverified(StatorError):
    """A fact cannot be verified: what it was made from came from the web, from a bundle or from a foreign store.
    `path` leads from there to the fact, as the ids of the commits on the way; it is empty if too much lies behind
    the fact to look at."""

    code = "E_UNVERIFIED"

    def __init__(self, what: str, *, path: list[str], hint: str = "", **ids: Any) -> None:
        super().__init__(what, hint=hint, path=path, **ids)
        self.path = path


class BudgetSpent(StatorError):
    """A limit is used up; `breach` says which. Nothing more begins until it is raised."""

    __module__ = "stator"
    code = "E_BUDGET_SPENT"

    def __init__(self, what: str, *, breach: Any = None, hint: str = "", **ids: Any) -> None:
        super().__init__(what, hint=hint, **ids)
        self.breach = breach


class CallError(StatorError):
    """A call that did not end ok; `outcome` holds what is known about it."""

    code = "E_CALL"

    def __init__(self, what: str, *, outcome: Any = None, hint: str = "", **ids: Any) -> None:
        super().__init__(what, hint=hint, **ids)
        self.outcome = outcome


class CallFailed(CallError):
    code = "E_CALL_FAILED"


class CallCancelled(CallError):
    code = "E_CALL_CANCELLED"


class CallDenied(CallError):
    code = "E_CALL_DENIED"


class CallTimeout(CallError):
    code = "E_CALL_TIMEOUT"


class InDoubt(CallError):
    """A call may or may not have happened. A tool may raise this about itself."""

    __module__ = "stator"
    code = "E_IN_DOUBT"


class NotDone(StatorError):
    """Raised by a tool that failed before it had any effect."""

    __module__ = "stator"
    code = "E_NOT_DONE"

    def __init__(self, what: str = "nothing happened", *, hint: str = "", **ids: Any) -> None:
        super().__init__(what, hint=hint, **ids)


class Paused(StatorError):
    """The run stops here, because a pause was requested or a tool's attempts ran out; running again continues."""

    __module__ = "stator"
    code = "E_PAUSED"

    def __init__(self, what: str, *, reason: str = "user", hint: str = "", **ids: Any) -> None:
        super().__init__(what, hint=hint, **ids)
        self.reason = reason


class Diverged(StatorError):
    """A program asked a recorded turn for something that the turn did not record."""

    code = "E_DIVERGED"


class BrokenChain(StatorError):
    code = "E_CHAIN"


class LogDamaged(BrokenChain):
    code = "E_LOG_DAMAGED"


class BadBundle(StatorError):
    """A bundle is damaged, cut short or locked. Nothing was imported."""

    code = "E_BUNDLE"


class NewerBundle(BadBundle):
    code = "E_BUNDLE_VERSION"


class BadExtension(StatorError):
    """A package adds a format or a store, and it cannot be loaded."""

    code = "E_EXTENSION"


class OutletFailed(StatorError):
    """An outlet could not give out a commit; nothing after it was given out."""

    code = "E_OUTLET"


class StoreError(StatorError):
    code = "E_STORE"


class NotAStore(StoreError):
    """`absent`: nothing is there yet, and a store could be made."""

    code = "E_NOT_A_STORE"

    def __init__(self, what: str, *, absent: bool = False, hint: str = "", **ids: Any) -> None:
        super().__init__(what, hint=hint, **ids)
        self.absent = absent


class ForeignStore(StoreError):
    """The store is not this user's own: it can be read, and nothing in it acts."""

    code = "E_FOREIGN"


class NoOwner(StoreError):
    """There is no key that could mark a grant as this user's, and none can be made."""

    code = "E_OWNER"


class SchemaChanged(StoreError):
    code = "E_SCHEMA"


class NewerStore(StoreError):
    code = "E_VERSION"


class StoreReplaced(StoreError):
    code = "E_GENERATION"


class StoreCorrupt(StoreError):
    code = "E_CORRUPT"


class StoreFull(StoreError):
    code = "E_FULL"


class StoreReadOnly(StoreError):
    code = "E_READ_ONLY"


class StoreBusy(StoreError):
    code = "E_STORE_BUSY"


class StoreFailed(StoreError):
    code = "E_IO"


class StoreUnreachable(StoreError):
    """A store at a distance gave no answer. What was sent may or may not have landed (`landed`: "unknown"; "nothing"
    where only a read failed). The same ids show it, so that asking again records nothing twice. `commits` are the ids
    that were sent."""

    code = "E_UNREACHABLE"

    def __init__(
        self,
        what: str,
        *,
        landed: Literal["unknown", "nothing"] = "unknown",
        commits: Sequence[str] = (),
        hint: str = "",
        **ids: Any,
    ) -> None:
        super().__init__(what, hint=hint, landed=landed, commits=list(commits) or None, **ids)
        self.landed = landed
        self.commits = list(commits)


class WrongProcess(StoreError):
    code = "E_FORK"
