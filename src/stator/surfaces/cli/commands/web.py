"""`stator web`: shows the sessions of a store in a browser."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stator.connect import catch_up, connect, locate
from stator.errors import InvalidInput
from stator.surfaces.cli.exits import write_stderr
from stator.surfaces.cli.parts.foreign import warn_if_foreign
from stator.surfaces.web_addresses import PORT

if TYPE_CHECKING:
    from stator.runtime.facade.store import Store
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, PortOption, StoreOption
    from stator.surfaces.http.served import Served
    from stator.surfaces.web.inspector import Door

EXAMPLES = """
stator web                         opens your browser
stator web --no-browser            prints the link instead
stator web --port 0                on any free port
stator web --json                  prints the address, a link, and a token for programs
"""
CATCH_UP_S = 1.0
"""How often what hooks queued is imported."""


def web(
    *,
    port: PortOption = PORT,
    no_browser: bool = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show your sessions in a browser, live.

    Serves pages on this machine only, and JSON under /v1 for programs. The link works once and is then remembered by
    your browser; press Enter for another one. An empty store is filled with the sessions of the agents on this machine.

    Parameters
    ----------
    no_browser
        Print the link and do not open a browser.
    """
    try:
        import jinja2  # noqa: F401
        import sse_starlette  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InvalidInput(
            f"stator web needs the package {error.name}", hint="pip install 'stator[server]'"
        ) from None
    from stator.surfaces.web.inspector import serve

    with ExitStack() as stack:
        shown, opened = _opened(store, stack)

        def ready(door: Door) -> None:
            if json:
                _print_json(door)
                return
            write_stderr(f"{door.address} shows {shown}; Enter prints a new link, Ctrl-C ends it")
            _offer(door, browser=not no_browser)
            if sys.stdin is not None and sys.stdin.isatty():
                threading.Thread(target=_new_links, args=(door,), daemon=True).start()

        serve(lambda address: _served(address, shown, opened, stack), port=port, ready=ready)
    return 0


def _opened(store: str | None, stack: ExitStack) -> tuple[str, Store | None]:
    """The store and how it is shown; None for one that has no sessions where there are none to import either."""
    from stator.surfaces.web.first_import import has_agent_sessions

    place = locate(store)
    is_there = "://" in place.url or os.path.lexists(place.url.removeprefix("sqlite:"))
    has_more = store is None and has_agent_sessions(_home(), os.environ)
    if not is_there and not has_more and store is None:
        return place.shown, None
    opened = stack.enter_context(connect(place, create=has_more))
    warn_if_foreign(opened)
    is_empty = not opened.sessions(limit=1).rows
    return place.shown, None if is_empty and not has_more else opened


def _served(address: str, shown: str, opened: Store | None, stack: ExitStack) -> Served:
    """What the service is given. What runs beside it ends with it."""
    from stator.surfaces.http.served import Served
    from stator.surfaces.web.first_import import FirstImport
    from stator.surfaces.web.sample_sessions import open_samples

    if opened is None:
        samples = stack.enter_context(open_samples())
        return Served(store=samples, address=address, place="two samples", samples=True)
    importing = None
    if not opened.sessions(limit=1).rows:
        importing = FirstImport(opened, _home(), os.environ)
        stack.callback(importing.close)
        importing.start()
    stack.enter_context(_taking_in(opened))
    return Served(
        store=opened,
        address=address,
        place=shown,
        catch_up=lambda: catch_up(opened),
        first_import=importing,
    )


def _home() -> Path:
    return Path(os.environ.get("HOME") or os.path.expanduser("~"))


@contextmanager
def _taking_in(store: Store) -> Iterator[None]:
    """Import what hooks queue, until the service ends."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(CATCH_UP_S):
            catch_up(store)

    taking = threading.Thread(target=run, name="stator catch up", daemon=True)
    taking.start()
    try:
        yield
    finally:
        ended.set()
        taking.join()


def _print_json(door: Door) -> None:
    from stator.surfaces.cli.render import wire

    found = {"schema": "stator.web/1", "address": door.address}
    print(wire.dumps({**found, "link": door.new_link(), "token": door.new_token()}), flush=True)


def _offer(door: Door, *, browser: bool) -> None:
    """Print a link; open it in the browser too, if there is one."""
    link = door.new_link()
    write_stderr(f"open {link}")
    if browser:
        import webbrowser

        webbrowser.open(link)


def _new_links(door: Door) -> None:
    """Print a new link each time Enter is pressed."""
    for _ in sys.stdin:
        _offer(door, browser=False)
