"""A call that waits for approval, appended as a driver appends it."""

from __future__ import annotations

from typing import Any

from stator.model.log.commit import Upsert
from stator.model.records.types import CallRecord
from stator.model.values.ids import retype
from stator.runtime.facade.session import Session


def ask_for(session: Session[Any], tool: str, why: str = "", **arguments: Any) -> str:
    """Append a call that awaits approval; returns its id."""
    intent = session.context.mint("commit")
    call = retype(intent, "call")
    record = CallRecord(
        call=call, tool=tool, status="awaiting approval", since=session.context.clock()
    )
    session._driver.append(
        [
            session._draft(
                "call",
                id=intent,
                call=call,
                tool=tool,
                effect="write",
                attempt=1,
                input=arguments,
                why=why,
                status="awaiting approval",
                changes=(Upsert("calls", record),),
            )
        ]
    )
    return call
