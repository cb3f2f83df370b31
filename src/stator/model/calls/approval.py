"""Decides which calls need a person's approval, and which grant answers a call.

Decisions only. A *rule* says what to do about a call: allow it, ask, or deny it. A *grant* is a person's recorded
yes or no (`ApprovalRecord`); it answers a call of exactly those arguments, or every call that fits its pattern.
Where it is unclear whether something fits, the decision is against running: such a value satisfies a rule that
asks or denies, and a denial; it never satisfies a rule that allows, nor an approval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from stator.errors import InvalidInput
from stator.model.calls.proof import check_proof
from stator.model.log.commit import Remove
from stator.model.records.types import ApprovalRecord, Entry, Record
from stator.model.sessions.ownership import Ownership, is_old_mark
from stator.model.values import canon
from stator.model.values.late_pattern import late

Action = Literal["allow", "ask", "deny"]
Scope = Literal["once", "session", "project"]
Verdict = Literal["approved", "denied"]

ACTIONS = ("allow", "ask", "deny")
EFFECTS = ("", "read", "idempotent", "write")
SCOPES = ("once", "session", "project")
TABLES = ("approval", "extract", "prices", "proof", "source")
"""What a policy file may hold; `prices` are read by `model.calls.budget`, `source` by `model.calls.sources`,
`extract` by `runtime.ingest.extract_command`."""
PATTERN_MAX = 500
NUMBER_MAX = 64
"""Characters of a number that is compared."""

_COMPARE: dict[str, Callable[[Decimal, Decimal], bool]] = {
    ">=": lambda value, limit: value >= limit,
    "<=": lambda value, limit: value <= limit,
    ">": lambda value, limit: value > limit,
    "<": lambda value, limit: value < limit,
}
_MISSING = object()


# -- one argument ---------------------------------------------------------------------------------


def fits(pattern: str, value: Any) -> bool | None:
    """Whether a value fits a pattern; None where that is undecidable.

    `>100`, `<=5`: a comparison of numbers. `=text`: exactly that text. Anything else is a glob, in which `*`
    matches any characters, also `/`. A leading `!` negates it.
    """
    if pattern.startswith("!"):
        found = fits(pattern[1:], value)
        return None if found is None or value is _MISSING else not found
    if value is _MISSING:
        return False
    for sign, holds in _COMPARE.items():
        if pattern.startswith(sign):
            number = _number(value)
            return None if number is None else holds(number, Decimal(pattern[len(sign) :].strip()))
    text = _text(value)
    if text is None:
        return None
    if pattern.startswith("="):
        return text == pattern[1:]
    if not fnmatchcase(text, pattern):
        return False
    # src/* is not meant to reach src/../../etc, though as text it does.
    climbs = ".." in re.split(r"[/\\]", text) and ".." not in pattern
    return None if climbs and _is_glob(pattern) else True


def _is_glob(pattern: str) -> bool:
    return any(sign in pattern for sign in "*?[")


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, str)):
        return None
    try:
        text = str(value).strip()
        found = Decimal(text) if len(text) <= NUMBER_MAX else None
    except (InvalidOperation, ValueError):
        return None
    return found if found is not None and found.is_finite() else None


def _text(value: Any) -> str | None:
    """A value as patterns see it: text as it is, the rest as its canonical JSON."""
    if isinstance(value, str):
        return value
    try:
        return canon.dumps(value).decode()
    except InvalidInput:
        return None


def _argument(arguments: Any, name: str) -> Any:
    """An argument by name; `order.amount` looks inside `order`."""
    if not isinstance(arguments, Mapping):
        return _MISSING
    if name in arguments:
        return arguments[name]
    outer, dot, inner = name.partition(".")
    return _argument(arguments[outer], inner) if dot and outer in arguments else _MISSING


def _all_fit(when: Mapping[str, str], arguments: Any) -> bool | None:
    """Whether every condition holds: a false one decides, an undecidable one comes next."""
    found = [fits(pattern, _argument(arguments, name)) for name, pattern in when.items()]
    return False if False in found else None if None in found else True


# -- rules ----------------------------------------------------------------------------------------


class Rule(msgspec.Struct, frozen=True):
    """A rule for calls: its tool (a glob), effect ("": any) and conditions on arguments (`when`), and the action
    for them. `proof`: how strongly an approval must show that a person gave it."""

    tool: str = "*"
    effect: str = ""
    when: dict[str, str] = {}
    action: Action = "ask"
    why: str = ""
    proof: str = ""

    def __post_init__(self) -> None:
        _check(msgspec.structs.asdict(self), "$")


def _check(fields: Mapping[str, Any], path: str) -> None:
    for name in ("tool", "effect", "action", "why", "proof"):
        if not isinstance(fields.get(name, ""), str):
            raise InvalidInput(f"{name} must be text", path=f"{path}.{name}")
    if not 0 < len(fields.get("tool", "*")) <= PATTERN_MAX:
        raise InvalidInput("a rule must name a tool, or * for any tool", path=f"{path}.tool")
    _one_of(fields.get("effect", ""), EFFECTS, f"{path}.effect")
    _one_of(fields["action"], ACTIONS, f"{path}.action")
    check_proof(fields.get("proof", ""), f"{path}.proof")
    if fields.get("proof") and fields["action"] != "ask":
        raise InvalidInput(
            "only a rule that asks can demand a proof", path=f"{path}.proof", hint='action = "ask"'
        )
    when = fields.get("when", {})
    if not isinstance(when, Mapping):
        raise InvalidInput(
            "expected a table of arguments and patterns",
            path=f"{path}.when",
            hint='{amount = ">100"}',
        )
    for name, pattern in when.items():
        check_condition(name, pattern, f"{path}.when")


def _one_of(value: str, known: Sequence[str], path: str) -> None:
    if value not in known:
        choice = ", ".join(filter(None, known))
        raise InvalidInput(f"unknown value {value!r:.40}", path=path, hint=f"one of: {choice}")


def check_condition(name: object, pattern: object, path: str) -> None:
    """Refuse a condition on an argument that could never be understood."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(f"not an argument's name: {name!r:.60}", path=path)
    if not isinstance(pattern, str):
        raise InvalidInput(
            f"a pattern must be text, got {type(pattern).__name__}", path=f"{path}.{name}"
        )
    if not pattern or len(pattern) > PATTERN_MAX:
        raise InvalidInput(f"a pattern has 1 to {PATTERN_MAX} characters", path=f"{path}.{name}")
    bare = pattern.lstrip("!")
    for sign in _COMPARE:
        if bare.startswith(sign):
            if _number(bare[len(sign) :]) is None:
                raise InvalidInput(
                    f"{bare!r:.60} compares with something that is not a number",
                    path=f"{path}.{name}",
                    hint=f"to match exactly this text: ={bare:.60}",
                )
            return


