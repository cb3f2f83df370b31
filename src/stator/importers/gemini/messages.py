"""Turns the records of a Gemini CLI chat into items.

A line is the session's own record, a message, a change to either (`$set`), or a rewind
(`$rewindTo`). A message may be repeated under its id with more content: the calls of an answer come
with its second version, and only after they have ended. So an answer is held back until another
message, a rewind or a new view of the model shows that no further version comes. If one comes all the
same (the answer was given at rest), its addition becomes an answer of its own, `<id>+<blocks before>`.

The messages in a `$set` replace what the model sees. Gemini CLI writes them when it compacts the
conversation, and also when a session is resumed (without its own context and notices) and when a turn is
aborted (without that turn). Only the first is a compaction: what came first has left the view, and a
summary is in its place.

Answers become content blocks, because none of our providers' dialects is Gemini's: text, and calls
under the same ids that hooks derive (see `tools`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stator.importers.gemini import tools
from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.fields import (
    assistant_message,
    headline,
    micros_of_iso,
    record,
    records,
    text,
    tool_use_block,
    whole_number,
)
from stator.importers.reading.jsonl import JsonlLine
from stator.importers.reading.line_boundary import whole_line
from stator.importers.reading.plain_text import plain_text, redaction_stable
from stator.model.exchange.items import (
    About,
    Answered,
    Called,
    Compacted,
    Configured,
    Conversation,
    Cursor,
    Item,
    Noise,
    Noted,
    Planned,
    Prompted,
    Returned,
    Spawned,
    Unknown,
    text_id,
)
from stator.model.exchange.own_notes import deliveries, is_own, notes_in, result_apart
from stator.model.log.shown_text import cut_short

INJECTED = ("<session_context>",)
"""Beginnings of messages that Gemini CLI sends in the user's name."""
SUMMARY = "<state_snapshot>"
"""How the summary of a compaction begins."""
SUMMARY_MARK = "s"
"""How the summary of a compaction is marked among what the model sees."""
COMMANDS = ("/", "?")
"""Beginnings of commands to Gemini CLI itself; the model does not see them."""
IGNORED = frozenset({"info", "warning", "error"})
RESPONSE = "_response"
"""What Gemini CLI puts after the id of an answer to name the results it rebuilds when it resumes."""
VIEW_MAX = 2_000
PROMPTS_MAX = 1_000
CALLS_MAX = 500
ANSWERS_MAX = 4
"""The most messages of the model's view, different prompts, different calls of a turn, and newest answers
that are remembered."""
NAME_MAX = 200
"""The most characters of a name that is remembered."""
DIGITS = 12
"""The characters of a digest that is remembered."""


