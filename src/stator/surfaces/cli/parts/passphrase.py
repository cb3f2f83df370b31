"""Passphrases: from a file or from whoever sits at the terminal, never from an argument."""

from __future__ import annotations

import getpass
import sys

from stator.errors import InvalidInput, NotFound

FILE_MAX = 4096


def from_file(path: str) -> str:
    """The first line of a file."""
    try:
        with open(path, encoding="utf-8") as file:
            return _checked(file.readline(FILE_MAX).rstrip("\r\n"))
    except FileNotFoundError:
        raise NotFound(f"no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} holds no passphrase: {error}") from None


def asked(what: str, *, twice: bool = False) -> str:
    """What a person types, unseen."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput(
            "nobody is here to ask for a passphrase", hint="give it with --passphrase-file"
        )
    found = getpass.getpass(f"{what}: ")
    if twice and getpass.getpass(f"{what}, again: ") != found:
        raise InvalidInput("the two are not the same")
    return _checked(found)


def _checked(passphrase: str) -> str:
    if not passphrase:
        raise InvalidInput("a passphrase cannot be empty")
    return passphrase
