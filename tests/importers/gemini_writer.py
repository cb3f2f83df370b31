"""Writes Gemini CLI chats with everything that can happen in one, for property tests.

A chat is a list of lines, and the numbers of lines after which it can come to a rest: a turn has ended, was
aborted, or the program was killed, and what follows is a resumed session or another prompt.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

SESSION = "5d1f0000-1111-4222-8333-444444444444"
PROMPTS = ("go", "go", "mend it", "/help", "read a.md")
TOOLS = ("shell", "shell", "failing", "todos", "bad todos", "edit", "agent", "cancelled")
CONTEXT = "<session_context>\nThis is the Gemini CLI.\n</session_context>"


@dataclass
class Chat:
    """The lines of a chat while they are written, and what Gemini CLI has in memory."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    rests: list[int] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    number: int = 0

    def name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}-{self.number}"

    @property
    def now(self) -> str:
        return f"2026-10-02T08:{self.number // 60 % 60:02}:{self.number % 60:02}.000Z"

    def record(self, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        """Record a message as Gemini CLI does: the message, then when that was."""
        message = {
            "id": self.name(kind),
            "timestamp": self.now,
            "type": kind,
            "content": content,
            **more,
        }
        self.push(message)
        self.lines.append({"$set": {"lastUpdated": self.now}})
        return message

    def push(self, message: dict[str, Any]) -> None:
        self.lines.append(json.loads(json.dumps(message)))
        self.history = [m for m in self.history if m["id"] != message["id"]] + [message]

    def see(self, messages: list[dict[str, Any]]) -> None:
        """Replace what the model sees."""
        self.history = messages
        self.lines.append({"$set": {"messages": messages, "lastUpdated": self.now}})

    @property
    def data(self) -> bytes:
        return "".join(json.dumps(line) + "\n" for line in self.lines).encode()


def write_turn(chat: Chat, draw: Any) -> None:
    """Write one turn: to its end, aborted, or killed."""
    known = list(chat.history)
    begin = len(chat.lines)
    chat.record("user", [{"text": draw(st.sampled_from(PROMPTS))}])
    for _ in range(draw(st.integers(0, 3))):
        write_step(chat, draw)
    write_answer(chat, draw, "Done.")
    end = draw(st.sampled_from(["done", "done", "aborted", "killed"]))
    if end == "aborted":  # the turn is taken out of the model's view
        chat.see(known)
    elif end == "killed":
        del chat.lines[draw(st.integers(begin + 1, len(chat.lines))) :]
        written = {line.get("id") for line in chat.lines}
        chat.history = [m for m in chat.history if m in known or m["id"] in written]
    chat.rests.append(len(chat.lines))
    for extra in draw(
        st.lists(st.sampled_from(["compact", "resume", "rewind", "info", "title"]), max_size=2)
    ):
        write_extra(chat, draw, extra)


def write_answer(chat: Chat, draw: Any, words: str) -> dict[str, Any]:
    tokens = {"input": 11, "output": 7, "cached": 0, "thoughts": 0, "tool": 0, "total": 18}
    model = draw(st.sampled_from(["gemini-a", "gemini-a", "gemini-b"]))
    late = draw(st.booleans())
    answer = chat.record("gemini", words, thoughts=[], tokens=None if late else tokens, model=model)
    if late:
        answer["tokens"] = tokens
        chat.push(answer)
    return answer


def write_step(chat: Chat, draw: Any) -> None:
    """Write an answer, then its calls as they end, then their results."""
    answer = write_answer(chat, draw, draw(st.sampled_from(["", "", "First the hole."])))
    kinds = draw(st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3))
    calls = [call_of(chat, kind) for kind in kinds]
    if draw(st.booleans()):
        chat.push({**answer, "toolCalls": calls[:1]})
    chat.push({**answer, "toolCalls": calls})
    if draw(st.booleans()):
        chat.record("info", "Still here.")
    elif draw(st.booleans()):
        chat.lines.append({"what": "is this"})
    chat.record("user", [part for call in calls for part in call["result"]])


def call_of(chat: Chat, kind: str) -> dict[str, Any]:
    tool, args, output, status = {
        "shell": ("run_shell_command", {"command": "cat a.md"}, "Output: a\nExit Code: 0", "success"),
        "failing": ("run_shell_command", {"command": "false"}, "Exit Code: 1", "success"),
        "todos": ("write_todos", {"todos": [{"description": "dig", "status": "pending"}]}, "ok", "success"),
        "bad todos": ("write_todos", {"todos": [{"description": "fly", "status": "pending"}]}, "no", "error"),
        "edit": ("write_file", {"file_path": "/home/dev/garden/a.md", "content": "a"}, "ok", "success"),
        "agent": ("delegate", {"agent_name": "bee"}, "flown", "success"),
        "cancelled": ("run_shell_command", {"command": "sleep 9"}, "User cancelled", "cancelled"),
    }[kind]  # fmt: skip
    name = chat.name(tool)
    shown = {"functionResponse": {"id": name, "name": tool, "response": {"output": output}}}
    agent = {"agentId": f"bee-{chat.number}"} if kind == "agent" else {}
    return {
        "id": name,
        "name": tool,
        "args": args,
        "status": status,
        "result": [shown],
        "timestamp": chat.now,
        **agent,
    }


def write_extra(chat: Chat, draw: Any, kind: str) -> None:
    if kind == "compact":
        summary = {"id": chat.name("sum"), "type": "user", "timestamp": chat.now,
                   "content": [{"text": "<state_snapshot>so far</state_snapshot>"}]}  # fmt: skip
        chat.see([summary, *chat.history[len(chat.history) // 2 + 1 :]])
    elif kind == "resume":
        write_resume(chat)
    elif kind == "rewind" and chat.history:
        target = draw(st.sampled_from(chat.history))["id"]
        chat.history = chat.history[: [m["id"] for m in chat.history].index(target)]
        chat.lines.append({"$rewindTo": target})
    elif kind == "info":
        chat.record("info", "Hello.")
    elif kind == "title":
        chat.lines.append({"$set": {"summary": "Planting"}})


def write_resume(chat: Chat) -> None:
    """Gemini CLI rebuilds what the model sees: without its context and notices, and with results beside
    each answer."""
    chat.lines.append({"$set": {"sessionId": SESSION}})
    rebuilt: list[dict[str, Any]] = []
    for message in chat.history:
        words = str(message["content"])
        if message["type"] == "info" or "/help" in words or "session_context" in words:
            continue
        rebuilt.append(message)
        results = [part for call in message.get("toolCalls") or [] for part in call["result"]]
        if results:
            rebuilt.append({"id": f"{message['id']}_response", "type": "user", "content": results})
    context = {"id": chat.name("ctx"), "type": "user", "content": [{"text": CONTEXT}]}
    chat.see([context, *rebuilt])


@st.composite
def chats(draw: st.DrawFn) -> Chat:
    """A chat of some turns."""
    chat = Chat()
    chat.lines.append(
        {
            "sessionId": SESSION,
            "projectHash": "h",
            "kind": draw(st.sampled_from(["main", "subagent"])),
        }
    )
    chat.see([{"id": "ctx-0", "type": "user", "content": [{"text": CONTEXT}]}])
    for _ in range(draw(st.integers(1, 4))):
        write_turn(chat, draw)
    return chat