class GeminiReader:
    """Reads the records of one chat. Of earlier turns it keeps digests and counts."""

    def __init__(self, conversation: Conversation) -> None:
        self._cwd = conversation.cwd
        self._is_child = bool(conversation.parent)
        self._view: dict[str, str] = {}
        """What the model sees: the digest of a message's id → how often its prompt occurred before, "s" for
        a summary, "" for anything else."""
        self._is_view_cut = False
        self._prompt_counts: dict[str, int] = {}
        self._prompt = ""
        self._call_counts: dict[str, int] = {}
        self._answers: dict[str, dict[str, Any]] = {}
        """The newest answers, by digest: how many blocks were given, whether the cost was, and the calls: the
        provider's id → the id of the item, and whether it has a result."""
        self._model = ""
        self._configured = 0
        self._compactions = 0
        self._answer: dict[str, Any] = {}
        self._line = 0

    # -- reading record by record ------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that must be known after the records read so far, provided that nothing is held back."""
        return {
            "child": self._is_child,
            "view": ",".join(f"{name}:{mark}" for name, mark in self._view.items()),
            "view cut": self._is_view_cut,
            "prompts": dict(self._prompt_counts),
            "prompt": self._prompt,
            "calls": dict(self._call_counts),
            "answers": {name: _copied(known) for name, known in self._answers.items()},
            "model": self._model,
            "configured": self._configured,
            "compactions": self._compactions,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over the state of a reader that has read the records before."""
        pairs = (entry.partition(":") for entry in text(state.get("view")).split(",") if entry)
        self._is_child = state.get("child") is True
        self._view = {name: mark for name, _, mark in pairs}
        self._is_view_cut = state.get("view cut") is True
        self._prompt_counts = dict(record(state.get("prompts")))
        self._prompt = text(state.get("prompt"))
        self._call_counts = dict(record(state.get("calls")))
        answers = record(state.get("answers"))
        self._answers = {name: _copied(known) for name, known in answers.items()}
        self._model = text(state.get("model"))
        self._configured = whole_number(state.get("configured"))
        self._compactions = whole_number(state.get("compactions"))

    @property
    def holds(self) -> bool:
        """Whether an answer is held back."""
        return bool(self._answer)

    def rest(self) -> Iterator[Item]:
        """Give the current answer as far as it is written. An empty one waits for its calls."""
        if _block_count(self._answer):
            yield from self._close()

    def let_go(self) -> Iterator[Item]:
        """Give the current answer."""
        return self._close()

    @property
    def held_blocks(self) -> dict[str, int]:
        """The answer that is held back, by its digest, and how many blocks it has."""
        count = _block_count(self._answer)
        return {_digest(text(self._answer.get("id"))): count} if count else {}

    def items(self, value: dict[str, Any], line: JsonlLine) -> Iterator[Item]:
        """Yield the items that a line adds."""
        self._line = line.number
        if isinstance(value.get("$rewindTo"), str):
            yield from self._rewound(value["$rewindTo"], line)
        elif isinstance(value.get("$set"), dict):
            yield from self._set(value["$set"])
        elif isinstance(value.get("id"), str) and isinstance(value.get("type"), str):
            yield from self._read_message(value)
        elif isinstance(value.get("sessionId"), str):
            yield from self.begin(value)
            for number, message in enumerate(records(value.get("messages")), line.number):
                yield from whole_line(self._read_message(message), number)
        else:
            yield Unknown(id=f"line/{line.number}", raw=strip_attachments(value))

    def begin(self, meta: dict[str, Any]) -> Iterator[Item]:
        """Yield what the session's own record says."""
        self._is_child = self._is_child or meta.get("kind") == "subagent"
        yield About(
            at=micros_of_iso(meta.get("startTime")), name=headline(text(meta.get("summary")))
        )

    def document_message(self, message: dict[str, Any], number: int) -> Iterator[Item]:
        """Yield what a message of a document adds."""
        self._line = number
        return self._read_message(message)

    def _read_message(self, message: dict[str, Any]) -> Iterator[Item]:
        name, kind = text(message.get("id")), text(message.get("type"))
        if name != self._answer.get("id"):
            yield from self._close()
        if kind == "gemini":
            known = _digest(name)
            is_current = name == self._answer.get("id")
            if is_current or known in self._answers or known not in self._view:
                self._answer = message
            else:
                yield Noise(kind="message/repeated")
            self._see(name, self._view.get(known, ""))
        elif kind == "user":
            if _digest(name) not in self._view:
                yield from self._user(message)
        elif kind in IGNORED:
            yield Noise(kind=f"message/{kind}")
        else:
            yield Unknown(
                id=name, at=micros_of_iso(message.get("timestamp")), raw=strip_attachments(message)
            )

    def _see(self, name: str, mark: str = "") -> None:
        """Remember that the model sees a message."""
        self._view[_digest(name)] = mark
        if len(self._view) > VIEW_MAX:
            del self._view[next(iter(self._view))]
            self._is_view_cut = True

    # -- user messages and rewinds ----------------------------------------------------------------

    def _user(self, message: dict[str, Any]) -> Iterator[Item]:
        name, at = text(message["id"]), micros_of_iso(message.get("timestamp"))
        answers = _responses(message)
        words = text_of_message(message)
        self._see(name)
        if answers:
            yield from self._late_results(answers, at)
        elif words.lstrip().startswith(INJECTED):
            yield Noted(id=name, at=at, content=words)
        elif words.lstrip().startswith(SUMMARY):
            yield Noise(kind="message/summary")  # the compaction itself has it
        elif is_own(words):
            yield Noted(id=name, at=at, content=plain_text(message.get("content")))
        elif not words.strip() and (added := plain_text(message.get("content")).strip()):
            yield Noted(id=name, at=at, content=added)  # only text that hooks added
        elif words.lstrip().startswith(COMMANDS):
            yield Noise(kind="message/command")
        else:
            yield self._begin(name, words, message.get("content"), at)
            given = plain_text(message.get("content"))
            # what hooks add is escaped, what a person types is not
            notes = [note for note in notes_in(given) if given.startswith("&lt;", note.start)]
            yield from deliveries(Noted(id=name, at=at, content=""), notes)

    def _begin(self, name: str, words: str, content: Any, at: int) -> Item:
        digest = text_id(redaction_stable(words))[:DIGITS]
        before = self._prompt_counts.pop(digest, 0)
        self._prompt_counts[digest] = before + 1
        if len(self._prompt_counts) > PROMPTS_MAX:
            del self._prompt_counts[next(iter(self._prompt_counts))]
        self._prompt = tools.prompt_id(words, before)
        self._see(name, str(before))
        self._call_counts = {}
        plain = all(set(part) == {"text"} for part in records(content))
        return Prompted(
            id=self._prompt,
            at=at,
            content=words if plain else strip_attachments(_typed(content)),
            by="agent" if self._is_child else "user",
        )

    def _rewound(self, target: str, line: JsonlLine) -> Iterator[Item]:
        yield from self._close()
        names = list(self._view)
        goal = _digest(target)
        left = names[names.index(goal) :] if goal in self._view else names
        for name in left:
            del self._view[name]
        note = f"[went back: {len(left)} messages were taken out]"
        yield Noted(id=f"rewind/{line.number}", content=note, by="user")

    # -- what the model sees -----------------------------------------------------------------------

    def _set(self, change: dict[str, Any]) -> Iterator[Item]:
        if text(change.get("summary")):
            yield from self._close()  # a title is made when a session is over
            yield About(name=headline(text(change["summary"])))
        if not isinstance(change.get("messages"), list):
            yield Noise(kind="$set")
            return
        yield from self._close()
        messages = [m for m in records(change["messages"]) if isinstance(m.get("id"), str)]
        names = {_digest(message["id"]) for message in messages}
        summary = self._summary(messages) if self._has_left(names) else None
        if summary is not None:
            yield self._compacted(messages, summary, micros_of_iso(change.get("lastUpdated")))
        else:
            for message in messages:
                if self._is_new(message):
                    yield from self._read_message(message)
            yield from self._close()
            yield Noise(kind="$set/messages")
        # After a compaction, what left the view is seen no more. Otherwise it may come back: a program that resumes a
        # conversation begins with an empty view, and then restores it. Known messages keep their marks.
        known = self._view
        if summary is not None:
            self._view, self._is_view_cut = {}, False
        for message in messages:
            self._see(message["id"], known.get(_digest(message["id"]), ""))
        if summary is not None:
            self._see(summary["id"], SUMMARY_MARK)

    def _is_new(self, message: dict[str, Any]) -> bool:
        """Whether a message of the model's view is not in the chat yet. Results that Gemini CLI rebuilds
        are; and so is anything but its context if the view is too long to be remembered."""
        name = message["id"]
        if _digest(name) in self._view or _digest(name.removesuffix(RESPONSE)) in self._view:
            return False
        return not self._is_view_cut or text_of_message(message).lstrip().startswith(INJECTED)

    def _has_left(self, names: set[str]) -> bool:
        """Whether something that the model saw is not among these messages. A resume leaves out prompts to which a
        hook added text; so any message counts, unless only the last of them are remembered."""
        if not self._is_view_cut:
            return any(name not in names for name in self._view)
        first = next((name for name, mark in self._view.items() if mark), "")
        return bool(first) and first not in names

    def _summary(self, messages: list[dict[str, Any]]) -> dict[str, Any] | None:
        """The message that stands for what left the model's view; None if there is none."""
        for message in messages:
            words = text_of_message(message).lstrip()
            if message.get("type") != "user" or _responses(message) or not words:
                continue
            mark = self._view.get(_digest(message["id"]))
            if mark == SUMMARY_MARK:
                continue  # that of an earlier compaction
            if words.startswith(SUMMARY) or not (mark is not None or words.startswith(INJECTED)):
                return message
        return None

    def _compacted(self, messages: list[dict[str, Any]], summary: dict[str, Any], at: int) -> Item:
        after = messages[messages.index(summary) + 1 :]  # before it is what every view begins with
        self._compactions += 1
        return Compacted(
            id=f"compact/{self._compactions}",
            at=at,
            summary=text_of_message(summary),
            keeps_from=next(filter(None, map(self._item_id, after)), ""),
        )

    def _item_id(self, message: dict[str, Any]) -> str:
        """The id of the item that a message became; "" if that is not known. A message that a compaction keeps may get
        another id: then a prompt is known by its words."""
        name, words = text(message["id"]), text_of_message(message)
        mark = self._view.get(_digest(name))
        is_prompt = message.get("type") == "user" and bool(words.strip())
        if mark is None:
            count = self._prompt_counts.get(text_id(redaction_stable(words))[:DIGITS], 0)
            return tools.prompt_id(words, count - 1) if is_prompt and count else ""
        return tools.prompt_id(words, int(mark)) if is_prompt and mark.isdigit() else name

    # -- answers and calls ------------------------------------------------------------------------

    def _close(self) -> Iterator[Item]:
        """Yield what is new in the current version of an answer."""
        message, self._answer = self._answer, {}
        if message:
            yield from whole_line(self._closed(message), self._line)

    def _closed(self, message: dict[str, Any]) -> Iterator[Item]:
        name, at = text(message["id"]), micros_of_iso(message.get("timestamp"))
        known = self._answers.pop(_digest(name), {"blocks": 0, "paid": False, "calls": {}})
        self._answers[_digest(name)] = known
        if len(self._answers) > ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]
        model = cut_short(text(message.get("model")), NAME_MAX)
        if model and model != self._model:
            self._model = model
            self._configured += 1
            yield Configured(id=f"settings/{self._configured}", at=at, settings={"model": model})
        calls = list(self._calls_with_ids(message, known["calls"]))
        blocks = list(_blocks(message, [(identifier, call) for identifier, _, call in calls]))
        unpaid = {} if known["paid"] else tools.usage_of(message.get("tokens"))
        before = known["blocks"]
        if before < len(blocks):
            yield Answered(
                id=f"{name}+{before}" if before else name, at=at, usage=unpaid,
                reply=_reply(blocks[before:], None if before else message.get("thoughts")),
                model=model,
            )  # fmt: skip
        elif unpaid:  # an empty answer, or one that was given before its cost was known
            yield Answered(id=f"{name}/spent", at=at, reply="", usage=unpaid, partial=True)
        known["blocks"] = max(before, len(blocks))
        known["paid"] = known["paid"] or bool(message.get("tokens"))
        for identifier, key, call in calls:
            yield from self._call(identifier, call, at, known["calls"], key)

    def _calls_with_ids(
        self, message: dict[str, Any], known: dict[str, list[Any]]
    ) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """The calls of an answer, under ids that hooks derive as well, and under the provider's."""
        calls = records(message.get("toolCalls"))
        named = {text(call.get("id")) for call in calls}
        for part in records(message.get("content")):
            call = record(part.get("functionCall"))
            if call and text(call.get("id")) not in named:
                calls.append(call)
        for number, call in enumerate(calls):
            key = _digest(text(call.get("id"))) if text(call.get("id")) else str(number)
            if key not in known:
                tool, arguments = text(call.get("name")), call.get("args")
                what = tools.call_digest(tool, arguments)[:DIGITS]
                before = self._call_counts.pop(what, 0)
                self._call_counts[what] = before + 1
                if len(self._call_counts) > CALLS_MAX:
                    del self._call_counts[next(iter(self._call_counts))]
                known[key] = [tools.call_id(self._prompt, tool, arguments, before), "new"]
                if len(known) > CALLS_MAX:
                    del known[next(iter(known))]
            yield known[key][0], key, call

    def _call(
        self, name: str, call: dict[str, Any], at: int, known: dict[str, list[Any]], key: str
    ) -> Iterator[Item]:
        tool, arguments = text(call.get("name")), strip_attachments(call.get("args"))
        over = micros_of_iso(call.get("timestamp")) or at
        stage = known.get(key, [name, "over"])
        if stage[1] == "new":
            stage[1] = "open"
            yield Called(
                id=name, at=at, tool=tool, input=arguments, effect=tools.effect_of(tool, arguments),
                key=text(call.get("id")),
            )  # fmt: skip
            if text(call.get("agentId")):
                named = text(record(arguments).get("agent_name"))
                yield Spawned(at=at, child=call["agentId"], name=named, call=name)
        status = text(call.get("status"))
        if status in tools.ENDED and stage[1] == "open":
            stage[1] = "over"
            ended = tools.result(
                name, tool, arguments, over, status=status, cwd=self._cwd,
                output=tools.output_of(call.get("result")), display=call.get("resultDisplay"),
            )  # fmt: skip
            yield from result_apart(ended)
            steps = tools.steps_of(tool, arguments) if ended.status == "ok" else ()
            if steps:  # a call that failed changed no plan
                yield Planned(id=name, at=over, steps=steps)

    def _late_results(self, answers: list[dict[str, Any]], at: int) -> Iterator[Item]:
        """Results in a message to the model. They were yielded with their calls, unless Gemini CLI
        died in between."""
        for answer in answers:
            key, tool = text(answer.get("id")), text(answer.get("name"))
            stage = next(
                (
                    known["calls"][_digest(key)]
                    for known in reversed(self._answers.values())
                    if _digest(key) in known["calls"]
                ),
                [f"call_{text_id(self._prompt, tool, key)}", "open"],
            )
            if stage[1] == "over":
                yield Noise(kind="message/tool response")
                continue
            stage[1] = "over"
            output = tools.output_of([{"functionResponse": answer}])
            status = "error" if "error" in record(answer.get("response")) else "success"
            ended = tools.outcome_of(tool, status, output)
            returned = Returned(
                id=stage[0], at=at, tool=tool, status=ended.status, cause=ended.cause,
                output=strip_attachments(output), source=tools.source_of(tool),
            )  # fmt: skip
            yield from result_apart(returned)


