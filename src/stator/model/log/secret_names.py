"""Finds secrets by the name beside them: `password: …`, `--api-key …`, headers, private key blocks and URLs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import compress, pairwise

from stator.model.log.secret_spans import (
    PLACEHOLDER_HEAD,
    PLAIN,
    GivenValue,
    Span,
)
from stator.model.values.late_pattern import late

TYPE_CHECKING = False  # as type checkers know it: a hook cannot wait until `typing` is loaded
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from stator.model.log.secret_spans import NameSort

# --- names ---------------------------------------------------------------------------------------

_NAME_MAX: Final = 100
_NAME_CHARS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_CAMEL: Final = late(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_ALNUM: Final = late(r"[^a-z0-9]{1,100}")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PASSWORD_NAME: Final = late(r"pass|pwd|\w{0,64}(?:password|passwd|passphrase|passcode)[0-9]{0,4}")
_TOKEN_NAME: Final = late(
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
def name_sort(name: str) -> NameSort | None:
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
    if words and words[-1] in ("cookie", "cookies"):
        return "cookie"
    return "auth" if words and words[-1] == "auth" else None


# --- values --------------------------------------------------------------------------------------

_VALUE_MAX: Final = 4096
_FILLER_WORDS: Final = _words(
    "true false yes no on off none null nil undefined unset empty required optional str string byte"
    " bytes int integer bool boolean float number object any text char secretstr redacted masked"
    " hidden removed"
)
_FILLER: Final = late(
    r"""(?xi) [*x.•\#?_=~+-]{1,200} | \$[a-z_]\w{0,100} | \$[{(].{0,200} | <[^<>]{0,200}>
    | %[a-z_]\w{0,100}%? | (?:%[sdr][:@/]?){1,4} | %\(\w{0,100}\)s | \{{1,2}[^{}]{0,200}\}{1,2} | \[[^\[\]]{0,200}\]"""
)
"""Masks and templates that appear in place of a secret."""
_NUMBER: Final = late(r"[+-]?[0-9][0-9_.,]{0,40}")
_VERSION: Final = late(r"[\^~<>=v ]{0,4}[0-9]{1,4}(?:\.[0-9x*]{1,6}){1,3}[a-z0-9.+-]{0,20}")
"""Of a package, whose name may be that of a secret: "jsonwebtoken": "^9.0.2"."""
_LABEL: Final = late(r"[A-Za-z]{1,20}(?:[ _-][A-Za-z]{1,20}){0,5}:? ?")
_CODE: Final = late(
    r"[(\[{<$]|[&*!@]?[A-Za-z_]\w{0,100}+(?:(?:\.|::|->|\?\.)[A-Za-z_]\w{0,100}+){0,8}[(\[{<]"
    r"|[&*!@]?[A-Za-z_]\w{0,100}+(?:(?:\.|::|->|\?\.)[A-Za-z_]\w{0,100}+){1,8}$"
)
"""A call, an index, an attribute, a template: such a value refers to a secret at most."""


def _is_filler(value: str, sort: NameSort) -> bool:
    if value.lower() in _FILLER_WORDS or _FILLER.fullmatch(value):
        return True
    if sort != "password" and _VERSION.fullmatch(value):
        return True
    # Passwords of digits exist; tokens and keys of digits are counts.
    return _NUMBER.fullmatch(value) is not None and (sort != "password" or len(value) < 4)


def _is_label(value: str) -> bool:
    """A value that is itself a secret-looking name: "password", "access_token", "Token: "."""
    return _LABEL.fullmatch(value) is not None and name_sort(value) is not None


def _is_working_directory(name: str, value: str) -> bool:
    return name.lower() in ("pwd", "oldpwd") and ("/" in value or "\\" in value)


def _is_strong(value: str) -> bool:
    """Long and mixed: not a word, a name or a number."""
    if len(value) < 16 or not _has_digit(value) or _LETTER.search(value) is None:
        return False
    return PLAIN.fullmatch(value) is None


def _has_digit(value: str) -> bool:
    return _DIGIT.search(value) is not None


_DIGIT: Final = late("[0-9]")
_LETTER: Final = late("[A-Za-z]")


def named_value(text: str, name: str) -> list[Span] | None:
    """The whole text, if it is the value of a secret-looking dict key."""
    sort = name_sort(name)
    if sort is None or not 1 <= len(text) <= _VALUE_MAX or PLACEHOLDER_HEAD in text:
        return None
    if _is_filler(text, sort) or _is_working_directory(name, text):
        return None
    if sort == "cookie" and (cookies := _COOKIES.match(text)) is not None:
        found = _cookie_values(cookies)
        return None if found is None else [found]
    scheme = _SCHEME.fullmatch(text)
    if scheme is not None and sort != "password":
        kind = "basic-auth" if scheme[1].lower() == "basic" else "bearer"
        return [Span(*scheme.span(2), kind)]
    if not (_fits_password(text) if sort == "password" else _fits_token(text, sort)):
        return None
    return [Span(0, len(text), "assigned")]


_SCHEME: Final = late(r"(?i)(bearer|basic|token|bot)[ \t]{1,4}([^\s‹›]{6,4096}+)")


def _fits_password(value: str) -> bool:
    return len(value) <= 200 and "\n" not in value and not value.isspace()


def _fits_token(value: str, sort: NameSort) -> bool:
    if len(value) < 6 or any(map(str.isspace, value)):
        return False
    return sort not in ("auth", "cookie") or _is_strong(value)


# --- a name beside a value -----------------------------------------------------------------------

_NAME_END: Final = r"""(?x)
    (?P<rest>[A-Za-z0-9_-]{1,48}+)
    (?:\\{0,7}["'`])? \]?
    (?:\s{0,2}:\s{0,2}(?:str|bytes|[sS]tring)(?:\s?\|\s?None)?(?=\s{0,2}=))?
    """
_GIVEN: Final = r"""
    (?:
        \\{1,7}["'`] (?P<escaped>[^\n"'`\\‹›]{1,4096}+)
      | [bruBRU]{0,2}" (?P<double>[^"\\\n‹›]{0,4096}+(?:\\.[^"\\\n‹›]{0,400}+){0,40}) (?:"|\Z)
      | [bruBRU]{0,2}' (?P<single>[^'\\\n‹›]{0,4096}+(?:\\.[^'\\\n‹›]{0,400}+){0,40}) (?:'|\Z)
      | ` (?P<ticks>[^`\\\n‹›]{1,400}+) (?:`|\Z)
      | (?P<bare>[^\s"'`\\‹›]{1,256}+(?:\\(?![nrtbfu"'`\\/])[^\s"'`\\‹›]{0,256}+){0,8}) (?!‹)
    )
    """
_ASSIGNMENT: Final = late(
    _NAME_END + r"(?P<op>[ \t]{0,8}(?:=>|:=|=|:)(?![=:])[ \t]{0,8}|[ \t]{1,4})" + _GIVEN
)
_BESIDE: Final = late(
    _NAME_END
    + r"""(?P<op>[ ]{0,4},?(?:\s|\\[nrt]){0,64}+\\{0,7}["']?[vV]alue\\{0,7}["']?[ ]{0,4}[:=][ ]{0,4})"""
    + _GIVEN
)
"""A name, and beside it what is called its value: {"name": "API_KEY", "value": "…"}."""
_BESIDE_MAX: Final = 160
_KIND_OF: Final = (
    (late(r"(?i).{0,60}secret.?access.?key"), late(r"[A-Za-z0-9/+]{40}"), "aws"),
    (
        late(r"(?i).{0,60}account.?key"),
        late(r"[A-Za-z0-9/+]{40,200}={0,2}"),
        "azure",
    ),
)


def _assignment(text: str, at: int) -> Span | None:
    """The value that belongs to the secret name at position `at`."""
    match = _ASSIGNMENT.match(text, at)
    if match is None and "alue" in text[at : at + _BESIDE_MAX]:
        match = _BESIDE.match(text, at)
    if match is None:
        return None
    start, name = _whole_name(text, at, match["rest"])
    sort = name_sort(name)
    form = match.lastgroup or "bare"
    first, last = match.span(form)
    if sort is None or text.startswith(PLACEHOLDER_HEAD, start - 1):
        return None
    if form == "bare":
        last = _bare_end(text, start, first, last)
        value = text[first:last]
        bare = _Bare(text, start, last, name, sort, match["op"], value)
        fits = (
            bare.fits_in_quotes()
            if text[match.end("bare") : match.end("bare") + 1] in _QUOTES
            else bare.fits()
        )
    else:
        value = text[first:last]
        fits = _quoted_fits(sort, value) and (name[0] == "-" or not match["op"].isspace())
    if not fits or _is_working_directory(name, value):
        return None
    return Span(first, last, _kind(name, value))


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


def _quoted_fits(sort: NameSort, value: str) -> bool:
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


_LIST_MARK: Final = late("[,;&|]")
_PUNCTUATION: Final = late(r"[,;&|)\]}>]")


def _is_line(text: str, start: int, last: int) -> bool:
    """Whether a name at `start` and its value up to `last` are alone on their line."""
    if _LINE_TAIL.match(text, last) is None:
        return False
    before = text[max(0, start - 64) : start]
    lead = _LINE_LEAD.fullmatch(_LINE_BREAK.split(before)[-1])
    return lead is not None


_LINE_BREAK: Final = late(r"[\n\r]|\\[nr]")
_LINE_LEAD: Final = late(r"[ \t]{0,64}+(?:(?:-|export|set|ENV)[ \t]{1,4})?")
_LINE_TAIL: Final = late(r"[ \t]{0,40}+(?:$|[\n\r#]|\\[nr])")


class _Bare(GivenValue):
    """An unquoted value and how it was given: free text, so its looks decide."""

    __slots__ = ()

    def fits(self) -> bool:
        value, op = self.value, self.op.strip()
        if not self._is_long() or not (op or self.name[0] == "-"):
            return False
        if _is_filler(value, self.sort) or _CODE.match(value) or _is_label(value):
            return False
        if self.sort == "cookie":
            return _is_strong(value)
        if self.name[0] == "-":
            return self._fits_flag()
        if self.sort != "password" and "://" in value:
            return False
        if self.op == "=" and self.name.isupper():
            return self.sort in ("password", "token") or _has_digit(value)
        return _is_strong(value) or self._fits_line(op)

    def fits_in_quotes(self) -> bool:
        """The same where a quote follows: it must end a string that the name is in, as in "PASSWORD=…"."""
        quote = self.text[self.last : self.last + 1]
        before = self.text[max(0, self.start - _QUOTED_MAX) : self.start].rpartition("\n")[2]
        if quote not in before or not (self.value[-1].isalnum() or self.value[-1] in "=!"):
            return False
        tight = self.op == "=" and self.name.isupper() and self.sort in ("password", "token")
        return (tight or self.name[0] == "-" or _is_strong(self.value)) and self.fits()

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


_QUOTES: Final = ('"', "'", "`")
_QUOTED_MAX: Final = 200
"""How far before its end the string of a name and its value may begin."""
_SYMBOL: Final = frozenset("!@#$%^*+~?/=")


# --- headers, private keys -----------------------------------------------------------------------

_HEADER: Final = late(
    r"""(?xi) authorization \\{0,7}["']? [ \t]{0,4} [:=,] [ \t]{0,4} [bruf]{0,2} \\{0,7}["'`]?
    (bearer|token|bot|basic) [ \t]{1,4} ([^\s"'`\\,;<>{}$‹›]{6,4096}+)"""
)


def _auth_assignment(text: str, at: int) -> Span | None:
    """The credentials after ``Authorization: Bearer`` and its like, or after another auth name."""
    match = _HEADER.match(text, at - 1)
    if match is None:
        return _assignment(text, at)
    if _is_filler(match[2], "token") or _is_label(match[2]):
        return None
    kind = "basic-auth" if match[1].lower() == "basic" else "bearer"
    return Span(*match.span(2), kind)


_COOKIE: Final = late(
    r"""(?xi) kies? \\{0,7}["'`]? \]? [ \t]{0,4} [:=,\s] [ \t]{0,4} [bruf]{0,2} \\{0,7}["'`]? (?=[\w.$-]{1,128}=)"""
)
_COOKIES: Final = late(r"""[\w.$-]{1,128}=[^\n\r"'`\\<>{}‹›]{8,4096}+""")
"""A cookie after another, each a name and a value."""
_ATTRIBUTES: Final = _words("path domain expires max-age samesite")
"""What a server says about a cookie; it is no part of it."""


def _cookie(text: str, at: int) -> Span | None:
    """The values of a Cookie or Set-Cookie header, or of what is called a cookie."""
    header = _COOKIE.match(text, at)
    cookies = None if header is None else _COOKIES.match(text, header.end())
    return _assignment(text, at) if cookies is None else _cookie_values(cookies)


def _cookie_values(cookies: re.Match[str]) -> Span | None:
    """From the first value that looks like an identity up to the end of the last one."""
    start, end, at = -1, -1, cookies.start()
    for part in cookies[0].split(";"):
        name, _, rest = part.partition("=")
        value = rest.partition(" ")[0]
        if name.strip().lower() not in _ATTRIBUTES and _is_cookie(value):
            end = at + len(name) + 1 + len(value)
            start = end - len(value) if start < 0 else start
        at += len(part) + 1
    return None if start < 0 else Span(start, end, "cookie")


def _is_cookie(value: str) -> bool:
    if len(value) < 8 or not _has_digit(value) or _LETTER.search(value) is None:
        return False
    return not (_is_filler(value, "cookie") or _CODE.match(value) or PLAIN.fullmatch(value))


_PEM_MAX: Final = 16384
"""A 16384-bit RSA key is 13 KB of PEM."""
_PEM_BEGIN: Final = late(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_PEM_END: Final = late(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?(?: ?-{1,5})?")
_PEM_WHOLE: Final = late(
    rf"([^-]{{0,{_PEM_MAX}}}+(?:-(?!---)[^-]{{0,{_PEM_MAX}}}+){{0,64}}+)"
    r"-{4,5} ?END [A-Z0-9 ]{0,60}-{4,5}"
)
_PEM_GAP: Final = r"""(?:\\{1,4}[nr]|[\s"'+,>#|*]){0,64}"""
_PEM_CUT: Final = late(
    rf"(?:{_PEM_GAP}[A-Za-z][A-Za-z-]{{2,20}}: [^\n\\]{{1,80}}+){{0,4}}"
    rf"(?:{_PEM_GAP}[A-Za-z0-9+/=]{{16,{_PEM_MAX}}}+){{1,256}}+"
    rf"(?:{_PEM_GAP}[A-Za-z0-9+/=]{{1,64}}+)?"
)
_PEM_TEXT: Final = _NAME_CHARS.strip("_-") + "+/=\r\n\t \\"


def _private_key(text: str, at: int) -> Span | None:
    """The PEM block whose first or last line contains PRIVATE KEY, with KEY at `at`."""
    head = text.rfind("BEGIN", max(0, at - 56), at)
    begin = _PEM_BEGIN.match(text, head - 5) if head >= 5 else None
    if begin is None or begin.end() <= at:
        return _private_key_tail(text, at)
    whole = _PEM_WHOLE.match(text, begin.end())
    if whole is not None and len(whole[1].strip()) >= 16:
        return Span(begin.start(), whole.end(), "private-key")
    cut = _PEM_CUT.match(text, begin.end())
    return None if cut is None else Span(begin.start(), cut.end(), "private-key")


def _private_key_tail(text: str, at: int) -> Span | None:
    """What precedes an END line: the rest of a block whose first lines were cut off."""
    head = text.rfind("END", max(0, at - 56), at)
    end = _PEM_END.match(text, head - 5) if head >= 5 else None
    if end is None or end.end() <= at:
        return None
    body = text[max(0, end.start() - _PEM_MAX) : end.start()]
    size = len(body) - len(body.rstrip(_PEM_TEXT))
    return Span(end.start() - size, end.end(), "private-key") if size >= 60 else None


def _key(text: str, at: int) -> Span | None:
    if text[max(0, at - 8) : at] == "PRIVATE ":
        return _private_key(text, at)
    if text[max(0, at - 3) : at + 3].lower() == "cookie":
        return _cookie(text, at)
    return _assignment(text, at)


# --- sieve two: names ----------------------------------------------------------------------------

_Finder = Callable[[str, int], Span | None]

# Lower case, and k for w: both are rare, so key, token, password, passwd and pwd share one look.
_FOLD: Final = bytes(range(256)).lower().replace(b"w", b"k")
# Each pattern begins with a letter, so that `re` looks for the letter in C, and looks ahead to what
# follows a name that has a value: most occurrences in code end here.
_NAME_TAIL: Final = rb"""(?=[a-z0-9_-]{0,48}+(?:[\\"'`\]]{0,9}[ \t]{0,8}([=:,]|\s{1,64}value)|[ \t]{1,4}[^\s=:(]))"""
_PEM_MARK: Final = rb"(?<=private key)(?=(?: block)? ?(-))"
NAMES: Final[tuple[tuple[re.Pattern[bytes], _Finder], ...]] = (
    (
        late(
            rb"k(?:ey|en(?<=token)|[od](?<=ssk.)|d(?<=pkd)|ie(?<=cookie))(?:%b|%b)"
            % (_NAME_TAIL, _PEM_MARK)
        ),
        _key,
    ),
    (late(rb"cre(?:t(?<=secret)|de)" + _NAME_TAIL), _assignment),
    (late(rb"uth(?<=auth)" + _NAME_TAIL), _auth_assignment),
    (late(rb"""_pass(?=[0-9]{0,2}[\\"'`\]]{0,9}[ \t]{0,8}([=:]))"""), _assignment),
)


_ANY_NAME: Final = late(
    rb"k(?:ey|en(?<=token)|[od](?<=ssk.)|d(?<=pkd)|ie(?<=cookie))"
    rb"|cre(?:t(?<=secret)|de)|uth(?<=auth)|_pass"
)
"""How each of `NAMES` begins. One look for all of them is faster than one for each, in a short text."""
_SHORT: Final = 160


def has_name(data: bytes) -> bool:
    """Whether bytes have a name that a secret may stand beside."""
    folded = data.translate(_FOLD)
    if len(folded) < _SHORT and _ANY_NAME.search(folded) is None:
        return False
    flags = b"--" in folded  # a blank before the value is enough for them only
    for pattern, find in _names_for(folded):
        for match in pattern.finditer(folded):
            if match.lastindex is None:
                if flags:
                    return True
            elif match[1] != b"," or find is _auth_assignment or b"value" in folded:
                return True  # a comma comes before a header's value, or before what is called value
    return False


def _names_for(folded: bytes) -> Iterator[tuple[re.Pattern[bytes], _Finder]]:
    """Those that can match: a look for a text is faster than one for a pattern."""
    return compress(NAMES, (True, b"cre" in folded, b"auth" in folded, b"_pass" in folded))


def name_spans(text: str, data: bytes) -> list[Span]:
    found: list[Span] = []
    folded = data.translate(_FOLD)
    if len(folded) < _SHORT and _ANY_NAME.search(folded) is None:
        return found
    for pattern, find in _names_for(folded):
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

_USERINFO: Final = late(
    r""":/{1,3}(?:[^\s/?#"'`<>@:\\‹›]{0,128}+:([^\s/?#"'`<>\\‹›]{1,256})|([A-Za-z0-9_.~%-]{20,256}+))@"""
)


def _url_password(text: str, at: int) -> Span | None:
    """The password between the ``://`` at `at` and ``@``. In a path that was normalised, one slash is left."""
    match = _USERINFO.match(text, at)
    if match is None or not _is_url_secret(match[1], match[2]):
        return None
    return Span(*match.span(match.lastindex or 0), "basic-auth-url")


def _is_url_secret(password: str | None, user: str | None) -> bool:
    if password is None:
        return _is_strong(user or "")
    return not (_is_filler(password, "password") or _is_label(password))


def url_spans(text: str) -> list[Span]:
    found: list[Span] = []
    at = text.find(":/")
    while at >= 0:
        if (span := _url_password(text, at)) is not None:
            found.append(span)
        at = text.find(":/", at + 2)
    return found
