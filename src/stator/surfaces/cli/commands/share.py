"""`stator share`: writes a session as one page for a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from stator.errors import InvalidInput
from stator.model.values.ids import short
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.parts.output.new_file import write_new
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count, size
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        JsonFlag,
        NoPagerFlag,
        PageOption,
        SessionArgument,
        StoreOption,
    )

EXAMPLES = """
stator share                       the last session, as NAME.html
stator share fix-login -o page.html
stator share fix-login -o page.html --force      replaces the file
"""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


def share(
    session: SessionArgument = None,
    *,
    output: PageOption = None,
    force: bool = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Write a session as one page that opens in any browser.

    The page needs no server and no script, and makes no request. Secrets that the redaction rules find are masked,
    and erased content is absent. Read it before you send it: what the rules do not know is in it as it was recorded.

    Parameters
    ----------
    force
        Do it even if the file exists: it is replaced.
    """
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
    except ImportError as error:
        raise InvalidInput(
            f"stator share needs the package {error.name}", hint="pip install 'stator[server]'"
        ) from None
    from stator.surfaces.web.share import shared_page

    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view = opened.session(session)
        path = output or f"{view.name if _PLAIN.match(view.name) else short(view.id)}.html"
        written = write_new(
            Path(path),
            shared_page(opened.store, view.id, now=opened.now),
            replace=force,
            hint="give another name with -o FILE, or replace it with --force",
        )
        if json:
            fields = {"path": path, "bytes": written, "session": view.id, "turns": view.row.turns}
            screen.document("stator.share/1", fields)
        else:
            line = Line("✓ ", "ok").add(path, "bold").add(f" · {count(view.row.turns, 'turn')}")
            screen.line(line.add(f", {size(written)}", "dim"))
    return 0
