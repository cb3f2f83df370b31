"""Sessions in which a model talks and calls tools, as commits of the memory store.

`Talk` appends what a driver would, by the same conventions; nothing here renders. `moves` is a
Hypothesis strategy of things that may happen in any order, and `tell` performs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st

from stator.errors import NotFound
from stator.model.log.commit import Commit, Draft, Upsert
from stator.model.records.types import ScratchRecord
from stator.model.values.json_text import canonical
from stator.model.window.reply import requests
from stator.runtime.window.compaction import CompactionOptions, propose, undoing
from stator.runtime.window.transcript import Rendering
from stator.store.contract.drive import Story, begin
from stator.store.memory import MemoryStore

# --- responses ----------------------------------------------------------------------------------


def response(dialect: str, text: str = "", *calls: tuple[Any, str, Any], thinking: str = "") -> Any:
    """A response of that dialect: text, and calls as (id, name, arguments)."""
    return _RESPONSES[dialect](text, calls, thinking)


def _anthropic(text: str, calls: Any, thinking: str) -> Any:
    content: list[Any] = []
    if thinking:
        content.append({"type": "thinking", "thinking": thinking, "signature": "c2lnbmVk"})
    if text:
        content.append({"type": "text", "text": text, "citations": None})
    for identifier, name, given in calls:
        content.append({"type": "tool_use", "id": identifier, "name": name, "input": given})
    stop = "tool_use" if calls else "end_turn"
    usage = {"input_tokens": 9, "output_tokens": 3}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "content": content,
        "stop_reason": stop, "stop_sequence": None, "usage": usage,
    }  # fmt: skip


def _openai(text: str, calls: Any, thinking: str) -> Any:
    output: list[Any] = []
    if thinking:
        output.append({"type": "reasoning", "id": f"rs_{thinking}", "summary": [], "status": None})
    if text:
        part: dict[str, Any] = {
            "type": "output_text",
            "text": text,
            "annotations": [],
            "logprobs": None,
        }
        output.append(
            {"type": "message", "id": f"msg_{text}", "role": "assistant", "status": "completed",
             "content": [part]}
        )  # fmt: skip
    for identifier, name, given in calls:
        item = {"type": "function_call", "call_id": identifier, "name": name}
        output.append(item | {"arguments": _written(given), "status": "completed"})
    return {"id": "resp_1", "object": "response", "output": output, "status": "completed"}


def _chat(text: str, calls: Any, thinking: str) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if thinking:
        message["reasoning_content"] = thinking
    message["tool_calls"] = [
        {"id": i, "type": "function", "function": {"name": n, "arguments": _written(g)}}
        for i, n, g in calls
    ] or None
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message}]}


def _written(given: Any) -> Any:
    return given if isinstance(given, str) else canonical(given)


_RESPONSES = {
    "anthropic": _anthropic,
    "openai": _openai,
    "openai-chat": _chat,
    "plain": lambda text, calls, thinking: text,
}


# --- a session ----------------------------------------------------------------------------------


class Talk:
    """A driven session; every method appends and returns what it appended."""

    def __init__(self, story: Story | None = None) -> None:
        self.story = story or begin(MemoryStore()).drive()
        self.fresh: list[Commit] = []
        """Commits that have not been read yet."""

    def add(self, draft: Draft) -> Commit:
        commit = self.story.add(draft)
        self.fresh.append(commit)
        return commit

    def take(self) -> list[Commit]:
        taken, self.fresh = self.fresh, []
        return taken

    def make(self, kind: str, *changes: Any, **fields: Any) -> Commit:
        return self.add(self.story.drafts.make(kind, *changes, **fields))

    def turn(self, prompt: Any = "go on") -> Commit:
        return self.make("turn", actor="user", input=prompt)

    def turn_end(self, status: str = "ok") -> Commit:
        return self.make("turn_end", status=status)

    def goes_on(self) -> Commit:
        """Open the last turn again, without a prompt."""
        return self.make("turn", actor="user", status="continued")

    def answer(self, said: Any, **fields: Any) -> Commit:
        return self.make("entry", actor="model", output=said, **fields)

    def note(self, text: str) -> Commit:
        return self.make("entry", actor="user", output=text)

    def call(self, entry: Commit, index: int = 0, **fields: Any) -> Commit:
        """Start the call that an answer requested."""
        request = requests(entry.value("output"))[index]
        origin = ("model", f"{entry.seq}/{index}/{request.id}")
        fields = {"status": "started"} | fields
        draft = self.story.drafts.call(
            request.name or "tool", request.arguments, origin=origin, **fields
        )
        return self.add(draft)

    def by_hand(self, tool: str = "look", **fields: Any) -> Commit:
        return self.add(self.story.drafts.call(tool, {"at": "it"}, status="started", **fields))

    def outcome(
        self, call: Commit, status: str = "ok", value: Any = "done", cause: str = ""
    ) -> Commit:
        return self.add(self.story.drafts.outcome(call, value, status=status, cause=cause))

    def doubt(self, call: Commit, cause: str = "process died") -> Commit:
        return self.add(self.story.drafts.in_doubt(call, cause))

    def approve(self, call: Commit) -> Commit:
        """Append the driver's commit that starts a call after its approval."""
        return self.make("approval", call=call.call, status="started")

    def settle(
        self, call: Commit, status: str = "ok", cause: str = "done", **fields: Any
    ) -> Commit:
        return self.make(
            "settlement", call=call.call, tool=call.tool, status=status, cause=cause, **fields
        )

    def compact(self, **options: Any) -> Commit | None:
        """Compact as the library does; None if there was nothing to compact."""
        store, session = self.story.store, self.story.session
        transcript = Rendering(store, session).current()
        proposal = propose(store, session, transcript, CompactionOptions(**options))
        if not proposal.found.levels:
            return None
        return self._compaction(**proposal.fields(store))

    def uncompact(self) -> Commit | None:
        """Undo the last compaction, if there is one."""
        try:
            _, fields = undoing(self.story.store, self.story.session)
        except NotFound:
            return None
        return self._compaction(**fields)

    def _compaction(self, *, changes: tuple[Any, ...], **fields: Any) -> Commit:
        return self.make("compaction", *changes, actor="system", **fields)

    def erase(self, seq: int, *names: str) -> Commit:
        """Erase fields of a commit (all if none is named), as the library does."""
        said = {"seq": seq, "fields": list(names), "collection": "", "id": ""}
        draft = self.story.drafts.erase(seq, *names)
        return self.add(msgspec.structs.replace(draft, input=said))

    @property
    def log(self) -> list[Commit]:
        return self.story.log


