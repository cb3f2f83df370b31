"""Interprets Gemini CLI's tool calls: their ids, their effect, the files they touch, their outcome.
Pure.

Hooks and chat files have no common id for a call. The id is therefore derived from what both
contain: the prompt, the tool, its input, and how often the same call occurred before within the
turn.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.call_outcome import CallOutcome, resolve_touches
from stator.importers.reading.fields import (
    record,
    records,
    text,
    usage_units,
    whole_number,
)
from stator.importers.reading.plain_text import plain_text, redaction_stable
from stator.importers.reading.shell_reads import only_reads
from stator.model.exchange.hunks import from_unified
from stator.model.exchange.items import (
    Returned,
    Step,
    Touch,
    text_id,
)
from stator.model.exchange.shell_effects import files_touched
from stator.model.log.commit import Source
from stator.model.log.shown_text import cut_short
from stator.model.records.types import Effect, StepStatus
from stator.model.values.json_text import canonical

READS = frozenset(
    "read_file read_many_files list_directory glob grep_search search_file_content web_fetch ask_user "
    "google_web_search get_internal_docs write_todos read_mcp_resource list_mcp_resources update_topic "
    "activate_skill enter_plan_mode exit_plan_mode complete_task tracker_get_task tracker_list_tasks "
    "tracker_visualize".split()
)
"""Tools that change nothing outside the conversation; any other tool may."""
SHELL = "run_shell_command"
WEB = frozenset({"web_fetch", "google_web_search"})
EDITS = frozenset({"write_file", "replace"})
ENDED = frozenset({"success", "error", "cancelled"})
"""The states of a call that is over."""
STEPS: dict[str, StepStatus] = {
    "in_progress": "in_progress",
    "completed": "done",
    "cancelled": "dropped",
    "blocked": "blocked",
}
REFUSED = ("denied", "did not allow", "rejected")
HEADER = 4_000
_EXIT = re.compile(r"^Exit Code: (-?\d{1,9})$", re.M)


_HOOKED = re.compile(r"\s*<hook_context>.*?(?:</hook_context>\s*|\Z)", re.S)


def typed_text(message_text: str) -> str:
    """The text that a person typed, without what hooks put before it: the answer to a session's
    start hook is put into the first prompt."""
    while (found := _HOOKED.match(message_text)) is not None:
        message_text = message_text[found.end() :]
    return message_text


def prompt_id(prompt: str, before: int) -> str:
    """A prompt's id, made from its text and from how often the same text occurred before."""
    return f"prompt/{text_id(redaction_stable(prompt), before)}"


def call_digest(tool: str, arguments: Any) -> str:
    """A digest of a tool and its input."""
    try:
        return text_id(tool, redaction_stable(canonical(arguments)))
    except RecursionError:
        return text_id(tool, "too deep")


def call_id(prompt: str, tool: str, arguments: Any, before: int) -> str:
    """A call's id, in characters that every provider accepts."""
    return f"call_{text_id(prompt, call_digest(tool, arguments), before)}"


def effect_of(tool: str, arguments: Any = None) -> Effect:
    """The effect that calling a tool may have; a shell command that certainly only reads has none."""
    command = text(record(arguments).get("command")) if tool == SHELL else ""
    return "read" if tool in READS or only_reads(command) else "write"


def source_of(tool: str) -> Source:
    """Where a tool's result comes from."""
    return "web" if tool in WEB else "tool"


def steps_of(tool: str, arguments: Any) -> tuple[Step, ...]:
    """The plan that a call sets."""
    if tool != "write_todos":
        return ()
    return tuple(
        Step(
            step=text(step.get("description")),
            status=STEPS.get(text(step.get("status")), "pending"),
        )
        for step in records(record(arguments).get("todos"))
        if text(step.get("description")).strip()
    )


def result(
    name: str,
    tool: str,
    arguments: Any,
    at: int,
    *,
    status: str,
    output: Any,
    display: Any,
    cwd: str,
) -> Returned:
    """The result of a call, from the output for the model and the display for people."""
    ended = outcome_of(tool, status, output, arguments)
    files = files_of(tool, arguments, display, cwd) if ended.status == "ok" else ()
    return Returned(
        id=name, at=at, tool=tool, status=ended.status, cause=ended.cause, output=strip_attachments(output),
        source=source_of(tool), files=files,
    )  # fmt: skip


def output_of(answer: Any) -> Any:
    """The output for the model, without its wrappers."""
    parts = [record(part.get("functionResponse")) for part in records(answer)]
    shown = [record(part.get("response")) for part in parts if part]
    if len(shown) != 1:
        return answer
    whole = shown[0]
    for key in ("output", "error"):
        if list(whole) == [key]:
            return whole[key]
    return whole


def outcome_of(tool: str, status: str, output: Any, arguments: Any = None) -> CallOutcome:
    """How a call ended."""
    message_text = plain_text(output)[:HEADER]
    if status == "cancelled":
        if any(word in message_text.lower() for word in REFUSED):
            return CallOutcome(status="denied", cause="refused by the user")
        doubtful = effect_of(tool, arguments) == "write"
        return CallOutcome(status="in doubt" if doubtful else "cancelled", cause="interrupted")
    if status == "error":
        first = message_text or plain_text(record(record(output).get("error")).get("message"))
        return CallOutcome(status="error", cause=cut_short(first.partition("\n")[0], 200))
    found = _EXIT.search(message_text) if tool == SHELL else None
    if found and int(found[1]):
        return CallOutcome(status="error", cause=f"exit code {found[1]}")
    return CallOutcome()


def files_of(tool: str, arguments: Any, display: Any, cwd: str) -> tuple[Touch, ...]:
    """The files that a successful call touched."""
    return tuple(_files(tool, record(arguments), record(display), cwd))


def _files(
    tool: str, arguments: dict[str, Any], display: dict[str, Any], cwd: str
) -> Iterator[Touch]:
    path = (
        text(arguments.get("file_path"))
        or text(arguments.get("absolute_path"))
        or text(arguments.get("path"))
    )
    if tool in EDITS:
        path = text(display.get("filePath")) or path
        before, after = display.get("originalContent"), display.get("newContent")
        is_new = display.get("isNewFile") is True
        if path:
            yield Touch(
                path=posixpath.join(cwd, path),
                op="created" if is_new else "modified",
                before_text=before if isinstance(before, str) and not is_new else None,
                after_text=after if isinstance(after, str) else None,
                places=from_unified(text(display.get("fileDiff"))),
            )
    elif tool == "read_file" and path:
        yield Touch(path=posixpath.join(cwd, path), op="read")
    elif tool == SHELL:
        folder = text(arguments.get("dir_path")) or text(arguments.get("directory"))
        yield from resolve_touches(
            files_touched(text(arguments.get("command")), cwd, reads=True),
            posixpath.join(cwd, folder),
        )


def usage_of(tokens: Any) -> dict[str, int]:
    """The cost of an answer. Cached tokens are included in the input tokens, so they are
    subtracted."""
    counts = {name: whole_number(count) for name, count in record(tokens).items()}
    read = min(counts.get("cached", 0), counts.get("input", 0))
    fresh = counts.get("input", 0) - read + counts.get("tool", 0)
    return usage_units(
        input_tokens=fresh,
        cache_read=read,
        output_tokens=counts.get("output", 0) + counts.get("thoughts", 0),
    )
