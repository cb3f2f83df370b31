"""Tables for people and a file for machines."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("stator", "apsw", "msgspec", "backports.zstd", "langgraph", "openai-agents", "rich")
DASH = "–"
Results = dict[str, Any]


def environment(directory: Path, fingerprint: str) -> Results:
    """What the numbers depend on; no paths and no host name."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "load_at_start": round(os.getloadavg()[0], 2),
        "file_system": file_system(directory),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "workload": fingerprint,
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def file_system(directory: Path) -> str:
    """The type of the mount that holds `directory`; on tmpfs an fsync costs nothing."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    holding = [m for m in mounts if directory.resolve().is_relative_to(m[1])]
    return max(holding, key=lambda m: len(m[1]))[2] if holding else "unknown"


def save(results: Results, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


# ---- tables ----------------------------------------------------------------------------------

Column = tuple[str, str, str | None, Callable[[float], str]]


def rewrite(page: Path, table: Sequence[str]) -> None:
    """Put a table in the place of the last run's on a page of results."""
    before, mark, after = page.read_text().partition("\n## Last run\n")
    note = after.partition("\n## ")[2]
    page.write_text(before + mark + "\n" + "\n".join(table) + "\n\n## " + note)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


# heading, measure, the read it stands for (marked * where a peer's own API cannot), format
COLUMNS: tuple[Column, ...] = (
    ("turns", "turns", None, _number),
    ("turns/s", "turns_per_s", None, _number),
    ("×limit", "x_limit", None, _number),
    ("late÷early", "late_early_wall", None, _number),
    ("… CPU", "late_early_cpu", None, _number),
    ("disk÷log.", "disk_ratio", None, _number),
    ("written÷log.", "write_ratio", None, _number),
    ("open+state ms", "open_ms", "state", _number),
    ("state ms", "state_ms", "state", _number),
    ("MB", "state_mb", None, _number),
    ("at turn ms", "state_at_ms", "state_at", _number),
    ("diff ms", "diff_ms", "diff", _number),
    ("files ms", "files_last_ms", "files_last", _number),
    ("brief ms", "brief_ms", None, _number),
    ("fork ms", "fork_ms", "fork", _number),
    ("fork B", "fork_bytes", "fork", _number),
    ("resume MB", "resume_mb", "state", _number),
)


def show_run(n: int, results: Results) -> None:
    runs = results["runs"][str(n)]
    rows = [[label, *_cells(label, got, results)] for label, got in runs.items()]
    show(f"N = {n:,} turns", ["", *(heading for heading, *_ in COLUMNS)], rows)
    for label, got in runs.items():
        for problem in _problems(got):
            print(f"  {label}: {problem}")


def _cells(label: str, got: Results, results: Results) -> Iterable[str]:
    peer = results["peers"][label]
    for _, measure, read, form in COLUMNS:
        value = got.get(measure)
        own = read is None or label.startswith("ours") or read in peer["native"]
        yield DASH if value is None else form(value) + ("" if own else "*")


def _problems(got: Results) -> Iterable[str]:
    yield from (str(got[key]) for key in ("error", "stopped") if got.get(key))
    yield from (f"WRONG ANSWER {text}" for text in got.get("wrong", ())[:3])


def show_rest(results: Results) -> None:
    """What is measured once, and the verdicts."""
    listing = [
        [label, *(_or_dash(got.get(key)) for key in ("sessions", "list_ms")), got.get("error", "")]
        for label, got in results["listing"].items()
    ]
    show("First page of many sessions", ["", "sessions", "ms", ""], listing)
    writers = [
        [label, _or_dash(got.get("writers_ratio")), str(got.get("errors", DASH)), _first(got)]
        for label, got in results["writers"].items()
    ]
    show("8 writing processes ÷ one", ["", "×", "errors", ""], writers)
    if cli := results["cli"]:
        rows = [
            [name, value if isinstance(value, str) else _number(value)]
            for name, value in cli.items()
        ]
        show("CPU time of commands", ["", "ms"], rows)
    rows = [
        [row["name"], row["target"], row["measured"], row["verdict"]] for row in results["targets"]
    ]
    show("Targets", ["", "target", "measured", ""], rows)


def _first(got: Results) -> str:
    return str(got.get("first_error") or got.get("error") or "")[:80]


def _or_dash(value: float | None) -> str:
    return DASH if value is None else _number(value)


def show_peers(results: Results) -> None:
    rows = [[label, peer["version"]] for label, peer in results["peers"].items()]
    show("Peers", ["", "version"], rows)


def show(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A rich table on a terminal wide enough, aligned text elsewhere."""
    if not rows:
        return
    table = [list(headings), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(headings))]
    fits = sum(widths) + 3 * len(widths) <= shutil.get_terminal_size().columns
    if sys.stdout.isatty() and fits and _show_rich(title, headings, rows):
        return
    print(f"\n{title}")
    for row in table:
        cells = (
            c.ljust(w) if i == 0 else c.rjust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(cells).rstrip())


def _show_rich(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    try:
        from rich import box
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table
    except ImportError:
        return False
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, heading in enumerate(headings):
        table.add_column(escape(heading), justify="left" if i == 0 else "right")
    colours = {"met": "green", "missed": "red"}
    for row in rows:
        table.add_row(*map(escape, row), style=colours.get(row[-1]))
    Console().print(table)
    return True
