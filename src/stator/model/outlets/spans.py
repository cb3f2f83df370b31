"""Commits as spans: one for a turn when it ends, one for each call and each answer of a model.

A span is a function of its turn up to the commit that ends it: the same commits give the same span with the same ids,
so that what is sent twice is recognised. A turn is a trace, and its trace id is the 32 digits of its id. What is kept
between commits is the turn that is open in a session, with the calls that have no outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stator.model.log.commit import CONTINUED, Commit, Large
from stator.model.log.shown_text import cut_short
from stator.model.outlets import genai_names as names
from stator.model.values.digest import blake2b
from stator.model.values.json_text import canonical, shown, utf8
from stator.model.window.reply import dialect, text_of

INTERNAL, CLIENT = 1, 3
"""Kinds of spans."""
ERROR = 2
"""The status of what did not end well."""
CALLS_MAX = 1000
"""Calls of a turn that are remembered without an outcome; the oldest is forgotten first."""
TEXT_MAX = 16_000
"""Characters of content in one attribute."""
NAME_MAX = 200
MODEL = "model"
"""The tool that stands for asking a model."""
Value = str | int


class SessionLabel(msgspec.Struct, frozen=True):
    """What a span says of its session."""

    agent: str = ""
    project: str = ""
    name: str = ""


class OtlpSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Something that took time: when, in which trace, below what, and how it ended."""

    trace: str
    id: str
    name: str
    start: int
    end: int
    parent: str = ""
    kind: int = INTERNAL
    attributes: Mapping[str, Value] = {}
    failed: bool = False
    commit: str = ""
    """The commit that ended it."""

    def otlp(self) -> dict[str, Any]:
        """As OTLP writes it in JSON: ids in hex, times in ns and whole numbers as texts."""
        plain: dict[str, Any] = {
            "traceId": self.trace,
            "spanId": self.id,
            "name": utf8(self.name),
            "kind": self.kind,
            "startTimeUnixNano": str(self.start * 1000),
            "endTimeUnixNano": str(max(self.start, self.end) * 1000),
            "attributes": attributes(self.attributes),
        }
        if self.parent:
            plain["parentSpanId"] = self.parent
        if self.failed:
            plain["status"] = {"code": ERROR}
        return plain


def attributes(values: Mapping[str, Value]) -> list[dict[str, Any]]:
    """Attributes as OTLP writes them in JSON."""
    return [
        {
            "key": key,
            "value": {"intValue": str(value)}
            if isinstance(value, int)
            else {"stringValue": utf8(value)},
        }
        for key, value in values.items()
    ]