# -- the older format -------------------------------------------------------------------------------


def read_document(
    reader: GeminiReader,
    document: dict[str, Any],
    cursor: Cursor | None,
    mapper: int,
    *,
    at_rest: bool,
) -> Iterator[Item]:
    """Yield the items of a document, in which all but the last message are complete.

    Gemini CLI rewrites the document, so the cursor counts the items that were given and has a digest of
    their ids. If the document begins differently now, all items are given again: what is known is not
    recorded twice.
    """
    state = record(cursor.state) if cursor is not None else {}
    state = state if state.get("mapper") == mapper else {}
    rests = {
        name: count for name, count in record(state.get("rests")).items() if type(count) is int
    }
    items = list(whole_line(reader.begin(document), 1))
    for number, message in enumerate(records(document.get("messages")), 1):
        until = rests.get(_digest(text(message.get("id"))), 0)
        if until and until < _block_count(message):
            items += whole_line(
                reader.document_message(_first_blocks(message, until), number), number
            )
            items += whole_line(reader.rest(), number)
        items += whole_line(reader.document_message(message, number), number)
    held = reader.held_blocks
    released = list(whole_line(reader.rest(), 0))
    given = whole_number(state.get("given"))
    known = [*items, *released][:given]
    if len(known) != given or _ids_digest(known) != state.get("ids"):
        known, rests = [], {}
    if len(known) > len(items):  # nothing has come since what was held back was given
        yield _document_cursor(known, rests, mapper)
        return
    yield from items[len(known) :]
    yield _document_cursor(items, rests, mapper)
    if at_rest and released:
        yield from released
        yield _document_cursor([*items, *released], rests | held, mapper)


