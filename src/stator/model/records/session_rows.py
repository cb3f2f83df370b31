"""Rows of the registry that are about the life of a session: its lifecycle, its turns and its calls.

The registry itself holds the rest, and explains what a row is for.
"""

from __future__ import annotations

from stator.model.records import reports, search_text, text
from stator.model.records.row_types import Collection, CommitKind, Hot, NotedAs
from stator.model.records.types import CallRecord, RunRecord, SessionRecord

SESSION_ROWS: tuple[CommitKind, ...] = (
    # -- lifecycle ------------------------------------------------------------------------------
    CommitKind(
        name="open",
        barrier=True,
        quiet=True,
        collection=Collection(
            number=1,
            name="session",
            type=SessionRecord,
            key=(),
            line=text.session_line,
            search=search_text.session,
            bookkeeping=True,
            structural=True,
            rewound=False,
            diffed=False,
            hot=Hot(10),
        ),
    ),
    CommitKind(name="fork", barrier=True, silent=True),
    CommitKind(
        name="run",
        barrier=True,
        news=True,
        silent=True,
        quiet=True,
        collection=Collection(
            number=3,
            name="runs",
            type=RunRecord,
            key=("id",),
            line=text.run_line,
            bookkeeping=True,
            structural=True,
            rewound=False,
            diffed=False,
            dropped_by_fork=30,
        ),
    ),
    CommitKind(name="run_end", barrier=True, silent=True, quiet=True, operands="always"),
    CommitKind(
        name="resume", outside=True, after_the_end=True, barrier=True, news=True, quiet=True
    ),
    CommitKind(name="pause", outside=True, barrier=True, quiet=True),
    CommitKind(name="pause_request", outside=True, contributed=True),
    CommitKind(name="close", outside=True, barrier=True, keeping=True, quiet=True),
    CommitKind(name="archive", outside=True, barrier=True, keeping=True),
    CommitKind(name="adopt", outside=True, silent=True),
    CommitKind(name="describe", outside=True, after_the_end=True, silent=True, quiet=True),
    CommitKind(name="purge", outside=True, barrier=True, removes=True, silent=True),
    # -- turns ----------------------------------------------------------------------------------
    CommitKind(name="turn", spoken=True, expires=True, shown=True, news=True, operands="continues"),
    CommitKind(name="turn_end", barrier=True, quiet=True),
    CommitKind(name="entry", once=True, compared=True, spoken=True, expires=True, shown=True),
    CommitKind(
        name="call",
        spoken=True,
        expires=True,
        collection=Collection(
            number=9,
            name="calls",
            type=CallRecord,
            key=("call",),
            line=text.call_line,
            bookkeeping=True,
            structural=True,
            rewound=False,
            diffed=False,
            hot=Hot(40),
            noted=NotedAs(80, "open calls"),
        ),
        reported=reports.CALL,
    ),
    CommitKind(name="outcome", spoken=True, expires=True, shown=True, learned=True),
    CommitKind(
        name="settlement",
        outside=True,
        contributed=True,
        after_the_end=True,
        spoken=True,
        expires=True,
        shown=True,
        learned=True,
        barrier=True,
    ),
)
