"""Reads options as earlier releases spelled them: for one release they work, with a hint on stderr.

A row is one command: what was typed, and what is typed now. Both may be several words: the longer ones come first.
"""

from __future__ import annotations

from collections.abc import Sequence

_WIDER = {"--all": "--everywhere"}
_REASON = {"--reason": "--why"}
OLD: dict[str, dict[str, str]] = {
    **dict.fromkeys(("approvals", "blame", "calls", "extract", "files", "ls"), _WIDER),
    **dict.fromkeys(("recap", "search", "settle", "tail", "why"), _WIDER),
    **dict.fromkeys(("archive", "close", "pause"), _REASON),
    "approve": {"--all": "--everything"},
    "attach": {"--from": "--after"},
    "brief": {"--for": "--as", "--since": "--after"},
    "diff": {"--all": "--full"},
    "erase": {"--all": "--everything"},
    "gc": {"--apply --yes": "--yes --force", "--apply": "--yes"},
    "import": {"--all": "--everywhere", "--project": "--into"},
    "mcp": {"--all-projects": "--everywhere"},
    "proxy": {"--restart": "--respawn"},
    "pull": {"--as": "--name", "--project": "--into"},
    "push": {"--project": "--of"},
    "restore": {"--all": "--everything", "--apply": "--yes", "--root": "--outside"},
    "retention": {"--whole": "--everywhere"},
    "run": {"--again": "--repeat"},
    "score": {"--comment": "--why"},
    "trust": {"--grants": "--confirm-approvals"},
}


def current(words: Sequence[str]) -> list[str]:
    """The words of a command, old spellings replaced by those of now. What follows `--` is not ours."""
    rows = OLD.get(words[0]) if words else None
    end = words.index("--") if "--" in words else len(words)
    ours, rest = list(words[:end]), list(words[end:])
    for old, new in (rows or {}).items():
        typed = old.split()
        if all(any(_is(word, part) for word in ours) for part in typed):
            ours = _replaced(ours, typed, new.split())
            _hint(words[0], old, new)
    return ours + rest


def _is(word: str, option: str) -> bool:
    return word == option or word.startswith(f"{option}=")


def _replaced(words: list[str], old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The words with the new options where the old ones were."""
    found: list[str] = []
    now = dict(zip(old, new, strict=True))
    for word in words:
        option = next((one for one in old if _is(word, one)), None)
        found.append(word if option is None else now[option] + word[len(option) :])
    return found


def _hint(command: str, old: str, new: str) -> None:
    from stator.surfaces.cli.exits import write_stderr

    write_stderr(f"stator {command}: {old} is now {new}; the old spelling works in this release")
