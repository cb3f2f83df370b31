"""Decides where the result of a call came from: what its tool declares, and the rules of the policy file.

    [[source]]
    tool = "fetch*"               # which tools; "*" if it is left out
    host = "*.example.com"        # calls that were given an address of such a host
    source = "web"

A rule applies if everything that it names fits; the first that does decides. Patterns are globs in which `*` matches
any characters, also `/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from stator.errors import InvalidInput
from stator.model.calls.approval import PATTERN_MAX, read_policy
from stator.model.log.commit import UNTRUSTED, Source

DECLARED: tuple[Source, ...] = ("tool", "file", "web", "import")
"""Sources that the result of a tool can have."""
WEB_TOOLS = frozenset(
    {
        "WebFetch",
        "WebSearch",
        "google_web_search",
        "web_fetch",
        "web_search",
        "webfetch",
        "websearch",
    }
)
"""Tools that are known by their names: what agents call those that read the web."""
TEXTS_MAX = 200
"""Texts of a call's arguments that are looked at."""
TEXT_MAX = 10_000
"""Characters of each."""
_HOST = re.compile(r"\bhttps?://(?:[^/\s\"'@]*@)?(\[[0-9a-fA-F:.]{2,45}\]|[\w.-]{1,253})", re.I)
_FIELDS = ("tool", "host", "path", "source")


class SourceRule(msgspec.Struct, frozen=True, kw_only=True):
    """Where the results of some calls come from."""

    source: Source
    tool: str = "*"
    host: str = ""
    path: str = ""

    def fits(self, tool: str, arguments: Any) -> bool:
        """Whether it applies to a call. One that makes results untrusted needs one host or path that fits; one that
        does not needs all of them to fit."""
        if not fnmatchcase(tool, self.tool):
            return False
        enough = any if self.source in UNTRUSTED else all
        for pattern, found in ((self.host, hosts), (self.path, _paths)):
            given = found(arguments) if pattern else []
            if pattern and not (given and enough(fnmatchcase(each, pattern) for each in given)):
                return False
        return True


def source_of(
    rules: Sequence[SourceRule], tool: str, declared: Source | None, arguments: Any
) -> Source:
    """Where the result of a call comes from."""
    for rule in rules:
        if rule.fits(tool, arguments):
            return rule.source
    return declared or ("web" if tool in WEB_TOOLS else "tool")


def check_source(source: object, path: str) -> Source:
    """A source that a tool can declare."""
    if source not in DECLARED:
        raise InvalidInput(
            f"unknown source {source!r:.40}", path=path, hint=f"one of: {', '.join(DECLARED)}"
        )
    return source


def parse_sources(text: str) -> list[SourceRule]:
    """The `[[source]]` tables of a policy file, in order."""
    tables = read_policy(text).get("source", [])
    if not isinstance(tables, list):
        raise InvalidInput("write [[source]], once for each rule", path="$.source")
    return [_rule(table, f"$.source[{n}]") for n, table in enumerate(tables)]


def _rule(table: Any, path: str) -> SourceRule:
    if not isinstance(table, dict):
        raise InvalidInput("write [[source]], once for each rule", path=path)
    for name, value in table.items():
        if name not in _FIELDS:
            hint = f"there are: {', '.join(_FIELDS)}"
            raise InvalidInput(f"unknown key {name!r:.60}", path=f"{path}.{name}", hint=hint)
        if not isinstance(value, str) or not 0 < len(value) <= PATTERN_MAX:
            raise InvalidInput(
                f"expected text of 1 to {PATTERN_MAX} characters", path=f"{path}.{name}"
            )
    source = check_source(table.get("source"), f"{path}.source")
    host = table.get("host", "").lower()
    return SourceRule(
        source=source, tool=table.get("tool", "*"), host=host, path=table.get("path", "")
    )


def hosts(arguments: Any) -> list[str]:
    """The hosts of the addresses that a call was given, in lower case."""
    texts = [text for text in _texts(arguments) if "://" in text]
    found = [host for text in texts for host in _HOST.findall(text)]
    return list(dict.fromkeys(host.lower().rstrip(".") for host in found))


def _paths(arguments: Any) -> list[str]:
    """What could be a path in the arguments of a call: every short text without an address."""
    return [text for text in _texts(arguments) if len(text) <= PATTERN_MAX and "://" not in text]


def _texts(value: Any) -> Iterator[str]:
    waiting, seen = [value], 0
    while waiting and seen < TEXTS_MAX:
        item = waiting.pop(0)
        if isinstance(item, str):
            seen += 1
            yield item[:TEXT_MAX]
        elif isinstance(item, Mapping):
            waiting += list(item.values())[:TEXTS_MAX]
        elif isinstance(item, Sequence) and not isinstance(item, (bytes, bytearray)):
            waiting += list(item)[:TEXTS_MAX]
