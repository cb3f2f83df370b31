"""Knows shell commands that only read: whatever their output was, running them changed nothing. Pure.

Only commands that are known to read count, in a pipe or in a row, without a file as their output. So a command
that is not known is taken to write.
"""

from __future__ import annotations

import posixpath
import re

from stator.model.exchange.shell_effects import simple_commands

READERS = frozenset(
    "cat head tail nl less more bat ls tree pwd cd stat file du df wc grep egrep fgrep rg ag ack find fd which type"
    " whereis echo printf true false test sort uniq cut tr column diff cmp comm md5sum sha1sum sha256sum basename"
    " dirname realpath readlink date whoami id uname printenv ps free uptime jq yq strings od hexdump locate sleep"
    " seq".split()
)
CAREFUL = frozenset(("find", "fd", "sort", "rg", "tree", "date", "less", "file", "yq"))
"""Those that some option makes write, or run another command."""
GIT_READERS = frozenset(
    "status log diff show blame grep ls-files ls-tree rev-parse describe shortlog cat-file".split()
)
_WRITES = re.compile(
    r"-(?:exec|execdir|ok|okdir|delete|fprint\w*|fls|s|C|i\S*|o\S*|x|X|-in-?place\S*|-output\S*|-exec\S*|-pre\S*"
    r"|-set\S*)"
)
_PRINTS = re.compile(r"(?:\d+|\$|/[^/]*/)(?:,(?:\d+|\+\d+|\$|/[^/]*/))?p")
"""A script for sed that only prints lines."""


def only_reads(command: str) -> bool:
    """Whether a command certainly changes nothing."""
    commands = [] if "`" in command else simple_commands(command)
    return bool(commands) and all(not to_file and _reads(words) for words, to_file in commands)


def _reads(words: list[str]) -> bool:
    name, *given = [posixpath.basename(words[0]), *words[1:]] if words else [""]
    if name == "git":
        is_reader = next((word for word in given if not word.startswith("-")), "") in GIT_READERS
        return is_reader and not any(word.startswith("--output") for word in given)
    if name == "sed":
        return given[:1] == ["-n"] and bool(_PRINTS.fullmatch("".join(given[1:2])))
    if name == "uniq":  # its second file is the output
        return sum(not word.startswith("-") for word in given) < 2
    # an option that the shell would expand may be any option
    is_known = name not in CAREFUL or not ("" in given or any(map(_WRITES.fullmatch, given)))
    return name in READERS and is_known
