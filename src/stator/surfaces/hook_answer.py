"""Answers an agent's hooks with what its model is given: a dose when a session starts, and one with its first prompt.

A store that is not this user's own gives an agent nothing; a message says so once.

The spool is ingested only as far as an agent can wait, and not at all if that cannot change the answer. What each dose
holds is decided in `runtime.brief.doses`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from stator.connect import NEAREST, StorePlace, open_as_is, spools, take_spools
from stator.hooks.event_names import PROMPTS
from stator.hooks.mappers import load_mapper
from stator.locations import CURRENT, HELD, SERVERS, is_spooled, scheme_of, waits, without_secrets
from stator.model.values.escape import visible
from stator.model.values.json_text import canonical
from stator.runtime.ingest.placement import find
from stator.surfaces.told_marks import claim, remove_old, withdraw

if TYPE_CHECKING:
    from stator.model.brief.doses import Dose
    from stator.model.exchange.items import Conversation
    from stator.runtime.views.as_read import OpenStore

SAID = "said"
"""The file in a spool that shows that the user knows whose store it is for."""
LINES_MAX, INGEST_S, WAIT_S = 300, 0.08, 0.05
"""How much of the spool is ingested at most, for how long, and how long another process is waited for."""
COMPARING_S = 0.008
"""How long the agent's own list of sessions is compared with the store."""
SECONDS = 3
"""How long an agent has to wait at most, for example for the store's lock."""
SERVER_S = 2.5
"""How long it has to wait for a store on a server."""
LATE_MAX = 2
"""How often a first prompt whose answer took too long leaves its dose to the next prompt."""
CONTINUING = ("resume", "compact", "fork")
"""The sources of a session start that continue an existing session."""


def answer(
    agent: str,
    hook_input: dict[str, Any],
    cwd: str,
    path: str,
    spool: str,
    *,
    named: bool,
    brief: str,
    queued: int = 0,
) -> bytes:
    """The bytes for standard output; empty if there is nothing to answer. `spool` is the folder that hooks queue in;
    `named`: the store was named, and not only found; `brief`: which doses the agent is given; `queued`: the bytes that
    this hook wrote to the spool, if another program ingests them right after the answer."""
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    conversation = load_mapper(agent).conversation(hook_input)
    if conversation is None:
        return b""
    is_server = scheme_of(path) in SERVERS
    if hook_input.get("hook_event_name") in PROMPTS:
        give_up = lambda *_: _give_up_prompt(hook_input, spool)  # noqa: E731
        signal.signal(signal.SIGALRM, give_up)
        ask = partial(
            _prompt_answer, agent, hook_input, conversation, cwd, path, spool, named=named
        )
        reply = _asked_in_time(ask, give_up) if is_server else ask()
        signal.signal(signal.SIGALRM, _give_up)  # from here on, the answer is given
        return reply
    begin = partial(
        _start_answer, agent, hook_input, conversation, cwd, path, spool,
        named=named, brief=brief, queued=queued,
    )  # fmt: skip
    return _asked_in_time(begin, lambda: _away_answer(path)) if is_server else begin()


def _asked_in_time(ask: Callable[[], bytes], otherwise: Callable[[], bytes]) -> bytes:
    """What a question to a server gives, in a thread of its own: no signal ends a look for its name. Without an answer
    in time, what is said otherwise."""
    found: list[bytes] = []

    def asked() -> None:
        with suppress(Exception):  # whatever fails, a hook prints nothing of it
            found.append(ask())

    thread = threading.Thread(target=asked, daemon=True)
    thread.start()
    thread.join(SERVER_S)
    return found[0] if found else otherwise()


def _away_answer(url: str) -> bytes:
    """A message for the user that a server does not answer."""
    text = (
        f"Stator: {visible(without_secrets(url))} does not answer. What hooks report is kept on this machine, "
        "and recorded when it does. To see why: stator doctor"
    )
    return canonical({"systemMessage": text}).encode() + b"\n"


def _start_answer(
    agent: str,
    hook_input: dict[str, Any],
    conversation: Conversation,
    cwd: str,
    path: str,
    spool: str,
    *,
    named: bool,
    brief: str,
    queued: int,
) -> bytes:
    """What an agent is given when a session starts."""
    place = StorePlace(path, "as given" if named else NEAREST)
    with open_as_is(place, create=True, start=cwd) as store:
        if why := store.foreign:
            return _foreign_answer(path, why, spool)
        is_new = hook_input.get("source") not in CONTINUING
        if not (is_new and _is_alone(store, spool, queued)):
            _ingest(store)
        dose = None if brief == "off" else _start_dose(store, hook_input, conversation, spool)
        missing = _missing(store, agent, conversation.id)
    remove_old(spool)
    said = {"systemMessage": missing} if missing else {}
    output = _as_hook_output(agent, hook_input, str(dose or "")) | said
    return canonical(output).encode() + b"\n" if output else b""


def _give_up(*_: object) -> NoReturn:
    """End this hook: the agent has waited long enough."""
    os._exit(0)


