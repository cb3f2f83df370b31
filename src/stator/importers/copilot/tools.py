"""Knows the tools of Copilot CLI: what they touch, and how their results say that they failed."""

from __future__ import annotations

import re
from typing import Any

from stator.importers.reading.awaited_calls import AwaitedCall
from stator.importers.reading.call_outcome import CallOutcome
from stator.importers.reading.edit_places import editor_touch
from stator.importers.reading.fields import (
    files_touched_by,
    headline,
    parse_checklist,
    record,
    records,
    text,
)
from stator.importers.reading.shell_reads import only_reads
from stator.model.exchange.items import Step, Touch
from stator.model.exchange.patch_text import files_in_patch
from stator.model.records.types import Effect, FileOp

READS = frozenset(
    "view read_file grep rg glob list_directory file_search web_fetch web_search fetch report_intent ask_user"
    " read_bash read_powershell list_bash list_powershell read_agent list_agents fetch_copilot_cli_documentation"
    " task_complete update_todo skill exit_plan_mode think".split()
)
SHELLS = frozenset(("bash", "powershell", "shell", "local_shell"))
EDITORS: dict[str, FileOp] = {
    "view": "read", "read_file": "read", "create": "created", "edit": "modified", "str_replace": "modified",
    "insert": "modified", "edit_file": "modified", "create_file": "created",
}  # fmt: skip
"""A tool, or a command of `str_replace_editor`, → what it does to its file."""
_EXIT = re.compile(r"<(?:command )?exited with exit code (\d{1,10})>\s*\Z")
_DENIED = re.compile(r"\b(?:denied|rejected|not permitted|declined)\b", re.I)
_STOPPED = re.compile(r"\b(?:aborted|cancell?ed|interrupted)\b", re.I)


def effect_of(tool: str, given: dict[str, Any]) -> Effect:
    is_read = tool in READS or (tool == "str_replace_editor" and given.get("command") == "view")
    is_read = is_read or (tool in SHELLS and only_reads(text(given.get("command"))))
    return "read" if is_read else "write"


def files_of(tool: str, given: Any) -> tuple[Touch, ...]:
    """The files that a call touches if it succeeds."""
    if tool == "apply_patch":
        fields = record(given)
        patch = given if isinstance(given, str) else fields.get("input") or fields.get("patch")
        return files_in_patch(text(patch))
    fields = record(given)
    if tool in SHELLS:
        return files_touched_by(fields.get("command")) if tool != "powershell" else ()
    verb = text(fields.get("command")) if tool == "str_replace_editor" else tool
    path = text(fields.get("path")) or text(fields.get("file_path")) or text(fields.get("filePath"))
    op = EDITORS.get(verb)
    if op is None or not path:
        return ()
    return (editor_touch(path, op, {**fields, "command": verb}),)


def steps_of(tool: str, given: dict[str, Any]) -> tuple[Step, ...]:
    """The plan that a call sets if it succeeds."""
    return parse_checklist(text(given.get("todos"))) if tool == "update_todo" else ()


def output_of(data: dict[str, Any]) -> Any:
    """What the model got back."""
    result = data.get("result")
    if isinstance(result, dict):
        return text(result.get("content"))
    return result if result is not None else text(record(data.get("error")).get("message")) or None


def outcome_of(call: AwaitedCall, data: dict[str, Any]) -> CallOutcome:
    """How a call ended."""
    if data.get("success") is False:
        failure = record(data.get("error"))
        why, code = text(failure.get("message")), text(failure.get("code"))
        return _failure(call, headline(why) or code, f"{code} {why[:200]}")
    exited = _exit_code(call, record(data.get("result")))
    return CallOutcome(status="error", cause=f"exit code {exited}") if exited else CallOutcome()


def _failure(call: AwaitedCall, cause: str, words: str) -> CallOutcome:
    if _DENIED.search(words):
        return CallOutcome(status="denied", cause=cause)
    if _STOPPED.search(words):
        return CallOutcome(
            status="in doubt" if call.effect == "write" else "cancelled", cause=cause
        )
    is_timeout = call.effect == "read" and "timed out" in words.lower()
    return CallOutcome(status="timeout" if is_timeout else "error", cause=cause)


def _exit_code(call: AwaitedCall, result: dict[str, Any]) -> int:
    """The exit code of a shell command; 0 if none is known."""
    if call.tool not in SHELLS:
        return 0
    for block in records(result.get("contents")):
        code = block.get("exitCode")
        if block.get("type") in ("shell_exit", "terminal") and type(code) is int:
            return code
    found = _EXIT.search(text(result.get("content"))[-200:])
    return int(found[1]) if found else 0
