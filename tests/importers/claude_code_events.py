"""Writes Claude Code transcripts from lists of events that Hypothesis makes up."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from importers.claude_code_writer import TranscriptWriter, as_block

EVENTS = (
    "prompt report meta message message parallel parallel agent old_agent launch compact interrupt stopped noise"
    " settings attachment unknown broken repeated title late continued api_error ide task"
).split()
Event = tuple[str, int]

transcripts = st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 7)), max_size=14)


class EventWriter:
    """Plays events into a transcript. `rests` are the numbers of lines after which the agent may have been away for
    a long time, or may have been started again."""

    def __init__(self, file: TranscriptWriter) -> None:
        self.file = file
        self.rests: list[int] = []
        self.messages = 0
        self.lines = 0
        self.open: list[str] = []
        self.closed: list[str] = []
        self._raw = file.raw
        file.raw = self._counted  # type: ignore[method-assign]

    def _counted(self, text: str | bytes) -> None:
        self.lines += 1
        self._raw(text)

    def play(self, events: list[Event]) -> None:
        self.file.prompt("go", promptId="p-0")
        self.rest()
        for name, number in events:
            getattr(self, f"_{name}")(number)
            self.rest()

    def rest(self) -> None:
        self.rests.append(self.lines)

    # -- messages ---------------------------------------------------------------------------------

    def _say(self, blocks: list[Any], number: int, **fields: Any) -> str:
        """Write a message, a line for each block; results of earlier blocks may come between them."""
        self.messages += 1
        message = f"msg_{self.messages}"
        has_calls = any(isinstance(block, tuple) for block in blocks)
        stop = [None, "tool_use" if has_calls else "end_turn"][number % 2]
        waiting: list[str] = []
        for place, block in enumerate(blocks):
            self.file.says(message, block, stop=stop, **fields)
            if isinstance(block, tuple):
                waiting.append(block[0])
            if waiting and place < len(blocks) - 1 and (number + place) % 3 == 0:
                self._answer(waiting.pop(0), number + place, **fields)
            if number % 4 == 3:
                self._noise(place)
        self.rest()
        self.open += waiting
        self.closed.append(message)
        return message

    def _answer(self, call: str, number: int, **fields: Any) -> None:
        self.file.result(call, f"said {number}", error=number % 5 == 4, **fields)

    def _call(self, number: int) -> tuple[str, str, dict[str, Any]]:
        name = ["Bash", "Read", "Write", "Edit", "TodoWrite", "mcp__x__y"][number % 6]
        given = {"command": "rm a.py", "file_path": "/home/dev/demo/a.py", "content": "x"}
        given |= {"old_string": "x", "new_string": "y"}
        todos = [{"content": f"step {number}", "status": "pending"}]
        return f"toolu_{self.messages}_{number}", name, {**given, "todos": todos}

    def _message(self, number: int) -> None:
        thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
        self._say([thought, "a word", "another"][: number % 3 + 1], number)

    def _parallel(self, number: int) -> None:
        calls = [self._call(number + place) for place in range(number % 4 + 1)]
        self._say(["I will.", *calls], number)
        self._results(number)

    def _results(self, number: int) -> None:
        for call in list(self.open[: max(1, number)]):
            self.open.remove(call)
            self._answer(call, number)
            self.rest()

    def _task(self, number: int) -> None:
        self.messages += 1
        message, call = f"msg_{self.messages}", f"toolu_t{self.messages}"
        if number % 2:
            self.file.says(message, (call, "TaskUpdate", {"taskId": "1", "status": "completed"}))
        else:
            self.file.says(message, (call, "TaskCreate", {"subject": f"task {number}"}))
        self.rest()
        self.file.result(call, f"Task #{number % 3} done")

    def _late(self, number: int) -> None:
        self._say([self._call(number)], 1)
        call = self.open.pop()
        self._say(["first"], 0)
        self._answer(call, number)

    def _continued(self, number: int) -> None:
        """A message that continues after another one."""
        self._say(["between"], number)
        if len(self.closed) > 1:
            self.file.says(self.closed[-2], f"more {number}")

    def _api_error(self, number: int) -> None:
        body: dict[str, Any] = {"id": f"e{number}", "model": "<synthetic>", "role": "assistant"}
        body["content"] = [as_block("API Error")]
        self.file.line("assistant", message=body, isApiErrorMessage=True)

    # -- sub-agents -------------------------------------------------------------------------------

    def _agent(self, number: int) -> None:
        self._run_agent(number, {"agentId": f"a{self.messages}"})

    def _old_agent(self, number: int) -> None:
        self._run_agent(number, {})

    def _run_agent(self, number: int, named: dict[str, str]) -> None:
        self.messages += 1
        message, call = f"msg_{self.messages}", f"toolu_a{self.messages}"
        given = {"description": "look", "prompt": f"look around {self.messages}"}
        self.file.says(message, "I ask.", (call, "Task", given))
        self.rest()
        side: dict[str, Any] = {"isSidechain": True, **named}
        last = self.file.prompt(given["prompt"], parentUuid=None, **side)
        for step in range(number % 3 + 1):
            inner = f"{call}_{step}"
            says = f"msg_{self.messages}_{step}"
            last = self.file.says(says, "looking", parentUuid=last, **side)
            last = self.file.says(says, (inner, "Grep", {}), parentUuid=last, **side)
            self.rest()
            last = self.file.result(inner, "found", parentUuid=last, **side)
            self.rest()
        result = {"status": "completed", "prompt": given["prompt"], **named}
        self.file.result(call, "done", toolUseResult=result)

    def _launch(self, number: int) -> None:
        self.messages += 1
        call, agent = f"toolu_b{self.messages}", f"b{self.messages}"
        self.file.says(f"msg_{self.messages}", (call, "Agent", {"description": "behind"}))
        self.rest()
        result = {"isAsync": True, "status": "async_launched", "agentId": agent}
        self.file.result(call, "launched", toolUseResult=result)
        if number % 2:
            self._say(["waiting"], number)
            self._notify(agent, call)

    def _notify(self, task: str, call: str) -> None:
        fields = f"<task-id>{task}</task-id><tool-use-id>{call}</tool-use-id>"
        text = f"<task-notification>{fields}<status>completed</status></task-notification>"
        self.file.prompt(text, origin={"kind": "task-notification"}, promptId=f"n-{task}")

    # -- other lines ------------------------------------------------------------------------------

    def _prompt(self, number: int) -> None:
        self.file.prompt(f"do {number}", promptId=f"p-{self.lines}", permissionMode="default")

    def _ide(self, number: int) -> None:
        self.file.prompt(
            [as_block(f"<ide_selection>{number}</ide_selection>"), as_block("fix it")],
            promptId=f"p-{self.lines}",
        )

    def _report(self, number: int) -> None:
        self._notify(f"bash{number}", "toolu_none")

    def _meta(self, number: int) -> None:
        texts = ["<system-reminder>x</system-reminder>", "Stop hook feedback: no", "a skill"]
        self.file.prompt(texts[number % 3], isMeta=True)

    def _compact(self, number: int) -> None:
        kept = {"uuids": [f"u{max(1, self.file.count - number)}"]}
        about = {"trigger": "auto", "preTokens": 9, "preservedMessages": kept}
        self.file.line("system", subtype="compact_boundary", compactMetadata=about)
        if number % 3 < 2:
            self.file.prompt(f"a summary {number}", isCompactSummary=True)
        else:  # the next line of any kind shows that there is no summary
            self._meta(number)

    def _interrupt(self, number: int) -> None:
        suffix = " for tool use" if number % 2 else ""
        self.file.prompt([as_block(f"[Request interrupted by user{suffix}]")])

    def _stopped(self, number: int) -> None:
        self.file.line("system", subtype=["stop_hook_summary", "turn_duration"][number % 2])

    def _noise(self, number: int) -> None:
        kind = ["progress", "queue-operation", "last-prompt", "file-history-snapshot"][number % 4]
        self.file.line(kind, data={"type": "hook_progress"})

    def _settings(self, number: int) -> None:
        if number % 2:
            self.file.line("permission-mode", permissionMode=["plan", "default"][number % 4 // 2])
        else:
            self.file.line("mode", mode=["normal", "other"][number % 4 // 2])

    def _attachment(self, number: int) -> None:
        kinds: list[dict[str, Any]] = [
            {"type": "file", "filename": "/home/dev/demo/a.py", "content": "x"},
            {"type": "hook_additional_context", "content": ["checked"]},
            {"type": "instructions", "files": [{"path": "/a/CLAUDE.md", "content": f"{number}"}]},
            {"type": "queued_command", "prompt": "also this"},
            {"type": "date", "date": "2026-03-01"},
        ]
        self.file.line("attachment", attachment=kinds[number % 5])

    def _unknown(self, number: int) -> None:
        self.file.line("hologram", data={"x": number})

    def _broken(self, number: int) -> None:
        self.file.raw([b"{", b"[1]", b"\0\0", b"", b'{"type": ["a"]}'][number % 5])

    def _repeated(self, number: int) -> None:
        lines = self.file.path.read_bytes().splitlines()
        self.file.raw(lines[-1 - number % len(lines)])

    def _title(self, number: int) -> None:
        if number % 2:
            self.file.raw(json.dumps({"type": "ai-title", "aiTitle": f"title {number}"}))
        else:
            self.file.raw(json.dumps({"type": "custom-title", "customTitle": f"name {number}"}))
