"""The file `.stator/server` of a project: the URL of its store on a server, as this user wrote it down.

A folder that was cloned or copied may bring such a file, to have what agents do sent to another person's server; and
git replaces a file that it was told to ignore. So what the file says counts only if the list of what this user wrote
has that URL for that folder. The hook reads it, so nothing heavy is loaded.
"""

from __future__ import annotations

import os
import stat

from stator.locations import SERVER, SERVERS, scheme_of
from stator.owner.register import SERVER_FILE, Listed
from stator.owner.standing import register_of, unlinked

# type checkers recognize the name; importing it from `typing` would take too long for the hook
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

URL_MAX = 4_096
READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def server_in(environ: Mapping[str, str], folder: str) -> str | None:
    """The store on a server that a project's folder names; None if it names none, "" if the file that names it is not
    this user's own."""
    path = os.path.join(folder, SERVER)
    try:
        handle = os.open(path, READING)
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    try:
        file, text = os.fstat(handle), os.read(handle, URL_MAX)
    finally:
        os.close(handle)
    url = text.decode("utf-8", "replace").strip()
    register = register_of(environ)
    if not stat.S_ISREG(file.st_mode) or not _is_server(url) or register is None:
        return ""
    try:
        lines = register.by_path(SERVER_FILE, unlinked(path))
    except OSError:  # others could have written the list
        return ""
    return url if lines and lines[-1].id == url else ""


def _is_server(url: str) -> bool:
    """Whether a text is the URL of a store on a server, in one word, as the list has it."""
    return scheme_of(url) in SERVERS and url.isprintable() and " " not in url


def own_server_in(environ: Mapping[str, str], folder: str) -> str | None:
    """The same; `NotAStore` if the file is not this user's own."""
    server = server_in(environ, folder)
    if server == "":
        from stator.errors import NotAStore  # the hook does without it

        raise NotAStore(
            f"{os.path.join(folder, SERVER)} names a store on a server, and you did not write it",
            hint="remove the file, name a store with --store, or make that one the project's: "
            "stator init . --store URL",
        )
    return server


def name_server(environ: Mapping[str, str], folder: str, url: str) -> None:
    """Write down which store on a server a project has. An earlier file is replaced, and no longer counts."""
    register = register_of(environ)
    if register is None:
        raise FileNotFoundError(2, "there is no home folder")
    if not _is_server(url):
        raise ValueError("a URL of a server is one word")
    path = os.path.join(folder, SERVER)
    made = f"{path}.{os.getpid()}.new"
    with open(
        os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w"
    ) as out:
        out.write(f"{url}\n")
        file = os.fstat(out.fileno())
    register.add(Listed(SERVER_FILE, url, file.st_ino, file.st_dev, "", unlinked(path)))
    os.replace(made, path)