def decide(rules: Sequence[Rule], tool: str, effect: str, arguments: Any) -> Rule | None:
    """The first rule that matches a call; None if no rule does, and the call is allowed."""
    for rule in rules:
        if rule.effect in ("", effect) and fnmatchcase(tool, rule.tool):
            found = _all_fit(rule.when, arguments)
            if found or (found is None and rule.action != "allow"):
                return rule
    return None


def parse_policy(text: str) -> list[Rule]:
    """The rules of a policy file: its `[[approval]]` tables, in order."""
    tables = read_policy(text).get("approval", [])
    if not isinstance(tables, list):
        raise InvalidInput("write [[approval]], once for each rule", path="$.approval")
    return [_rule(table, f"$.approval[{n}]") for n, table in enumerate(tables)]


def parse_proof(text: str) -> str:
    """What a policy file demands of every approval: its key `proof`; empty if it demands nothing."""
    found = read_policy(text).get("proof", "")
    if not isinstance(found, str):
        raise InvalidInput("proof must be text", path="$.proof", hint='proof = "passphrase"')
    check_proof(found, "$.proof")
    return found


def read_policy(text: str) -> dict[str, Any]:
    """A policy file as data; what it may not hold is refused."""
    if not text.strip():
        return {}
    import tomllib  # only where there is a policy: to load it takes as long as to open a store

    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"not a policy file: {error}", path="$") from None
    _known(found, TABLES, "$")
    return found


