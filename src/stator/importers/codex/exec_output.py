"""Reads the output of `codex exec --json`, for sessions of which only the standard output was kept.

The output contains neither the prompts nor the ids of calls. It is read only if there is no rollout
of the session; importing both would record everything twice.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from stator.importers.codex import tools
from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.fields import record, records, text
from stator.importers.reading.jsonl import JsonlLine, parse_line, read_beginning
from stator.model.exchange.items import (
    Answered,
    Called,
    Item,
    Noise,
    Planned,
    Prompted,
    Returned,
    Step,
    TurnEnded,
    Unknown,
    text_id,
)
from stator.model.log.shown_text import cut_short
from stator.model.values.json_text import shown
from stator.model.window.reply import usage_of

UNKNOWN_PROMPT = "(what was asked is not in the output of codex exec)"
TOOLS = {
    "command_execution": "exec_command",
    "file_change": "apply_patch",
    "web_search": "web_search",
    "collab_tool_call": "collab",
}
STARTED_MAX = 256
"""The most items of a turn that were started and are not completed."""
IGNORED = frozenset({"turn.started", "thread.started", "item.updated"})


def is_first_line(value: dict[str, Any]) -> bool:
    """Whether a line is the first of such an output."""
    return value.get("type") == "thread.started" and isinstance(value.get("thread_id"), str)


def session_of(path: str) -> str:
    """The session of such an output; "" if the file is something else."""
    first = read_beginning(path).split(b"\n", 1)[0]
    value, _ = parse_line(JsonlLine(1, 0, len(first), first.removesuffix(b"\r")))
    return text(value["thread_id"]) if value is not None and is_first_line(value) else ""


class ExecReader:
    """Reads the lines of an output, one after the other. Ids are made from the content, because Codex
    numbers the items from zero again in every run. Nothing is held back."""

    holds = False

    def __init__(self) -> None:
        self._number = 0
        self._turn = ""
        self._started: dict[str, None] = {}

    def state(self) -> dict[str, Any]:
        """All that must be known after the lines read so far."""
        return {"number": self._number, "turn": self._turn, "started": list(self._started)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over the state of a reader that has read the lines before."""
        number, started = state.get("number"), state.get("started")
        self._number = number if type(number) is int else 0
        self._turn = text(state.get("turn"))
        self._started = dict.fromkeys(started) if isinstance(started, list) else {}

    def rest(self) -> Iterator[Item]:
        """Nothing: nothing is held back."""
        return iter(())

    let_go = rest

    def items(self, value: dict[str, Any], line: JsonlLine) -> Iterator[Item]:
        """Yield the items that a line adds."""
        kind, item = text(value.get("type")), record(value.get("item"))
        if kind == "turn.started":
            self._number += 1
            self._turn = ""
            self._started = {}
        elif kind in ("item.started", "item.completed") and item:
            key = _content_key(item)
            if not self._turn:
                self._turn = f"exec/{self._number}/{text_id(key)}"
                yield Prompted(id=self._turn, content=UNKNOWN_PROMPT)
            yield from self._item(item, f"{self._turn}/{key}", kind == "item.completed")
        elif kind in ("turn.completed", "turn.failed"):
            why = cut_short(text(record(value.get("error")).get("message")), 400)
            spent = usage_of({"output": [], "usage": record(value.get("usage"))})
            if spent and self._turn:
                # the only place with the cost of the turn
                yield Answered(id=f"{self._turn}/spent", reply="", usage=spent, partial=True)
            failed = kind == "turn.failed"
            yield TurnEnded(id=f"end/{self._turn}", status="aborted" if failed else "ok", why=why)
        elif kind in IGNORED:
            yield Noise(kind=kind)
        else:
            yield Unknown(id=f"exec/line/{line.number}", raw=strip_attachments(value))

    def _item(self, item: dict[str, Any], name: str, done: bool) -> Iterator[Item]:
        kind = text(item.get("type"))
        if kind in ("agent_message", "reasoning"):
            if done:
                words = text(item.get("text"))
                yield Answered(id=name, reply={"output": [_reply_item(kind, words)]})
        elif kind == "todo_list":
            steps = tuple(
                Step(
                    step=text(step.get("text")),
                    status="done" if step.get("completed") else "pending",
                )
                for step in records(item.get("items"))
            )
            yield Planned(id=f"{name}/{int(done)}", steps=steps)
        elif kind == "mcp_tool_call" or kind in TOOLS:
            yield from self._call(item, name, done)
        elif kind == "error":
            yield Noise(kind="item/error")
        else:
            yield Unknown(id=name, raw=strip_attachments(item))

    def _call(self, item: dict[str, Any], name: str, done: bool) -> Iterator[Item]:
        tool = _tool_of(item)
        arguments = _arguments_of(item)
        if name not in self._started:
            self._started[name] = None
            if len(self._started) > STARTED_MAX:
                del self._started[next(iter(self._started))]
            effect = tools.effect_of(tool, arguments)
            yield Called(id=name, tool=tool, input=strip_attachments(arguments), effect=effect)
        if done:
            self._started.pop(name)
            yield _returned(item, name, tool, arguments)


def _content_key(item: dict[str, Any]) -> str:
    """An item's number together with a digest of its content."""
    kind = text(item.get("type"))
    arguments = shown(item.get("command") or item.get("arguments") or item.get("query") or "")
    return f"{text(item.get('id'))}/{text_id(kind, text(item.get('tool')), arguments)}"


def _reply_item(kind: str, words: str) -> dict[str, Any]:
    if kind == "reasoning":
        return {"type": "reasoning", "summary": [{"type": "summary_text", "text": words}]}
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": words}],
    }


def _tool_of(item: dict[str, Any]) -> str:
    other = f"mcp__{text(item.get('server'))}__{text(item.get('tool'))}"
    return TOOLS.get(text(item.get("type")), other)


def _arguments_of(item: dict[str, Any]) -> Any:
    if item.get("type") == "command_execution":
        return {"command": _command_words(text(item.get("command")))}
    return item.get("arguments") or {
        key: item[key] for key in ("command", "changes", "query", "tool") if item.get(key)
    }


def _returned(item: dict[str, Any], name: str, tool: str, arguments: Any) -> Item:
    output = item.get("result") or item.get("error") or item.get("aggregated_output")
    notice = {**item, "changes": _changes_by_path(item)}
    ended = tools.outcome_of(tool, "", notice, arguments)
    files = tools.files_of(tool, arguments, "", notice) if ended.status == "ok" else ()
    return Returned(
        id=name, status=ended.status, cause=ended.cause, output=strip_attachments(output),
        files=files, tool=tool, source=tools.source_of(tool),
    )  # fmt: skip


def _command_words(command: str) -> Any:
    """The words of a command: the shell, its options and the script. Any other command stays whole: in separate words
    a secret and its name would be told apart."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    is_shell = len(words) == 3 and words[1].startswith("-")
    return words if is_shell else command


def _changes_by_path(item: dict[str, Any]) -> dict[str, Any]:
    return {
        text(change.get("path")): {"type": change.get("kind")}
        for change in records(item.get("changes"))
        if text(change.get("path"))
    }
