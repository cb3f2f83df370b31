"""Interprets Claude Code's tool calls: their effect, their outcome, the files and the plan they
changed.

Pure. Transcripts and hooks both use it, so that both record the same for one call.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from stator.importers.reading.attachments import DEPTH_MAX, decoded_bytes
from stator.model.exchange.hunks import Hunk, Swap, applied, from_records
from stator.model.exchange.items import (
    Planned,
    Returned,
    Spawned,
    Step,
    Touch,
    digest_of,
)
from stator.model.exchange.shell_effects import files_touched
from stator.model.log.commit import Source
from stator.model.log.shown_text import cut_short, legible
from stator.model.records.types import Effect, StepStatus

READS = frozenset(
    "Read Grep Glob LS NotebookRead WebFetch WebSearch TodoRead TaskOutput TaskGet TaskList BashOutput"
    " AskUserQuestion EnterPlanMode ExitPlanMode ListMcpResourcesTool ReadMcpResourceTool ToolSearch"
    " LSP Skill SlashCommand".split()
)
IDEMPOTENT = frozenset("TodoWrite TaskUpdate".split())
"""Tools that set a state; calling them twice with the same input changes nothing more."""
WEB = frozenset({"WebFetch", "WebSearch"})
AGENTS = frozenset({"Task", "Agent"})
"""Tools that start a sub-agent."""
CAUSE_MAX = 300
TASKS_MAX = 200
TASK_CHARS = 8_000
"""The most tasks whose names are remembered, and the most characters of all names together; a later update
names a task by its number only."""

Status = Literal["ok", "error", "cancelled", "denied", "in doubt"]

_UNKNOWN = ("[Tool call interrupted",)
_REJECTED = (
    "The user doesn't want to proceed with this tool use",
    "Permission to use ",
    "Claude requested permissions to ",
    "This command requires approval",
)
_STOPPED = (
    "The user doesn't want to take this action right now",
    "[Request interrupted by user",
    "<tool_use_error>Sibling tool call errored",
    "<tool_use_error>Cancelled:",
)
_ABORTED = "[Request interrupted by user"
"""The last line of a command's output, if the user stopped it."""
_DENIED_KINDS = frozenset({"user-rejected", "rejected", "denied", "rule", "hook", "permission"})
_STATUSES: dict[str, StepStatus] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "done",
    "blocked": "blocked",
    "deleted": "dropped",
    "cancelled": "dropped",
}
_OURS = re.compile(r'\{"status":"(started|in doubt|denied|cancelled)","error":"([^"\\]{0,300})')
_WRITTEN: dict[str, Status] = {
    "started": "in doubt",
    "in doubt": "in doubt",
    "denied": "denied",
    "cancelled": "cancelled",
}
_TASK_NUMBER = re.compile(r"Task #(\d{1,9})\b")


class ClaudeCodeCall(msgspec.Struct, frozen=True):
    """A call, with what is needed to interpret its result."""

    id: str
    tool: str = "?"
    input: dict[str, Any] = {}
    cwd: str = ""
    at: int = 0


def effect_of(tool: str) -> Effect:
    """The effect that calling a tool may have."""
    if tool in READS:
        return "read"
    return "idempotent" if tool in IDEMPOTENT else "write"


def source_of(tool: str) -> Source:
    """Where a tool's result comes from."""
    return "web" if tool in WEB else "tool"


