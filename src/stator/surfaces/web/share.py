"""Writes a session as one page that needs neither a server nor a script.

Everything recorded is escaped, secrets that the rules find are masked again, and erased content is absent. The
policy inside the page allows its own style and nothing else.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from stator.model.log.commit import Commit, Gone, Large, gone
from stator.model.log.shown_text import without_secrets
from stator.runtime.base.pages import commits_at
from stator.runtime.facade.store import Store
from stator.runtime.views.browse import turns as reading
from stator.runtime.views.browse.turns import SessionHead
from stator.surfaces.cli.render.record_line import size, value_of
from stator.surfaces.web.page import environment, shown_text
from stator.surfaces.web.shape import texts, turn_view
from stator.surfaces.web.shape.call_view import CallView

TEXT_MAX = 20_000
"""Characters of one text in the page; what was cut is counted."""
KINDS = {"call": ("input", "Given"), "outcome": ("output", "Answered")}
"""The commits of a call: the field that holds its text, and what that is called."""


class SharedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, or a part of one, with the whole text of its calls."""

    view: Any
    is_first: bool
    inside: dict[int, list[tuple[str, str]]]
    """By the line of a call: its texts, each with a label."""


def shared_page(store: Store, session: str, *, now: int) -> Iterator[str]:
    """The page, piece by piece."""
    head = reading.head_of(store.as_read, session)
    style = (files("stator.surfaces.web") / "static" / "style.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    # The style is ours and must not be escaped, so that this part is no template.
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{digest}'\">\n"
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(_masked(head.row.record.name))}</title>\n<style>{style}</style>\n</head>\n"
    )
    template = environment(_masked).get_template("share.html")
    yield from template.generate(head=head, turns=_turns(store, head), now=now)
    yield "</html>\n"


def _masked(value: Any) -> Any:
    """An expression of the page: text without secrets, with every character visible."""
    return shown_text(without_secrets(value)) if type(value) is str else value


def _turns(store: Store, head: SessionHead) -> Iterator[SharedTurn]:
    """The turns in order; a long one in parts."""
    for number in range(1, head.row.turns + 1):
        after = 0
        while True:
            found = reading.one_turn(store.as_read, head.row.id, number, after=after)
            (turn,) = found.turns
            if not turn.commits:
                break
            (view,) = turn_view.in_full(found, runs=False)
            inside = _inside(store, head.row.id, view.lines, turn.commits)
            yield SharedTurn(view=view, is_first=not after, inside=inside)
            after = view.next_after
            if not after:
                break


def _inside(
    store: Store, session: str, lines: list[Any], commits: list[Commit]
) -> dict[int, list[tuple[str, str]]]:
    """What the calls of a turn were given and answered."""
    shown = [line for line in lines if isinstance(line, CallView)]
    calls = {line.call: line.seq for line in shown if line.call}
    # An outcome has a line of its own where its call was in an earlier part.
    alone = {line.seq for line in shown if not line.call}
    texts_of = [c for c in commits if c.kind in KINDS and (c.call in calls or c.seq in alone)]
    large = [
        commit.seq
        for commit in texts_of
        if isinstance(commit.content.get(KINDS[commit.kind][0]), Large)
    ]
    loaded = (
        {commit.seq: commit for commit in commits_at(store.as_read, session, large)}
        if large
        else {}
    )
    found: dict[int, list[tuple[str, str]]] = {}
    for commit in texts_of:
        field, label = KINDS[commit.kind]
        if text := _whole(loaded.get(commit.seq, commit), field):
            found.setdefault(calls.get(commit.call, commit.seq), []).append((label, text))
    return found


def _whole(commit: Commit, field: str) -> str:
    item = commit.content.get(field)
    if isinstance(item, Gone):
        return gone(item.by)
    if item is None:
        return ""
    text = texts.readable(value_of(commit, field))
    if len(text) <= TEXT_MAX:
        return text
    return f"{text[:TEXT_MAX]}\n… {size(len(text) - TEXT_MAX)} more are not in this page"
