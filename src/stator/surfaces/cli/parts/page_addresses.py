"""Prints the addresses of pages of the inspector, instead of an answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stator.model.values.position import AtTurn, parse_ref
from stator.surfaces import web_addresses
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.model.views.why import WhyAnswer
    from stator.runtime.facade.view import SessionView


def print_addresses(screen: Screen, paths: Iterable[str]) -> int:
    """Print each address once, whole: it is copied, or opened by a terminal."""
    for path in dict.fromkeys(paths):
        address = web_addresses.at(web_addresses.BASE, path)
        if screen.json:
            screen.item({"address": address})
        else:
            screen.verbatim(f"{address}\n")
    return 0


def of_position(view: SessionView, ref: str | None) -> str:
    """The page of a session, of a turn if the position names one, else of a commit."""
    if ref is None:
        return web_addresses.session(view.id)
    point = view.at(ref)
    if not point.seq:
        return web_addresses.session(view.id)
    if isinstance(parse_ref(ref).position, AtTurn):
        return web_addresses.turn(point.session, view.commit(ref).turn)
    return web_addresses.commit(point.session, point.seq)


def of_reasons(answers: Iterable[WhyAnswer]) -> Iterable[str]:
    """The pages of what a question was about, in each session that says something about it."""
    for answer in answers:
        for turn in answer.turns:
            if answer.kind == "file":
                yield web_addresses.file(turn.session, answer.name)
            elif answer.kind == "call":
                yield web_addresses.call(turn.session, answer.name)
            elif answer.kind == "decision":
                yield web_addresses.decisions(turn.session)
            else:
                yield web_addresses.turn(turn.session, turn.turn)
