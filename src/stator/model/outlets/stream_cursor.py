"""How far a reader of all sessions has come: a place in each log, and the text that keeps them.

Sessions come from bundles with commits of any age, so no time and no single number orders what arrives: a cursor is
one seq for each session. A session is named by eight bytes of a digest of its id, and its place by the seq and four
bytes of that commit's hash: 13 or 14 bytes a session. The hash shows that a log was removed and
came back with other commits.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping

import msgspec

from stator.errors import BadPosition
from stator.model.values.digest import blake2b

PREFIX = "all1."
"""What every cursor begins with; its number is the version."""
KEY, MARK, CHECK = 8, 4, 4
"""Bytes that name a session, a commit in it, and that check the whole."""
CURSOR_MAX = 64 * 2**20
"""Characters of a cursor; about four million sessions."""
UNKNOWN = bytes(MARK)
"""The mark of a commit whose hash was not looked at: any is right."""
SEQ_MAX = 2**40


class StreamPlace(msgspec.Struct, frozen=True):
    """The last commit of a session that was delivered."""

    seq: int
    mark: bytes = UNKNOWN

    def is_at(self, seq: int, hash: str) -> bool:
        """Whether that commit is the one."""
        return seq == self.seq and self.mark in (UNKNOWN, mark_of(hash))


def mark_of(hash: str) -> bytes:
    """What a cursor keeps of a commit's hash."""
    return bytes.fromhex(hash[: 2 * MARK])


def key_of(session: str) -> bytes:
    """What a cursor keeps of a session's id."""
    return blake2b(session.encode(), digest_size=KEY).digest()


def dump(places: Iterable[tuple[bytes, StreamPlace]]) -> str:
    """Places by key as one text; the same places give the same text."""
    body = bytearray()
    for key, place in sorted(places, key=lambda item: item[0]):
        body += key + place.mark + _number(place.seq)
    check = blake2b(body, digest_size=CHECK).digest()
    return PREFIX + urlsafe_b64encode(check + body).decode().rstrip("=")


def load(text: object) -> dict[bytes, StreamPlace]:
    """The places of a cursor, by key; none of the empty text, which is before everything."""
    if text == "":
        return {}
    if not isinstance(text, str) or not text.startswith(PREFIX) or len(text) > CURSOR_MAX:
        raise BadPosition(
            f"this is no cursor over all sessions: {text!r:.40}",
            hint="give back a cursor as it was given; the empty text is before everything",
        )
    try:
        whole = urlsafe_b64decode(text[len(PREFIX) :] + "=" * (-(len(text) - len(PREFIX)) % 4))
        check, body = whole[:CHECK], whole[CHECK:]
        if check != blake2b(body, digest_size=CHECK).digest():
            raise ValueError("the check does not match")
        return _places(body)
    except (ValueError, IndexError) as error:
        raise BadPosition(
            f"the cursor {text!r:.40} is damaged: {error}", hint="give it back as it was given"
        ) from None


def resume(heads: Mapping[str, int], kept: Mapping[bytes, StreamPlace]) -> dict[str, StreamPlace]:
    """The places of a cursor, for the sessions that a store has now. What it lacks is forgotten."""
    found = ((session, kept.get(key_of(session))) for session in heads)
    return {session: place for session, place in found if place is not None}


def _places(body: bytes) -> dict[bytes, StreamPlace]:
    places = {}
    at = 0
    while at < len(body):
        key, mark = body[at : at + KEY], body[at + KEY : at + KEY + MARK]
        at += KEY + MARK
        seq = shift = 0
        while True:
            byte = body[at]
            at += 1
            seq |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if seq > SEQ_MAX:
            raise ValueError("a number is too large")
        places[key] = StreamPlace(seq, mark)
    return places


def _number(seq: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    out = bytearray()
    while seq >= 0x80:
        out.append(seq & 0x7F | 0x80)
        seq >>= 7
    out.append(seq)
    return bytes(out)
