"""Replaces secrets by placeholders in every text, also in bytes, before it is hashed or written.

A secret becomes ``‹secret:KIND:DIGEST›``. KIND is one of ``KINDS``; DIGEST is the first 12 hex
digits of HMAC-SHA256(key, secret), so equal secrets of one session have equal placeholders and a guess cannot
be tested without the key. Only the secret goes: ``API_KEY=`` keeps its name and a
URL its host. Scrubbing twice is scrubbing once.

Two ways to be found: a *shape* (a vendor's prefix, a JWT, a PEM block, a password in a URL), or a
*name* beside a value (``password: "…"``, ``export TOKEN=…``, ``--api-key …``, or the dict key the
caller passes as ``name``).

What this cannot find: a secret with neither a known shape nor a known name (a password in a sentence, a
key of a vendor not listed, a positional argument, ``curl -u user:pass``, a
passphrase, ``<password>`` in XML); one that is encoded, encrypted, compressed, wrapped over lines
or split between two texts; a number; a value on the line after its name; in free text, an unquoted value
that reads like code or a word (``token = fetch()``, ``secret=letmein``). Conversely, a harmless
value beside a secret name is redacted too. It lowers the risk of a leak; it proves nothing.

How it stays cheap: no pattern with alternatives runs over the text. Three sieves find the few
places worth a look, and bounded patterns are tried only there: runs of 20 or more word characters
(every vendor's key has one), the letters of the secret names, and ``@`` for URLs. Time is linear in the
length of any text.
"""

from __future__ import annotations

from itertools import pairwise

from stator.model.log.secret_bytes import Reading, is_text, may_hold, reading, wide_readings
from stator.model.log.secret_names import (
    has_name,
    name_sort,
    name_spans,
    named_value,
    url_spans,
)
from stator.model.log.secret_shapes import run_spans
from stator.model.log.secret_spans import (
    PLACEHOLDER_HEAD,
    Span,
)
from stator.model.values.late_pattern import late
from stator.model.values.value_names import VALUES, name_after, name_beside

TYPE_CHECKING = False  # as type checkers know it: a hook cannot wait until `typing` is loaded
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, AnyStr, Final

__all__ = ["KINDS", "Redactor", "has_placeholder", "placeholder_pattern"]

KINDS: Final[tuple[tuple[str, str], ...]] = (
    ("age", "age encryption identity"),
    ("anthropic", "Anthropic API key"),
    ("assigned", "value beside a name such as password, secret, token or api_key"),
    ("atlassian", "Atlassian API token"),
    ("aws", "AWS access key id, or the secret access key beside its name"),
    ("azure", "Azure storage account key"),
    ("basic-auth", "credentials of an HTTP Basic authorization header"),
    ("basic-auth-url", "password, or long token, before the host of a URL"),
    ("bearer", "token of an HTTP authorization header"),
    ("cookie", "values of a Cookie or Set-Cookie header"),
    ("databricks", "Databricks access token"),
    ("digitalocean", "DigitalOcean token"),
    ("discord", "Discord bot token, or the token of a webhook URL"),
    ("github", "GitHub token of any type"),
    ("gitlab", "GitLab access token"),
    ("google", "Google API key or OAuth access token"),
    ("groq", "Groq API key"),
    ("huggingface", "Hugging Face token"),
    ("jwt", "JSON Web Token, signed, encrypted or cut short"),
    ("linear", "Linear API key"),
    ("npm", "npm access token"),
    ("openai", "OpenAI or compatible API key"),
    ("openrouter", "OpenRouter API key"),
    ("perplexity", "Perplexity API key"),
    ("private-key", "PEM private key block, whole or cut short"),
    ("pypi", "PyPI upload token"),
    ("replicate", "Replicate API token"),
    ("sendgrid", "SendGrid API key"),
    ("shopify", "Shopify access token or shared secret"),
    ("slack", "Slack token, or the path of an incoming webhook"),
    ("stripe", "Stripe secret or restricted key, or webhook secret"),
    ("telegram", "Telegram bot token"),
    ("twilio", "Twilio API key"),
    ("vault", "HashiCorp Vault token"),
    ("xai", "xAI API key"),
)

placeholder_pattern: Final = late(r"‹secret:[a-z][a-z-]{1,31}:[0-9a-f]{12}›")


def has_placeholder(text: str) -> bool:
    """Whether something in this text has been redacted."""
    return PLACEHOLDER_HEAD in text and placeholder_pattern.search(text) is not None


_SHORTEST: Final = 20
_WORDLIKE: Final = late(r"[\w./()-]{0,19}+")
"""A word shorter than any key, without what a name needs before a value: nothing to look for."""

_NO_TEXT: Final = frozenset((int, float, bool, type(None)))
_PASSES_MAX: Final = 8
"""Two are the rule; the rest is for secrets glued together, which only tests do."""


