"""Replaces secrets by placeholders in every text, before it is hashed or written.

A secret becomes ``‹secret:KIND:DIGEST›``. KIND is one of ``KINDS``; DIGEST is the first 12 hex
digits of HMAC-SHA256(key, secret), so equal secrets of one session have equal placeholders and a guess cannot
be tested without the key. Only the secret goes: ``API_KEY=`` keeps its name and a
URL its host. Scrubbing twice is scrubbing once.

Two ways to be found: a *shape* (a vendor's prefix, a JWT, a PEM block, a password in a URL), or a
*name* beside a value (``password: "…"``, ``export TOKEN=…``, ``--api-key …``, or the dict key the
caller passes as ``name``).

What this cannot find: a secret with neither a known shape nor a known name (a password in a sentence, a
key of a vendor not listed, a positional argument, ``curl -u user:pass``, ``DB_PASS=…``, a
passphrase, ``<password>`` in XML); one that is encoded, encrypted, compressed, wrapped over lines
or split between two texts; a value on the line after its name; in free text, an unquoted value
that reads like code or a word (``token = fetch()``, ``secret=letmein``). Conversely, a harmless
value beside a secret name is redacted too. It lowers the risk of a leak; it proves nothing.

How it stays cheap: no pattern with alternatives runs over the text. Three sieves find the few
places worth a look, and bounded patterns are tried only there: runs of 20 or more word characters
(every vendor's key has one), the letters of the secret names, and ``@`` for URLs. Time is linear in the
length of any text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import groupby, pairwise

TYPE_CHECKING = False  # as type checkers know it: a hook cannot wait until `typing` is loaded
if TYPE_CHECKING:
    from typing import Any, AnyStr, Final, Literal, NamedTuple

    class _Span(NamedTuple):
        start: int
        end: int
        kind: str

    class _Given(NamedTuple):
        text: str
        start: int
        last: int
        name: str
        sort: _NameSort
        op: str
        value: str

    _NameSort = Literal["password", "token", "credential", "auth"]
else:
    from collections import namedtuple

    _Span = namedtuple("_Span", "start end kind")
    _Given = namedtuple("_Given", "text start last name sort op value")

__all__ = ["KINDS", "Redactor", "has_placeholder", "placeholder_pattern"]


class _Late:
    """A pattern that is made when it is first used: to make all of them takes longer than most programs
    that need one or two of them run. After that its methods are the pattern's own."""

    def __init__(self, source: str | bytes) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        found = re.compile(self._source)
        for known in ("finditer", "fullmatch", "match", "search", "split", "sub"):
            setattr(self, known, getattr(found, known))
        return getattr(found, name)


def _made_late(source: AnyStr) -> re.Pattern[AnyStr]:
    made: Any = _Late(source)
    return made  # type: ignore[no-any-return]  # `cast` would load `typing`


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

placeholder_pattern: Final = _made_late(r"‹secret:[a-z][a-z-]{1,31}:[0-9a-f]{12}›")

_PLACEHOLDER_HEAD: Final = "‹secret:"


def has_placeholder(text: str) -> bool:
    """Whether something in this text has been redacted."""
    return _PLACEHOLDER_HEAD in text and placeholder_pattern.search(text) is not None


_SHORTEST: Final = 20
_WORDLIKE: Final = _made_late(r"[\w./()-]{0,19}+")
"""A word shorter than any key, without what a name needs before a value: nothing to look for."""

_PASSES_MAX: Final = 8
"""Two are the rule; the rest is for secrets glued together, which only tests do."""