def _document_cursor(items: list[Item], rests: dict[str, int], mapper: int) -> Cursor:
    state = {"mapper": mapper, "given": len(items), "ids": _ids_digest(items)}
    return Cursor(offset=0, state={**state, "rests": rests} if rests else state)


def _ids_digest(items: list[Item]) -> str:
    return text_id("\n".join(f"{type(item).__name__} {item.id}" for item in items))


# -- parts of messages ------------------------------------------------------------------------------


def text_of_message(message: dict[str, Any]) -> str:
    """The text of a message, without what hooks added to it."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    return "".join(tools.typed_text(plain_text([part])) for part in parts)


def _typed(content: Any) -> Any:
    """The content of a prompt without what hooks added to it."""
    parts = content if isinstance(content, list) else [content]
    kept = []
    for part in parts:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            part = {**part, "text": tools.typed_text(part["text"])}
            if not part["text"]:
                continue
        kept.append(part)
    return kept if isinstance(content, list) else content


def _responses(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of calls in a message to the model."""
    return [
        record(part["functionResponse"])
        for part in records(message.get("content"))
        if isinstance(part.get("functionResponse"), dict)
    ]


def _reply(blocks: list[dict[str, Any]], thoughts: Any) -> dict[str, Any]:
    found = {"thoughts": strip_attachments(thoughts)} if thoughts else {}
    return {**assistant_message(blocks), **found}