def _known(table: Mapping[str, Any], names: Sequence[str], path: str) -> None:
    for name in table:
        if name not in names:
            hint = f"there are: {', '.join(names)}"
            raise InvalidInput(f"unknown key {name!r:.60}", path=f"{path}.{name}", hint=hint)


def _rule(table: Any, path: str) -> Rule:
    if not isinstance(table, dict):
        raise InvalidInput("write [[approval]], once for each rule", path=path)
    _known(table, Rule.__struct_fields__, path)
    if "action" not in table:
        raise InvalidInput("a rule needs an action", path=path, hint='action = "ask"')
    when = table.get("when", {})
    if isinstance(when, dict):
        when = {name: _plain_text(pattern) for name, pattern in when.items()}
    fields = {**table, "when": when}
    _check(fields, path)
    return Rule(**fields)


def _plain_text(pattern: Any) -> Any:
    """`when = {count = 3, force = true}` means the text of these values."""
    return _text(pattern) if isinstance(pattern, (bool, int)) else pattern


# -- patterns of grants ---------------------------------------------------------------------------

_NAME = late(r"[^\W\d][\w.-]*")
_TOOL = late(r"[^()\s,]+")
_CONDITION = late(
    r"""\s*(?P<name>[^\W\d][\w.-]*)\s*(?P<sign>!=|>=|<=|==|=|>|<)\s*(?P<value>"(?:[^"\\]|\\.)*"|[^,()"]+?)\s*(?:,|\Z)"""
)


class Pattern(msgspec.Struct, frozen=True):
    """A pattern for calls: a tool (a glob) and conditions on its arguments."""

    tool: str
    when: dict[str, str] = {}

    def __str__(self) -> str:
        """As it is written: `pay(amount<=100)`."""
        if not self.when:
            return self.tool
        return f"{self.tool}({', '.join(_shown(name, p) for name, p in self.when.items())})"

    def fits(self, tool: str, arguments: Any) -> bool | None:
        """Whether a call fits; None where that is undecidable."""
        return fnmatchcase(tool, self.tool) and _all_fit(self.when, arguments)


def parse_pattern(text: str) -> Pattern:
    """`read_*`, `pay(amount<=100)`, `run(command="git *", cwd!=/)` as a pattern."""
    if len(text) > PATTERN_MAX:
        raise InvalidInput(f"a pattern has 1 to {PATTERN_MAX} characters", path="$.pattern")
    tool, opened, rest = text.strip().partition("(")
    tool = tool.strip()
    if not _TOOL.fullmatch(tool) or (opened and not rest.endswith(")")):
        raise _bad_pattern(text)
    when: dict[str, str] = {}
    inner, place = rest[:-1].strip() if opened else "", 0
    while place < len(inner):
        match = _CONDITION.match(inner, place)
        if match is None or match["name"] in when:
            raise _bad_pattern(text)
        when[match["name"]] = _condition(match["sign"], match["value"])
        check_condition(match["name"], when[match["name"]], "$.pattern")
        place = match.end()
    return Pattern(tool, when)


def _bad_pattern(text: str) -> InvalidInput:
    return InvalidInput(
        f"not a pattern: {text!r:.80}",
        path="$.pattern",
        hint='a tool and conditions: read_*, pay(amount<=100), run(command="git *")',
    )


def _condition(sign: str, value: str) -> str:
    if value.startswith('"'):
        value = re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.S)
    if sign in ("=", "!="):
        return ("!" if sign == "!=" else "") + value
    return "=" + value if sign == "==" else sign + value


def _shown(name: str, pattern: str) -> str:
    for sign in (">=", "<=", ">", "<"):
        if pattern.startswith(sign):
            return f"{name}{sign}{pattern[len(sign) :]}"
    if pattern.startswith("="):
        return f"{name}=={_quoted(pattern[1:])}"
    if pattern.startswith("!"):
        return f"{name}!={_quoted(pattern[1:])}"
    return f"{name}={_quoted(pattern)}"


def _quoted(value: str) -> str:
    if value and not re.search(r'[\s,()"\\]', value) and value[0] not in "=<>!":
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


