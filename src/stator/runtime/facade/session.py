"""The session and the turn that a program holds while it drives: the public layer over a `Driver`.

Both are in one module because each leads to the other: `session.turn()` and `turn.session`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Token
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import UNSET

from stator.errors import BadTurn, InvalidInput
from stator.model.calls.life import Outcome
from stator.model.exchange.kept_contents import BYTES_MAX
from stator.model.exchange.settings import answer_settings
from stator.model.log.commit import Draft
from stator.model.records.types import FileRecord
from stator.model.sessions.lifecycle import check_budget
from stator.model.window.compaction import LEVELS, Level
from stator.model.window.reply import Dialect
from stator.model.window.words import CountTokens
from stator.runtime.base.arguments import mapping, text
from stator.runtime.base.context import warn_on_loop
from stator.runtime.branches import fork as forks
from stator.runtime.branches import open_driver
from stator.runtime.branches import retry as retries
from stator.runtime.branches import rewind as rewinding
from stator.runtime.branches.open_driver import HeldMode
from stator.runtime.branches.retry import Adopted, RetryEffects
from stator.runtime.branches.rewind import Rewound
from stator.runtime.driving import children, compact, observe, settlement
from stator.runtime.driving.again.turn_start import Changed
from stator.runtime.driving.call import Calling, DirectCalls
from stator.runtime.driving.driver import Driver
from stator.runtime.driving.loop import (
    Dispatch,
    DoubtMode,
    Effects,
    Loop,
    Sources,
    by_name,
    unwrapped,
    with_sources,
)
from stator.runtime.driving.open_turn import OpenTurn
from stator.runtime.driving.recovery import Recovery
from stator.runtime.driving.settings import stated
from stator.runtime.driving.settlement import OpenDoubt
from stator.runtime.driving.state_writer import TurnWriter, file_fields, with_entry
from stator.runtime.driving.tools import Tool, current_turn
from stator.runtime.facade.annotations import Marker
from stator.runtime.facade.view import SessionView
from stator.runtime.views.as_read import as_read
from stator.runtime.window.compaction import KEEP, Compaction, CompactionOptions, Summary
from stator.store.port import StorePort

if TYPE_CHECKING:
    from stator.runtime.branches.rerun import Effects as RerunEffects
    from stator.runtime.branches.rerun import Rerun, Tools

A = TypeVar("A")


class Turn(TurnWriter, Loop):
    """One turn of an agent: from a prompt to the end of the work on it. Safe to use from several threads."""

    def __init__(self, session: Session[Any], turn: OpenTurn, app_version: int = 1) -> None:
        self._session = session
        self._open = turn
        self._root = turn.driver.root
        self._app_version = app_version
        self._token: Token[Any] | None = None
        self.id, self.number = turn.id, turn.number
        self.continued = turn.continued
        """Whether this turn was interrupted and continues here."""
        self.reused = turn.reused
        """Whether this turn ended in an earlier run: everything in it comes from the record."""
        self.attempt = turn.attempt
        """Which attempt this is at the turn of its key, from 1."""

    @property
    def value(self) -> Any:
        """The value that the turn ended with (`t.end(value=…)`), also where it is reused; None without one."""
        return self._open.value

    @property
    def session(self) -> Session[Any]:
        """The session this turn belongs to."""
        return self._session

    @property
    def ended(self) -> bool:
        """Whether this turn has ended."""
        return self._open.ended

    def _draft(self, kind: str, **fields: Any) -> Draft:
        return self._open.draft(kind, **fields)

    def _submit(self, draft: Draft) -> str:
        return self._open.submit(draft)

    def _place(self) -> tuple[StorePort, str]:
        return self._open.driver.store, self._open.driver.id

    def _record_file(self, record: FileRecord, why: str, made: Mapping[str, Any]) -> str:
        return self._open.record_file(record, why, made)

    def _reply_seq(self, given: Any) -> int:
        return self._open.seq_of_reply(given)

    def _check_verified(self, draft: Draft) -> None:
        self._open.check_verified(draft)

    def _heard(self, said: Any) -> None:
        self._open.driver.see(answer_settings(said))

    def configure(self, /, **settings: Any) -> None:
        """Record what the agent runs with: `t.configure(model="…", system=prompt, temperature=0)`.

        Only what changed is recorded. `system` is kept as its digest and first line, `instructions` (paths of
        files) and `tools` as digests; any other name as it is. None takes a setting back. Requests that go
        through `t.model` show most of it by themselves; what is stated here is not taken from them.
        """
        self._open.configure(stated(settings, self._root))

    def batch(self) -> contextlib.AbstractContextManager[None]:
        """Collect what is recorded inside and append it at the end, all or nothing, in one
        transaction.

        Calls cannot be made in a batch: their intent must be on disk before they run. If the block
        raises, nothing of it is recorded.
        """
        return self._open.batch()

    # -- calling ----------------------------------------------------------------------------------

    def call(
        self, function: Callable[..., Any] | Tool[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Run a tool and return its result; its intent is on disk before it runs, its outcome
        after.

        Raises `CallFailed` with the tool's exception as cause, or `InDoubt` if its outcome is unknown.
        """
        return Calling(self._open, function, args, kwargs).drive().result()

    def try_call(
        self, function: Callable[..., Any] | Tool[..., Any], /, *args: Any, **kwargs: Any
    ) -> Outcome:
        """Run a tool and return its outcome, whatever its status."""
        return Calling(self._open, function, args, kwargs).drive()

    # -- ending -----------------------------------------------------------------------------------

    def end(self, value: Any = UNSET) -> None:
        """End the turn here; leaving the `with` block then does nothing more.

        `value` is recorded: when the program runs again, `t.value` is it.
        """
        if not self.ended or value is not UNSET:
            self._open.end("ok", "", value)

    def abort(self, why: str) -> None:
        """Abort the turn, with a reason."""
        self._open.check_open()
        self._open.end("aborted", text(why, "why"))

    def __enter__(self) -> Turn:
        self._token = current_turn.set(DirectCalls(self._open))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if self._token is not None:
            current_turn.reset(self._token)
            self._token = None
        self._open.leave(error)