class Redactor:
    """Scrubs the texts of one session: same key, same secret, same placeholder."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.hits = 0
        """Secrets replaced so far, over all texts."""

    def passes(self, texts: Sequence[str]) -> bool:
        """Whether one look at all of some texts shows that none of them holds a secret."""
        joined = '"' + '"\n"'.join(texts)
        data = joined.encode("ascii", "replace")
        return not (run_spans(joined, data) or has_name(data) or b":/" in data)

    def passes_flat(self, value: dict[Any, Any]) -> bool:
        """The same for a dict of texts and numbers under harmless names, as the arguments of most calls are."""
        texts = []
        for key, item in value.items():
            # these are the keys that `scrub` leaves as they are
            if type(key) is not str or len(key) >= _SHORTEST or not key.isidentifier():
                return False
            if key in VALUES or name_sort(key) is not None:
                return False
            if type(item) is str:
                texts.append(item)
            elif type(item) not in _NO_TEXT:
                return False
        return self.passes(texts)

    def scrub_json(self, value: Any, name: str | None = None) -> Any:
        """A value of JSON without its secrets, in every text and every key."""
        if isinstance(value, str):
            return self._text(value, name)
        if isinstance(value, dict):
            clean = {}
            for key, item in value.items():
                named = name_beside(value, key) if key in VALUES else key
                clean[self._text(key, None)] = self.scrub_json(item, named)
            return clean
        if isinstance(value, list):
            names = [name, *(name_after(flag, item, name) for flag, item in pairwise(value))]
            return list(map(self.scrub_json, value, names))
        return value

    def scrub(self, text: AnyStr, name: str | None = None) -> AnyStr:
        """The text or bytes without their secrets; the same object if there is none. `name` is the name of the
        value, mostly its dict key: under a secret-looking name the whole value is replaced, in any shape.
        """
        if isinstance(text, str):
            return self._text(text, name)
        return self._bytes(text, name)

    def scrub_data(self, data: bytes) -> bytes:
        """Bytes that their program reads again: without secrets where they are text, else as they are. A length in
        front of a secret, or a checksum, would no longer be right."""
        return self._bytes(data, None) if is_text(data) else data

    def _bytes(self, data: bytes, name: str | None) -> bytes:
        if b"\0" in data:
            for wide in wide_readings(data):
                if (clean := self._read(wide, name)) is not None:
                    data, name = clean, None
                    break
        if not may_hold(data) and (name is None or name_sort(name) is None):
            return data
        return self._read(reading(data), name) or data

    def _read(self, found: Reading, name: str | None) -> bytes | None:
        """The bytes of a text without its secrets; none if it has none."""
        clean = self._text(found.text, name)
        return None if clean is found.text else found.with_text(clean)

    def _text(self, text: str, name: str | None) -> str:
        plain = len(text) < _SHORTEST and (text.isidentifier() or _WORDLIKE.fullmatch(text))
        if plain and (name is None or name_sort(name) is None):
            return text
        spans = named_value(text, name) if name is not None else None
        if spans is None:
            spans = _spans(text)
        # What touched a secret may be readable as one only now: look again until nothing is found.
        for _ in range(_PASSES_MAX):
            if not spans:
                break
            text = self._replace(text, spans)
            spans = _spans(text)
        return text

    def _replace(self, text: str, spans: list[Span]) -> str:
        parts: list[str] = []
        done = 0
        for start, end, kind in spans:
            parts += (text[done:start], self._placeholder(kind, text[start:end]))
            done = end
        parts.append(text[done:])
        self.hits += len(spans)
        return "".join(parts)

    def _placeholder(self, kind: str, secret: str) -> str:
        import hmac  # only now: most of what may hold a secret holds none

        digest = hmac.digest(self._key, secret.encode("utf-8", "surrogatepass"), "sha256")
        return f"‹secret:{kind}:{digest.hex()[:12]}›"


# --- all together --------------------------------------------------------------------------------

_GENERIC: Final = frozenset(("assigned", "basic-auth", "basic-auth-url", "bearer", "cookie"))


def _spans(text: str) -> list[Span]:
    """Every secret in the text, left to right, none touching another."""
    # One byte per character, whatever the character: offsets stay those of the text.
    data = text.encode("ascii", "replace")
    found = run_spans(text, data)
    found += name_spans(text, data)
    if b"@" in data:
        found += url_spans(text)
    if not found:
        return found
    if PLACEHOLDER_HEAD in text:
        found = _outside_placeholders(text, found)
    return _merged(found)


def _outside_placeholders(text: str, found: list[Span]) -> list[Span]:
    """Without what begins or ends inside a placeholder: that has been redacted already."""
    inside = bytearray(len(text) + 1)
    for match in placeholder_pattern.finditer(text):
        inside[match.start() + 1 : match.end()] = b"\1" * (len(match[0]) - 1)
    return [span for span in found if not (inside[span.start] or inside[span.end])]


def _merged(found: list[Span]) -> list[Span]:
    """Leftmost and longest first, a vendor before a guess; what overlaps becomes one secret."""
    found.sort(key=lambda span: (span.start, -span.end, span.kind in _GENERIC))
    merged = found[:1]
    for span in found[1:]:
        last = merged[-1]
        if span.start >= last.end:
            merged.append(span)
        elif span.end > last.end:
            merged[-1] = last._replace(end=span.end)
    return merged
