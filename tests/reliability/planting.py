"""Plants secrets, and finds them again in whatever a store wrote.

Every planted secret holds the same mark and a number of its own. One search for the mark, in each form in which
bytes or text could be written, finds every leak, and the number says where the secret was planted.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from reliability.support import bare

MARK = "QzXwVk7QzXwVk"
_LINE = MARK * 4


def _forms() -> dict[str, bytes]:
    """The mark as it can be written. In base64, at each place that it can have in a group of three bytes; without
    the letters at its ends, which depend on what is beside it."""
    mark = MARK.encode()
    shifted = {f"base64 at {n}": base64.b64encode(b"\0" * n + mark)[4:-4] for n in range(3)}
    return {
        "as it is": mark,
        "in UTF-16, low byte first": MARK.encode("utf-16-le"),
        "in UTF-16, high byte first": MARK.encode("utf-16-be"),
        "in hex": mark.hex().encode(),
        "in hex, upper case": mark.hex().upper().encode(),
        **shifted,
    }


FORMS = _forms()

SHAPES: dict[str, str] = {
    "a vendor's key": "use gh" + "p_@aB3dE5gH7jK9mN1pQ2sT4",
    "an environment variable": "connect with DB_PASSWORD=hunter2@",
    "a variable called PASS": "SMTP_PASS=hunter2@ make",
    "a line of YAML": "password: hunter2@",
    "JSON in a text": '{"user": "a", "password": "hunter2@"}',
    "a flag": "login with --token hunter2@ now",
    "a cookie": "Cookie: session=R9CS37d@",
    "a header": "Authorization: Bearer R9CS37d@",
    "basic authorization": "Authorization: Basic dXNlcjpodW50ZXIy@",
    "a URL": "postgres://app:hunter2@@db.internal:5432/x",
    "a connection string": "Server=h;Uid=u;Pwd=hunter2@;",
    "a JSON Web Token": "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0@.SflKxwRJSMeKKF2Q",
    "a private key": "-----BEGIN PRIVATE "
    + f"KEY-----\n{_LINE}\n@\n{_LINE}\n-----END PRIVATE KEY-----",
}
"""Texts with a secret in place of their @ (of `@@`, the second stays)."""


class Planter:
    """Gives texts with secrets, and remembers where each was planted."""

    def __init__(self) -> None:
        self.places: list[str] = []
        self.shapes: Sequence[str] = tuple(SHAPES)
        """The shapes of the secrets in a text."""

    def text(self, where: str) -> str:
        """One text with a secret of every shape, each on a line of its own."""
        return "\n".join(self.secret(where, shape) for shape in self.shapes)

    def secret(self, where: str, shape: str) -> str:
        self.places.append(f"{where}: {shape}")
        return SHAPES[shape].replace("@", f"{MARK}{len(self.places) - 1:06}Zz", 1)

    def value(self, where: str) -> Any:
        """A value with secrets in every type of leaf, in containers of every type, and in a key."""
        text = self.text(where)
        raw = self.text(f"{where} (bytes)").encode()
        return {
            "deep": [[(text, {self.text(f"{where} (key)"): [raw]})]],
            "wide": ("\ufeff" + self.text(f"{where} (UTF-16)")).encode("utf-16-le"),
            "high": self.text(f"{where} (UTF-16, high byte first)").encode("utf-16-be"),
            "wider": self.text(f"{where} (UTF-32)").encode("utf-32"),
            "bad": b"\xff\x80 " + self.text(f"{where} (bad bytes)").encode() + b"\n\xfe",
            "surrogate": "\ud800 " + self.text(f"{where} (lone surrogate)"),
            "password": "hunter2" + self.bare(f"{where} (named)"),
            "env": [{"name": "DB_PASSWORD", "value": self.bare(f"{where} (named beside it)")}],
            "argv": ["login", "--token", self.bare(f"{where} (after a flag)")],
        }

    def bare(self, where: str) -> str:
        """A secret that only its name gives away."""
        self.places.append(where)
        return f"{MARK}{len(self.places) - 1:06}Zz"

    def leaks(self, data: bytes) -> list[str]:
        """Where the secrets were planted that are in some bytes, and in which form."""
        found: dict[str, None] = {}
        for form, mark in FORMS.items():
            for match in re.finditer(re.escape(mark), data):
                after = data[match.end() : match.end() + 6]
                number = int(after) if after.isdigit() and len(after) == 6 else None
                where = "somewhere" if number is None else self.places[number]
                found[f"{where}, {form}"] = None
        return list(found)


# -- filling by type ------------------------------------------------------------------------------


def filled(hint: Any, plant: Planter, where: str) -> Any:
    """A value of a type with a secret in each text of it. A type that is not known here fails: teach it here."""
    if hint is str:
        return plant.text(where)
    if hint is bytes:
        return plant.text(where).encode()
    if hint is Any:
        return plant.value(where)
    if hint in (int, bool, float):
        return hint(1)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return parts[0]
    if origin in (Union, UnionType):
        parts = tuple(part for part in parts if part is not NoneType)
        return filled(str if str in parts else parts[0], plant, where)
    if origin is list:
        return [filled(parts[0], plant, where)]
    if origin is tuple:
        return tuple(filled(part, plant, where) for part in parts if part is not ...)
    if origin is dict:
        return {plant.text(f"{where} (key)"): filled(parts[1], plant, where)}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return filled_struct(hint, plant, where)
    raise AssertionError(f"{where} has the type {hint}, which cannot be filled with secrets yet")


def filled_struct(kind: type[msgspec.Struct], plant: Planter, where: str, **fixed: Any) -> Any:
    hints = get_type_hints(kind)
    fields = {
        name: fixed[name] if name in fixed else filled(hints[name], plant, f"{where}.{name}")
        for name in kind.__struct_fields__
    }
    return kind(**fields)


# -- what a store wrote ---------------------------------------------------------------------------


def files(path: Path) -> bytes:
    """The bytes of a store's files."""
    return b"".join(
        Path(f"{path}{suffix}").read_bytes()
        for suffix in ("", "-wal", "-shm", "-lease")
        if Path(f"{path}{suffix}").exists()
    )


def tables(path: Path) -> bytes:
    """Every row of every table and view, the index of words too."""
    return b"\n".join(_rows(path))


def _rows(path: Path) -> Iterator[bytes]:
    db = bare(path)
    query = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"
    for (name,) in list(db.execute(query)):
        for row in db.execute(f"SELECT * FROM {name}"):
            yield b"\t".join(
                value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
                for value in row
            )
    db.close()
