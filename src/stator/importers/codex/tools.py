"""Interprets Codex's tool calls: their effect, the files they touch, their outcome. Pure.

Codex describes a call in up to three places: the item that requests it, the item with the output
for the model, and (newer versions) a notice with the structured result. The notice is preferred for
details; the outcome is read from either.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from stator.importers.reading.call_outcome import CallOutcome, CallStatus, resolve_touches
from stator.importers.reading.fields import record, records, text
from stator.importers.reading.shell_reads import only_reads
from stator.model.exchange import patch_text
from stator.model.exchange.hunks import from_unified
from stator.model.exchange.items import Step, Touch
from stator.model.exchange.shell_effects import files_touched
from stator.model.log.commit import Source
from stator.model.log.shown_text import cut_short
from stator.model.records.types import Effect, StepStatus
from stator.model.values.json_text import parse_object
from stator.model.window.reply import usage_of

READS = frozenset(
    "view_image web_search tool_search update_plan read_file list_dir grep_files request_user_input "
    "list_mcp_resources list_mcp_resource_templates read_mcp_resource wait wait_agent".split()
)
"""Tools that change nothing outside the conversation; any other tool may."""
SHELLS = frozenset("exec_command shell shell_command local_shell container.exec Bash".split())
PATCHES = frozenset({"apply_patch", "applypatch"})
STEPS: dict[str, StepStatus] = {"in_progress": "in_progress", "completed": "done"}
HEADER = 2_000
"""The characters at the start of an output in which its header is searched for."""
FAILURES = (
    "execution error",
    "failed in sandbox",
    "failed to ",
    "err: ",
    "unsupported call",
    "script failed",
    "exec_command failed",
    "write_stdin failed",
    "apply_patch verification failed",
    "collab tool failed",
    "collab spawn failed",
)
"""Beginnings of outputs that report a failure, in lower case."""
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,9})$", re.M)
_FAILED = re.compile(r"exit code:? (-?\d{1,9})")
_HEADER_LINE = re.compile(
    r"(?:(?:Chunk ID|Wall time|Process exited|Exit code|Original token count|Total output lines)\b[^\n]*\n)+"
)
_ABORTED = re.compile(r"(?:command )?aborted(?: by user\b[^\n]*)?\s*", re.I)
_TIMED_OUT = re.compile(r"^(?:command )?timed out after ", re.M)


def tool_of(item: dict[str, Any]) -> str:
    """The tool's name; tools of MCP servers have the server's name before it, as in hooks."""
    kind, name, space = text(item.get("type")), text(item.get("name")), text(item.get("namespace"))
    if kind in ("function_call", "custom_tool_call"):
        return f"{space}__{name}" if space and name else name
    return kind.removesuffix("_call")


def input_of(item: dict[str, Any]) -> Any:
    """The input of a call, decoded."""
    if "arguments" in item:
        arguments = item["arguments"]
        parsed, problem = parse_object(arguments)
        return arguments if problem else parsed
    return item.get("input") if "input" in item else record(item.get("action"))


def effect_of(tool: str, arguments: Any = None) -> Effect:
    """The effect that calling a tool may have; a shell command that certainly only reads has none."""
    is_read = tool in READS or (tool in SHELLS and only_reads(command_of(arguments)))
    return "read" if is_read else "write"


def source_of(tool: str) -> Source:
    """Where a tool's result comes from."""
    return "web" if tool == "web_search" else "tool"


def steps_of(tool: str, arguments: Any) -> tuple[Step, ...]:
    """The plan that a call sets."""
    if tool != "update_plan":
        return ()
    return tuple(
        Step(step=text(step.get("step")), status=STEPS.get(text(step.get("status")), "pending"))
        for step in records(record(arguments).get("plan"))
        if text(step.get("step")).strip()
    )


def command_of(arguments: Any) -> str:
    """The shell command in the input of a call, as a person would type it."""
    options = record(arguments)
    succeeded = options.get("cmd", options.get("command"))
    if isinstance(succeeded, str):
        return succeeded
    parts = (
        [part for part in succeeded if isinstance(part, str)] if isinstance(succeeded, list) else []
    )
    if len(parts) == 3 and parts[1] in ("-lc", "-c"):
        return parts[2]
    if len(parts) == 2 and parts[0] in PATCHES:
        return f"apply_patch <<'PATCH'\n{parts[1]}\nPATCH\n"
    return ""


def spent_of(usage: dict[str, Any]) -> dict[str, int]:
    """What an answer cost, in the units of `spend` records."""
    details = {
        "cached_tokens": usage.get("cached_input_tokens"),
        "cache_write_tokens": usage.get("cache_write_input_tokens"),
    }
    return usage_of({"output": [], "usage": {**usage, "input_tokens_details": details}})


# -- outcomes ---------------------------------------------------------------------------------------


