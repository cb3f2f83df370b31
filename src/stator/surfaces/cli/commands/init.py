"""`stator init`: a store of its own for a project."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from stator.connect import FILE, FOLDER, PROJECT_FILE, connect, prepare_folder
from stator.errors import NotAStore
from stator.surfaces.cli.paint import Line
from stator.surfaces.cli.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, StoreOption

EXAMPLES = """
stator init                        here
stator init ~/code/shop            there
stator init --json | jq -r .store
"""


def init(
    path: str | None = None,
    /,
    *,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Make this folder a project with a store of its own.

    Creates .stator/store.db and .stator/project (the project's id), in a folder that git ignores by
    itself. Run again, it changes nothing. Programs and this command line find the store from any folder
    below.

    Parameters
    ----------
    path
        The project's folder; default: the current one.
    """
    root = Path(os.path.abspath(path or "."))
    folder = root / FOLDER
    file = Path(os.path.abspath(store)) if store is not None else folder / FILE
    try:
        made = _make(root, folder, file)
    except OSError as error:
        raise NotAStore(
            f"{error.filename or root}: {error.strerror}", hint="choose another folder"
        ) from None
    project = (folder / PROJECT_FILE).read_text(encoding="utf-8").strip()
    with Screen(json=json, pager=not no_pager) as screen:
        if json:
            found = {"store": str(file), "project": project, "root": str(root), "created": made}
            screen.document("stator.init/1", found)
            return 0
        if not made:
            screen.line(
                Line("nothing to do: ", "dim").add(str(file)).add(" is there already", "dim")
            )
        for name in made:
            screen.line(Line("created ", "added").add(name))
        screen.line(Line(f"project {project}", "dim"))
    return 0


def _make(root: Path, folder: Path, file: Path) -> list[str]:
    """Make what is missing; what was made."""
    made = []
    root.mkdir(parents=True, exist_ok=True)
    if not folder.is_dir():
        made.append(f"{folder}{os.sep} (ignored by git)")
    prepare_folder(str(folder))
    identity = folder / PROJECT_FILE
    if not identity.exists():
        identity.write_text(f"p_{secrets.token_hex(16)}\n", encoding="utf-8")
        made.append(str(identity))
    if not os.path.lexists(file):
        made.append(str(file))
    connect(file).close()
    return made
