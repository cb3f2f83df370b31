"""Finds secrets by their shape: a vendor's prefix, a JSON Web Token."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import groupby

from stator.model.log.secret_spans import (
    PLAIN,
    Span,
)
from stator.model.values.late_pattern import late

TYPE_CHECKING = False  # as type checkers know it: a hook cannot wait until `typing` is loaded
if TYPE_CHECKING:
    from typing import Final

# --- shapes: one row per prefix ------------------------------------------------------------------


class _Shape:
    """A prefix, and what must surround it to be a secret."""

    def __init__(self, kind: str, literal: str, source: str, back: tuple[int, ...] = (0,)) -> None:
        self.kind = kind
        self.literal = literal
        self.back = back
        """How far before the literal the pattern starts, each tried in turn."""
        self._source = source

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matched where the literal starts. Group 1, or else the whole match, is the secret.

        Compiled when its literal is first seen: compiling all of them takes longer than most programs run,
        and those need one or two.
        """
        return re.compile(self._source)

    def find(self, text: str, at: int) -> Span | None:
        for back in self.back:
            match = self.pattern.match(text, at - back) if at >= back else None
            if match is not None:
                return Span(*match.span(self.pattern.groups), self.kind)
        return None


# Not inside a longer word; the n of an escaped \n, the hex of \u0027 or %3D and the m of a
# terminal colour are no words. What touches a placeholder is the rest of something redacted:
# taking it up again would make a second scrub differ from the first.
_LEFT: Final = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9a-fA-F]{2})"
    r"|(?<=\[[0-9]m)|(?<=\[[0-9]{2}m))(?<![0-9a-f]{12}›)"
)


def _at(kind: str, literals: str, rest: str, *, word: bool = True) -> Iterator[_Shape]:
    """Keys that start with a literal; `word` if it is too short to be recognised inside a word."""
    for literal in literals.split():
        yield _Shape(kind, literal, (_LEFT if word else "") + re.escape(literal) + rest)


_FREE: Final = r"(?:(?<![0-9])|(?<=\\u[0-9a-f]{4}))"
"""Before a number: no digit, unless it belongs to an escape such as \\u0027."""
_JWT_PART: Final = "[A-Za-z0-9_-]{10,8192}+"
_JWT: Final = (
    # Signed or cut short, or else encrypted: five parts of which the second may be empty.
    rf"{_JWT_PART}\.(?:eyJ{_JWT_PART}(?:\.[A-Za-z0-9_-]{{4,2048}}+)?"
    rf"|[A-Za-z0-9_-]{{0,2048}}+\.{_JWT_PART}\.{_JWT_PART}\.{_JWT_PART})"
)
_BEARER: Final = r"[ \t]{1,4}((?=[A-Za-z._~+/=-]{0,64}[0-9])[A-Za-z0-9._~+/=-]{16,4096}+)"
_SLACK_HOOK: Final = r"(T[A-Z0-9]{6,12}\\?/B[A-Z0-9]{6,12}\\?/[A-Za-z0-9]{20,48}+)"

SHAPES: Final[tuple[_Shape, ...]] = (
    *_at("age", "AGE-SECRET-KEY-1", r"[0-9A-Za-z]{40,128}+", word=False),
    *_at("anthropic", "sk-ant-", r"[A-Za-z0-9_-]{16,512}+", word=False),
    *_at("atlassian", "ATATT3xFf", r"[A-Za-z0-9_=-]{20,512}+", word=False),
    *_at("aws", "AKIA ASIA", r"[A-Z0-9]{16}"),
    *_at("bearer", "Bearer bearer BEARER", _BEARER),
    *_at("databricks", "dapi", r"[0-9a-f]{32}(?:-[0-9])?"),
    *_at("digitalocean", "dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{32,128}+", word=False),
    *_at("discord", "webhooks", r"\\?/[0-9]{16,20}\\?/([A-Za-z0-9_-]{50,128}+)", word=False),
    *_at("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{30,255}+", word=False),
    *_at("github", "github_pat_", r"[A-Za-z0-9_]{22,255}+", word=False),
    *_at("gitlab", "glpat-", r"[A-Za-z0-9_.-]{18,300}+", word=False),
    *_at("google", "AIza", r"[A-Za-z0-9_-]{35}"),
    *_at("google", "ya29.", r"[A-Za-z0-9_.-]{20,2048}+"),
    *_at("groq", "gsk_", r"[A-Za-z0-9]{32,255}+"),
    *_at("huggingface", "hf_", r"[A-Za-z0-9]{30,255}+"),
    # Not after - or _ either: a megabyte of eyJ would be read again for each.
    *_at("jwt", "eyJ", r"(?:(?<![_-]eyJ)|(?<=\\[nrt]eyJ))" + _JWT),
    *_at("linear", "lin_api_", r"[A-Za-z0-9]{30,255}+"),
    *_at("npm", "npm_", r"[A-Za-z0-9]{36,255}+"),
    *_at("openai", "sk-proj- sk-svcacct- sk-admin-", r"[A-Za-z0-9_-]{20,512}+", word=False),
    *_at("openai", "sk-", r"[A-Za-z0-9]{32,128}+"),
    *_at("openrouter", "sk-or-v1-", r"[0-9a-f]{32,128}+", word=False),
    *_at("perplexity", "pplx-", r"[A-Za-z0-9]{32,255}+"),
    *_at("pypi", "pypi-AgE", r"[A-Za-z0-9_-]{40,1024}+", word=False),
    *_at("replicate", "r8_", r"(?<![_-]r8_)[A-Za-z0-9]{30,255}+"),
    *_at("sendgrid", "SG.", r"[A-Za-z0-9_-]{20,64}\.[A-Za-z0-9_-]{32,128}+"),
    *_at("shopify", "shpat_ shpca_ shppa_ shpss_", r"[0-9a-fA-F]{32,128}+"),
    *_at("slack", "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe-", r"[A-Za-z0-9.-]{15,512}+", word=False),
    *_at("slack", "xapp-", r"[0-9]-[A-Za-z0-9-]{20,512}+"),
    *_at("slack", "services/ services\\/", _SLACK_HOOK),
    *_at("stripe", "sk_live_ sk_test_ rk_live_ rk_test_", r"[A-Za-z0-9]{12,255}+", word=False),
    *_at("stripe", "whsec_", r"[A-Za-z0-9+/=]{16,255}+"),
    _Shape("telegram", ":AA", _FREE + r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}", (10, 9, 8)),
    *_at("vault", "hvs.", r"[A-Za-z0-9_-]{24,512}+"),
    *_at("xai", "xai-", r"[A-Za-z0-9]{40,255}+"),
)  # fmt: skip

