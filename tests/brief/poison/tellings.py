"""Everything that an agent is told of a session, and whether poison in it is labelled.

A text is *labelled* where it occurs if its line, or the heading above it, names it as unverified, and if it is quoted:
between delimiters, on a line of its own. In a structured answer, the object that holds it names it as unverified.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from brief.poison.corpus import PROJECT, Poisoned
from stator.model.brief.compose import TARGETS
from stator.runtime.facade.store import Store
from stator.runtime.facade.view import SessionView

LABEL = "nverified"
"""What every label has, at the beginning of a sentence or within it."""
BRIEF_TOKENS = 1_500
_HEADING = re.compile(r"#|<[a-z_]+[ >]|[A-Z][^«\n]*:$")
_ESCAPED = re.compile(r"\\u[0-9a-f]{4}|\\x[0-9a-f]{2}")


def problems(store: Store, poisoned: Poisoned) -> list[str]:
    """Where poison is told as if somebody vouched for it."""
    return [
        f"{where}: {what}"
        for where, found in told(store, poisoned)
        for what in _unlabelled(found, poisoned.marker)
    ]


def told(store: Store, poisoned: Poisoned) -> Iterator[tuple[str, Any]]:
    """What an agent is told, by where."""
    view = SessionView(store.port, poisoned.session)
    for target in TARGETS:
        yield f"brief for {target}", view.brief(max_tokens=BRIEF_TOKENS, target=target).text
    yield "state of the project", msgspec.to_builtins(store.state(project=PROJECT).collections)


def mentions(store: Store, poisoned: Poisoned) -> int:
    """How often the poison is told, labelled or not."""
    return sum(
        json.dumps(found, default=str).count(poisoned.marker) for _, found in told(store, poisoned)
    )


def _unlabelled(found: Any, marker: str) -> Iterator[str]:
    if isinstance(found, str):
        yield from _in_text(found, marker)
    else:
        yield from _in_objects(found, marker, "$")


def _in_text(text: str, marker: str) -> Iterator[str]:
    heading = ""
    for line in text.split("\n"):
        if _HEADING.match(line):
            heading = line
        if marker not in line:
            continue
        if LABEL not in line and LABEL not in heading:
            yield f"not labelled, under {heading!r}: {line[:200]!r}"
        if not _is_quoted(line, marker):
            yield f"not quoted: {line[:200]!r}"


def _is_quoted(line: str, marker: str) -> bool:
    """Whether each occurrence lies between delimiters: plain ones, or those of an element that the text cannot
    leave."""
    plain = re.sub(r"«[^«»\n]*»|<[a-z]+>[^<>\n]*</[a-z]+>", "", line)
    return marker not in plain


def _in_objects(found: Any, marker: str, where: str) -> Iterator[str]:
    if isinstance(found, dict):
        if found.get("unverified"):
            return
        for name, value in found.items():
            yield from _in_objects(value, marker, f"{where}.{name[:40]}")
    elif isinstance(found, (list, tuple)):
        for number, value in enumerate(found):
            yield from _in_objects(value, marker, f"{where}[{number}]")
    elif isinstance(found, (str, bytes)):
        text = found if isinstance(found, str) else found.decode(errors="replace")
        if marker in text:
            yield f"{where}: {text[:120]!r}"
