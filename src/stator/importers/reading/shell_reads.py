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
    " dirname realpath readlink date whoami id uname hostname printenv ps free uptime jq yq strings od xxd hexdump"
    " locate sleep seq sed".split()
)
CAREFUL = frozenset(("find", "fd", "sed", "sort", "rg", "tree", "date", "hostname"))
"""Those that some option makes write."""
GIT_READERS = frozenset(
    "status log diff show blame grep ls-files ls-tree rev-parse describe shortlog cat-file reflog".split()
)
_WRITES = re.compile(
    r"-(?:exec|execdir|ok|okdir|delete|fprint\w*|fls|s|i\S*|-in-place\S*|o\S*|-output\S*|x|X|-exec\S*|-pre\S*|-set\S*)"
    r"|[^-]\S*(?:\bw|/w\S*)"
)
"""Options with which a command that usually reads would write, or would run another one."""


def only_reads(command: str) -> bool:
    """Whether a command certainly changes nothing."""
    commands = [] if "`" in command else simple_commands(command)
    return bool(commands) and all(not to_file and _reads(words) for words, to_file in commands)


def _reads(words: list[str]) -> bool:
    name, *options = [posixpath.basename(words[0]), *words[1:]] if words else [""]
    if name == "git":
        return next((word for word in options if not word.startswith("-")), "") in GIT_READERS
    if name == "sed" and options[:1] != ["-n"]:
        return False
    # an option that the shell would expand may be any option
    is_known = name not in CAREFUL or not ("" in options or any(map(_WRITES.fullmatch, options)))
    return name in READERS and is_known