def unwrap_output(output: Any) -> tuple[Any, int | None, bool | None]:
    """The output, its exit code, and whether it says that it succeeded, without its wrappers."""
    succeeded: bool | None = None
    if isinstance(output, dict):
        succeeded = output.get("success") if isinstance(output.get("success"), bool) else None
        output = output.get("content_items") or output.get("content", output)
    if isinstance(output, str) and output.startswith('{"output":'):
        inner, problem = parse_object(output)
        code = record(inner.get("metadata")).get("exit_code")
        if not problem:
            return inner.get("output"), code if type(code) is int else None, succeeded
    return output, None, succeeded


def outcome_of(
    tool: str, output: Any, notice: dict[str, Any], arguments: Any = None
) -> CallOutcome:
    """The outcome of a call, from its output and from the structured notice, if there is one."""
    plain, code, succeeded = unwrap_output(output)
    head = plain[:HEADER] if isinstance(plain, str) else ""
    header = head.partition("\nOutput:\n")[0]
    if code is None:
        code = (
            notice["exit_code"]
            if type(notice.get("exit_code")) is int
            else _exit_code(tool, header)
        )
    writes = effect_of(tool, arguments) == "write"
    status, cause = _status_and_cause(writes, header, notice, code, succeeded)
    return CallOutcome(status=status, cause=cause)


def _is_aborted(head: str) -> bool:
    """Whether all that an output says, after the lines of its header, is that the call was aborted."""
    begun = _HEADER_LINE.match(head)
    return _ABORTED.fullmatch(head, begun.end() if begun else 0) is not None


def _exit_code(tool: str, head: str) -> int | None:
    found = _EXIT.search(head)
    if found is None and head.startswith("failed in sandbox"):
        found = _FAILED.search(head)
    return int(found[1]) if found and tool not in READS else None


def _status_and_cause(
    writes: bool, head: str, notice: dict[str, Any], code: int | None, succeeded: bool | None
) -> tuple[CallStatus, str]:
    first = head[:200].lower()
    if text(notice.get("status")) == "declined" or "rejected by user" in first:
        return "denied", "rejected by the user"
    if _is_aborted(head):
        return "cancelled", "aborted by the user"
    if _TIMED_OUT.search(head) and code in (None, 124):
        return ("in doubt" if writes else "timeout"), "timeout"
    if code:
        return "error", f"exit code {code}"
    failed = text(notice.get("status")) == "failed" or notice.get("success") is False
    failed = failed or bool(record(notice.get("result")).get("isError")) or succeeded is False
    if failed or first.startswith(FAILURES):
        return "error", cut_short(head.partition("\n")[0], 200)
    return "ok", ""


# -- files ------------------------------------------------------------------------------------------


def files_of(tool: str, arguments: Any, cwd: str, notice: dict[str, Any]) -> tuple[Touch, ...]:
    """The files that a successful call touched."""
    folder = posixpath.join(cwd, text(record(arguments).get("workdir")))
    named = tuple(_files_in_notice(notice.get("changes"))) or tuple(
        _files_in_input(tool, arguments)
    )
    if named or tool not in SHELLS:
        return resolve_touches(named, folder)
    command = command_of(arguments)
    patched = patch_text.files_in_command(command)
    if patched:
        return resolve_touches(patched, folder)
    touched = resolve_touches(files_touched(command, folder, reads=True), folder)
    known = {touch.path for touch in touched}
    shown = resolve_touches(_files_read(notice), folder)
    return (*touched, *(touch for touch in shown if touch.path not in known))


def _files_in_input(tool: str, arguments: Any) -> Iterator[Touch]:
    if tool in PATCHES:
        patch = arguments if isinstance(arguments, str) else record(arguments).get("input")
        yield from patch_text.files_in_patch(text(patch) or text(record(arguments).get("command")))
    elif tool in ("view_image", "read_file"):
        path = text(record(arguments).get("path")) or text(record(arguments).get("file_path"))
        if path:
            yield Touch(path=path, op="read")


def _files_in_notice(changes: Any) -> Iterator[Touch]:
    """The files in a structured notice, which maps paths to changes."""
    for path, change in record(changes).items():
        kind = text(record(change).get("type")) or next(iter(record(change)), "")
        detail = record(record(change).get(kind)) or record(change)
        moved = text(detail.get("move_path"))
        if kind == "add":
            yield Touch(path=path, op="created", after_text=_content(detail))
        elif kind == "delete":
            yield Touch(path=path, op="deleted", before_text=_content(detail))
        elif moved or kind == "update":
            hunks = from_unified(text(detail.get("unified_diff")))
            yield Touch(
                path=moved or path, op="renamed" if moved else "modified",
                from_path=path if moved else "", places=hunks,
            )  # fmt: skip


def _content(detail: dict[str, Any]) -> str | None:
    content = detail.get("content")
    return content if isinstance(content, str) else None


def _files_read(notice: dict[str, Any]) -> Iterator[Touch]:
    """Files that a command read, according to Codex's own analysis."""
    for part in records(notice.get("parsed_cmd")):
        if part.get("type") == "read" and text(part.get("path")):
            yield Touch(path=part["path"], op="read", how="inferred")
