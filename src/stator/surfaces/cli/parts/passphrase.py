"""Reads passphrases from a file or from the terminal. Never from an argument: other users can see those."""

from __future__ import annotations

import sys

from stator.errors import InvalidInput, NotFound

FILE_MAX = 4096


def from_file(path: str) -> str:
    """The first line of a file."""
    try:
        with open(path, encoding="utf-8") as file:
            return _checked(file.readline(FILE_MAX).rstrip("\r\n"))
    except FileNotFoundError:
        raise NotFound(f"no file {path!r:.200}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read a passphrase from {path!r:.200}: {error}") from None


def from_terminal(what: str, *, twice: bool = False) -> str:
    """Ask for a passphrase without showing what is typed."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput(
            "cannot ask for a passphrase: stdin is not a terminal", hint="use --passphrase-file"
        )
    import getpass  # seldom asked for

    try:
        found = getpass.getpass(f"{what}: ")
        again = getpass.getpass(f"{what}, again: ") if twice else found
    except EOFError:
        raise InvalidInput("no passphrase was typed") from None
    if again != found:
        raise InvalidInput("the two passphrases differ")
    return _checked(found)


def _checked(passphrase: str) -> str:
    if not passphrase:
        raise InvalidInput("a passphrase cannot be empty")
    return passphrase
