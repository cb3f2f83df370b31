"""Decides whether a call of an agent's tool fetched text from the web, by its name and its input. Pure.

Transcripts and hooks name a tool and its input and say nothing about where its result came from. Tools that read the
web are known by their names; a shell command by the programs in it that fetch; a tool of an MCP server by its name or
by an address in its input. A package that a command installs, and a repository that it pulls, are not looked at: only
what was printed came into the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stator.model.calls.sources import WEB_TOOLS, hosts
from stator.model.values.late_pattern import late

BROWSERS = frozenset(
    "browse browser browser_action browse_interactive browser_use codesearch open_page read_url"
    " url_fetch web.run web_run fetch_url fetch_webpage".split()
)
"""Tools of agents that show pages, beside those of `sources`."""
COMMAND_MAX = 20_000
"""Characters of a command that are looked at."""
_WORDS = late(r"[a-z]+|[A-Z][a-z]*")
_OUTSIDE = frozenset(
    "arxiv brave browse browser confluence crawl discord email exa fetch firecrawl github gitlab gmail http jira"
    " linear notion outlook perplexity playwright puppeteer scrape sentry slack stackoverflow tavily url web"
    " webfetch websearch wikipedia".split()
)
"""Words in the names of MCP servers and their tools that return texts of other people."""
_FETCH = late(
    r"(?:^|[;&|(`'\"\n]|\b(?:sudo|time|xargs|env|exec|nohup|then|do|timeout\s+\S+)\s)\s*(?:\w+=\S*\s+)*(?:[\w./-]*/)?"
    r"(?:curl|wget|http|https|httpie|xh|lynx|w3m|elinks|aria2c|Invoke-WebRequest|Invoke-RestMethod|iwr|irm)"
    r"\s+([^\n;&|]*)"
)
_CLIENTS = late(
    r"\b(?:requests\s*\.|urlopen|urllib|httpx|aiohttp|fetch\s*\(|axios|Net::HTTP|http\.get)"
)
_HUB = late(
    r"(?:^|[\s;&|(`'\"])(gh|glab|hub)\s+(?:-\S+\s+)*"
    r"(?:issue|pr|mr|api|run|repo|release|search|gist|discussion|browse)\b"
)
_CLONE = late(r"\bgit\s+(?:-\S+\s+(?:\S+\s+)?)*?clone\s+([^\n;&|]*)")
_SSH = late(r"\b[\w.-]+@([\w.-]+\.[a-z]{2,}):", re.I)
_BARE = late(r"(?:^|\s)([a-z0-9](?:[\w-]*\.)+[a-z]{2,24})(?::\d+)?(?:/\S*)?(?=\s|$)", re.I)
_HOME = late(r"localhost|127\.[\d.]+|0\.0\.0\.0|\[?::1\]?|.*\.localhost")
_HUBS = {"gh": "github.com", "hub": "github.com", "glab": "gitlab.com"}
_NAMES = ("command", "cmd", "script", "commands")
"""Arguments that hold shell commands, in the order in which they are looked at."""
_COMMANDS = frozenset(_NAMES)
UNNAMED = ""
"""In the place of a host that the call does not name."""


def fetched_hosts(tool: str, given: Any) -> list[str]:
    """The hosts whose text a call returned, `UNNAMED` where it names no host; empty if it fetched nothing."""
    reads_web = tool in WEB_TOOLS or tool in BROWSERS
    if reads_web or "__" in tool or tool.startswith(("mcp_", "mcp.")):
        return list(dict.fromkeys(_addressed_by(tool, given, reads_web=reads_web)))
    if not isinstance(given, dict) and not isinstance(given, Mapping):
        return []
    if _COMMANDS.isdisjoint(given):
        return []
    found = (host for command in _commands(given) for host in _in_command(command))
    return list(dict.fromkeys(found))


def _addressed_by(tool: str, given: Any, *, reads_web: bool) -> Iterator[str]:
    """The hosts that a call of a tool names which is not a shell."""
    named = [host for host in hosts(given) if not _HOME.fullmatch(host)]
    words = {word.lower() for word in _WORDS.findall(tool)}
    if reads_web or named or words & _OUTSIDE:
        yield from named or [UNNAMED]


def _commands(given: Mapping[str, Any]) -> Iterator[str]:
    """The shell commands in the input of a call."""
    for name in _NAMES:
        value = given.get(name)
        if isinstance(value, (list, tuple)):
            parts = [part for part in value if isinstance(part, str)]
            yield from (part[:COMMAND_MAX] for part in parts if " " in part)
            value = " ".join(parts)
        if isinstance(value, str):
            yield value[:COMMAND_MAX]


def _in_command(command: str) -> Iterator[str]:
    for found in _FETCH.finditer(command):
        yield from _addressed(found[1])
    if _CLIENTS.search(command):
        yield from (host for host in hosts(command) if not _HOME.fullmatch(host))
    for found in _CLONE.finditer(command):
        yield from (host for host in hosts(found[1]) if not _HOME.fullmatch(host))
        yield from (host.lower() for host in _SSH.findall(found[1]))
    for found in _HUB.finditer(command):
        yield _HUBS[found[1]]


def _addressed(words: str) -> Iterator[str]:
    """The hosts that a program was given; none if they are this machine."""
    named = hosts(words) or [host.lower() for host in _BARE.findall(words)]
    if not named and ("$" in words or "`" in words):
        yield UNNAMED
    yield from (host for host in named if not _HOME.fullmatch(host))