class Session(SessionView, Marker, Generic[A]):
    """A session this program drives, from `open` until the `with` block is left."""

    def __init__(self, driver: Driver, **app: Any) -> None:
        seen = as_read(driver.store, driver.context)
        super().__init__(seen, driver.id, root=driver.root, **app)
        self.context = driver.context
        self._driver = self._writer = driver
        self._run, self._began = driver.run, driver.began
        self._turn: OpenTurn | None = None

    def _draft(self, kind: str, **fields: Any) -> Draft:
        made = () if "inputs" in fields else self._driver.made_from(kind, fields)
        return self._driver.draft(kind, **(fields | {"inputs": made} if made else fields))

    def _submit(self, draft: Draft) -> str:
        return self._driver.submit(draft)

    def _record_file(self, record: FileRecord, why: str, made: Mapping[str, Any]) -> str:
        keeper = self._driver.keeper
        if keeper is None:
            return super()._record_file(record, why, made)
        plain = self._draft("file", **file_fields(record, why), **made)
        return self._driver.record_file(keeper, record, with_entry(plain, record))

    @property
    def recovery(self) -> Recovery:
        """The state in which the last run ended: whether it was interrupted, and what happened to its calls."""
        return self._driver.recovered

    @property
    def in_doubt(self) -> list[OpenDoubt]:
        """Calls that may or may not have happened, each with `settle`."""
        found = settlement.doubts(self._driver.store, session=self._id)
        return [OpenDoubt(self._driver.store, self.context, doubt) for doubt in found]

    # -- driving ----------------------------------------------------------------------------------

    def configure(self, /, **settings: Any) -> None:
        """State what the agent runs with, as `t.configure` does. Between turns, what changed is recorded when
        the next turn begins."""
        given = stated(settings, self._root)
        if self._turn is None or self._turn.ended:
            self._driver.configure(given)
        else:
            self._turn.configure(given)

    def turn(
        self, prompt: Any = None, *, key: str = "", new: bool = False, changed: Changed = "warn"
    ) -> Turn:
        """Begin a turn: `with s.turn("fix the login bug") as t`.

        If the last run was interrupted and this is the turn it had reached, it continues there
        (`t.continued`), or comes from the record if it had ended (`t.reused`). A turn with a `key` is
        found in every earlier run of the session: it is answered from the record if it ended, and
        continued if it was interrupted. With another prompt than on record the key decides, and a
        warning names both; `changed="raise"` refuses it. `new=True` always begins a new turn; with a
        key, another attempt, in which writes that an earlier attempt has done do not run again.
        """
        warn_on_loop()
        if changed not in ("warn", "raise"):
            raise InvalidInput(
                f"unknown changed {changed!r:.40}", path="$.changed", hint="warn or raise"
            )
        options: dict[str, Any] = {"key": text(key, "key"), "new": new, "changed": changed}
        self._turn = OpenTurn(self._driver, prompt, **options)
        return Turn(self, self._turn, self._app_version)

    def once(
        self, key: str, function: Callable[..., Any] | Tool[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Call a function once for a key, and return its result from the record ever after.

        It is the only call of a turn with that key. A function that declares no effect counts as a
        write: if the program dies while it runs, it is in doubt, and does not run again by itself.
        """
        warn_on_loop()
        with self._once(key) as turn:
            if not turn.reused:
                turn.end(value=turn.call(function, *args, **kwargs))
            return turn.value

    def _once(self, key: str) -> Turn:
        if not text(key, "key"):
            raise InvalidInput(
                "once needs a key", hint='s.once("order-17", pay, 4200)', path="$.key"
            )
        if self._turn is not None and not self._turn.ended:
            raise BadTurn(
                f"turn {self._turn.number} of session {self._id} is open, and once is a turn of its own",
                hint="call it between turns; inside one: t.call(tool.using(key=…))",
                session=self._id,
            )
        # The key is its prompt, too: the log shows what was done, and a model is not shown an empty message.
        turn = self.turn(key, key=key)
        assert self._turn is not None
        self._turn.one_call = True
        return turn

    def wrap(
        self,
        dispatch: Dispatch,
        *,
        effects: Effects | None = None,
        sources: Sources | None = None,
        in_doubt: DoubtMode = "tell",
    ) -> Callable[[str, Mapping[str, Any]], Any]:
        """Wrap a dispatch function so that each call is recorded; arguments and results stay the same. A call
        in doubt is returned to the model as a result (`in_doubt="raise"` raises instead); a failure raises.
        `sources` says where results come from, by tool.
        """
        options = with_sources(effects, sources)

        self._driver.see_wrapped(dispatch)

        def recorded(name: str, arguments: Mapping[str, Any]) -> Any:
            return unwrapped(self._wrapped(name, arguments, dispatch, options).drive(), in_doubt)

        return recorded

    def _wrapped(
        self,
        name: str,
        arguments: Mapping[str, Any],
        dispatch: Dispatch,
        effects: Effects | None,
    ) -> Calling:
        turn = self._turn
        if turn is None or turn.ended:
            raise BadTurn(
                f"no turn of session {self._id} is open",
                hint="with session.turn(…) first",
                session=self._id,
            )
        return by_name(turn, name, arguments, dispatch, effects)

    def track(
        self,
        root: str = "",
        *,
        contents: bool = False,
        ignore: Sequence[str] = (),
        max_bytes: int = BYTES_MAX,
    ) -> None:
        """Look at the files of a folder before and after each call that is not a read, and record
        what changed; with `contents` also their contents, except for files that git or `ignore` ignores."""
        observe.track(self._driver, root, contents=contents, ignore=ignore, max_bytes=max_bytes)

    def child(
        self,
        name: str,
        *,
        agent: str = "",
        budget: Mapping[str, int] | None = None,
        busy: HeldMode = "fail",
    ) -> Session[Any]:
        """Open the session of a sub-agent: `with s.child("research") as c`.

        Its id is recorded here before it starts, and its end when the block ends. When the program runs
        again, the same name continues the same child.
        """
        known, program, asked_by = children.announce(self._turn_for(name), name)
        record = children.child_record(
            self._driver, known, agent=agent, budget=check_budget(mapping(budget, "budget"))
        )
        terms = self._driver.terms
        driver = open_driver.drive(
            self._driver.store, self.context, record, terms, busy=busy, program=program
        )
        driver.asked_by = asked_by
        # The turn that is open when the child is left, which need not be the one it began in.
        driver.on_leave = lambda status: children.conclude(
            self._turn_for(name), known, driver, status
        )
        return Session(driver)

    def _turn_for(self, child: str) -> OpenTurn:
        """The turn that is open now, which a child works for."""
        return children.check_open(self._turn, child, self._id)

    def fork(self, at: str = "head", *, name: str = "") -> str:
        """Start another session from a position of this one; return its id."""
        return forks.fork(self._driver.store, self.context, self.at(at), name=name, kind="fork").id

    def rewind(self, to: str) -> Rewound:
        """Return to a position, between turns: the state and the model's messages are again what they were
        there. The log keeps everything, and nothing outside the store is undone."""
        return rewinding.rewind_driven(self._driver, to)

    @contextlib.contextmanager
    def retry(
        self, turn: str, *, effects: RetryEffects = "ask", prompt: Any = None, name: str = ""
    ) -> Iterator[Turn]:
        """Try a turn again, beside this session: `with s.retry("t5") as t`.

        The retry is a fork of the end of the previous turn, named `NAME~t5.2` by default, and is driven until
        the block ends. It begins with the prompt of that turn, or another one. Its writes need a person's
        approval, unless `effects="run"`. With the name of an existing retry, it continues that one.
        """
        again, asked, key = self._begin_retry(turn, effects=effects, prompt=prompt, name=name)
        with again, again.turn(asked, key=key) as retried:
            yield retried

    def _begin_retry(self, turn: str, **options: Any) -> tuple[Session[Any], Any, str]:
        driver, prompt, key = retries.begin(self._driver, turn, **options)
        types = {
            "app_type": self._app_type,
            "app_version": self._app_version,
            "upcasts": self._upcasts,
        }
        return Session(driver, **types), prompt, key

    def adopt(self, ref: str) -> Adopted:
        """Adopt a retry or a fork of this session (`t5.2`): from now on this session's name refers to it. `t5.1` undoes
        that."""
        driver = self._driver
        return retries.adopt(
            self._driver.store, self.context, self._id, ref, driver.principal, driver=driver
        )

    def rerun(
        self,
        tools: Tools,
        span: str | None = None,
        *,
        effects: RerunEffects = "ask",
        name: str = "",
    ) -> Rerun:
        """Run the recorded calls of all or some turns (`"t3..t5"`) again and show which results changed. The
        calls run in a new retry. Writes wait for a person's approval; `effects="run"` lets them run.
        """
        from stator.runtime.branches import rerun as reruns

        return reruns.rerun(
            self._driver.store,
            self.context,
            self._id,
            tools,
            span,
            effects=effects,
            name=name,
            driver=self._driver.terms,
        )

    # -- the transcript ---------------------------------------------------------------------------

    def compact(
        self,
        *,
        max_tokens: int | None = None,
        keep: int = KEEP,
        strategy: Sequence[Level] = LEVELS,
        summary: Summary | None = None,
        provider: Dialect = "plain",
        count_tokens: CountTokens | None = None,
        scratch: bool = False,
    ) -> Compaction:
        """Shorten what `t.messages` renders until it fits, and record which keys left the view.

        The latest `keep` answers stay whole. In earlier ones, long outputs are removed first, then calls with
        their results, then everything; `summary` replaces it: a text, or a function of the messages. Without
        `max_tokens` every level of `strategy` is applied. Nothing leaves the log or the durable state;
        `scratch=True` drops old notes.
        """
        options = CompactionOptions(
            max_tokens=max_tokens,
            keep=keep,
            strategy=strategy,
            summary=summary,
            provider=provider,
            count_tokens=count_tokens,
            scratch=scratch,
        )
        return compact.compact(self._driver, options)

    def undo_compaction(self) -> Compaction:
        """Undo the last compaction: its content is shown again unchanged. Calling it again undoes the one before."""
        return compact.undo(self._driver)

    # -- leaving ----------------------------------------------------------------------------------

    def pause(self, reason: str = "user") -> None:
        """End the run and leave the session paused."""
        self._driver.leave("pause", reason)

    def close(self, reason: str = "done") -> None:
        """End the run and close the session: it accepts no more turns until it is resumed."""
        self._driver.leave("close", reason)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        self._driver.__exit__(kind, error, trace)