class TurnSpans:
    """The spans of one session, commit by commit. Give it every commit from the first of a turn on."""

    def __init__(self, about: SessionLabel, *, content: bool = False) -> None:
        self._about = about
        self._content = content
        self._turn: Commit | None = None
        self._last: Commit | None = None
        self._calls: dict[str, Commit] = {}
        self._tokens = [0, 0]
        self.number = 0
        """The turn that is open or was last; 0 before the first."""

    def add(self, commit: Commit) -> list[OtlpSpan]:
        """The spans that this commit ends."""
        spans: list[OtlpSpan] = []
        if commit.kind == "turn" and not (commit.status == CONTINUED and self._turn is not None):
            spans = self._end(self._last, "") if self._turn is not None else []
            self._turn, self._calls, self._tokens = commit, {}, [0, 0]
        elif commit.kind == "call":
            while len(self._calls) >= CALLS_MAX:
                del self._calls[next(iter(self._calls))]
            self._calls[commit.call] = commit
        elif commit.kind == "outcome" and not (commit.tool == MODEL and commit.status == "ok"):
            spans = [self._call(commit)]
        elif commit.kind == "entry" and commit.actor == "model":
            spans = [self._answer(commit)]
        elif commit.kind == "turn_end":
            spans = self._end(commit, commit.status)
        self.number = commit.turn
        self._last = commit
        return spans

    # -- what ends --------------------------------------------------------------------------------

    def _end(self, end: Commit | None, status: str) -> list[OtlpSpan]:
        turn, self._turn = self._turn, None
        if turn is None or end is None:
            return []
        values = self._common(names.INVOKE_AGENT, end)
        for name, tokens in zip(
            (names.INPUT_TOKENS, names.OUTPUT_TOKENS), self._tokens, strict=True
        ):
            if tokens:
                values[name] = tokens
        failed = status not in ("ok", "")
        if failed:
            values[names.ERROR_TYPE] = status
        if self._content:
            self._put_messages(values, names.INPUT_MESSAGES, "user", _text(turn, "input"))
        agent = self._about.agent
        return [
            OtlpSpan(
                trace=_trace(turn),
                id=_id(turn.id),
                name=_named(names.INVOKE_AGENT, agent),
                start=turn.when,
                end=end.when,
                attributes=values,
                failed=failed,
                commit=end.id,
            )
        ]

    def _call(self, outcome: Commit) -> OtlpSpan:
        began = self._calls.pop(outcome.call, outcome)
        is_model = outcome.tool == MODEL
        values = self._common(names.CHAT if is_model else names.EXECUTE_TOOL, outcome)
        if is_model:
            values[names.PROVIDER] = names.UNKNOWN_PROVIDER
        else:
            values[names.TOOL] = outcome.tool
            values[names.TOOL_TYPE] = "function"
            values[names.TOOL_CALL] = outcome.call
        values["stator.call.status"] = outcome.status
        for name, value in (("effect", began.effect), ("cause", outcome.cause)):
            if value:
                values[f"stator.call.{name}"] = value
        if outcome.attempt > 1:
            values["stator.call.attempt"] = outcome.attempt
        failed = outcome.status != "ok"
        if failed:
            values[names.ERROR_TYPE] = outcome.status
        if self._content and not is_model:
            self._put(values, names.TOOL_ARGUMENTS, _text(began, "input"))
            self._put(values, names.TOOL_RESULT, _text(outcome, "output"))
        return self._below(
            outcome,
            began,
            _named(
                names.CHAT if is_model else names.EXECUTE_TOOL, "" if is_model else outcome.tool
            ),
            values,
            failed=failed,
            kind=CLIENT if is_model else INTERNAL,
        )

    def _answer(self, entry: Commit) -> OtlpSpan:
        began = self._calls.pop(entry.call, entry)
        answer = _value(entry, "output")
        whole = answer if isinstance(answer, dict) else {}
        model = str(whole.get("model") or "")
        values = self._common(names.CHAT, entry)
        values[names.PROVIDER] = names.PROVIDERS.get(dialect(answer), names.UNKNOWN_PROVIDER)
        for name, value in ((names.RESPONSE_MODEL, model), (names.RESPONSE_ID, whole.get("id"))):
            if isinstance(value, str) and value:
                values[name] = cut_short(value, NAME_MAX)
        usage = _value(entry, "usage")
        for place, (name, unit) in enumerate(
            ((names.INPUT_TOKENS, "tokens:in"), (names.OUTPUT_TOKENS, "tokens:out"))
        ):
            tokens = usage.get(unit) if isinstance(usage, dict) else None
            if type(tokens) is int:
                values[name] = tokens
                self._tokens[place] += tokens
        if self._content:
            self._put_messages(values, names.OUTPUT_MESSAGES, "assistant", _answer_text(answer))
        return self._below(entry, began, _named(names.CHAT, model), values, kind=CLIENT)

    # -- parts ------------------------------------------------------------------------------------

    def _below(
        self,
        ended: Commit,
        began: Commit,
        name: str,
        values: dict[str, Value],
        *,
        failed: bool = False,
        kind: int = INTERNAL,
    ) -> OtlpSpan:
        outer = began.parent or ended.parent
        parent = _id(self._turn.id) if self._turn is not None else ""
        if outer:
            around = self._calls.get(outer)
            parent = _id(f"{outer}/{around.attempt if around is not None else 1}")
        attempt = ended.attempt or began.attempt or 1
        return OtlpSpan(
            trace=_trace(self._turn or ended),
            id=_id(f"{ended.call}/{attempt}" if ended.call else ended.id),
            name=name,
            start=began.when,
            end=ended.when,
            parent=parent,
            kind=kind,
            attributes=values,
            failed=failed,
            commit=ended.id,
        )

    def _common(self, operation: str, ended: Commit) -> dict[str, Value]:
        values: dict[str, Value] = {
            names.OPERATION: operation,
            names.CONVERSATION: ended.session,
            "stator.turn": ended.turn,
            "stator.seq": ended.seq,
        }
        if self._about.agent:
            values[names.AGENT] = cut_short(self._about.agent, NAME_MAX)
        if self._about.project:
            values["stator.project"] = cut_short(self._about.project, NAME_MAX)
        if self._content and self._about.name:
            values[names.SESSION_NAME] = cut_short(self._about.name, NAME_MAX)
        return values

    def _put(self, values: dict[str, Value], name: str, text: str) -> None:
        if text:
            values[name] = cut_short(text, TEXT_MAX)

    def _put_messages(self, values: dict[str, Value], name: str, role: str, text: str) -> None:
        if text:
            part = {"type": "text", "content": cut_short(text, TEXT_MAX)}
            values[name] = canonical([{"role": role, "parts": [part]}])


def _trace(began: Commit) -> str:
    """A turn's own digits; of what is in no turn, those of its session."""
    return (began.id if began.kind == "turn" else began.session)[2:]


def _id(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _named(operation: str, what: str) -> str:
    return f"{operation} {cut_short(what, NAME_MAX)}" if what else operation


def _value(commit: Commit, name: str) -> Any:
    """Content as far as it is there: what was erased or lies elsewhere has none."""
    return None if isinstance(commit.content.get(name), Large) else commit.known(name)


def _text(commit: Commit, name: str) -> str:
    value = _value(commit, name)
    return "" if value is None else shown(value)


def _answer_text(answer: Any) -> str:
    return text_of(answer) if answer is not None else ""