def text_of(content: Any) -> str:
    """The text in a content: a string, or blocks with texts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [
        block if isinstance(block, str) else block.get("text")
        for block in content
        if isinstance(block, (str, dict))
    ]
    return "\n".join(part for part in parts if isinstance(part, str))


def without_images(value: Any, depth: int = 0) -> Any:
    """A content in which images and documents are replaced by notes."""
    if depth > DEPTH_MAX:
        return value
    if isinstance(value, list):
        return [without_images(one, depth + 1) for one in value]
    if not isinstance(value, dict):
        return value
    source = value.get("source")
    if isinstance(source, dict) and isinstance(source.get("data"), str):
        data = source["data"]
        if source.get("type") == "text":
            return value
        kept = f"{len(data) * 3 // 4} bytes, sha256 {digest_of(decoded_bytes(data))}"
        kind, media = value.get("type", "file"), source.get("media_type", "")
        return {"type": "text", "text": f"[{kind} {media}, {kept}]"}
    return {name: without_images(one, depth + 1) for name, one in value.items()}


def outcome_of(
    call: ClaudeCodeCall, output_text: str, is_error: bool, result: Any, denial: str = ""
) -> tuple[Status, str]:
    """The outcome of a call and its cause, from the text that the model received and the result
    that Claude Code stored."""
    stopped: Status = "cancelled" if effect_of(call.tool) == "read" else "in doubt"
    known = _OURS.match(output_text)
    if known is not None:  # `stator export --as claude-code` wrote this result
        return _WRITTEN[known[1]], known[2]
    structured = result if isinstance(result, dict) else {}
    if denial == "interrupted" or output_text.startswith(_UNKNOWN):
        return stopped, "the session ended before its result was recorded"
    if denial in _DENIED_KINDS or (is_error and output_text.startswith(_REJECTED)):
        return "denied", first_line(output_text)
    if output_text.startswith(_STOPPED) and (is_error or output_text.startswith("[Request")):
        return stopped, first_line(output_text)
    if is_error and _ABORTED in output_text.rstrip().rpartition("\n")[2]:
        return stopped, "interrupted"
    if structured.get("interrupted") is True:
        return stopped, "interrupted"
    return ("error", first_line(output_text)) if is_error else ("ok", "")


def first_line(text: str) -> str:
    """The first line of a text, as the cause of an outcome."""
    plain = text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>").strip()
    return cut_short(plain.split("\n", 1)[0], CAUSE_MAX)


def result_of(
    call: ClaudeCodeCall,
    *,
    at: int,
    within: str,
    output: Any,
    result: Any,
    is_error: bool,
    denial: str = "",
) -> Returned:
    """The result of a call; `output` is what the model received, `result` what Claude Code stored."""
    status, cause = outcome_of(call, text_of(output), is_error, result, denial)
    return Returned(
        id=call.id,
        at=at,
        within=within,
        status=status,
        cause=cause,
        output=without_images(output),
        source=source_of(call.tool),
        files=files_of(call, result) if status == "ok" else (),
        tool=call.tool,
    )


# -- files ----------------------------------------------------------------------------------------


def files_of(call: ClaudeCodeCall, result: Any) -> tuple[Touch, ...]:
    """The files that a successful call touched."""
    arguments = call.input
    kept = result if isinstance(result, dict) else {}
    if call.tool == "Bash":
        return files_touched(_text(arguments.get("command")), call.cwd)
    if call.tool == "Read":
        return _read(arguments, kept.get("file"))
    path = _text(kept.get("filePath")) or _text(arguments.get("file_path"))
    if call.tool == "NotebookEdit":
        path = _text(arguments.get("notebook_path")) or path
        return (_notebook(path, kept),) if path else ()
    if not path or call.tool not in ("Write", "Edit", "MultiEdit"):
        return ()
    return (_written(call.tool, path, arguments, kept),)


def _read(arguments: dict[str, Any], shown: Any) -> tuple[Touch, ...]:
    """A file that was read; all of it is known if every line was shown."""
    file = shown if isinstance(shown, dict) else {}
    path = _text(file.get("filePath")) or _text(arguments.get("file_path"))
    content = file.get("content")
    lines = file.get("totalLines")
    whole = (
        isinstance(content, str)
        and (file.get("startLine"), file.get("numLines")) == (1, lines)
        and content.count("\n") + 1 == lines
    )
    if not whole:
        return (Touch(path=path, op="read"),) if path else ()
    return (Touch(path=path, op="read", after_text=content),) if path else ()


def _notebook(path: str, kept: dict[str, Any]) -> Touch:
    before, after = kept.get("original_file"), kept.get("updated_file")
    return Touch(
        path=path,
        op="modified",
        before_text=before if isinstance(before, str) else None,
        after_text=after if isinstance(after, str) else None,
    )


def _written(tool: str, path: str, arguments: dict[str, Any], kept: dict[str, Any]) -> Touch:
    before = kept.get("originalFile")
    after: str | None
    if tool == "Write":
        content = kept.get("content", arguments.get("content"))
        after = content if isinstance(content, str) else None
        is_new = kept.get("type") == "create"
    else:
        after = _edited(before, arguments, kept)
        is_new = before in (None, "") and _text(arguments.get("old_string", "-")) == ""
        if is_new and after is None:
            after = _text(arguments.get("new_string")) or None
    hunks = from_records(kept.get("structuredPatch"))
    # the user changed the edit before it was applied: only the patch shows what became of it
    if kept.get("userModified") is True:
        after = None
    if isinstance(before, str) and not is_new and hunks:
        after = _agreed(before, after, hunks)
    return Touch(
        path=path,
        op="created" if is_new else "modified",
        before_text=before if isinstance(before, str) and not is_new else None,
        after_text=after,
        places=hunks or _swaps(tool, arguments, kept) if after is None else (),
    )


def _agreed(before: str, after: str | None, hunks: tuple[Hunk, ...]) -> str | None:
    """The content after an edit. Where the patch and the edit make two different contents, neither is known."""
    patched = applied(hunks, before)
    if patched is None or after is None:
        return patched if after is None else after
    return after if after == patched else None


def _swaps(tool: str, arguments: dict[str, Any], kept: dict[str, Any]) -> tuple[Swap, ...]:
    """The texts that an edit replaced, in order; nothing if the user changed them."""
    if tool == "Write" or kept.get("userModified") is True:
        return ()
    found = []
    for edit in _edits(arguments, kept):
        old, new = _sides(edit)
        if old is None or new is None:
            return ()
        found.append(Swap(old, new, _every(edit)))
    return tuple(found)


def _edits(arguments: dict[str, Any], kept: dict[str, Any]) -> list[Any]:
    edits = arguments.get("edits") or kept.get("edits")
    return edits if isinstance(edits, list) else [arguments]


def _sides(edit: Any) -> tuple[str | None, str | None]:
    given = edit if isinstance(edit, dict) else {}
    old, new = given.get("old_string"), given.get("new_string")
    return old if isinstance(old, str) else None, new if isinstance(new, str) else None


def _every(edit: Any) -> bool:
    return isinstance(edit, dict) and edit.get("replace_all") is True


def _edited(before: Any, arguments: dict[str, Any], kept: dict[str, Any]) -> str | None:
    """The content of a file after an edit, if the content before it is known."""
    if not isinstance(before, str):
        return None
    text = before
    for edit in _edits(arguments, kept):
        old, new = _sides(edit)
        if old is None or new is None or old not in text:
            return None
        text = text.replace(old, new) if _every(edit) else text.replace(old, new, 1)
    return text


# -- plans and sub-agents -------------------------------------------------------------------------


def plan_of(
    call: ClaudeCodeCall, output_text: str, result: Any, tasks: dict[str, str], **item: Any
) -> Planned | None:
    """The plan after a call changed it. `tasks` maps task numbers to names and is updated."""
    arguments = call.input
    if call.tool == "TodoWrite":
        todos = arguments.get("todos")
        steps = (
            [_todo(todo) for todo in todos if isinstance(todo, dict)]
            if isinstance(todos, list)
            else []
        )
        return Planned(id=call.id, steps=tuple(step for step in steps if step.step), **item)
    if call.tool == "TaskCreate":
        name = _text(arguments.get("subject"))
        number = _number(result, output_text)
        if not name:
            return None
        if number:
            _remember_task(tasks, number, legible(name))
        step = Step(step=name, detail=_text(arguments.get("description")))
        return Planned(id=call.id, steps=(step,), whole=False, **item)
    if call.tool == "TaskUpdate":
        number = str(arguments.get("taskId", ""))
        name = _text(arguments.get("subject")) or tasks.get(number, "")
        status = _STATUSES.get(_text(arguments.get("status")))
        if not name or status is None:
            return None
        return Planned(id=call.id, steps=(Step(step=name, status=status),), whole=False, **item)
    return None


def _remember_task(tasks: dict[str, str], number: str, name: str) -> None:
    tasks.pop(number, None)
    tasks[number] = name
    while len(tasks) > TASKS_MAX or (len(tasks) > 1 and _length(tasks) > TASK_CHARS):
        del tasks[next(iter(tasks))]


def _length(tasks: dict[str, str]) -> int:
    return sum(map(len, tasks.values()))


def _todo(todo: dict[str, Any]) -> Step:
    return Step(
        step=_text(todo.get("content")) or _text(todo.get("activeForm")),
        status=_STATUSES.get(_text(todo.get("status")), "pending"),
    )


def _number(result: Any, output_text: str) -> str:
    task = result.get("task") if isinstance(result, dict) else None
    if isinstance(task, dict) and task.get("id"):
        return str(task["id"])
    match = _TASK_NUMBER.search(output_text)
    return match[1] if match else ""


def subagent_of(
    call: ClaudeCodeCall, result: Any, session: str, *, at: int, within: str, agent: str = ""
) -> tuple[Spawned | None, Spawned | None]:
    """The start and the end of the sub-agent that a call ran, once the result names it or `agent` is known. An
    agent that was started in the background has no end yet."""
    structured = result if isinstance(result, dict) else {}
    agent = _text(structured.get("agentId")) or agent
    if call.tool not in AGENTS or not agent:
        return None, None
    start = Spawned(
        id=f"child/{agent}",
        at=call.at or at,
        within=within,
        child=child_id(session, agent),
        name=child_name(call, agent),
        call=call.id,
    )
    if is_launch(result):
        return start, None
    status = _text(structured.get("status"))
    end = msgspec.structs.replace(start, id=f"child/{agent}/end", at=at, status=status or "ended")
    return start, end


def child_name(call: ClaudeCodeCall | None, agent: str) -> str:
    """What a sub-agent is called: what it was started for, or its id."""
    return (_text(call.input.get("description")) if call is not None else "") or agent


def is_launch(result: Any) -> bool:
    """Whether a call only started a sub-agent, which works in the background."""
    structured = result if isinstance(result, dict) else {}
    return structured.get("isAsync") is True or structured.get("status") == "async_launched"


def child_id(session: str, agent: str) -> str:
    """The conversation id of a sub-agent; its own id is only unique within the session."""
    return f"{session}/{agent}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
