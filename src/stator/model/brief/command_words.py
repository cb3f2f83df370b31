"""Reads a command line as the commands in it: what each runs, and whether it looks, checks or does something. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from stator.model.brief.condense import beginning
from stator.model.values.late_pattern import late

COMMAND_MAX = 10_000
"""Characters of a command that are looked at."""
LOOKERS = frozenset(
    "cat head tail less more ls find fd rg grep egrep ag ack sed awk wc which type file stat tree pwd echo printf test"
    " jq sort uniq cut diff cmp env printenv ps df du date whoami hostname id sleep cd true read export source".split()
)
"""Programs that only look: that one found nothing is no failure that the next agent must know of."""
CHECKERS = frozenset(
    "pytest py.test jest vitest rspec phpunit ctest tox nox mypy pyright ruff flake8 eslint tsc clippy prettier"
    " black biome playwright cypress mocha golangci-lint shellcheck pylint".split()
)
RUNNERS = frozenset(
    "mix cargo go make just bun deno rails dotnet swift npm pnpm yarn turbo gradle gradlew mvn hatch python"
    " python3 node bundle rake composer bazel".split()
)
CHECKING = late(
    r"(?:test|tests|check|checks|check-types|typecheck|type-check|lint|build|compile|vet|clippy|fmt|format|credo|dialyzer"
    r"|pytest|unittest|mypy|ruff|verify|validate|precommit)(?::[\w:-]+)?\Z"
)
"""Words after a runner that make it check something."""
PREFIXES = frozenset(
    {
        "sudo",
        "time",
        "timeout",
        "npx",
        "bunx",
        "uv",
        "uvx",
        "poetry",
        "pipx",
        "env",
        "then",
        "do",
        "xvfb-run",
    }
)
"""Programs that run another one."""
VERBAL = RUNNERS | frozenset(
    "git gh docker kubectl bd pip uv poetry terraform aws gcloud systemctl apt brew".split()
)
"""Programs whose first words say what is done."""
QUOTED = late(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_HERE = late(r"<<-?\s*(['\"]?)(\w+)\1.*", re.DOTALL)
_BETWEEN = late(r"&&|\|\||[;|\n]|(?<![>&])&(?![>&])")


def parts(command: str) -> list[list[str]]:
    """The words of each command of a line; what is quoted is one word, and the text of a here-document none."""
    bare = _HERE.sub(" ", QUOTED.sub(_one_word, beginning(command, COMMAND_MAX)))
    found: list[list[str]] = []
    for part in _BETWEEN.split(bare):
        words = [word for word in part.split() if not re.match(r"[A-Za-z_]\w*=|\d?>|<", word)]
        while words and words[0] in PREFIXES:
            words = words[2:] if words[0] == "timeout" or words[1:2] == ["run"] else words[1:]
        if words:
            found.append([posixpath.basename(words[0].strip("()\"'")), *words[1:]])
    return found


def is_one_liner(words: Sequence[str]) -> bool:
    """Whether a command runs a program that is in the command itself, to try something."""
    return any(word in ("-e", "-c", "--eval") for word in words[1:3]) and words[0] not in (
        "git",
        "bash",
        "sh",
        "zsh",
    )


def _one_word(found: re.Match[str]) -> str:
    inside = found[0][1:-1]
    return inside if re.fullmatch(r"[\w@./:-]{1,120}", inside) else '""'


def gist(words: Sequence[str]) -> str:
    """The program and its verb: `git push`, `npm run test`; of others the program and its last word."""
    plain_words = [
        word for word in words[1:] if re.fullmatch(r"[\w:./@-]+", word) and word[0] != "-"
    ]
    if words[0] in VERBAL:
        plain_words = [word for word in plain_words if re.fullmatch(r"[a-z][\w:-]*", word)]
        return " ".join([words[0], *plain_words[: 2 if plain_words[:1] == ["run"] else 1]])
    return " ".join([words[0], *plain_words[-1:]])


def check_in(words: Sequence[str]) -> bool:
    """Whether a command runs tests, a linter, a type checker or a build."""
    if words[0] in CHECKERS:
        return True
    return words[0] in RUNNERS and any(CHECKING.match(word) for word in words[1:6])
