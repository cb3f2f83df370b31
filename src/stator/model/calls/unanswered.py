"""Writes whose answer was lost: how long to ask again, and what is sent before anything else.

Decisions only. Over a wire, a write that gave no answer may or may not have landed. Its ids show which, so asking again
records nothing twice. Where a driver gives up on that, nothing more begins in its run: what it could not get an
answer for is kept, and sent again before the commits that end things. If the process ends first, the log holds what
a crash leaves: an intent without an outcome is in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence

from stator.model.calls.life import not_run
from stator.model.log.commit import Draft
from stator.model.values.ids import derived

TRIES = 8
FIRST_S = 0.1
LONGEST_S = 5.0
PATIENCE_S = 30.0
"""No question is asked again later than this after it was first asked."""
NO_ANSWER = "the store did not answer"
"""The cause of a call that did not run, and of a turn that ended, because its beginning was not confirmed."""
ENDINGS = frozenset({"outcome", "settlement", "turn_end", "run_end", "pause", "close"})
BEGINNINGS = ("call", "approval")
"""Kinds after which a tool may run."""


def pause_s(tried: int, elapsed_s: float) -> float | None:
    """How long to wait before asking again; None if it was asked often or long enough."""
    wait = min(LONGEST_S, FIRST_S * 2.0 ** (tried - 1))
    return None if tried >= TRIES or elapsed_s + wait > PATIENCE_S else wait


def ends_something(drafts: Sequence[Draft]) -> bool:
    """Whether these drafts say how something ended. After a lost answer nothing else is appended in a run."""
    return any(draft.kind in ENDINGS for draft in drafts)


def to_send_again(drafts: Sequence[Draft]) -> list[Draft]:
    """What is sent again of drafts whose landing is unknown: themselves, and the end of what they would begin.

    A call whose intent was not confirmed did not run, and a turn whose start was not confirmed holds nothing. Sent
    with their ends, they are no doubt of the next run, whether or not they landed before.
    """
    kept = list(drafts)
    ended = {(draft.call, draft.attempt) for draft in drafts if draft.kind == "outcome"}
    for draft in drafts:
        if draft.kind in BEGINNINGS and (draft.call, draft.attempt) not in ended:
            kept.append(_not_run(draft))
    if any(draft.kind == "turn" for draft in drafts) and not _ends_turn(drafts):
        kept.append(_end(drafts[-1], "turn_end", status="interrupted", cause=NO_ANSWER))
    return kept


def to_send_now(waiting: Sequence[Draft], drafts: Sequence[Draft]) -> list[Draft]:
    """What waits, and then drafts that end something. A turn whose end waits does not end a second time."""
    ended = _ends_turn(waiting)
    return [*waiting, *(draft for draft in drafts if not (ended and draft.kind == "turn_end"))]


def _ends_turn(drafts: Sequence[Draft]) -> bool:
    return any(draft.kind == "turn_end" for draft in drafts)


def _not_run(intent: Draft) -> Draft:
    fields = not_run("cancelled", NO_ANSWER, intent.attempt)
    return _end(
        intent, "outcome", call=intent.call, tool=intent.tool, effect=intent.effect, **fields
    )


def _end(begun: Draft, kind: str, **fields: object) -> Draft:
    """A draft that ends what another begins. Its id is derived: sent again, it is the same commit."""
    return Draft(
        id=derived("commit", "unanswered", begun.id, kind),
        session=begun.session,
        kind=kind,
        run=begun.run,
        epoch=begun.epoch,
        actor="system",
        **fields,  # type: ignore[arg-type]
    )