# -- grants ---------------------------------------------------------------------------------------


def sign(record: ApprovalRecord, session: str, store: str, owner: Ownership) -> ApprovalRecord:
    """The record with the mark of the owner who grants it, in this store and to this session.

    A grant counts only for who gave it and where it was given. Imported commits keep their bytes, so they are
    distinguished by this: the mark is a keyed digest of the whole grant under the owner's key, which no store holds.
    """
    mark = owner.mark(_marked(record, session), store)
    return msgspec.structs.replace(record, sure=mark)


def is_own(record: ApprovalRecord, session: str, store: str, owner: Ownership) -> bool:
    """Whether this user gave the grant, in this store, to this session, just so."""
    return owner.is_own(record.sure, _marked(record, session), store)


def is_old(record: ApprovalRecord, session: str, store: str) -> bool:
    """Whether a release up to 0.6 recorded the grant in this store."""
    return is_old_mark(record.sure, _marked(record, session), store)


def _marked(record: ApprovalRecord, session: str) -> bytes:
    """What the mark of a grant is about."""
    return canon.dumps([session, msgspec.to_builtins(msgspec.structs.replace(record, sure=""))])


def is_expired(record: Record, now: int, boot: str = "") -> bool:
    """Whether a grant's time is over (0: it has no end). `now` must never go back: see
    `runtime.driving.approvals.time_known`. `boot` is the time since the machine was started, as `end_since_boot`
    is given it: in the boot that a grant was given in, it decides also if the clock was set back.
    """
    if not isinstance(record, ApprovalRecord) or not record.expires:
        return False
    return now >= record.expires or _is_over(record.ends, boot)


def end_since_boot(boot: str, left: int) -> str:
    """When something ends that has that many µs left, on the clock that only goes forward; empty if that clock is
    not known. `boot` names the boot and the µs since: `7f0c…:81000000`."""
    name, colon, since = boot.partition(":")
    return f"{name}:{int(since) + left}" if colon and since.isdecimal() else ""


def _is_over(ends: str, boot: str) -> bool:
    name, _, at = ends.partition(":")
    same, _, since = boot.partition(":")
    known = bool(name) and name == same and at.isdecimal() and since.isdecimal()
    return known and int(since) >= int(at)


def answer(
    entries: Sequence[Entry],
    *,
    tool: str,
    digest: str,
    arguments: Any,
    now: int,
    call: str = "",
    boot: str = "",
) -> Entry | None:
    """The grant in force that answers a call; None if no grant does.

    A denial wins over an approval; then a grant for this very call over one for these arguments, that over a
    pattern, and the narrower scope over the wider. `entries` are those of `approvals` that were granted here
    (`runtime.driving.approvals.standing`).
    """
    found = [
        entry
        for entry in entries
        if isinstance(entry.record, ApprovalRecord)
        and not is_expired(entry.record, now, boot)
        and answers(entry.record, tool=tool, digest=digest, arguments=arguments, call=call)
    ]
    return min(found, key=_rank, default=None)


def answers(
    record: ApprovalRecord, *, tool: str, digest: str, arguments: Any, call: str = ""
) -> bool:
    """Whether a grant is about that call, regardless of its verdict and age."""
    if record.call and record.call != call:
        return False
    if record.pattern:
        try:
            found = parse_pattern(record.pattern).fits(tool, arguments)
        except InvalidInput:  # recorded by a release with other patterns
            found = None
        return found is True or (found is None and record.verdict == "denied")
    return record.tool == tool and bool(digest) and record.arguments == digest


def used_up(entry: Entry) -> tuple[Remove, ...]:
    """What a call that begins on the word of a grant takes with it: one that was for once is gone."""
    once = getattr(entry.record, "scope", "") == "once"
    return (Remove("approvals", entry.key),) if once else ()


def _rank(entry: Entry) -> tuple[bool, bool, bool, int, int]:
    record = entry.record
    assert isinstance(record, ApprovalRecord)
    scope = SCOPES.index(record.scope) if record.scope in SCOPES else len(SCOPES)
    return record.verdict != "denied", not record.call, bool(record.pattern), scope, -entry.seq
