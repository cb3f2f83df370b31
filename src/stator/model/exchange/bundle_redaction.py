"""Removes content from commits before their session is exported.

An item that is left out leaves its commitment behind, as an erased one does, so the chain still
verifies; it reads as not in the bundle, and a store that has the content keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stator.errors import InvalidInput, StatorError
from stator.model.exchange.bundle import unpack
from stator.model.exchange.packed import Packed, pack
from stator.model.log import chain
from stator.model.log.commit import DATA
from stator.model.records.tables import COLLECTIONS, TRANSCRIPT
from stator.model.sessions.retention import WORDS
from stator.model.values import canon

if TYPE_CHECKING:
    from stator.model.log.redact import Redactor

PATTERN_MAX = 1000
_SESSION = COLLECTIONS["session"].number


class Sieve:
    """Says what of a session's commits is left out, and counts it."""

    def __init__(
        self,
        *,
        redactor: Redactor | None = None,
        words: Sequence[str] = (),
        transcript: bool = True,
        upto: int = 0,
        clean: int = 0,
    ) -> None:
        """`words`: text, in any case, that must not travel. `upto`: the last seq that does. `clean`: the last seq
        that is known to hold no secret."""
        for word in words:
            if not word.strip() or len(word) > PATTERN_MAX:
                raise InvalidInput(
                    f"a text to redact has 1 to {PATTERN_MAX} characters",
                    path="$.redact",
                )
        self._redactor = redactor
        self._words = [word.casefold() for word in words]
        self._spelled = [canon.encode(word)[1:-1].decode() for word in self._words]
        self._transcript = transcript
        self._upto = upto
        self._clean = clean
        self.withheld = 0
        self.secrets = 0
        """Of the items withheld, those that hold what the rules about secrets know."""
        self.is_whole = True
        """Whether everything that is not known to be clean was looked at, and travels."""

    def take(self, packed: Packed, session: str) -> Packed:
        """The commit as it travels."""
        content = packed.content
        if any(type(item) is tuple and item[0] > self._upto for item in content.values()):
            packed = self._known_erasures(packed)
        if packed.seq > self._clean and any(
            type(item) is tuple and not item[0] for item in packed.content.values()
        ):
            self.is_whole = False  # another store may have what was left out before it came here
        scan = self._redactor is not None and packed.seq > self._clean
        if not (scan or self._words) and self._transcript:
            return packed
        names = {
            name
            for name, item in content.items()
            if isinstance(item, bytes) and self._stays(packed, session, name, item, scan)
        }
        if self._words:
            self._check_structure(packed, session)
        if not names:
            return packed
        self.withheld += len(names)
        self.is_whole = self.is_whole and packed.seq <= self._clean
        return pack(chain.without(unpack(packed, session, ""), names, 0))

    def _known_erasures(self, packed: Packed) -> Packed:
        """An erasure that is not exported cannot be referenced: its content is only left out."""
        content = {
            name: item if isinstance(item, bytes) or item[0] <= self._upto else (0, item[1])
            for name, item in packed.content.items()
        }
        return replace(packed, content=content)

    def _stays(self, commit: Packed, session: str, name: str, item: bytes, scan: bool) -> bool:
        fixed = _is_own_record(commit, name)
        # The value of a turn is what its program made of the transcript.
        value = commit.kind == "turn_end" and name in ("output", "output_summary")
        words = name in WORDS or name.startswith(DATA)
        if not self._transcript and (value or (commit.kind in TRANSCRIPT and words)):
            return True
        asked = bool(self._words) and self._has_word(name, item)
        if asked and fixed:
            raise _cannot(commit, session, "the session's own record")
        if asked or fixed or (name == "key" and commit.kind == "open"):
            return asked
        if scan and self._redactor is not None and self._has_secret(name, item, self._redactor):
            self.secrets += 1
            return True
        return False

    def _has_secret(self, name: str, item: bytes, redactor: Redactor) -> bool:
        """Whether the rules about secrets would replace something in a recorded value, a record or bytes."""
        before = redactor.hits
        if name.startswith(DATA):
            redactor.scrub_data(item)
        else:
            canon.to_plain(canon.loads(item), scrub=redactor.scrub)
        return redactor.hits > before

    def _has_word(self, name: str, item: bytes) -> bool:
        text = item.decode(errors="replace").casefold()
        if name.startswith(DATA):
            return any(word in text for word in self._words)
        if any(word in text for word in self._spelled):
            return True
        return any(
            word in raw.decode(errors="replace").casefold()
            for raw in canon.bytes_within(item)
            for word in self._words
        )

    def _check_structure(self, commit: Packed, session: str) -> None:
        """What no salt covers cannot be left out: better nothing travels than half of what was meant."""
        named = " ".join(
            (
                commit.tool,
                commit.cause,
                commit.status,
                commit.trace,
                *(commit.origin or ()),
                *(item for item in commit.inputs if isinstance(item, str)),
            )
        ).casefold()
        if any(word in named for word in self._words):
            raise _cannot(commit, session, "the name of a tool, a cause or an origin")


def _is_own_record(commit: Packed, name: str) -> bool:
    """Whether a content item is the record of the session itself."""
    return any(
        number == _SESSION and chain.put_item(n) == name
        for n, (number, _, _) in enumerate(commit.ops)
    )


def _cannot(commit: Packed, session: str, where: str) -> StatorError:
    return InvalidInput(
        f"what is to be left out stands in {where} (@{commit.seq}), which always travels",
        hint="nothing was written; leave that word out of --redact, or do not export this session",
        session=session,
        seq=commit.seq,
    )
