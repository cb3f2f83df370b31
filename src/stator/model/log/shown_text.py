"""Texts without secrets where no session's key is at hand: texts of errors, names made of a text, cut texts.

The text of an error is printed, logged and shown to models. It often shows the beginning of what it
refuses, so that a secret in it may be cut short. Nothing is lost if too much is hidden there; so what begins like a
secret is hidden too, however short the rest of it is.

A text that is shortened before it is recorded loses its secrets first: half of one would not be recognised.
"""

from __future__ import annotations

from stator.model.log.secret_prefilter import suspicious

TYPE_CHECKING = False  # as type checkers know it: an error must not wait until `typing` is loaded
if TYPE_CHECKING:
    from typing import Final

    from stator.model.log.redact import Redactor

LEGIBLE_MAX = 2_000
"""Characters of what goes into a record's texts: a path, a step, a name."""
_CUT: Final = (
    # a private key, which is the rest of the text
    r"(PRIVATE KEY(?: BLOCK)? ?-{0,5})[\s\S]{1,9999}",
    # a password before the host of a URL; digits would be a port
    r"(://[^/\s:@'\"]{0,128}:)(?![0-9]{1,5}\b)[^\s@/‹'\"]{3,256}",
    # what begins as vendors' keys do
    r"((?:gh[pousr]_|github_pat_|glpat-|AKIA|ASIA|AIza|ya29\.|gsk_|hf_|npm_|lin_api_|sk-[a-z0-9]{2,8}-|sk_live_"
    r"|sk_test_|rk_live_|rk_test_|whsec_|xox[bpares]-|xapp-|shp[acs][ats]_|hvs\.|dop_v1_|eyJ|pypi-Ag|ATATT3))"
    r"[A-Za-z0-9_.=-]{2,999}",
    # the value beside a name; a word alone is none
    r"(?i)((?:pass|passw(?:or)?d|pwd|secret|token|[a-z]key|cookie|bearer|basic)(?:\\{0,3}['\"])?\s{0,2}[:= ]\s{0,2}"
    r"(?:\\{0,3}['\"])?(?:[\w.-]{1,64}=)?)(?=[^\s‹'\"]{0,99}[0-9])[^\s‹'\"$]{4,999}",
)


def without_secrets(text: str) -> str:
    """A text for people in which each secret, also one that is cut short, is replaced by its kind."""
    if ":/" not in text and not suspicious(text.encode("utf-8", "replace")):
        return text
    import re

    text = _masked(text)
    for cut in _CUT:
        text = re.sub(cut, r"\1‹secret:cut›", text)
    return text


def cut_short(text: str, size: int) -> str:
    """The first `size` characters of a text, without half a secret at their end."""
    if len(text) <= size:
        return text
    return (_masked(text) if suspicious(text.encode("utf-8", "replace")) else text)[:size]


def masking() -> Redactor:
    """Replaces each secret by its kind alone: without a session there is no key, and a digest without a key can be
    guessed at."""
    from stator.model.log.redact import Redactor

    class _Unkeyed(Redactor):
        def _placeholder(self, kind: str, secret: str) -> str:
            return f"‹secret:{kind}›"

    return _Unkeyed(b"")


def _masked(text: str) -> str:
    return masking().scrub(text)


def legible(text: object) -> str:
    """Text that a record can hold: bounded, no NUL, a lone surrogate as its escape."""
    whole = text if isinstance(text, str) else str(text)
    plain = whole.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return plain if len(plain) <= LEGIBLE_MAX else cut_short(plain, LEGIBLE_MAX - 1) + "…"
