"""What a run found: tables on the terminal, a file for machines, and RESULTS.md."""

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
from statistics import median
from sysconfig import get_config_var
from typing import Any

from bench.peers import LIMIT, OURS
from bench.targets import WORSE, Change, Verdict, judge, text

PACKAGES = (
    "stator", "apsw", "msgspec", "backports.zstd", "langgraph", "openai-agents", "agentsview", "rich",
    "psycopg", "langgraph-checkpoint-postgres", "dbos",
)  # fmt: skip
PAGE = Path(__file__).with_name("RESULTS.md")
DASH = "–"
Results = dict[str, Any]


def environment(directory: Path, fingerprint: str) -> Results:
    """What the numbers depend on; no paths and no host name."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "build": _build(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "load_at_start": round(os.getloadavg()[0], 2),
        "file_system": file_system(directory),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "workload": fingerprint,
    }


def _build() -> str:
    """How the interpreter was built: without optimisations it is 10 to 20 % slower."""
    if sys.base_prefix == "/usr" and Path("/etc/debian_version").exists():
        how = "Debian's own, which is profiled and linked as a whole"
    elif "--enable-optimizations" in (get_config_var("CONFIG_ARGS") or ""):
        how = "with --enable-optimizations"
    else:
        how = "without --enable-optimizations"
    return f"{platform.python_compiler()}, {how}"


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


# heading, measure, the read it stands for (marked * where a peer's own API cannot), format
COLUMNS: tuple[Column, ...] = (
    ("turns", "turns", None, text),
    ("turns/s", "turns_per_s", None, text),
    ("×limit", "x_limit", None, text),
    ("late÷early", "late_early_wall", None, text),
    ("… CPU", "late_early_cpu", None, text),
    ("CPU ms", "cpu_ms_per_turn", None, text),
    ("disk÷log.", "disk_ratio", None, text),
    ("written÷log.", "write_ratio", None, text),
    ("open+state ms", "open_ms", "state", text),
    ("state ms", "state_ms", "state", text),
    ("MB", "state_mb", None, text),
    ("at turn ms", "state_at_ms", "state_at", text),
    ("diff ms", "diff_ms", "diff", text),
    ("files ms", "files_last_ms", "files_last", text),
    ("brief ms", "brief_ms", None, text),
    ("fork ms", "fork_ms", "fork", text),
    ("fork B", "fork_bytes", "fork", text),
    ("resume MB", "resume_mb", "state", text),
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


def flattened(runs: Results, peers: Results) -> dict[str, float]:
    """The measures of the turns: of several N the worst; what is promised of a long session, at the largest N."""
    found: dict[str, float] = {}
    for number in sorted(runs, key=int):
        mine = runs[number].get(OURS) or runs[number].get("ours, relaxed") or {}
        if "error" in mine or not mine:
            continue
        found["turns"] = float(mine["turns"])
        for name in ("open_ms", "state_at_ms", "diff_ms", "files_last_ms", "fork_ms", "fork_bytes",
                     "disk_ratio", "write_ratio", "brief_ms"):  # fmt: skip
            if mine.get(name) is not None and (name != "disk_ratio" or mine["turns"] >= 1_000):
                found[name] = max(found.get(name, 0.0), mine[name])
        for name in ("resume_mb", "late_early_cpu"):
            if mine.get(name) is not None:
                found[name] = mine[name]
        found |= _ahead(runs[number], peers)
    return found


def _ahead(run: Results, peers: Results) -> dict[str, float]:
    """How much more the fastest peer takes a turn that answers questions about state by itself."""
    mine = run.get(OURS)
    others = [
        got
        for label, got in run.items()
        if not label.startswith(OURS)
        and not label.startswith(LIMIT)
        and "state" in peers[label]["native"]
        and "error" not in got
    ]
    if not mine or "error" in mine or not others:
        return {}
    cpu = min(got["cpu_ms_per_turn"] for got in others) / mine["cpu_ms_per_turn"]
    wall = min(median(got["round_ms_per_turn"]) for got in others)
    return {
        "peers_cpu_over_ours": cpu,
        "peers_wall_over_ours": wall / median(mine["round_ms_per_turn"]),
    }


def show_verdicts(verdicts: Sequence[Verdict]) -> None:
    show("Targets", ["", "target", "measured", ""], [verdict.row for verdict in verdicts])


def show_changes(version: str, found: Sequence[Change]) -> None:
    worse = [change for change in found if change.ratio > WORSE]
    rows = [
        [change.name, text(change.before), text(change.now), f"{change.ratio:.2f} ×"]
        for change in worse
    ]
    show(f"Slower than {version}", ["", version, "now", ""], rows)
    if not worse:
        print(f"\nNothing is more than a tenth slower than {version}.")


# ---- the page --------------------------------------------------------------------------------


def write_page(results: Results) -> None:
    """RESULTS.md: how it was measured, every target, and the peers."""
    PAGE.write_text("\n".join(_page(results)) + "\n", encoding="utf-8")


def _page(results: Results) -> Iterable[str]:
    env = results["environment"]
    packages = ", ".join(f"{name} {found}" for name, found in env["packages"].items())
    yield f"# Results of {results['version']}"
    yield ""
    yield (
        f"`make bench` wrote this page on {env['date'][:10]}: {env['cpus']} cores, {env['system']}, "
        f"{env['file_system']}, Python {env['python']} ({env['build']}); {packages}. "
        f"Load {env['load_at_start']} at the start and "
        f"{env.get('load_at_end', '–')} at the end. It took {sum(results['seconds'].values()) / 60:.0f} minutes. "
        "What each number means: [README](README.md); why the targets that are missed are missed: [NOTES](NOTES.md)."
    )
    yield ""
    yield "Times are CPU (user and system) unless a row says wall."
    yield ""
    yield from table(("", "target", "measured", ""), [v.row for v in judge(results["measures"])])
    for number, runs in sorted(results["runs"].items(), key=lambda pair: int(pair[0])):
        yield ""
        yield f"## {int(number):,} turns, side by side"
        yield ""
        headings = ("", *(heading for heading, *_ in COLUMNS))
        rows = [[label, *_cells(label, got, results)] for label, got in runs.items()]
        yield from table(headings, rows)
    yield ""
    yield "## All measures"
    yield ""
    rows = [[f"`{name}`", text(value)] for name, value in sorted(results["measures"].items())]
    yield from table(("", ""), rows)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    """A table in Markdown, the first column to the left, numbers to the right."""
    yield "| " + " | ".join(headings) + " |"
    yield "|---|" + "---:|" * (len(headings) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


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
