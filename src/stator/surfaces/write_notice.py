"""Answers the hooks around a tool call: says that another agent changed the file that this one writes.

Each call costs a look at the files it names. Only if there is something to say is more loaded, and the store asked who
the other session is.
"""

from __future__ import annotations

import os

from stator.hooks.event_names import AFTER_CALLS, BEFORE_CALLS, ENDS, STARTS
from stator.model.brief.shared_files import READ, SHELLS, WROTE, paths_of
from stator.touched_files import Toucher

# type checkers recognize the name; importing it from `typing` would take too long
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stator.model.brief.shared_files import FileTouch

HOOKS = BEFORE_CALLS | AFTER_CALLS | STARTS | ENDS
"""The hooks that this module is asked about."""
TOLD_AFTER = frozenset(("gemini", "cursor"))
"""Agents that take no text before a call; they get it after it."""


def notice(
    name: str,
    agent: str,
    hook_input: dict[str, Any],
    cwd: str,
    spool: str,
    process: tuple[int, int, int],
) -> list[tuple[str, FileTouch]]:
    """Note what a hook says about files. Returns the files that another session changed, each with that session."""
    # a sub-agent counts as the session that started it, also where it has a session of its own
    conversation = (
        hook_input.get("parent_id")
        or hook_input.get("session_id")
        or hook_input.get("conversation_id")
    )
    if not isinstance(conversation, str) or not conversation:
        return []
    me = Toucher(spool, f"{agent}:{conversation}", agent, process)
    if name in STARTS:
        me.began()
    elif name in ENDS:
        me.ended()
    else:
        return _of_call(name, agent, hook_input, cwd, me)
    return []


def _of_call(
    name: str, agent: str, hook_input: dict[str, Any], cwd: str, me: Toucher
) -> list[tuple[str, FileTouch]]:
    tool = str(hook_input.get("tool_name"))
    given = hook_input.get("tool_input")
    if given is None:  # opencode reports the call as a part
        part = hook_input.get("part")
        state = part.get("state") if isinstance(part, dict) else None
        given = state.get("input") if isinstance(state, dict) else None
    later = agent in TOLD_AFTER
    news = []
    for op, word in paths_of(tool, given):
        path = os.path.join(cwd, word)
        if tool in SHELLS and op == READ and not _is_file_below(path, cwd):
            continue
        found = None
        if name in BEFORE_CALLS and op == WROTE:
            found = me.before_write(path, later=later)
            found = None if later else found
        elif name in AFTER_CALLS:
            found = me.due(path) if later else None
            me.seen(path, tool=tool, wrote=op == WROTE)
        if found is not None:
            news.append((word, found))
    return news


def _is_file_below(path: str, folder: str) -> bool:
    """Whether a word of a command is a file of the project: most words name none."""
    return os.path.isfile(path) and os.path.realpath(path).startswith(
        os.path.join(os.path.realpath(folder), "")
    )


def answer(
    agent: str,
    event: str,
    news: list[tuple[str, FileTouch]],
    store_path: str,
    cwd: str,
    *,
    named: bool,
) -> bytes:
    """The bytes for standard output."""
    from stator.surfaces.write_notice_text import reply

    return reply(agent, event, news, store_path, cwd, named=named)