class Redactor:
    """Scrubs the texts of one session: same key, same secret, same placeholder."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.hits = 0
        """Secrets replaced so far, over all texts."""

    def scrub(self, text: str, name: str | None = None) -> str:
        """The text without its secrets; the same object if it has none. `name` is the dict key of the text:
        under a secret-looking name the whole value is replaced, in any shape.
        """
        plain = len(text) < _SHORTEST and _WORDLIKE.fullmatch(text)
        if plain and (name is None or _name_sort(name) is None):
            return text
        spans = _named_value(text, name) if name is not None else None
        if spans is None:
            spans = _spans(text)
        # What touched a secret may be readable as one only now: look again until nothing is found.
        for _ in range(_PASSES_MAX):
            if not spans:
                break
            text = self._replace(text, spans)
            spans = _spans(text)
        return text

    def _replace(self, text: str, spans: list[_Span]) -> str:
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

    def find(self, text: str, at: int) -> _Span | None:
        for back in self.back:
            match = self.pattern.match(text, at - back) if at >= back else None
            if match is not None:
                return _Span(*match.span(self.pattern.groups), self.kind)
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

_SHAPES: Final[tuple[_Shape, ...]] = (
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
    *_at("replicate", "r8_", r"[A-Za-z0-9]{30,255}+"),
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


_SHAPES_AT: Final = _by_literal(_SHAPES)
_LITERAL: Final = _made_late(_alternatives(_SHAPES_AT))

# --- sieve one: runs of word characters ----------------------------------------------------------

_WORD: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_IS_WORD: Final = bytes(1 if byte in _WORD else 0 for byte in range(256))
_RUN_MIN: Final = 20
_RUN: Final = b"\1" * _RUN_MIN
_RUN_BACK: Final = 40
"""How far before a run its prefix may start: services/T…/B…/ is the longest."""
_PLAIN: Final = _made_late(
    r"(?:[-_]{0,999}+(?:[a-z]{1,14}+[0-9]{0,3}+|[A-Z]{1,14}+[0-9]{0,3}+|[0-9]{1,4}+"
    r"|[a-z]{0,14}+(?:[A-Z][a-z]{2,13}+){1,9})(?![A-Za-z0-9])){0,99}[-_]{0,999}+"
)
"""Short words between separators or capitals: an identifier or a ruled line, never a key."""


_QUOTED_HEX: Final = _made_late(r"(?:[a-z]_)?[0-9a-f]{20,64}+")
"""A digest or an id, whole in its quotes: no vendor's key, and its name is looked at elsewhere."""
_QUOTE: Final = ord('"')


def _run_spans(text: str, data: bytes) -> list[_Span]:
    found: list[_Span] = []
    runs = data.translate(_IS_WORD)
    start = runs.find(_RUN)
    while start >= 0:
        end = runs.find(b"\0", start + _RUN_MIN)
        if end < 0:
            end = len(runs)
        quoted = start and data[start - 1] == _QUOTE
        if not (quoted and _QUOTED_HEX.fullmatch(text, start, end)) and (
            _PLAIN.fullmatch(text, start, end) is None
        ):
            found += _shape_spans(text, start, end)
        start = runs.find(_RUN, end)
    return found


def _shape_spans(text: str, start: int, end: int) -> list[_Span]:
    found: list[_Span] = []
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


# --- names ---------------------------------------------------------------------------------------

