"""Tells a person all that is known of a call in doubt, the same way in every command that shows one."""

from __future__ import annotations

from collections.abc import Iterator

from stator.model.values.ids import short
from stator.runtime.driving.settlement import Doubt, doubt_of
from stator.runtime.views.reasons.doubt_story import story_of
from stator.surfaces.cli.parts.open_store import OpenedStore
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.waiting_calls import HANG, NEXT, story_lines


def tell(screen: Screen, opened: OpenedStore, found: Doubt, *, is_asked: bool = False) -> None:
    """All that is known of a call in doubt, and the commands that settle it, unless the person `is_asked` here."""
    story = story_of(opened.store.as_read, found)
    screen.lines(story_lines(found, story, opened.now, is_asked=is_asked), hang=HANG)
    if not is_asked:
        screen.lines(_for_its_agent(opened, found.session))


def tell_of(screen: Screen, opened: OpenedStore, session: str, call: str) -> bool:
    """The same of a call by its id; whether it is in doubt."""
    found = doubt_of(opened.store.as_read, call, session=session)
    if found is not None:
        tell(screen, opened, found)
    return found is not None


def _for_its_agent(opened: OpenedStore, session: str) -> Iterator[Line]:
    """How to inform an agent that keeps its own transcript about a call in doubt."""
    from stator.surfaces.cli.parts.output.write_transcript import AGENTS  # takes time to load

    sources = {source for source, _ in opened.store.read(session).record.aliases}
    for agent in sorted(sources & set(AGENTS))[:1]:
        yield Line(f"{NEXT}Or write a transcript that marks it in doubt:", "dim")
        yield Line(f"{NEXT}  stator export --as {agent} {short(session)}")