_BARE_SHAPES: Final[tuple[_Shape, ...]] = (
    _Shape(
        "discord",
        "",
        _LEFT + r"(?=[A-Za-z_-]{0,24}[0-9])[MNO][A-Za-z0-9_-]{23,25}"
        r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}(?![A-Za-z0-9_.-])",
    ),
    _Shape("twilio", "", _LEFT + r"SK[0-9a-f]{32}(?![A-Za-z0-9_-])"),
)
"""Shapes too weak for a prefix; tried at the start of a run only."""
_BARE_STARTS: Final = frozenset("MNOS")
"""The letters those begin with."""


def _by_literal(shapes: Iterable[_Shape]) -> dict[str, tuple[_Shape, ...]]:
    """Each literal with every shape that may start there: sk- is also the beginning of sk-ant-."""
    literals = {shape.literal for shape in shapes}
    return {at: tuple(s for s in shapes if at.startswith(s.literal)) for at in literals}


def _alternatives(literals: Iterable[str]) -> str:
    """One pattern for all, branching on the first letter; the longest of each letter first."""
    ordered = sorted(literals, key=lambda s: (s[0], -len(s), s))
    branches = (
        re.escape(first) + "(?:" + "|".join(re.escape(s[1:]) for s in group) + ")"
        for first, group in groupby(ordered, key=lambda s: s[0])
    )
    return "|".join(branches)


_SHAPES_AT: Final = _by_literal(SHAPES)
_LITERAL: Final = late(_alternatives(_SHAPES_AT))

# --- sieve one: runs of word characters ----------------------------------------------------------

_WORD: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_IS_WORD: Final = bytes(1 if byte in _WORD else 0 for byte in range(256))
_RUN_MIN: Final = 20
_RUN: Final = b"\1" * _RUN_MIN
_RUN_BACK: Final = 40
"""How far before a run its prefix may start: services/T…/B…/ is the longest."""


_QUOTED_HEX: Final = late(r"(?:[a-z]_)?[0-9a-f]{20,64}+")
"""A digest or an id, whole in its quotes or the whole text: no vendor's key, and its name is looked at elsewhere."""
_QUOTE: Final = ord('"')
_HEX: Final = late(rb"[0-9a-f]{20,4096}+")
"""Digits of a digest. No literal has a place in them: only what is before them can make them a part of a key."""

_plain_runs: set[bytes] = set()
"""Runs that `PLAIN` matched. Code says the same names again and again, and to match one takes a while."""
_PLAIN_RUNS_MAX: Final = 8192
_PLAIN_RUN_MAX: Final = 80


def has_run(data: bytes) -> bool:
    """Whether bytes have a run that is long enough for a vendor's key."""
    return _RUN in data.translate(_IS_WORD)


def run_spans(text: str, data: bytes) -> list[Span]:
    """The keys in runs, but for those runs in which none can be: by their characters, and what is before them."""
    found: list[Span] = []
    runs = data.translate(_IS_WORD)
    start = runs.find(_RUN)
    while start >= 0:
        end = runs.find(b"\0", start + _RUN_MIN)
        if end < 0:
            end = len(runs)
        run = data[start:end]
        if run not in _plain_runs:
            whole = data[start - 1] == _QUOTE if start else end == len(data)
            if not (
                (whole and _QUOTED_HEX.fullmatch(text, start, end))
                or (
                    _HEX.fullmatch(run)
                    and _LITERAL.search(text, max(0, start - _RUN_BACK), start) is None
                )
            ):
                if PLAIN.fullmatch(text, start, end) is None:
                    found += _shape_spans(text, start, end)
                elif end - start <= _PLAIN_RUN_MAX:
                    if len(_plain_runs) >= _PLAIN_RUNS_MAX:
                        _plain_runs.clear()
                    _plain_runs.add(run)
        start = runs.find(_RUN, end)
    return found


def _shape_spans(text: str, start: int, end: int) -> list[Span]:
    found: list[Span] = []
    # The letter of \n, the hex of %3D or \u0027 and a terminal's colour belong to the run.
    skips = (0, 1, 2, 3, 5) if text[start - 1 : start] in ("\\", "%", "[") else (0,)
    for skip in skips:
        if text[start + skip : start + skip + 1] in _BARE_STARTS:
            for shape in _BARE_SHAPES:
                if (span := shape.find(text, start + skip)) is not None:
                    found.append(span)
    done = 0
    for match in _LITERAL.finditer(text, max(0, start - _RUN_BACK), end):
        at = match.start()
        if at < done:
            continue
        for shape in _SHAPES_AT[match[0]]:
            if (span := shape.find(text, at)) is not None:
                done = max(done, span.end)
                found.append(span)
    return found