_NAME_MAX: Final = 100
_NAME_CHARS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_CAMEL: Final = _made_late(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_ALNUM: Final = _made_late(r"[^a-z0-9]{1,100}")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PASSWORD_NAME: Final = _made_late(
    r"pass|pwd|\w{0,64}(?:password|passwd|passphrase|passcode)[0-9]{0,4}"
)
_TOKEN_NAME: Final = _made_late(
    r"\w{0,64}(?:secret|token)[0-9]{0,4}|authorization"
    r"|\w{0,64}(?:api|access|private|secret|account|auth|signing|encryption|master|service|shared"
    r"|client|deploy)key[0-9]{0,4}"
)
_KEY_OWNERS: Final = _words(
    "api access private secret account auth signing encryption master service shared client deploy"
    " session app application subscription"
)
_HARMLESS: Final = _words(
    # of counts, cursors and grammars
    "max min num count counts total length len size limit budget usage used page next prev previous"
    " continuation start end stop eos bos pad unk mask sep cls special index idx position kind"
    # about a secret, not the secret
    " type types name names file files filename path dir url uri endpoint id ids arn ref field"
    " label prompt policy rule rules strength hint format header regex pattern class func function"
    " provider store manager callback error message required enabled disabled version scope scopes"
    " ttl expiry expires expiration env var placeholder reset public location source method mode"
    " handler factory helper validator template algorithm issuer audience"
)


@lru_cache(maxsize=4096)
def _name_sort(name: str) -> _NameSort | None:
    """What a value under this name is, if it is secret."""
    if len(name) > _NAME_MAX:
        return None
    words = _NOT_ALNUM.sub(" ", _CAMEL.sub(" ", name).lower()).split()
    if not _HARMLESS.isdisjoint(words):
        return None
    if any(_PASSWORD_NAME.fullmatch(word) for word in words):
        return "password"
    if any(_TOKEN_NAME.fullmatch(word) for word in words):
        return "token"
    if any(b == "key" and a in _KEY_OWNERS for a, b in pairwise(words)):
        return "token"
    if "credential" in words or "credentials" in words:
        return "credential"
    return "auth" if words and words[-1] == "auth" else None


# --- values --------------------------------------------------------------------------------------

_VALUE_MAX: Final = 4096
_FILLER_WORDS: Final = _words(
    "true false yes no on off none null nil undefined unset empty required optional str string byte"
    " bytes int integer bool boolean float number object any text char secretstr redacted masked"
    " hidden removed"
)
_FILLER: Final = _made_late(
    r"""(?xi) [*x.•\#?_=~+-]{1,200} | \$[a-z_]\w{0,100} | \$[{(].{0,200} | <[^<>]{0,200}>
    | %[a-z_]\w{0,100}%? | %\(\w{0,100}\)s | \{{1,2}[^{}]{0,200}\}{1,2} | \[[^\[\]]{0,200}\]"""
)
"""Masks and templates that appear in place of a secret."""
_NUMBER: Final = _made_late(r"[+-]?[0-9][0-9_.,]{0,40}")
_LABEL: Final = _made_late(r"[A-Za-z]{1,20}(?:[ _-][A-Za-z]{1,20}){0,5}:? ?")
_CODE: Final = _made_late(
    r"[(\[{<$]|[&*!@]?[A-Za-z_]\w{0,100}+(?:(?:\.|::|->|\?\.)[A-Za-z_]\w{0,100}+){0,8}[(\[{<]"
    r"|[&*!@]?[A-Za-z_]\w{0,100}+(?:(?:\.|::|->|\?\.)[A-Za-z_]\w{0,100}+){1,8}$"
)
"""A call, an index, an attribute, a template: such a value refers to a secret at most."""


def _is_filler(value: str, sort: _NameSort) -> bool:
    if value.lower() in _FILLER_WORDS or _FILLER.fullmatch(value):
        return True
    # Passwords of digits exist; tokens and keys of digits are counts.
    return _NUMBER.fullmatch(value) is not None and (sort != "password" or len(value) < 4)


def _is_label(value: str) -> bool:
    """A value that is itself a secret-looking name: "password", "access_token", "Token: "."""
    return _LABEL.fullmatch(value) is not None and _name_sort(value) is not None


def _is_working_directory(name: str, value: str) -> bool:
    return name.lower() in ("pwd", "oldpwd") and ("/" in value or "\\" in value)


def _is_strong(value: str) -> bool:
    """Long and mixed: not a word, a name or a number."""
    if len(value) < 16 or not _has_digit(value) or _LETTER.search(value) is None:
        return False
    return _PLAIN.fullmatch(value) is None


def _has_digit(value: str) -> bool:
    return _DIGIT.search(value) is not None


_DIGIT: Final = _made_late("[0-9]")
_LETTER: Final = _made_late("[A-Za-z]")


def _named_value(text: str, name: str) -> list[_Span] | None:
    """The whole text, if it is the value of a secret-looking dict key."""
    sort = _name_sort(name)
    if sort is None or not 1 <= len(text) <= _VALUE_MAX or _PLACEHOLDER_HEAD in text:
        return None
    if _is_filler(text, sort) or _is_working_directory(name, text):
        return None
    scheme = _SCHEME.fullmatch(text)
    if scheme is not None and sort != "password":
        kind = "basic-auth" if scheme[1].lower() == "basic" else "bearer"
        return [_Span(*scheme.span(2), kind)]
    if not (_fits_password(text) if sort == "password" else _fits_token(text, sort)):
        return None
    return [_Span(0, len(text), "assigned")]


_SCHEME: Final = _made_late(r"(?i)(bearer|basic|token|bot)[ \t]{1,4}([^\s‹›]{6,4096}+)")


def _fits_password(value: str) -> bool:
    return len(value) <= 200 and "\n" not in value and not value.isspace()


def _fits_token(value: str, sort: _NameSort) -> bool:
    if len(value) < 6 or any(map(str.isspace, value)):
        return False
    return sort != "auth" or _is_strong(value)


# --- a name beside a value -----------------------------------------------------------------------

_ASSIGNMENT: Final = _made_late(
    r"""(?x)
    (?P<rest>[A-Za-z0-9_-]{1,48}+)
    (?:\\{0,7}["'`])? \]?
    (?:\s{0,2}:\s{0,2}(?:str|bytes|[sS]tring)(?:\s?\|\s?None)?(?=\s{0,2}=))?
    (?P<op>[ \t]{0,8}(?:=>|:=|=|:)(?![=:])[ \t]{0,8}|[ \t]{1,4})
    (?:
        \\{1,7}["'`] (?P<escaped>[^\n"'`\\‹›]{1,4096}+)
      | [bruBRU]{0,2}" (?P<double>[^"\\\n‹›]{0,4096}+(?:\\.[^"\\\n‹›]{0,400}+){0,40}) (?:"|\Z)
      | [bruBRU]{0,2}' (?P<single>[^'\\\n‹›]{0,4096}+(?:\\.[^'\\\n‹›]{0,400}+){0,40}) (?:'|\Z)
      | ` (?P<ticks>[^`\\\n‹›]{1,400}+) (?:`|\Z)
      | (?P<bare>[^\s"'`\\‹›]{1,256}+(?:\\(?![nrtbfu"'`\\/])[^\s"'`\\‹›]{0,256}+){0,8}) (?![‹"'`])
    )
    """
)
_KIND_OF: Final = (
    (_made_late(r"(?i).{0,60}secret.?access.?key"), _made_late(r"[A-Za-z0-9/+]{40}"), "aws"),
    (_made_late(r"(?i).{0,60}account.?key"), _made_late(r"[A-Za-z0-9/+]{40,200}={0,2}"), "azure"),
)


def _assignment(text: str, at: int) -> _Span | None:
    """The value that belongs to the secret name at position `at`."""
    match = _ASSIGNMENT.match(text, at)
    if match is None:
        return None
    start, name = _whole_name(text, at, match["rest"])
    sort = _name_sort(name)
    form = match.lastgroup or "bare"
    first, last = match.span(form)
    if sort is None or text.startswith(_PLACEHOLDER_HEAD, start - 1):
        return None
    if form == "bare":
        last = _bare_end(text, start, first, last)
        value = text[first:last]
        fits = _Bare(text, start, last, name, sort, match["op"], value).fits()
    else:
        value = text[first:last]
        fits = _quoted_fits(sort, value) and (name[0] == "-" or not match["op"].isspace())
    if not fits or _is_working_directory(name, value):
        return None
    return _Span(first, last, _kind(name, value))


def _whole_name(text: str, at: int, rest: str) -> tuple[int, str]:
    before = text[max(0, at - _NAME_MAX) : at]
    start = at - (len(before) - len(before.rstrip(_NAME_CHARS)))
    if text[start - 1 : start] == "\\" and text[start] in "nrt" and start < at:
        start += 1
    return start, text[start:at] + rest


def _kind(name: str, value: str) -> str:
    for names, values, kind in _KIND_OF:
        if names.fullmatch(name) and values.fullmatch(value):
            return kind
    return "assigned"


def _quoted_fits(sort: _NameSort, value: str) -> bool:
    if _is_filler(value, sort) or _is_label(value):
        return False
    if sort == "password":
        return len(value) >= 3 and _fits_password(value)
    return _fits_token(value, sort) and (sort != "credential" or _is_strong(value))


_FLAG_PROSE: Final = _words(
    "and are argument as before can file flag for from given has if in instead into is may means"
    " must not of option options or over parameter should so takes than that the then through to"
    " value via when which will with without you"
)


def _bare_end(text: str, start: int, first: int, last: int) -> int:
    """Where an unquoted value ends: with its line if it is all of it, else at punctuation."""
    value = text[first:last]
    if _PUNCTUATION.search(value) is None or _is_line(text, start, last):
        return first + len(value.rstrip(",;"))
    value = _LIST_MARK.split(value, maxsplit=1)[0]
    for opener, closer in ("()", "[]", "{}", "<>"):
        if opener not in value:
            value = value.split(closer, 1)[0]
    return first + len(value)


_LIST_MARK: Final = _made_late("[,;&|]")
_PUNCTUATION: Final = _made_late(r"[,;&|)\]}>]")


def _is_line(text: str, start: int, last: int) -> bool:
    """Whether a name at `start` and its value up to `last` are alone on their line."""
    if _LINE_TAIL.match(text, last) is None:
        return False
    before = text[max(0, start - 64) : start]
    lead = _LINE_LEAD.fullmatch(_LINE_BREAK.split(before)[-1])
    return lead is not None


_LINE_BREAK: Final = _made_late(r"[\n\r]|\\[nr]")
_LINE_LEAD: Final = _made_late(r"[ \t]{0,64}+(?:(?:-|export|set|ENV)[ \t]{1,4})?")
_LINE_TAIL: Final = _made_late(r"[ \t]{0,40}+(?:$|[\n\r#]|\\[nr])")


class _Bare(_Given):
    """An unquoted value and how it was given: free text, so its looks decide."""

    __slots__ = ()

    def fits(self) -> bool:
        value, op = self.value, self.op.strip()
        if not self._is_long() or not (op or self.name[0] == "-"):
            return False
        if _is_filler(value, self.sort) or _CODE.match(value) or _is_label(value):
            return False
        if self.name[0] == "-":
            return self._fits_flag()
        if self.sort != "password" and "://" in value:
            return False
        if self.op == "=" and self.name.isupper():
            return self.sort in ("password", "token") or _has_digit(value)
        return _is_strong(value) or self._fits_line(op)

    def _is_long(self) -> bool:
        return len(self.value) >= (3 if self.sort == "password" else 6)

    def _fits_flag(self) -> bool:
        if self.value[0] == "-" or self.value.lower() in _FLAG_PROSE:
            return False
        is_metavar = self.value.isupper() and not _has_digit(self.value)
        return not is_metavar

    def _fits_line(self, op: str) -> bool:
        tight = self.op == "="
        mixed = _has_digit(self.value) or not _SYMBOL.isdisjoint(self.value)
        if self.sort != "password":
            return mixed and len(self.value) >= 8 and (tight or op == ":") and self._is_line()
        if mixed:
            return tight or self._is_line()
        return op == ":" and self.value.islower() and self._is_line()

    def _is_line(self) -> bool:
        return _is_line(self.text, self.start, self.last)


_SYMBOL: Final = frozenset("!@#$%^*+~?/=")


# --- headers, private keys -----------------------------------------------------------------------

_HEADER: Final = _made_late(
    r"""(?xi) authorization \\{0,7}["']? [ \t]{0,4} [:=,] [ \t]{0,4} [bruf]{0,2} \\{0,7}["'`]?
    (bearer|token|bot|basic) [ \t]{1,4} ([^\s"'`\\,;<>{}$‹›]{6,4096}+)"""
)


def _auth_assignment(text: str, at: int) -> _Span | None:
    """The credentials after ``Authorization: Bearer`` and its like, or after another auth name."""
    match = _HEADER.match(text, at - 1)
    if match is None:
        return _assignment(text, at)
    if _is_filler(match[2], "token") or _is_label(match[2]):
        return None
    kind = "basic-auth" if match[1].lower() == "basic" else "bearer"
    return _Span(*match.span(2), kind)


_PEM_MAX: Final = 16384
"""A 16384-bit RSA key is 13 KB of PEM."""
_PEM_BEGIN: Final = _made_late(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_PEM_END: Final = _made_late(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?(?: ?-{1,5})?")
_PEM_WHOLE: Final = _made_late(
    rf"([^-]{{0,{_PEM_MAX}}}+(?:-(?!---)[^-]{{0,{_PEM_MAX}}}+){{0,64}}+)"
    r"-{4,5} ?END [A-Z0-9 ]{0,60}-{4,5}"
)
_PEM_GAP: Final = r"""(?:\\{1,4}[nr]|[\s"'+,>#|*]){0,64}"""
_PEM_CUT: Final = _made_late(
    rf"(?:{_PEM_GAP}[A-Za-z][A-Za-z-]{{2,20}}: [^\n\\]{{1,80}}+){{0,4}}"
    rf"(?:{_PEM_GAP}[A-Za-z0-9+/=]{{16,{_PEM_MAX}}}+){{1,256}}+"
    rf"(?:{_PEM_GAP}[A-Za-z0-9+/=]{{1,64}}+)?"
)
_PEM_TEXT: Final = _NAME_CHARS.strip("_-") + "+/=\r\n\t \\"


def _private_key(text: str, at: int) -> _Span | None:
    """The PEM block whose first or last line contains PRIVATE KEY, with KEY at `at`."""
    head = text.rfind("BEGIN", max(0, at - 56), at)
    begin = _PEM_BEGIN.match(text, head - 5) if head >= 5 else None
    if begin is None or begin.end() <= at:
        return _private_key_tail(text, at)
    whole = _PEM_WHOLE.match(text, begin.end())
    if whole is not None and len(whole[1].strip()) >= 16:
        return _Span(begin.start(), whole.end(), "private-key")
    cut = _PEM_CUT.match(text, begin.end())
    return None if cut is None else _Span(begin.start(), cut.end(), "private-key")


def _private_key_tail(text: str, at: int) -> _Span | None:
    """What precedes an END line: the rest of a block whose first lines were cut off."""
    head = text.rfind("END", max(0, at - 56), at)
    end = _PEM_END.match(text, head - 5) if head >= 5 else None
    if end is None or end.end() <= at:
        return None
    body = text[max(0, end.start() - _PEM_MAX) : end.start()]
    size = len(body) - len(body.rstrip(_PEM_TEXT))
    return _Span(end.start() - size, end.end(), "private-key") if size >= 60 else None


def _key(text: str, at: int) -> _Span | None:
    if text[max(0, at - 8) : at] == "PRIVATE ":
        return _private_key(text, at)
    return _assignment(text, at)


# --- sieve two: names ----------------------------------------------------------------------------

_Finder = Callable[[str, int], _Span | None]

# Lower case, and k for w: both are rare, so key, token, password, passwd and pwd share one look.
_FOLD: Final = bytes(range(256)).lower().replace(b"w", b"k")
# Each pattern begins with a letter, so that `re` looks for the letter in C, and looks ahead to what
# follows a name that has a value: most occurrences in code end here.
_NAME_TAIL: Final = (
    rb"""(?=[a-z0-9_-]{0,48}+(?:[\\"'`\]]{0,9}[ \t]{0,8}([=:,])|[ \t]{1,4}[^\s=:(]))"""
)
_PEM_MARK: Final = rb"(?<=private key)(?=(?: block)? ?(-))"
_NAMES: Final[tuple[tuple[re.Pattern[bytes], _Finder], ...]] = (
    (
        _made_late(
            rb"k(?:ey|en(?<=token)|[od](?<=ssk.)|d(?<=pkd))(?:%b|%b)" % (_NAME_TAIL, _PEM_MARK)
        ),
        _key,
    ),
    (_made_late(rb"cre(?:t(?<=secret)|de)" + _NAME_TAIL), _assignment),
    (_made_late(rb"uth(?<=auth)" + _NAME_TAIL), _auth_assignment),
)


def _name_spans(text: str, data: bytes) -> list[_Span]:
    found: list[_Span] = []
    folded = data.translate(_FOLD)
    for pattern, find in _NAMES:
        done = 0
        for match in pattern.finditer(folded):
            at = match.start()
            if at < done:
                continue
            # A blank before the value is enough for --flags only.
            if match.lastindex is None and folded.rfind(b"--", max(0, at - 48), at) < 0:
                continue
            if (span := find(text, at)) is not None:
                done = span.end
                found.append(span)
    return found


# --- sieve three: URLs ---------------------------------------------------------------------------

_USERINFO: Final = _made_late(
    r"""://(?:[^\s/?#"'`<>@:\\‹›]{0,128}+:([^\s/?#"'`<>\\‹›]{1,256})|([A-Za-z0-9_.~%-]{20,256}+))@"""
)


def _url_password(text: str, at: int) -> _Span | None:
    """The password between the ``://`` at `at` and ``@``."""
    match = _USERINFO.match(text, at)
    if match is None or not _is_url_secret(match[1], match[2]):
        return None
    return _Span(*match.span(match.lastindex or 0), "basic-auth-url")


def _is_url_secret(password: str | None, user: str | None) -> bool:
    if password is None:
        return _is_strong(user or "")
    return not (_is_filler(password, "password") or _is_label(password))


def _url_spans(text: str) -> list[_Span]:
    found: list[_Span] = []
    at = text.find("://")
    while at >= 0:
        if (span := _url_password(text, at)) is not None:
            found.append(span)
        at = text.find("://", at + 3)
    return found


# --- all together --------------------------------------------------------------------------------

_GENERIC: Final = frozenset(("assigned", "basic-auth", "basic-auth-url", "bearer"))


def _spans(text: str) -> list[_Span]:
    """Every secret in the text, left to right, none touching another."""
    # One byte per character, whatever the character: offsets stay those of the text.
    data = text.encode("ascii", "replace")
    found = _run_spans(text, data)
    found += _name_spans(text, data)
    if b"@" in data:
        found += _url_spans(text)
    if not found:
        return found
    if _PLACEHOLDER_HEAD in text:
        found = _outside_placeholders(text, found)
    return _merged(found)


def _outside_placeholders(text: str, found: list[_Span]) -> list[_Span]:
    """Without what begins or ends inside a placeholder: that has been redacted already."""
    inside = bytearray(len(text) + 1)
    for match in placeholder_pattern.finditer(text):
        inside[match.start() + 1 : match.end()] = b"\1" * (len(match[0]) - 1)
    return [span for span in found if not (inside[span.start] or inside[span.end])]


def _merged(found: list[_Span]) -> list[_Span]:
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