# --- random moves --------------------------------------------------------------------------------

dialects = st.sampled_from(["anthropic", "openai", "openai-chat", "plain"])
words = st.sampled_from(["", " ", "ok", "ends in space \n", "‹…› ünï \ud800", '{"a":1}'])
values = st.sampled_from(
    [
        None,
        "",
        " ",
        "text",
        {"b": 1, "a": [2.5, None]},
        2**60,
        b"\x00\xff",
        (1, 2),
        "\udfff",
        "[end of note]",
    ]
)
call_ids = st.sampled_from(
    [
        *("toolu_1", "toolu_2", "toolu_3", "toolu_4", "toolu_5"),
        "call_5_0",
        "",
        None,
        "a.b|c",
        "x" * 60,
    ]
)
names = st.sampled_from(["read", "pay", "fs.read", "", "n" * 70])
arguments = st.sampled_from(
    [{}, {"path": "a.py"}, {"n": 1.5, "s": "\ud800"}, '{"cut": "o', "", "[1]", "7"]
)
prompts = st.one_of(
    words,
    st.sampled_from(
        [
            [{"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}}],
            [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "AA=="},
                }
            ],
            [
                {"type": "input_text", "text": " "},
                {"type": "input_image", "image_url": "https://x/y"},
            ],
            [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}],
            [
                {"type": "document", "source": {"type": "text", "data": "d"}},
                {"type": "text", "text": "?"},
            ],
            [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "forged"}],
            [{"type": "text"}],
            [],
            None,
            {"any": "value"},
        ]
    ),
)
nth = st.integers(0, 7)
TWO_CALLS = [("toolu_8", "read", {"path": "a.py"}), ("toolu_9", "pay", {"amount": 5})]
answers = st.tuples(
    st.just("answer"),
    dialects,
    words,
    st.lists(st.tuples(call_ids, names, arguments), max_size=3) | st.just(TWO_CALLS),
    st.sampled_from(["", "hmm", "well"]),
    st.sampled_from(["partial", *[""] * 7]),
)
endings = st.sampled_from(
    [*("ok", "ok", "ok", "error", "timeout", "cancelled", "denied", "in doubt", "in doubt")]
)
steering = st.one_of(
    st.tuples(st.just("prompt"), prompts),
    st.tuples(st.just("end"), st.sampled_from(["ok", "aborted", "interrupted"])),
    st.tuples(st.just("continue")),
    st.tuples(st.just("note"), words),
)
running = st.tuples(st.just("run"), nth, endings, values)
calling = st.one_of(
    running,
    running,
    st.tuples(st.just("call"), nth, st.sampled_from(["started", "started", "awaiting approval"])),
    st.tuples(st.just("approve"), nth),
    st.tuples(st.just("outcome"), nth, endings, values),
    st.tuples(st.just("outcome"), nth, endings, values),
    st.tuples(st.just("again"), nth),
    st.tuples(st.just("settle"), nth, st.sampled_from(["ok", "error"]), values),
    st.tuples(st.just("by hand"), nth),
)
erasing = st.tuples(st.just("erase"), st.integers(0, 40))
keeping = st.one_of(
    st.tuples(
        st.just("compact"),
        st.integers(1, 3),
        st.sets(st.sampled_from(["outputs", "mask", "summarise"]), min_size=1),
        st.sampled_from(["so far so good", "[end of note]\n[erased] \ud800", None]),
    ),
    st.tuples(st.just("uncompact")),
    st.tuples(st.just("know"), nth),
)
"""Compactions, and what they have to leave alone."""


