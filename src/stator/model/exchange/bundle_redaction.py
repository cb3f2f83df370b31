"""Removes content from commits before their session is exported.

An item that is left out leaves its commitment behind, as an erased one does, so the chain still
verifies; it reads as not in the bundle, and a store that has the content keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stator.errors import InvalidInput, StatorError
from stator.model.log import chain
from stator.model.log.commit import Commit, Gone
from stator.model.log.delta import Put
from stator.model.records.tables import TRANSCRIPT
from stator.model.records.types import SessionRecord
from stator.model.sessions.retention import WORDS
from stator.model.values import canon

if TYPE_CHECKING:
    from stator.model.log.redact import Redactor

PATTERN_MAX = 1000


class Sieve:
    """Says what of a session's commits is left out, and counts it."""

    def __init__(
        self,
        *,
        redactor: Redactor | None = None,
        words: Sequence[str] = (),
        transcript: bool = True,
        upto: int = 0,
    ) -> None:
        """`words`: text, in any case, that must not travel. `upto`: the last seq that does."""
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
        self.withheld = 0
        self.secrets = 0
        """Of the items withheld, those that hold what the rules about secrets know."""

    def take(self, commit: Commit) -> Commit:
        """The commit as it travels."""
        commit = self._known_erasures(commit)
        fixed = {
            chain.put_item(n)
            for n, op in enumerate(commit.delta)
            if isinstance(op, Put) and isinstance(op.record, SessionRecord)
        }
        names = {
            name
            for name, item in commit.content.items()
            if isinstance(item, bytes) and self._stays(commit, name, item, name in fixed)
        }
        if self._words:
            self._check_structure(commit)
        if not names:
            return commit
        self.withheld += len(names)
        return chain.without(commit, names, 0)

    def _known_erasures(self, commit: Commit) -> Commit:
        """An erasure that is not exported cannot be referenced: its content is only left out."""
        late = {
            name: Gone(0, item.commitment)
            for name, item in commit.content.items()
            if isinstance(item, Gone) and item.by > self._upto
        }
        if not late:
            return commit
        return replace(commit, content={**commit.content, **late})

    def _stays(self, commit: Commit, name: str, item: bytes, fixed: bool) -> bool:
        # The value of a turn is what its program made of the transcript.
        value = commit.kind == "turn_end" and name in ("output", "output_summary")
        if not self._transcript and (value or (commit.kind in TRANSCRIPT and name in WORDS)):
            return True
        asked = bool(self._words) and self._has_word(item)
        if asked and fixed:
            raise _cannot(commit, "the session's own record")
        if asked or fixed or (name == "key" and commit.kind == "open"):
            return asked
        if self._redactor is not None and self._has_secret(item, self._redactor):
            self.secrets += 1
            return True
        return False

    def _has_secret(self, item: bytes, redactor: Redactor) -> bool:
        """Whether the rules about secrets would replace something in a recorded value or record."""
        before = redactor.hits
        canon.to_plain(canon.loads(item), scrub=redactor.scrub)
        return redactor.hits > before

    def _has_word(self, item: bytes) -> bool:
        text = item.decode(errors="replace").casefold()
        if any(word in text for word in self._spelled):
            return True
        return any(
            word in raw.decode(errors="replace").casefold()
            for raw in canon.bytes_within(item)
            for word in self._words
        )

    def _check_structure(self, commit: Commit) -> None:
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
            raise _cannot(commit, "the name of a tool, a cause or an origin")


def _cannot(commit: Commit, where: str) -> StatorError:
    return InvalidInput(
        f"what is to be left out stands in {where} (@{commit.seq}), which always travels",
        hint="nothing was written; leave that word out of --redact, or do not export this session",
        session=commit.session,
        seq=commit.seq,
    )
