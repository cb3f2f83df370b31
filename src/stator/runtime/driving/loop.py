"""The agent loop: asks the model, runs the tools it requests and renders what it is shown.

while True:
    r = t.model(client.messages.create, model=M, tools=T, messages=t.messages("anthropic"))
    if r.stop_reason != "tool_use":
        break
    t.results(r, dispatch, effects={"read_file": "read", "pay": "write"})
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from stator.errors import ApprovalNeeded, InvalidInput, StatorError
from stator.model.calls.known import MODEL
from stator.model.calls.life import (
    Life,
    Note,
    Outcome,
    life,
    verdict,
)
from stator.model.calls.raised import as_raised
from stator.model.exchange.settings import answer_settings, request_settings
from stator.model.log.commit import Commit, Draft, Source
from stator.model.log.edges import PARTIAL
from stator.model.window.reply import (
    Dialect,
    Request,
    plain_reply,
    requests,
)
from stator.model.window.streams import Assembler
from stator.runtime.driving.call import Calling
from stator.runtime.driving.open_turn import OpenTurn
from stator.runtime.driving.tools import Tool
from stator.runtime.window.left_out import AskedWith

Dispatch = Callable[..., Any] | Mapping[str, Callable[..., Any]]
"""Runs a tool by its name: a function of name and arguments, or tools by name."""
Effects = Mapping[str, Any]
"""What a tool of that name does: "read", "idempotent", "write", or a dict of `stator.tool`'s options."""
Sources = Mapping[str, Source]
"""Where the results of a tool of that name come from: "tool", "file", "web" or "import"."""
DoubtMode = Literal["tell", "raise"]
WORD_MAX = 200
"""Characters of a request's option that is worth keeping with the intent."""


