"""What an agent may report of its own work: one row per kind, with the words that agents use for its fields.

An agent writes an item from memory: `text` for `what`, `reason` for `why`, `completed` for `done`. A name or word that
can mean only one thing is read as that (`model.exchange.reported_item`). Plain data.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from stator.model.records.row_types import Field, Reported
from stator.model.records.types import Effect, FileOp, StepStatus, UseKind

_TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
_SHARE: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}
WHY = Field("why", also=("reason", "because", "rationale"))
"""Every kind has it."""
OUTCOMES = ("ok", "error", "timeout", "cancelled", "denied", "in doubt")
"""How a call ended, as an agent may report it."""


def _one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


_NAME = Field("name", also=("key", "title", "topic"))
_VALUE = Field("value", {}, blank=True, also=("text", "content", "what"))

DECISION = Reported(
    method="decide",
    must=(Field("what", also=("text", "decision", "choice", "content")),),
    may=(
        Field("topic", also=("about", "subject", "name")),
        Field("over", _TEXTS, also=("alternatives", "rejected", "instead_of")),
        Field("confidence", _SHARE),
        Field("supersedes", also=("replaces",)),
    ),
    hint="what, topic, over [rejected options]; replaces the one on its topic",
    example={
        "kind": "decision",
        "what": "use signed cookies",
        "topic": "auth",
        "over": ["JWT"],
        "why": "a JWT cannot be revoked",
    },
)
FACT = Reported(
    method="fact",
    must=(_NAME, msgspec.structs.replace(_VALUE, also=(*_VALUE.also, "fact"))),
    example={"kind": "fact", "name": "test command", "value": "pytest -q", "why": "the README"},
)
PREFERENCE = Reported(
    method="prefer",
    must=(_NAME, msgspec.structs.replace(_VALUE, also=(*_VALUE.also, "preference"))),
    example={"kind": "preference", "name": "language", "value": "English", "why": "the user"},
)
FILE = Reported(
    method="file",
    must=(
        Field("path", also=("file", "file_path", "filename", "name")),
        Field(
            "op",
            _one_of(*get_args(FileOp)),
            also=("operation", "action", "change", "status"),
            words={
                **dict.fromkeys(("edited", "edit", "changed", "updated", "modify"), "modified"),
                # These do not say that the file is new; "created" would.
                **dict.fromkeys(("write", "wrote", "written", "overwritten"), "modified"),
                **dict.fromkeys(("added", "add", "new", "create"), "created"),
                **dict.fromkeys(("removed", "remove", "delete"), "deleted"),
                **dict.fromkeys(("moved", "move", "rename"), "renamed"),
                "viewed": "read",
            },
        ),
    ),
    hint="path, op: created, modified, deleted, renamed, read",
    example={"kind": "file", "path": "src/auth.py", "op": "modified", "why": "verify the token"},
)
PLAN = Reported(
    method="plan",
    must=(
        Field(
            "step",
            also=("steps", "text", "task", "title", "what", "name", "content"),
            several=True,
        ),
    ),
    may=(
        Field(
            "status",
            _one_of(*get_args(StepStatus)),
            also=("state",),
            words={
                **dict.fromkeys(("completed", "complete", "finished", "closed"), "done"),
                **dict.fromkeys(("todo", "to do", "open", "not started", "planned"), "pending"),
                **dict.fromkeys(("doing", "started", "active", "ongoing", "wip"), "in_progress"),
                **dict.fromkeys(("cancelled", "canceled", "skipped", "abandoned"), "dropped"),
                **dict.fromkeys(("waiting", "stuck"), "blocked"),
            },
        ),
        Field("check", also=("test", "command")),
        Field("files", _TEXTS, also=("paths",)),
    ),
    hint="step, status, check (the command that proves it), files; the same step again updates it",
    example={"kind": "plan", "step": "write the tests", "status": "done", "check": "pytest -q"},
)
ARTIFACT = Reported(
    method="artifact",
    must=(
        Field("name", also=("title", "path")),
        Field("content", {}, blank=True, also=("text", "body", "value")),
    ),
    hint="name, content: a document; a new version each time",
    example={"kind": "artifact", "name": "design", "content": "# Design\n…", "why": "agreed on"},
)
DEAD_END = Reported(
    method="dead_end",
    must=(Field("what", also=("text", "approach", "attempt", "content")),),
    hint="what",
    example={"kind": "dead_end", "what": "retrying the login", "why": "the server is stateless"},
)
CALL = Reported(
    method="call",
    must=(
        Field("tool", also=("name",)),
        Field(
            "status",
            _one_of(*OUTCOMES),
            also=("outcome", "state"),
            words={
                **dict.fromkeys(("success", "succeeded", "completed", "done", "passed"), "ok"),
                **dict.fromkeys(("failed", "failure", "fail"), "error"),
                **dict.fromkeys(("unknown", "unclear", "doubt"), "in doubt"),
                **dict.fromkeys(("timed out", "time out"), "timeout"),
                **dict.fromkeys(("canceled", "aborted", "interrupted"), "cancelled"),
                **dict.fromkeys(("refused", "rejected"), "denied"),
            },
        ),
    ),
    may=(
        Field("arguments", {}, blank=True, also=("args", "input", "parameters", "params")),
        Field("result", {}, blank=True, also=("output", "error", "response", "message")),
        Field("effect", _one_of(*get_args(Effect))),
    ),
    hint="tool, arguments, status (ok, error, in doubt), result: a call you made",
    example={
        "kind": "call",
        "tool": "bash",
        "arguments": {"command": "make deploy"},
        "status": "error",
        "result": "port 80 is in use",
    },
)
USE = Reported(
    method="use",
    must=(Field("name", also=("path", "url", "text", "what")),),
    may=(
        Field(
            "type",
            _one_of(*get_args(UseKind)),
            words={
                **dict.fromkeys(("database", "url", "source", "table", "dataset"), "data"),
                **dict.fromkeys(("program", "server", "tool", "service", "application"), "app"),
            },
        ),
        Field("detail", also=("note", "description")),
    ),
    hint="name, type: file, app or data you work with",
    example={"kind": "use", "name": "orders.db", "type": "data", "detail": "read only"},
)
FLAG = Reported(
    method="flag",
    must=(Field("name", also=("text", "what", "title", "message")),),
    may=(Field("on", also=("about", "target")),),
    hint="name: a person should look",
    example={"kind": "flag", "name": "the key is in the log", "why": "it may have leaked"},
)

KIND_WORDS: dict[str, str] = {
    **dict.fromkeys(("step", "plan step", "todo", "task"), "plan"),
    **dict.fromkeys(("constraint", "pref"), "preference"),
    **dict.fromkeys(("deadend",), "dead_end"),
    **dict.fromkeys(("tool call", "tool use", "command"), "call"),
    **dict.fromkeys(("document", "handover", "handoff"), "artifact"),
}
"""Other words for kinds."""