def _blocks(
    message: dict[str, Any], calls: list[tuple[str, dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    words = plain_text(message.get("content"))
    if words:
        yield {"type": "text", "text": words}
    for name, call in calls:
        yield tool_use_block(name, text(call.get("name")), strip_attachments(call.get("args")))


def _block_count(message: dict[str, Any]) -> int:
    named = {text(call.get("id")) for call in records(message.get("toolCalls"))}
    asked = [record(part.get("functionCall")) for part in records(message.get("content"))]
    others = [call for call in asked if call and text(call.get("id")) not in named]
    words = bool(plain_text(message.get("content")))
    return words + len(records(message.get("toolCalls"))) + len(others)


def _first_blocks(message: dict[str, Any], count: int) -> dict[str, Any]:
    """An answer as it was when it had only so many blocks."""
    calls = records(message.get("toolCalls"))
    words = bool(plain_text(message.get("content")))
    return {**message, "toolCalls": calls[: max(count - words, 0)]}


def _digest(name: str) -> str:
    return text_id(name)[:DIGITS]


def _copied(known: Any) -> dict[str, Any]:
    calls = record(record(known).get("calls"))
    return {
        "blocks": whole_number(record(known).get("blocks")),
        "paid": record(known).get("paid") is True,
        "calls": {key: list(stage) for key, stage in calls.items()},
    }
