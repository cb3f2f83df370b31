"""Installs shell completion: generates a script from the commands, and puts it where the shell finds it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from stator.surfaces.cli.exits import OK, USAGE, write_stderr
from stator.surfaces.cli.parser import app

SHELLS = ("bash", "zsh", "fish")


def install(words: Sequence[str]) -> int:
    """`stator --install-completion [SHELL] [--print]`."""
    names = [word for word in words if word != "--print"]
    if len(names) > 1 or any(name not in SHELLS for name in names):
        write_stderr(
            f"stator: --install-completion takes one shell ({', '.join(SHELLS)}), and --print"
        )
        return USAGE
    shell = names[0] if names else None
    made = app()
    try:
        if "--print" in words:
            sys.stdout.write(made.generate_completion(shell=shell))  # type: ignore[arg-type]
            return OK
        path = made.install_completion(shell=shell)  # type: ignore[arg-type]
    except Exception as error:
        write_stderr(f"stator: {error} (name the shell: stator --install-completion bash)")
        return USAGE
    sys.stdout.write(f"installed completion in {path}; open a new shell to use it\n")
    return OK