class ModelCalling(Calling):
    """A question to the model: asked once, its answer is an entry of the transcript."""

    seq = 0
    """Of the entry, once it is in the log."""
    _with = AskedWith()
    """What the model is asked with."""

    def __init__(
        self,
        turn: OpenTurn,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        tool = function if isinstance(function, Tool) else Tool(function)
        asked = tool.using(name=MODEL, effect="read", files=None, approve=False)
        super().__init__(turn, asked, args, kwargs, given=_gist(kwargs))

    def _key(self) -> None:
        self.key = ""

    def life(self) -> Life:
        turn = self.turn
        failed = turn.failed_ask()
        if failed is not None:
            return failed
        entry = turn.next_entry(self.given)
        if entry is not None:
            self.seq = entry.seq
            said = entry.value("output")
            return Outcome(call=entry.call, tool=MODEL, status="ok", value=said, replayed=True)
        turn.check_unended("an answer of the model")
        turn.driver.check_terms()
        outcome = yield from life(self.asked, self.tool.policy, self.tool.detect)
        return outcome

    def drafts(self, note: Note) -> list[Draft]:
        fields = dict(note.fields)
        if note.kind != "outcome" or fields["status"] != "ok":
            return super().drafts(note)
        said = fields.pop("output")
        due = self.due(said)
        return [*due, self.draft(Note("outcome", fields)), self.entry(said)]

    def draft(self, note: Note) -> Draft:
        if note.kind == "call":  # what is appended while the model thinks, it does not see
            self._with = self.turn.driver.asked_with((*self.args, *self.kwargs.values()))
        return super().draft(note)

    def due(self, said: Any, status: str = "") -> list[Draft]:
        """What is recorded with the answer: the settings that it shows, where the question did not, and the turns that
        it was made without, unless it broke off."""
        settings = [] if "model" in self.kwargs else seen_in(self.turn, said)
        evicted = [] if status == PARTIAL else self.turn.driver.evictions_due(self._with)
        return [*settings, *evicted]

    def entry(self, said: Any, status: str = "") -> Draft:
        return self.turn.entry(
            said,
            call=self.asked.call,
            model=self.given.get("model"),
            status=status,
            inputs=self._with.inputs,
        )

    def landed(self, commits: Sequence[Commit]) -> None:
        if commits[-1].kind == "entry":
            self.seq = commits[-1].seq

    def finish(self, value: Any) -> Any:
        return plain_reply(value)


class Stream:
    """A response that comes in pieces: iterate over it, then `reply` is the whole.

    What comes through is not recorded; one entry is, at the end. One that broke off is recorded as
    partial and is never shown to a provider again.
    """

    def __init__(
        self, turn: OpenTurn, source: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._turn = turn
        self._calling = ModelCalling(turn, source, args, kwargs) if callable(source) else None
        self._source = source
        self._assembler = Assembler()
        self.reply: Any = None

    def __iter__(self) -> Iterator[Any]:
        if self.begin():
            return
        try:
            for chunk in self.chunks():
                self.take(chunk)
                yield chunk
        except BaseException as error:
            self.broken(error)
            raise
        self.done()

    def chunks(self) -> Any:
        """What the source gives: an iterator, or something that is awaited for one."""
        calling = self._calling
        if calling is None:
            return self._source
        return calling.tool.function(*calling.args, **calling.kwargs)

    def take(self, chunk: Any) -> None:
        self._assembler.feed(chunk)

    def begin(self) -> bool:
        """Put the intent on disk; whether the record has the answer already."""
        turn = self._turn
        if self._calling is None:  # nobody is asked: it is matched like a response in hand
            turn.driver.check_terms()
            return False
        entry = turn.next_entry(self._calling.given)
        if entry is not None:
            self.reply = turn.reply(entry.value("output"), entry.seq)
            return True
        turn.check_unended("an answer of the model")
        turn.driver.check_terms()
        given = {"status": "started", "input": self._calling.given, "attempt": 1}
        turn.write(self._calling.drafts(Note("call", given)))
        return False

    def done(self) -> None:
        """Record a response that is complete."""
        said = self._assembler.result()
        # Bare text has no mark of its end: that the stream did not break means that it is whole.
        status = "" if self._assembler.complete or isinstance(said, str) else "partial"
        turn, entry = self._turn, self._entry(said, status)
        if self._calling is None:
            seq = submit_answer(turn, entry, said)
        else:
            due = self._calling.due(said, status)
            seq = turn.write([*due, *self._outcome("ok", ""), entry])[-1].seq
        self.reply = turn.reply(said, seq)

    def broken(self, error: BaseException) -> None:
        """Record a response that broke off."""
        status, cause = verdict("read", error)
        if isinstance(error, GeneratorExit):
            status, cause = "cancelled", "left before its end"
        partial = self._entry(self._assembler.result(), "partial")
        if self._calling is None:
            self._turn.submit(partial)
        else:
            self._turn.write([*self._outcome(status, cause), partial])

    def _outcome(self, status: str, cause: str) -> list[Draft]:
        if self._calling is None:
            return []
        return [
            self._calling.draft(Note("outcome", {"status": status, "cause": cause, "attempt": 1}))
        ]

    def _entry(self, said: Any, status: str) -> Draft:
        if self._calling is not None:
            return self._calling.entry(said, status)
        return self._turn.entry(said, status=status)


class Loop:
    """The part of a turn that talks to a model."""

    _open: OpenTurn

    # -- the model --------------------------------------------------------------------------------

    def model(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Ask the model: record the request, the answer and its cost. In a continued turn the recorded answer
        is returned and the model is not called. The answer is plain
                data that reads like the SDK's object: `r.stop_reason`, `r["content"]`.
        """
        offer(self._open, kwargs)
        calling = ModelCalling(self._open, function, args, kwargs)
        return self._open.reply(calling.drive().result(), calling.seq)

    def reply(self, response: Any, *, model: str = "") -> Any:
        """Record a response that the program already has, and read it like any other."""
        return record_reply(self._open, response, model)

    def stream(self, source: Any, /, *args: Any, **kwargs: Any) -> Stream:
        """Pass a response through as it comes, and record it once it is whole.

        `source` is the function to ask (then its intent is recorded, and a continued turn does not ask again)
        or an iterator of chunks.
        """
        offer(self._open, kwargs)
        return Stream(self._open, source, args, kwargs)

    def messages(
        self,
        provider: Dialect,
        *,
        max_tokens: int | None = None,
        count_tokens: Callable[[str], int] | None = None,
        marks: bool = True,
        brief: bool = False,
    ) -> list[dict[str, Any]]:
        """The session's transcript as a provider takes it: "anthropic", "openai", "openai-chat" or
        "plain". Valid for every history; the same bytes in every process.

        With `max_tokens`, the oldest turns are left out until the rest fits, and a note names what they hold; the
        answer records it. A line marks content from outside that nobody vouches for, unless `marks` is false. With
        `brief`, the model gets before its first answer what earlier sessions of the project know that bears on the
        first prompt, if there is any; that is recorded, and stays where it is."""
        if brief:
            from stator.runtime.brief.due import due

            driver = self._open.driver
            if fields := due(driver.store, driver.context, driver.id):
                self._open.write([driver.draft("delivery", **fields)])
        return self._open.driver.render(
            provider, max_tokens=max_tokens, count_tokens=count_tokens, marks=marks
        )

    # -- what it asks for -------------------------------------------------------------------------

    def results(
        self,
        reply: Any,
        dispatch: Dispatch,
        *,
        effects: Effects | None = None,
        sources: Sources | None = None,
        parallel: bool = False,
        in_doubt: DoubtMode = "tell",
    ) -> list[dict[str, Any]]:
        """Run what a response asks for, record each, and give the results in the provider's form.

        A failure, a denial or a doubt is sent to the model, not raised (`in_doubt="raise"` raises
        doubts). Where a person must say yes first, the rest runs and then `ApprovalNeeded` is
        raised; a later run continues from there. `sources` says where results come from, by tool.
        """
        turn = self._open
        seq, calls = requested(turn, reply, dispatch, with_sources(effects, sources))
        attempts = [functools.partial(_attempt, call) for call in calls]
        ended = turn.driver.together(attempts) if parallel else [attempt() for attempt in attempts]
        return results_of(turn, seq, ended, in_doubt)


# -- shared with the asynchronous façade ----------------------------------------------------------


def offer(turn: OpenTurn, options: Mapping[str, Any]) -> None:
    """Record which tools a request offers the model, where that changed, and take note of its settings."""
    if options.get("tools") is not None:
        turn.driver.offer(options["tools"])
    turn.driver.see(request_settings(options))


def seen_in(turn: OpenTurn, said: Any, model: str = "") -> list[Draft]:
    """The commit that records the model of an answer, where that is another one than before."""
    turn.driver.see(answer_settings(said, model))
    return turn.driver.settings_due()


def submit_answer(turn: OpenTurn, entry: Draft, said: Any, model: str = "") -> int:
    """Append an answer that was not requested through this turn, unless it is on record; its seq."""
    recorded = turn.recorded(entry)
    if recorded is not None:
        turn.driver.see(answer_settings(said, model))
        return turn.seq_of(recorded)
    due = [*seen_in(turn, said, model), *turn.evictions_due(entry)]
    return turn.write([*due, entry])[-1].seq


def record_reply(turn: OpenTurn, response: Any, model: str = "") -> Any:
    """Record a response that was not requested through this turn, in the form the loop reads."""
    said = plain_reply(response)
    draft = turn.entry(said, model=model)
    return turn.reply(said, submit_answer(turn, draft, said, model))


def requested(
    turn: OpenTurn, reply: Any, dispatch: Dispatch, effects: Effects | None
) -> tuple[int, list[Calling]]:
    """The entry that a response is, and the calls it asks for."""
    seq = turn.seq_of_reply(reply)
    if not seq:
        reply = record_reply(turn, reply)
        seq = turn.seq_of_reply(reply)
    return seq, [
        _calling(turn, request, seq, dispatch, effects or {})
        for request in requests(plain_reply(reply))
    ]


def results_of(
    turn: OpenTurn, seq: int, ended: Sequence[Outcome | StatorError], in_doubt: DoubtMode
) -> list[dict[str, Any]]:
    """The results of a response's calls in the provider's form, once all of them have run."""
    if in_doubt not in ("tell", "raise"):
        raise InvalidInput(f"unknown in_doubt {in_doubt!r:.40}", hint="tell or raise")
    for outcome in ended:
        if isinstance(outcome, StatorError):
            raise outcome
        if in_doubt == "raise" and outcome.status == "in doubt":
            raise outcome.to_error()
    return turn.driver.transcript().results(seq)


def _attempt(calling: Calling) -> Outcome | StatorError:
    """Run one of several calls. The others still run if this one waits for a person."""
    try:
        return calling.drive()
    except ApprovalNeeded as needed:
        return needed


def by_name(
    turn: OpenTurn, name: str, given: Mapping[str, Any], dispatch: Dispatch, effects: Effects | None
) -> Calling:
    """A call through the caller's own dispatch function."""
    request = Request(0, "", name, dict(given))
    tool = tool_for(request, dispatch, effects or {})
    named = isinstance(dispatch, Mapping) and name in dispatch
    kwargs = dict(given) if named else {}
    return Calling(turn, tool, (), kwargs, given=dict(given), infers=True)


def with_sources(effects: Effects | None, sources: Sources | None) -> Effects | None:
    """The options of tools, with where their results come from."""
    if not sources:
        return effects
    found: dict[str, Any] = dict(effects or {})
    for name, source in sources.items():
        options = found.get(name, {})
        options = {"effect": options} if isinstance(options, str) else dict(options)
        found[name] = {**options, "source": source}
    return found


def unwrapped(outcome: Outcome, in_doubt: DoubtMode) -> Any:
    """What a wrapped dispatch function returns: the result, the text that describes a doubt to a
    model, or raises: what the tool itself raised, where it did."""
    if outcome.status == "in doubt" and in_doubt == "tell":
        return outcome.told()
    if outcome.ok:
        return outcome.value
    raise as_raised(outcome)


def _calling(
    turn: OpenTurn, request: Request, seq: int, dispatch: Dispatch, effects: Effects
) -> Calling:
    origin = (MODEL, f"{seq}/{request.index}/{request.id}")
    tool = tool_for(request, dispatch, effects)
    given = {"raw": request.raw} if request.error else request.arguments
    # A function of name and arguments has them already; a tool of that name takes them by name.
    named = isinstance(dispatch, Mapping) and not request.error and request.name in dispatch
    kwargs = dict(request.arguments) if named else {}
    infers = not request.error
    return Calling(turn, tool, (), kwargs, origin=origin, given=given, infers=infers)


def tool_for(request: Request, dispatch: Dispatch, effects: Effects) -> Tool[..., Any]:
    """The tool a model asks for, with what is known of it."""
    if request.error:
        return Tool(functools.partial(_refuse, request.error), name=request.name, effect="read")
    options = effects.get(request.name, {})
    options = {"effect": options} if isinstance(options, str) else dict(options)
    if isinstance(dispatch, Mapping):
        function = dispatch.get(request.name)
        if function is None:
            said = f"there is no tool {request.name!r:.80}"
            return Tool(functools.partial(_refuse, said), name=request.name, effect="read")
        if isinstance(function, Tool):
            return function.using(name=request.name, **options)
        return Tool(function, name=request.name, **options)
    bound = functools.partial(dispatch, request.name, request.arguments)
    return Tool(bound, name=request.name, **options)


def _refuse(said: str) -> None:
    raise ValueError(said)


def _gist(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What is worth knowing of a question without repeating the conversation it holds."""
    found: dict[str, Any] = {}
    for name, value in kwargs.items():
        if isinstance(value, (bool, int, float)) or (
            isinstance(value, str) and len(value) <= WORD_MAX
        ):
            found[name] = value
        elif isinstance(value, (list, tuple, dict, str)):
            noun = "character" if isinstance(value, str) else "item"
            found[name] = f"{len(value)} {noun}{'' if len(value) == 1 else 's'}"
    return found
