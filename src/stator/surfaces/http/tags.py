"""Makes the ETags of documents: the head's hash says whether a session is as it was."""

from __future__ import annotations

from hashlib import sha256

from stator.runtime.facade.view import SessionView

SHORT = 12


def tag_of(view: SessionView, *, as_read: bool) -> str:
    """The head's hash. Where readers see more than the log (whether its driver lives, what has no place in the log
    yet), with a digest of that."""
    tag = view.head.hash
    if not as_read:
        return f'"{tag}"'
    seen = "\0".join([view.row.shown, *(one.id for one in view.unplaced())])
    return f'"{tag}-{sha256(seen.encode()).hexdigest()[:SHORT]}"'


def is_same(tag: str, header: str) -> bool:
    """Whether an If-None-Match header names the tag."""
    given = (one.strip().removeprefix("W/") for one in header.split(","))
    return any(one in (tag, "*") for one in given)
