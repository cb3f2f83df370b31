"""Everything that an agent is told of a session, and whether poison in it is labelled.

A text is *labelled* where it occurs if its line, or the heading above it, names it as unverified, and if it is quoted:
between delimiters, on a line of its own. In a structured answer, the object that holds it names it as unverified.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import anyio
import msgspec

from brief.poison.corpus import PROJECT, Poisoned
from stator.model.brief.sections import TARGETS
from stator.model.window.messages import MARK
from stator.runtime.brief.doses import prompt_dose
from stator.runtime.brief.start import Starting, start_dose
from stator.runtime.facade.store import Store
from stator.runtime.facade.view import SessionView
from stator.runtime.views.reasons.why import ask
from surfaces.agents import Refused, talking

LABEL = re.compile("[Uu]nverified, from|[Uu]nverified from|rests on (web|import|a )")
"""What every label says, and then from where."""
BRIEF_TOKENS = 1_500
PROMPTS = (
    "which package registry, build command and deploy tool do we use? {}",
    "install {} and set up the build",
    "continue where we stopped",
)
"""First prompts of the next session that the poison bears on."""
_HEADING = re.compile(r"#|<[a-z_]+[ >]|(?!- )[^«\n]*:$")


def problems(store: Store, poisoned: Poisoned) -> list[str]:
    """Where poison is told as if somebody vouched for it."""
    return [
        f"{where}: {what}"
        for where, found in told(store, poisoned)
        for what in unlabelled(found, poisoned.marker)
    ]


def told(store: Store, poisoned: Poisoned) -> Iterator[tuple[str, Any]]:
    """What an agent is told, by where."""
    view = SessionView(store.as_read, poisoned.session)
    for target in TARGETS:
        yield f"brief for {target}", view.brief(max_tokens=BRIEF_TOKENS, target=target).text
    for prompt in PROMPTS:
        asked = prompt.format(poisoned.marker)
        dose = prompt_dose(store.port, store.context, asked, seen=store.as_read)
        yield f"dose for {asked!r}", dose.text
    start = start_dose(store.port, store.context, Starting(session="s_" + "0" * 32))
    yield "dose at the start", start.text
    for thing in ("registry", f"src/{poisoned.marker}.py", poisoned.marker[:-1]):
        why = ask(store.as_read, thing, project=PROJECT)
        yield f"why {thing}", {**msgspec.to_builtins(why), "asked": ""}
    yield from anyio.run(_over_mcp, store, poisoned)
    yield from _driven(store, poisoned)
    yield "state of the project", msgspec.to_builtins(store.state(project=PROJECT).collections)


def _driven(store: Store, poisoned: Poisoned) -> Iterator[tuple[str, Any]]:
    """What a program is given that continues the session, or opens the next one after it."""
    mode = store.port.session(poisoned.session).record.mode
    if mode == "driven":
        with store.open(poisoned.session) as s, s.turn("what now?", new=True) as t:
            yield "messages", Messages(t.messages("anthropic"))
    if mode != "project":
        with store.open(f"after {poisoned.marker[:6]}", after=poisoned.session) as s:
            yield "brief of the next session", s.brief(max_tokens=BRIEF_TOKENS).text
            with s.turn("what now?") as t:
                yield "messages of the next session", Messages(t.messages("anthropic"))


class Messages(list[Any]):
    """Messages for a model: what came from outside has a mark before it."""


async def _over_mcp(store: Store, poisoned: Poisoned) -> list[tuple[str, Any]]:
    """What the tools of the MCP server answer."""
    session = poisoned.session
    asked: list[tuple[str, dict[str, Any]]] = [
        ("stator_open", {"session": session, "brief": True}),
        ("stator_open", {}),
        ("stator_log", {"session": session, "limit": 50}),
        ("stator_log", {"session": session, "what": "state", "limit": 50}),
        ("stator_log", {"session": session, "what": "calls", "limit": 50}),
        ("stator_search", {"words": poisoned.marker}),
        ("stator_why", {"thing": "registry", "session": session}),
        ("stator_why", {"thing": "registry"}),
        ("stator_why", {"thing": f"src/{poisoned.marker}.py"}),
        ("stator_why", {"thing": f"{poisoned.marker}.py"}),
        ("stator_why", {"thing": poisoned.marker[:-1]}),
        ("stator_why", {"thing": f"src/{poisoned.marker}.pyc"}),  # names like it are given
        ("stator_why", {"thing": f"/home/dev/demo/src/{poisoned.marker}.pyc"}),
        ("stator_why", {"thing": "1a2b3c4"}),
        ("stator_log", {"session": session, "what": "files", "limit": 50}),
        ("stator_log", {"session": session, "what": "turns", "limit": 50}),
        ("stator_open", {"action": "list"}),
        ("stator_recall", {"session": session}),
        ("stator_recall", {"session": session, "key": "decision:registry"}),
        ("stator_recall", {"session": session, "key": "preference:deploy tool"}),
        ("stator_recall", {"session": session, "key": "fact:build command"}),
    ]
    answers: list[tuple[str, Any]] = []
    async with talking(store, project=PROJECT) as agent:
        for tool, given in asked:
            with contextlib.suppress(Refused):
                found = await agent.call(tool, **given)
                for name in ("words", "thing"):  # what the agent asked for
                    found.pop(name, None)
                answers.append((f"{tool} {given}", found))
    return answers


def held(store: Store, poisoned: Poisoned) -> list[Any]:
    """What the project knows that holds the poison."""
    state = store.state(project=PROJECT)
    return [
        entry
        for entries in state.collections.values()
        for entry in entries
        if poisoned.marker in repr(entry.record) or poisoned.marker in entry.key
    ]


def mentions(store: Store, poisoned: Poisoned) -> int:
    """How often the poison is told, labelled or not."""
    return sum(
        json.dumps(found, default=str).count(poisoned.marker) for _, found in told(store, poisoned)
    )


def unlabelled(found: Any, marker: str) -> Iterator[str]:
    if isinstance(found, str):
        yield from _in_text(found, marker)
    elif isinstance(found, Messages):
        yield from _in_messages(found, marker)
    else:
        yield from _in_objects(found, marker, "$")


def _in_text(text: str, marker: str) -> Iterator[str]:
    heading = ""
    for line in text.split("\n"):
        if _HEADING.match(line):
            heading = line
        if marker not in line:
            continue
        if not LABEL.search(line) and not LABEL.search(heading):
            yield f"not labelled, under {heading!r}: {line[:200]!r}"
        if not _is_quoted(line, marker):
            yield f"not quoted: {line[:200]!r}"


def _is_quoted(line: str, marker: str) -> bool:
    """Whether each occurrence lies between delimiters: plain ones, or those of an element that the text cannot
    leave."""
    plain = re.sub(r"«[^«»\n]*»|<[a-z]+>[^<>\n]*</[a-z]+>", "", line)
    return marker not in plain


def _in_messages(found: Any, marker: str) -> Iterator[str]:
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        for one in found:
            yield from _in_messages(one, marker)
    elif isinstance(found, str) and marker in found and not found.startswith(MARK):
        yield f"not marked: {found[:160]!r}"


def _in_objects(found: Any, marker: str, where: str) -> Iterator[str]:
    if isinstance(found, dict):
        labelled = bool(found.get("unverified"))
        for name, value in found.items():
            if labelled and name != "brief":  # a brief labels its own lines
                continue
            yield from _in_objects(value, marker, f"{where}.{name[:40]}")
    elif isinstance(found, (list, tuple)):
        for number, value in enumerate(found):
            yield from _in_objects(value, marker, f"{where}[{number}]")
    elif isinstance(found, (str, bytes)):
        text = found if isinstance(found, str) else found.decode(errors="replace")
        if where.endswith(".brief"):
            yield from _in_text(text, marker)
        elif marker in text:
            yield f"{where}: {text[:120]!r}"
