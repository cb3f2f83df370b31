"""The `stator` program: runs one command and returns its exit code.

Starting fast is a feature, so this file imports almost nothing. The help and the version come from plain data; a
command without arguments is called with its defaults; only arguments load the parser (cyclopts), and only output in
colour loads rich.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence

from stator.surfaces.cli import registry


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; no error is raised."""
    words = list(sys.argv[1:] if argv is None else argv)
    _prepare_streams()
    try:
        code = _main(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _forget_stdout()
        return 0
    except OSError as error:
        return _report_os_error(error)


def _main(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        from stator.surfaces.cli.program_help import help_text
        from stator.surfaces.cli.render.width import widths

        sys.stdout.write(help_text(widths(sys.stdout.isatty())[0]))
        return 0
    if words[0] in ("--version", "-V"):
        from stator import __version__

        sys.stdout.write(f"stator {__version__}\n")
        return 0
    if words[0] == "help":
        words = [*words[1:2], "--help"]
        return _main(words)
    if words[0] == "--install-completion":
        from stator.surfaces.cli.completion import install

        return install(words[1:])
    if words[0] not in registry.COMMANDS:
        return _report_unknown(words[0])
    return _run(words)


def _run(words: list[str]) -> int:
    import warnings

    from stator.errors import NotFound, StatorError
    from stator.surfaces.cli import exits
    from stator.surfaces.cli.render.screen import PagerClosed

    # A warning is one line for the user, without the source line that Python would add.
    warnings.showwarning = lambda message, *_: exits.write_stderr(f"stator: {message}")
    try:
        return _command(words)
    except PagerClosed:
        return exits.OK
    except StatorError as error:
        return exits.report(error, json="--json" in words)
    except UnicodeEncodeError:
        what = "an argument is not valid UTF-8, so it cannot name anything recorded"
        return exits.report(NotFound(what), json="--json" in words)


def _command(words: list[str]) -> int:
    from stator.surfaces.cli.commands import load

    function = load(words[0])
    # The parser takes longer to import than most commands take to run; a bare command does not need it.
    if len(words) == 1 and _runs_without_arguments(function):
        return function()
    from stator.surfaces.cli.parser import parse

    ready: Callable[[], int] | None = parse(words)
    return ready() if ready is not None else 0


def _runs_without_arguments(function: Callable[..., int]) -> bool:
    """Whether a command can be called without arguments."""
    return function.__code__.co_argcount == len(function.__defaults__ or ())


def _report_unknown(word: str) -> int:
    from difflib import get_close_matches

    from stator.surfaces.cli.exits import USAGE, write_stderr

    similar = get_close_matches(word[:40], registry.COMMANDS, n=1)
    hint = f"did you mean {similar[0]}?" if similar else "stator --help lists all commands"
    what = "option" if word.startswith("-") else "command"
    write_stderr(f"stator: unknown {what} {word!r:.60} ({hint})")
    return USAGE


def _prepare_streams() -> None:
    """Escape characters the terminal cannot encode; discard output to a closed stream."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _forget_stdout() -> None:
    """Redirect stdout to /dev/null once its reader is gone: the interpreter flushes it again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_os_error(error: OSError) -> int:
    """Report an operating system error, such as a full disk or a folder without write permission."""
    from stator.surfaces.cli.exits import UNUSABLE, write_stderr

    _forget_stdout()
    where = f"{error.filename}: " if isinstance(error.filename, str) else ""
    write_stderr(f"stator: {where}{error.strerror or error}")
    return UNUSABLE


if __name__ == "__main__":
    sys.exit(main())
