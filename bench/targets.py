"""The targets, each a row: what was promised, what was measured, met or missed.

A target holds at every N that was run unless it says otherwise, so the worst N is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

OURS_LABELS = ("ours", "ours, no redaction", "ours, barrier", "ours, relaxed")
BIG, SESSIONS = 100_000, 10_000  # turns; sessions to list
LIST_MS = 5.0
STATE_BASE_MS, STATE_MS_PER_MB = 5.0, 10.0
TOO_SMALL = "run too small"
Results = dict[str, Any]


@dataclass(frozen=True)
class Target:
    name: str
    limit: float
    measure: str
    label: str = "ours"
    unit: str = ""
    turns_min: int = 0
    """Judged only at N of at least this."""
    at_turns: int = 0
    """Promised for a session of this size: judged at the largest N that was run, if that large."""


TARGETS = (
    Target("durable append ÷ limit", 1.5, "x_limit", unit="×"),
    Target("the same, redaction off", 1.25, "x_limit", "ours, no redaction", "×"),
    Target("barrier append ÷ limit", 0.8, "x_limit", "ours, barrier", "×"),
    Target("relaxed append ÷ relaxed limit", 3.0, "x_limit", "ours, relaxed", "×"),
    Target("late ÷ early, wall", 1.1, "late_early_wall", at_turns=BIG),
    Target("late ÷ early, CPU", 1.1, "late_early_cpu", at_turns=BIG),
    Target("disk ÷ logical, N ≥ 1,000", 0.6, "disk_ratio", turns_min=1_000),
    Target("bytes written ÷ logical", 5.0, "write_ratio"),
    Target("open + counts + hot page", 5.0, "open_ms", unit=" ms"),
    Target("full state ÷ (5 ms + 10 ms per MB)", 1.0, "state_allowance", unit="×"),
    Target("hot state at any turn", 10.0, "state_at_ms", unit=" ms"),
    Target("diff of neighbouring turns", 1.0, "diff_ms", unit=" ms"),
    Target("files of the last 5 turns", 0.5, "files_last_ms", unit=" ms"),
    Target("brief", 50.0, "brief_ms", unit=" ms", at_turns=BIG),
    Target("fork", 1.5, "fork_ms", unit=" ms"),
    Target("file growth per fork", 4_096, "fork_bytes", unit=" B"),
    Target("memory to resume", 60.0, "resume_mb", unit=" MB", at_turns=BIG),
)


@dataclass(frozen=True)
class Row:
    name: str
    target: str
    measured: str
    verdict: str
    """met | missed | not measured | run too small (than the promise speaks of)"""


def judge(results: Results) -> list[dict[str, str]]:
    rows = [_row(target, results) for target in TARGETS]
    rows += [_against_peers(results, native) for native in (True, False)]
    rows += [_listing(results), _writers(results)]
    return [asdict(row) for row in rows]


def _row(target: Target, results: Results) -> Row:
    wanted = f"≤ {target.limit:,g}{target.unit}"
    found = list(_values(target, results))
    if not found:
        return Row(target.name, wanted, "–", "not measured")
    n, worst = found[-1] if target.at_turns else max(found, key=lambda pair: pair[1])
    where = f"at N = {n:,}"
    if n < target.at_turns:
        return Row(target.name, wanted, f"{_text(worst)}{target.unit} {where}", TOO_SMALL)
    return _judged(target.name, wanted, worst, target.unit, where, worst <= target.limit)


def _judged(name: str, wanted: str, value: float, unit: str, where: str, met: bool) -> Row:
    return Row(name, wanted, f"{_text(value)}{unit} {where}", "met" if met else "missed")


def _text(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def _values(target: Target, results: Results) -> Iterator[tuple[int, float]]:
    """(N, value) in order of N, where ours was measured."""
    for n, runs in _runs(results):
        value = _value(runs.get(target.label, {}), target.measure)
        if value is not None and n >= target.turns_min:
            yield n, value


def _value(measures: Results, name: str) -> float | None:
    if name == "state_allowance" and "state_ms" in measures:
        allowed = STATE_BASE_MS + STATE_MS_PER_MB * measures["state_mb"]
        return float(measures["state_ms"] / allowed)
    value = measures.get(name)
    return None if value is None else float(value)


def _runs(results: Results) -> list[tuple[int, Results]]:
    return sorted((int(n), runs) for n, runs in results["runs"].items())


def _against_peers(results: Results, native: bool) -> Row:
    """Durable turns/s against the fastest peer that can tell the state at all."""
    kind = "that answers questions about state" if native else "incl. those read back whole"
    name = f"durable append ÷ fastest peer {kind}"
    worst: tuple[float, str] | None = None
    for n, runs in _runs(results):
        mine = runs.get("ours", {}).get("turns_per_s")
        for label, measures in runs.items():
            if not mine or not _tells_state(results, label, measures, native):
                continue
            ratio = mine / measures["turns_per_s"]
            if worst is None or ratio < worst[0]:
                worst = ratio, f"at N = {n:,}, {label}"
    if worst is None:
        return Row(name, "> 1×", "–", "not measured")
    return _judged(name, "> 1×", worst[0], "×", worst[1], worst[0] > 1)


def _tells_state(results: Results, label: str, measures: Results, native: bool) -> bool:
    if label in OURS_LABELS or "state_ms" not in measures:
        return False
    return not native or "state" in results["peers"][label]["native"]


def _listing(results: Results) -> Row:
    name, wanted = f"first page of {SESSIONS:,} sessions", f"≤ {LIST_MS:g} ms"
    got = results["listing"].get("ours", {})
    if "list_ms" not in got:
        return Row(name, wanted, "–", "not measured")
    where = f"of {got['sessions']:,}"
    if got["sessions"] < SESSIONS:
        return Row(name, wanted, f"{_text(got['list_ms'])} ms {where}", TOO_SMALL)
    return _judged(name, wanted, got["list_ms"], " ms", where, got["list_ms"] <= LIST_MS)


def _writers(results: Results) -> Row:
    name, wanted = "8 writing processes ÷ one", "≥ 1×, no errors"
    got = results["writers"].get("ours", {})
    if "errors" not in got:
        return Row(name, wanted, "–", "not measured")
    ratio, errors = got["writers_ratio"], got["errors"]
    met = not errors and ratio is not None and ratio >= 1
    return _judged(name, wanted, ratio or 0.0, "×", f"with {errors} errors", met)