def _give_up_prompt(hook_input: dict[str, Any], spool: str) -> NoReturn:
    """End the hook of a first prompt: nothing was told, so the next prompt is answered in its place. Not any number
    of times: with a store that is always slow, an agent would wait at each prompt."""
    conversation = str(hook_input.get("session_id"))
    if any(claim(spool, f"late {number} {conversation}") for number in range(LATE_MAX)):
        withdraw(spool, conversation)
    _give_up()


def _is_alone(store: OpenStore, spool: str, queued: int) -> bool:
    """Whether what this hook wrote is all that waits to be ingested. It says only that a session starts, which the
    answer knows; a session that continues has a transcript that may say more."""
    try:
        with os.scandir(spool) as entries:
            found = [one for one in entries if is_spooled(one.name) or one.name == HELD]
            sizes = [one.stat(follow_symlinks=False).st_size for one in found]
    except OSError:
        return False
    is_own = [one.name for one in found] == [CURRENT] and sizes == [queued]
    return is_own and not any(waits(folder) for folder in spools(store.port) if folder != spool)


def _ingest(store: OpenStore) -> None:
    from stator.hooks.ingest import IngestLimits  # takes time to load

    take_spools(store.port, limits=IngestLimits(lines=LINES_MAX, seconds=INGEST_S, wait_s=WAIT_S))


def _start_dose(
    store: OpenStore,
    hook_input: dict[str, Any],
    conversation: Conversation,
    spool: str,
) -> Dose:
    from stator.runtime.brief.start import Starting, start_dose

    row = find(store.port, conversation)
    source = hook_input.get("source")
    is_resumed = source in CONTINUING
    # A conversation that continues has had its first prompt.
    had_start = not claim(spool, f"start {conversation.id}")
    if is_resumed:
        claim(spool, conversation.id)
    starting = Starting(
        session=conversation.session if row is None else row.id,
        resumed=is_resumed,
        has_handle=had_start and source == "resume",
    )
    return start_dose(store.as_read, store.context, starting)


def _prompt_answer(
    agent: str,
    hook_input: dict[str, Any],
    conversation: Conversation,
    cwd: str,
    path: str,
    spool: str,
    *,
    named: bool,
) -> bytes:
    from stator.model.brief.relevance import subject_of

    prompt = _prompt(hook_input)
    subject = subject_of(prompt)
    if subject.is_empty and not subject.follows:
        # Nothing can bear on a greeting: the next prompt is the first that says something.
        withdraw(spool, str(hook_input.get("session_id")))
        return b""
    if scheme_of(path) not in SERVERS and not os.path.exists(path):
        return b""
    place = StorePlace(path, "as given" if named else NEAREST)
    with open_as_is(place, start=cwd) as store:
        if store.foreign:
            return b""
        from stator.runtime.brief.doses import prompt_dose

        row = find(store.port, conversation)
        dose = prompt_dose(
            store.port, store.context, prompt, seen=store.as_read,
            own=conversation.session if row is None else row.id,
        )  # fmt: skip
    output = _as_hook_output(agent, hook_input, str(dose))
    return canonical(output).encode() + b"\n" if output else b""


def _prompt(hook_input: dict[str, Any]) -> str:
    """The text of a prompt; opencode gives its parts."""
    prompt = hook_input.get("prompt")
    if isinstance(prompt, str):
        return prompt
    parts = prompt if isinstance(prompt, list) else hook_input.get("parts")
    found = (
        [part.get("text") for part in parts or () if isinstance(part, dict)]
        if isinstance(parts, list)
        else []
    )
    return "\n".join(text for text in found if isinstance(text, str))


def _missing(store: OpenStore, agent: str, beginning: str) -> str:
    """A message for the user about sessions of this project that the agent keeps and that are not recorded."""
    from stator.hooks.unrecorded import missing_sessions

    found = missing_sessions(
        store.port, store.context, Path(os.path.expanduser("~")), os.environ,
        agents=[agent], spools=spools(store.port), except_id=beginning, seconds=COMPARING_S,
    )  # fmt: skip
    expected = [one for one in found.sessions if one.is_expected]
    if not expected:
        return ""
    number = f"{len(expected)} session" + "s" * (len(expected) != 1)
    return (
        f"Stator: {'' if found.is_all else 'at least '}{number} of {agent} in this project not recorded "
        f"({expected[0].why}). To import what is missing: {found.command()}"
    )


def _foreign_answer(path: str, why: str, spool: str) -> bytes:
    """A message for the user that nothing is recorded in a foreign store; once for each store."""
    try:
        os.close(os.open(os.path.join(spool, SAID), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return b""
    text = (
        f"Stator: {visible(path)} {why}. What hooks report is kept outside it and not recorded yet. "
        "If the store is yours: stator trust"
    )
    return canonical({"systemMessage": text}).encode() + b"\n"


def _as_hook_output(agent: str, hook_input: dict[str, Any], context: str) -> dict[str, Any]:
    if not context:
        return {}
    if agent == "cursor":
        return {"additional_context": context}
    name = hook_input.get("hook_event_name")
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": context}}
