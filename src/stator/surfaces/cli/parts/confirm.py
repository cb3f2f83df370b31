"""Asks the person at the terminal to confirm something."""

from __future__ import annotations

import sys


def can_ask() -> bool:
    """Whether a person can answer: all three streams are a terminal."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


def agreed(question: str, *, json: bool) -> bool:
    """Whether a person who has seen the preview says yes; False where nobody can answer."""
    return not json and can_ask() and asks_yes(question)


def asks_yes(question: str) -> bool:
    """Ask a question; only "y" or "yes" is a yes."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
