"""`stator artifact`: lists named documents, and shows their content, versions and changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import BadQuery, InvalidInput
from stator.model.values import canon, json_text
from stator.runtime.facade.view import SessionView
from stator.runtime.views.artifacts import Artifact, Document, read
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, title
from stator.surfaces.cli.render import escape
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import size
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.table import Column, table

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        JsonFlag,
        NoPagerFlag,
        ProjectFlag,
        SessionOption,
        StoreOption,
        Text,
        VersionOption,
        VersionsOption,
    )

EXAMPLES = """
stator artifact                          documents of the last session
stator artifact notes                    the newest version; piped: its bytes
stator artifact notes --project          the newest version in any session of this project
stator artifact notes --versions
stator artifact notes --diff 1..3        from version 1 to version 3
"""
STYLES = {"+": "added", "-": "removed", "@": "id"}
COLUMNS = (
    Column(title="NAME", shrinks=True, least=20),
    Column(title="VERSION"),
    Column(title="TURN"),
    Column(title="AT"),
    Column(title="SIZE", right=True),
    Column(title="TYPE", drop=1),
)


def artifact(
    name: Text = None,
    /,
    *,
    version: VersionOption = None,
    versions: bool = False,
    diff: VersionsOption = None,
    session: SessionOption = None,
    project: ProjectFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """List named documents, or show their content, versions and changes.

    Parameters
    ----------
    name
        The document; without a name, all documents are listed.
    versions
        List every version of the document.
    """
    asked = [version is not None, versions, diff is not None]
    if name is None and (project or any(asked)):
        raise BadQuery("the name of the document is missing", hint="stator artifact lists them")
    if sum(asked) > 1 or (project and session is not None):
        raise BadQuery(
            "use only one of --version, --versions and --diff, and one of --project and --session"
        )
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        if project and name is not None:
            view = SessionView(opened.store.as_read, opened.store.artifact(name).session)
        else:
            view = opened.session(session)
        if name is None:
            return _listed(screen, opened, view, view.artifacts(), "artifacts")
        if versions:
            return _listed(screen, opened, view, view.artifact_versions(name), name)
        if diff is not None:
            _diff(screen, view, name, diff)
        else:
            _content(screen, read(opened.store.port, view.id, name, version))
    return 0


def _listed(
    screen: Screen, opened: OpenedStore, view: SessionView, found: Sequence[Artifact], what: str
) -> int:
    if screen.json:
        for item in found:
            screen.item(msgspec.to_builtins(item))
        return 0
    title(screen, view, opened, what)
    screen.lines(table(COLUMNS, [_cells(item) for item in found], screen.width))
    return 0 if found else opened.report_empty("no artifacts")


def _cells(item: Artifact) -> list[Line | str]:
    return [
        item.name,
        f"v{item.version}",
        Line(f"t{item.turn}", "dim"),
        Line(f"@{item.seq}", "id"),
        size(item.size),
        Line(item.media_type, "dim"),
    ]


def _content(screen: Screen, found: Document) -> None:
    """Print the bytes of a document; on a terminal, control sequences in it are escaped."""
    content = found.content
    if screen.json:
        plain = msgspec.to_builtins(msgspec.structs.replace(found, content=None))
        screen.document("stator.artifact/1", {**plain, "content": canon.to_plain(content)})
    elif not screen.is_terminal:
        screen.raw(_bytes(content))
    else:
        text = _bytes(content).decode("utf-8", "backslashreplace").removesuffix("\n")
        screen.whole(Line().add(line) for line in escape.lines(text))


def _bytes(content: Any) -> bytes:
    """The content as bytes: text and bytes unchanged, anything else as a line of JSON."""
    if isinstance(content, bytes):
        return content
    if isinstance(content, str):
        return content.encode("utf-8", "backslashreplace")
    return json_text.canonical(content).encode() + b"\n"


def _diff(screen: Screen, view: SessionView, name: str, asked: str) -> None:
    a, b = _versions(asked)
    text = view.artifact_diff(name, a, b)
    if screen.json:
        screen.document("stator.artifact-diff/1", {"name": name, "a": a, "b": b, "diff": text})
    elif not screen.is_terminal:
        screen.raw(text.encode("utf-8", "backslashreplace"))
    else:
        for line in escape.lines(text.removesuffix("\n")):
            screen.whole([Line().add(line, STYLES.get(line[:1], ""))])


def _versions(text: str) -> tuple[int | None, int]:
    first, dots, last = text.partition("..")
    ends = [first, last] if dots else [first]
    if not all(end.isascii() and end.isdecimal() and len(end) < 9 for end in ends):
        raise InvalidInput(
            f"--diff takes version numbers, got {text!r:.40}", hint="use --diff 1..3 or --diff 3"
        )
    return (int(first), int(last)) if dots else (None, int(first))