def _rounds(*others: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Rounds of a loop: perhaps a prompt, then an answer of the model, then events of calls."""
    begin = st.lists(steering, max_size=2)
    meanwhile = st.lists(st.one_of(calling, *others), min_size=1, max_size=6)
    round_ = st.tuples(begin, answers, meanwhile).map(lambda r: [*r[0], r[1], *r[2]])
    return st.lists(round_, min_size=1, max_size=6).map(
        lambda rounds: [move for r in rounds for move in r]
    )


moves = _rounds()
moves_and_erasures = _rounds(erasing)
moves_and_compactions = _rounds(keeping, keeping, keeping)
everything = _rounds(keeping, keeping, erasing)


def tell(script: list[Any]) -> Iterator[list[Commit]]:
    """Perform the moves one by one, skipping those that do not apply; yields the new commits."""
    for talk in played(script):
        yield talk.take()


def played(script: list[Any]) -> Iterator[Talk]:
    """Perform the moves; yields the session after each."""
    player = _Player()
    for move in script:
        player.play(*move)
        yield player.talk


def log_of(script: list[Any]) -> list[Commit]:
    return talk_of(script).log


def talk_of(script: list[Any]) -> Talk:
    player = _Player()
    for move in script:
        player.play(*move)
    return player.talk


class _Player:
    def __init__(self) -> None:
        self.talk = Talk()
        self.turn_open = False
        self.turns = 0
        self.asked: list[tuple[Commit, int]] = []
        self.calls: list[Commit] = []
        """The latest attempt of each call begun."""
        self.status: dict[str, str] = {}

    def play(self, move: str, *given: Any) -> None:
        getattr(self, "_" + move.replace(" ", "_"))(*given)

    def _prompt(self, prompt: Any) -> None:
        self._end("interrupted")
        self.talk.turn(prompt)
        self.turn_open = True
        self.turns += 1

    def _end(self, status: str) -> None:
        if self.turn_open:
            self.talk.turn_end(status)
            self.turn_open = False

    def _continue(self) -> None:
        if self.turns and not self.turn_open:
            self.talk.goes_on()
            self.turn_open = True

    def _note(self, text: str) -> None:
        self.talk.note(text)

    def _answer(self, dialect: str, text: str, calls: Any, thinking: str, status: str) -> None:
        said = response(dialect, text, *calls, thinking=thinking)
        entry = self.talk.answer(said, status=status)
        if not status:
            self.asked += [(entry, n) for n in range(len(requests(said)))]

    def _call(self, n: int, status: str) -> None:
        """Start the nth newest request that has not started."""
        if self.asked:
            entry, index = self.asked.pop(-1 - n % len(self.asked))
            self._begun(self.talk.call(entry, index, status=status), status)

    def _run(self, n: int, status: str, value: Any) -> None:
        """Start a request and record its end."""
        if self.asked:
            self._call(n, "started")
            self._outcome(0, status, value, self.calls[-1])

    def _begun(self, call: Commit, status: str) -> None:
        self.calls = [c for c in self.calls if c.call != call.call] + [call]
        self.status[call.call] = status

    def _pick(self, n: int, *statuses: str) -> Commit | None:
        fitting = [call for call in self.calls if self.status[call.call] in statuses]
        return fitting[-1 - n % len(fitting)] if fitting else None

    def _approve(self, n: int) -> None:
        if call := self._pick(n, "awaiting approval"):
            self.talk.approve(call)
            self.status[call.call] = "started"

    def _outcome(self, n: int, status: str, value: Any, call: Commit | None = None) -> None:
        call = call or self._pick(n, "started", "awaiting approval", "in doubt")
        if call is None:
            return
        if status == "in doubt":
            self.talk.doubt(call)
        elif status == "ok":
            self.talk.outcome(call, value=value)
        else:
            said = {"error": "Oops", "message": "went wrong", "attempted": value}
            self.talk.outcome(call, status, said, cause="because")
        self.status[call.call] = status

    def _again(self, n: int) -> None:
        if call := self._pick(n, "error", "timeout", "cancelled"):
            draft = self.talk.story.drafts.call(
                call.tool,
                {},
                call=call.call,
                attempt=call.attempt + 1,
                origin=call.origin,
                status="started",
            )
            self._begun(self.talk.add(draft), "started")

    def _settle(self, n: int, status: str, value: Any) -> None:
        if call := self._pick(n, "in doubt"):
            known = {} if value is None else {"output": value}
            self.talk.settle(call, status, "late result" if status == "ok" else "not done", **known)
            self.status[call.call] = status

    def _know(self, n: int) -> None:
        """Record something durable, and a note."""
        drafts = self.talk.story.drafts
        self.talk.add(drafts.decision(f"do {n}", topic=f"topic {n % 3}" if n % 2 else ""))
        self.talk.add(drafts.fact(f"fact {n % 3}", n))
        self.talk.add(drafts.file(f"{n % 3}.py"))
        self.talk.make("scratch", Upsert("scratch", ScratchRecord(name=f"note {n}", value=n)))

    def _compact(self, keep: int, strategy: set[str], summary: str | None) -> None:
        self.talk.compact(keep=keep, strategy=tuple(strategy), summary=summary)

    def _uncompact(self) -> None:
        self.talk.uncompact()

    def _by_hand(self, n: int) -> None:
        parent = self.calls[n % len(self.calls)].call if self.calls else ""
        self.talk.outcome(self.talk.by_hand(parent=parent), value="unseen")

    def _erase(self, n: int) -> None:
        log = [
            (c, name) for c in self.talk.log for name in _ERASABLE.get(c.kind, ()) if c.has(name)
        ]
        if log:
            commit, name = log[n % len(log)]
            self.talk.erase(commit.seq, name)
            self.asked = [(entry, i) for entry, i in self.asked if entry.seq != commit.seq]


_ERASABLE = {
    "turn": ["input"],
    "entry": ["output"],
    "outcome": ["output"],
    "settlement": ["output"],
}
