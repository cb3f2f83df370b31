"""The `stator` program: runs one command and returns its exit code.

Starting fast is a feature, so this file imports almost nothing. The help and the version come from plain data; a
command's plain words are read from its signature; only unusual words load the parser (cyclopts), and only a progress
bar or the help of a command loads rich.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Mapping, Sequence

from stator.surfaces.cli import registry

COLLECTED = 500_000
"""Objects after which the garbage collector looks for cycles: most are modules, classes and functions being loaded."""
HELP = ("-h", "--help")
QUICK = frozenset((*HELP, "-V", "--version", "help", "--complete", *registry.GROUPS["Ask"]))
"""First words after which the program ends at once: nothing that they run leaves a file open."""
WHOLE_START = frozenset(
    "check extract import ingest mcp proxy replay rerun run web workflow".split()
)
"""First words after which programs and types of users are loaded; the others need less of msgspec."""
COUNTS = {"limit": "-n", "last": "--last"}
"""Options that say how many, by what commands call them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; no error is raised. Without `argv` this is the program: it runs the
    words it was started with, and may end here."""
    if argv is not None:
        return _answered(list(argv))
    gc.set_threshold(COLLECTED)
    words = sys.argv[1:]
    code = _answered(words)
    if not words or words[0] in QUICK:
        _leave(code)
    return code


def _leave(code: int) -> None:
    """End the program, unless a thread still runs or a debugger watches. Taking the interpreter apart takes a sixth
    of a small command, and what asks has closed what it opened."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        return
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return
    import atexit

    atexit._run_exitfuncs()  # there is no public name for it
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _answered(words: list[str]) -> int:
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
    if not words:
        return _run(["status"])
    if words[0] in HELP:
        return _help(words[1:])
    if words[0] in ("--version", "-V"):
        from stator import __version__

        sys.stdout.write(f"stator {__version__}\n")
        return 0
    if words[0] == "help":
        return _main([*words[1:2], "--help"] if words[1:2] != ["--all"] else ["--help", "--all"])
    if words[0] == "--complete":  # the shells' scripts ask for it on every Tab
        from stator.surfaces.cli.completion import complete

        return complete(words[1:])
    if words[0] == "--install-completion":
        from stator.surfaces.cli.completion import install

        return install(words[1:])
    if words[0] not in registry.COMMANDS:
        return _report_unknown(words)
    return _run(words)


def _help(words: list[str]) -> int:
    """`stator --help`, `stator --help --all`, or `stator --help COMMAND`."""
    if words and words[0] != "--all":
        is_known = words[0] in registry.COMMANDS
        return _run([words[0], "--help"]) if is_known else _report_unknown(words)
    from stator.surfaces.cli.program_help import help_text
    from stator.surfaces.cli.render.width import widths

    sys.stdout.write(help_text(widths(sys.stdout.isatty())[0], everything=bool(words)))
    return 0


def _run(words: list[str]) -> int:
    import warnings

    if words[0] not in WHOLE_START:
        from stator.surfaces.light_start import load_msgspec

        load_msgspec()
    from stator.errors import NotFound, StatorError
    from stator.surfaces.cli import exits
    from stator.surfaces.cli.render.screen import PagerClosed

    # A warning is one line for the user, without the source line that Python would add.
    warnings.showwarning = lambda message, *_: exits.write_stderr(f"stator: {message}")
    try:
        for word in words:
            if not is_text(word):
                what = f"{word!a:.80} is not valid UTF-8, so it cannot name anything recorded"
                raise NotFound(what)
        return _command(words)
    except PagerClosed:
        return exits.OK
    except StatorError as error:
        return exits.report(error, json="--json" in words, store=_named_store(words))


def _named_store(words: list[str]) -> str | None:
    """The store that the words name, if they do."""
    before = words[: words.index("--")] if "--" in words else words
    for place, word in enumerate(before):
        if word.startswith("--store="):
            return word.partition("=")[2]
        if word == "--store" and place + 1 < len(before):
            return before[place + 1]
    return None


def is_text(word: str) -> bool:
    """Whether a word of the command line is text: a shell may pass any bytes."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _command(words: list[str]) -> int:
    from stator.surfaces.cli.commands import load
    from stator.surfaces.cli.old_spellings import current
    from stator.surfaces.cli.plain_words import read

    words = current(words)
    function = load(words[0])
    # The parser takes longer to import than most commands take to run; plain words do not need it.
    ready = read(function, words[1:])
    if ready is None:
        from stator.surfaces.cli.parser import parse

        ready = parse(words)
    if ready is not None and words[0] in ("resume", "retry"):
        from stator.surfaces.cli.program_words import after_dashes

        ready = after_dashes(words, ready)
    if ready is None:
        return 0
    _check_counts(ready.keywords)
    return int(ready() or 0)


def _check_counts(given: Mapping[str, object]) -> None:
    """Refuse a number that no list takes, by the name of its option."""
    for name, option in COUNTS.items():
        if given.get(name) is not None:
            from stator.model.log.query import check_limit

            check_limit(given[name], option)


def _report_unknown(words: list[str]) -> int:
    from stator.surfaces.cli.exits import USAGE, write_stderr
    from stator.surfaces.cli.other_names import instead_of
    from stator.surfaces.cli.render.width import widths

    word = words[0]
    hint, commands = instead_of(words, widths(sys.stderr is not None and sys.stderr.isatty())[0])
    what = "option" if word.startswith("-") else "command"
    if what == "option":
        hint, commands = _after_command(words), []
    write_stderr(f"stator: unknown {what} {word!r:.60}{f' ({hint})' if hint else ':'}")
    for line in commands:
        write_stderr(line)
    return USAGE


def _after_command(words: list[str]) -> str:
    """The same with the options behind the command, which is `status` where none is named."""
    import shlex
    from difflib import get_close_matches

    if words[0] == "-v":
        return "did you mean: stator --version"
    if near := get_close_matches(words[0], ("--version", "--help"), n=1, cutoff=0.7):
        return f"did you mean: stator {near[0]}"
    place = next((n for n, word in enumerate(words) if word in registry.COMMANDS), None)
    name = "status" if place is None else words[place]
    others = words if place is None else [*words[:place], *words[place + 1 :]]
    return f"options come after a command: {shlex.join(['stator', name, *others]):.200}"


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


def start() -> None:
    """Run the program, where Python itself does not take its exit code."""
    sys.exit(main())


if __name__ == "__main__":
    start()
