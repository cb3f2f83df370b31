"""Names the views that `stator sql` offers, with their columns; docs/reference/sql.md says what each column means.

Plain data: a store makes the views of it, and the command line lists them.
"""

from __future__ import annotations

import msgspec


class ShownCall(msgspec.Struct, frozen=True, array_like=True):
    """A call without an outcome in the log, with the status that readers give it: in doubt, cancelled or waiting."""

    session: str
    seq: int
    status: str
    cause: str


class ShownCost(msgspec.Struct, frozen=True, array_like=True):
    """What a session that names no money cost by the prices there are, in millionths of a dollar."""

    session: str
    amount: int
    answers: list[tuple[int, int]] = []
    """Of each commit that used something and has a price: its seq, and what it cost. Empty where no query asks."""


class Shown(msgspec.Struct, frozen=True):
    """What readers know that is not in the log: given to a store along with a query."""

    calls: list[ShownCall] = []
    costs: list[ShownCost] = []
    sessions: dict[str, str] | None = None
    """The status of sessions that are at work by their record and not to readers. None: each as the log has it."""


AS_IS = Shown()
"""The views show what the log has."""

SQL_VIEWS: dict[str, tuple[str, str]] = {
    "sessions": (
        "one row a session; tokens without those read from a cache, which are cached",
        "id name project agent mode status #created #updated"
        " #turns #tokens #cached %cost_usd #cost_computed asked",
    ),
    "turns": (
        "one row a turn; tokens and cached as in sessions",
        "session #turn #first #last #at status"
        " #happened #ended prompt #calls #failed #tokens #cached %cost_usd #cost_computed",
    ),
    "calls": (
        "one row a call",
        "session #seq call tool effect status recorded cause #attempt #outcome #turn #at"
        " #happened #took input input_hash output summary why",
    ),
    "commits": (
        "one row a commit",
        "session #seq id hash kind #turn #at actor tool status effect cause"
        " #happened text input output input_hash summary why #tokens #cached %cost_usd #cost_computed",
    ),
    "files": ("one row a change of a file", "session #seq #turn id path op before after"),
    "decisions": (
        "one row a decision, in force or superseded",
        "session #seq #turn id topic what why supersedes",
    ),
    "revisions": (
        "one row a version-control commit",
        "session #seq #turn id sha subject branch pushed",
    ),
    "state": (
        "one row a record of the state at the head of each session",
        "session project collection #seq #turn id record",
    ),
    "spend": (
        "what each session used, by unit; tokens with those read from a cache",
        "session unit #amount",
    ),
    "records": ("every change of the state", "session collection #seq #turn op id record"),
}
"""View → what a row is, and its columns: a number has a # before its name, a fraction a %, the others are texts."""

SQL_EXAMPLES: tuple[tuple[str, str], ...] = (
    (
        "what did this week cost, by project?",
        "SELECT project, sum(tokens) AS tokens, sum(cached) AS cached, round(sum(cost_usd), 2) AS usd"
        " FROM sessions WHERE updated > (unixepoch() - 7 * 86400) * 1000000 GROUP BY project",
    ),
    (
        "which prompts led to failing tests?",
        "SELECT prompt, count(*) AS failed FROM (SELECT session, turn, CASE WHEN json_valid(input)"
        " THEN coalesce(input ->> 'command', input ->> 'cmd') END || ' ' AS ran FROM calls WHERE status = 'error')"
        " JOIN turns USING (session, turn) WHERE EXISTS (SELECT 1 FROM (VALUES ('pytest '), ('npm test'),"
        " ('npm run test'), ('yarn test'), ('mix test'), ('go test'), ('cargo test'), ('make test'), ('vitest '))"
        " WHERE instr(ran, column1)) GROUP BY prompt ORDER BY failed DESC",
    ),
    (
        "which tools fail most?",
        "SELECT tool, count(*) AS calls, sum(status != 'ok') AS not_ok, max(took) / 1000000 AS longest_s"
        " FROM calls GROUP BY tool ORDER BY not_ok DESC",
    ),
    (
        "which files changed most?",
        "SELECT path, count(*) AS edits, count(DISTINCT session) AS sessions FROM files"
        " WHERE op != 'read' GROUP BY path ORDER BY edits DESC LIMIT 10",
    ),
    (
        "what was decided, and why?",
        "SELECT name, topic, what, why FROM decisions JOIN sessions ON sessions.id = session ORDER BY updated DESC",
    ),
)
"""Questions people ask, and the query for each."""


def columns_of(view: str) -> list[tuple[str, str]]:
    """The columns of a view with SQLite's names of their types."""
    types = {"#": "INTEGER", "%": "REAL"}
    return [(word.lstrip("#%"), types.get(word[0], "TEXT")) for word in SQL_VIEWS[view][1].split()]
