"""The targets: what is promised, by the name of its measure, and the judgement over a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Measures = Mapping[str, float]
MET, MISSED, ABSENT = "met", "missed", "not measured"
BIG = 100_000


@dataclass(frozen=True)
class Target:
    """One promise: a measure is at most (or, with `least`, at least) so much."""

    name: str
    measure: str
    limit: float
    unit: str = ""
    least: bool = False
    needs: tuple[str, float] | None = None
    """A measure that must be at least so much for the promise to be judged."""


TARGETS = (
    Target("CPU of a turn, `full` ÷ OpenAI Agents' SQLiteSession", "turn_cpu_full_over_openai", 0.8, " ×"),
    Target("CPU of a turn, `relaxed` ÷ raw apsw", "turn_cpu_relaxed_over_raw", 10, " ×"),
    Target("CPU of the store, a commit", "store_cpu_us_per_commit", 80, " µs"),
    Target("fsyncs of a turn, `full`", "fsyncs_full", 8),
    Target("fsyncs of a turn, `barrier`", "fsyncs_barrier", 3),
    Target("fsyncs of a turn, `relaxed`", "fsyncs_relaxed", 0),
    Target(
        "wall of a turn, `full` ÷ raw, where an fsync takes ≥ 1 ms", "turn_wall_full_over_raw", 1.2, " ×",
        needs=("raw_fsync_ms", 1.0),
    ),
    Target("last ÷ first tenth of the turns, CPU", "late_early_cpu", 1.1, " ×", needs=("turns", BIG)),
    Target("memory to resume", "resume_mb", 40, " MB", needs=("turns", BIG)),
    Target("file ÷ content", "disk_ratio", 0.61),
    Target("bytes written ÷ content", "write_ratio", 5),
    Target("open, counts and hot page", "open_ms", 4, " ms"),
    Target("hot page at any turn", "state_at_ms", 3, " ms"),
    Target("difference of a turn", "diff_ms", 0.7, " ms"),
    Target("files of the last 5 turns", "files_last_ms", 0.2, " ms"),
    Target("fork", "fork_ms", 1.2, " ms"),
    Target("a driven session read from elsewhere: head", "live_head_ms", 1, " ms"),
    Target("… hot page", "live_hot_ms", 10, " ms"),
    Target("… difference of a turn", "live_diff_ms", 5, " ms"),
    Target("… brief", "live_brief_ms", 60, " ms"),
    Target("first page of 10,000 sessions", "list_ms", 1, " ms", needs=("sessions", 10_000)),
    Target("first page of 100 driven sessions", "live_list_ms", 20, " ms"),
    Target("bundle: export, a commit", "bundle_export_us", 40, " µs"),
    Target("bundle: import, a commit", "bundle_import_us", 50, " µs"),
    Target("transcripts: import, a commit", "import_us_per_commit", 250, " µs"),
    Target("import of 100 sessions ÷ agentsview, CPU", "import_cpu_over_agentsview", 1.5, " ×"),
    Target("import of 1,000 unchanged sessions, wall", "import_1000_again_wall_s", 1, " s"),
    Target("ten more lines of a turn of 3 MB", "import_ten_lines_ms", 10, " ms"),
    Target("`stator --help`", "cli_help_ms", 25, " ms"),
    Target("`ls`, piped", "cli_ls_ms", 80, " ms"),
    Target("`log`, piped", "cli_log_ms", 80, " ms"),
    Target("`diff`, piped", "cli_diff_ms", 80, " ms"),
    Target("`ls` on a terminal", "cli_ls_terminal_ms", 130, " ms"),
    Target("`log` on a terminal", "cli_log_terminal_ms", 130, " ms"),
    Target("`diff` on a terminal", "cli_diff_terminal_ms", 130, " ms"),
    Target("hook: plain", "hook_plain_ms", 22, " ms"),
    Target("hook: may hold a secret", "hook_secret_ms", 35, " ms"),
    Target("hook: start of a session", "hook_start_ms", 120, " ms"),
    Target("hook: an event of 20 MB", "hook_20mb_ms", 300, " ms"),
    Target("proxy over stdio, a call", "proxy_stdio_added_ms", 2, " ms"),
    Target("proxy over HTTP, a call", "proxy_http_added_ms", 3, " ms"),
    Target("CPU of the fastest peer that knows a state ÷ ours", "peers_cpu_over_ours", 10, " ×", least=True),
    Target("wall of the fastest peer that knows a state ÷ ours", "peers_wall_over_ours", 10, " ×", least=True),
    Target("8 writing processes ÷ one", "writers_ratio", 1, " ×", least=True),
    Target("PostgreSQL: wall of a durable turn ÷ raw inserts", "pg_turn_wall_over_raw", 1.5, " ×"),
    Target("… where each sync takes 2 ms more", "pg_turn_wall_slow_over_raw", 1.5, " ×"),
    Target("… last ÷ first tenth, CPU of both sides", "pg_late_early_cpu", 1.1, " ×", needs=("pg_turns", 10_000)),
    Target("… last ÷ first tenth, wall", "pg_late_early_wall", 1.1, " ×", needs=("pg_turns", 10_000)),
    Target("… 16 writing processes ÷ 16 that insert raw", "pg_writers_over_raw", 0.9, " ×", least=True),
    Target("… resume, round trips", "pg_resume_trips", 4),
    Target("… hot page, round trips", "pg_hot_trips", 2),
    Target("… hot page, wall", "pg_hot_ms", 10, " ms"),
    Target("… 100 of 100,000 sessions, wall", "pg_list_ms", 20, " ms", needs=("pg_sessions", 100_000)),
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    target: Target
    value: float | None
    word: str
    """met, missed, not measured, or why it cannot be judged."""

    @property
    def row(self) -> tuple[str, str, str, str]:
        sign = "≥" if self.target.least else "≤"
        promised = f"{sign} {self.target.limit:,g}{self.target.unit}"
        measured = "–" if self.value is None else text(self.value) + self.target.unit
        return self.target.name, promised, measured, self.word


def judge(measures: Measures) -> list[Verdict]:
    return [_verdict(target, measures) for target in TARGETS]


def _verdict(target: Target, measures: Measures) -> Verdict:
    value = measures.get(target.measure)
    if value is None:
        return Verdict(target, None, ABSENT)
    if target.needs is not None:
        name, least = target.needs
        if measures.get(name, 0) < least:
            return Verdict(target, value, f"run too small: {name} < {least:,g}")
    met = value >= target.limit if target.least else value <= target.limit
    return Verdict(target, value, MET if met else MISSED)


def text(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


# -- against another release ----------------------------------------------------------------------

WORSE = 1.1
"""A tenth more is noise."""
YARDSTICK = "python_ms"
"""CPU of a Python that does nothing, in the same run: what a time is divided by."""
TIMES = ("_ms", "_us", "_s", "_us_per_commit")


@dataclass(frozen=True)
class Change:
    name: str
    before: float
    now: float
    ratio: float


def changes(before: Measures, now: Measures) -> list[Change]:
    """Each measure that both runs have, the worst first: by how much it grew, times in units of their run's Python."""
    slower = now.get(YARDSTICK, 1) / before.get(YARDSTICK, 1)
    more_is_better = {target.measure for target in TARGETS if target.least}
    found = []
    for name in sorted(before.keys() & now.keys()):
        then, here = before[name], now[name]
        if (
            then <= 0
            or here <= 0
            or name in ("turns", "sessions", "pg_turns", "pg_sessions", YARDSTICK)
        ):
            continue
        ratio = then / here if name in more_is_better else here / then
        if name.endswith(TIMES):
            ratio /= slower
        found.append(Change(name, then, here, ratio))
    return sorted(found, key=lambda change: -change.ratio)
