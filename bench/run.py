"""`python -m bench.run`: ours and peers on one workload, in one run, with ratios and verdicts."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import measure, report
from bench.peers import CONTESTANTS, GROUPS, LIMIT, OURS, Contestant
from bench.process import Child, ChildError, NotInstalled
from bench.targets import judge
from bench.workload import Workload

RESULTS = Path(__file__).resolve().parent / "results"
SECTIONS = ("listing", "writers", "cli")
Results = dict[str, Any]


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--n", type=_numbers, default=[100, 1_000, 10_000], metavar="N,N,…")
    parser.add_argument(
        "--big", type=int, default=100_000, help="turns, ours and the limit only; 0: leave out"
    )
    parser.add_argument(
        "--peers", type=_groups, default=list(GROUPS), metavar=",".join(GROUPS), help="who runs"
    )
    parser.add_argument("--quick", action="store_true", help="one small N, to see that it works")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results file")
    parser.add_argument("--dir", type=Path, help="where stores are made; its disk is measured")
    parser.add_argument("--budget", type=float, default=60.0, help="append seconds a peer per N")
    parser.add_argument("--skip", type=_sections, default=[], metavar=",".join(SECTIONS))
    return parser.parse_args(argv)


def _numbers(text: str) -> list[int]:
    return sorted({int(part) for part in text.replace("_", "").split(",")})


def _names(text: str, known: Sequence[str]) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(known):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not in {', '.join(known)}")
    return names


def _groups(text: str) -> list[str]:
    return _names(text, GROUPS)


def _sections(text: str) -> list[str]:
    return _names(text, SECTIONS)


def settings(args: argparse.Namespace, directory: Path) -> measure.Settings:
    plain = measure.Settings(directory, budget_s=args.budget)
    if not args.quick:
        return plain
    return replace(
        plain, fresh=3, asks=8, ask_s=3.0, forks=20, sessions=300, sessions_s=10.0,
        writer_turns=20, cli_runs=3,
    )  # fmt: skip


def present(groups: Sequence[str], results: Results, s: measure.Settings) -> list[Contestant]:
    """Contestants whose libraries are there; the others are named in the report."""
    found = []
    for contestant in (c for c in CONTESTANTS if c.group in groups):
        try:
            with Child(contestant.target, s.cache).greet() as child:
                results["peers"][contestant.label] = child.peer
            found.append(contestant)
        except (NotInstalled, ChildError) as error:
            text = f"not installed ({error})" if isinstance(error, NotInstalled) else str(error)
            results["peers"][contestant.label] = {"version": text, "native": []}
    return found


def run_turns(
    n: int, contestants: list[Contestant], results: Results, s: measure.Settings, w: Workload
) -> None:
    """The race of one N and the questions after it."""
    runs = results["runs"][str(n)] = measure.race(n, contestants, s)
    for c in contestants:
        got = runs[c.label]
        store = measure.store_of(c, n, s)
        if "error" not in got and not c.append_only:
            print(f"  asking {c.label} …", file=sys.stderr)
            got |= measure.Questions(c, store, got["turns"], s, w).ask()
        if c.group != OURS or c.append_only:
            shutil.rmtree(store, ignore_errors=True)


def still_running(contestants: list[Contestant], results: Results) -> list[Contestant]:
    """Without those who ran out of budget or failed at a smaller N."""
    runs = results["runs"].values()
    out = {label for run in runs for label, m in run.items() if m.get("stopped") or "error" in m}
    return [c for c in contestants if c.label not in out]


def run_once(
    section: str, contestants: list[Contestant], results: Results, s: measure.Settings
) -> None:
    """A measure that does not depend on N, for everyone who answers questions."""
    ask = {"listing": measure.listing, "writers": measure.writers}[section]
    for c in contestants:
        if c.append_only:
            continue
        print(f"  {section}: {c.label} …", file=sys.stderr)
        try:
            results[section][c.label] = ask(c, s)
        except ChildError as error:
            results[section][c.label] = {"error": s.scrub(error)}


def run_cli(contestants: list[Contestant], results: Results, s: measure.Settings) -> None:
    ours = next((c for c in contestants if c.label == OURS), None)
    sizes = [
        int(n) for n, run in results["runs"].items() if "error" not in run.get(OURS, {"error": 1})
    ]
    if ours is None or not sizes:
        return
    try:
        results["cli"] = measure.command_line(ours, max(sizes), s)
    except ChildError as error:
        results["cli"] = {"error": s.scrub(error)}


def bench(args: argparse.Namespace, directory: Path) -> Path:
    s = settings(args, directory)
    sizes = [100] if args.quick else args.n
    big = 0 if args.quick else args.big
    w = Workload(cache=s.cache)
    w.prepare(max([*sizes, big]) + 1)
    results: Results = {
        "environment": report.environment(directory, w.fingerprint()),
        "peers": {}, "runs": {}, "listing": {}, "writers": {}, "cli": {}, "targets": [],
    }  # fmt: skip
    out: Path = args.out / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    contestants = present(args.peers, results, s)
    report.show_peers(results)
    for n in [*sizes, *([big] if big else [])]:
        chosen = [c for c in contestants if c.label in (OURS, LIMIT)] if n == big else contestants
        print(f"N = {n:,} …", file=sys.stderr)
        run_turns(n, still_running(chosen, results), results, s, w)
        report.show_run(n, results)
        report.save(results, out)  # a long run that is interrupted leaves what it had
    for section in ("listing", "writers"):
        if section not in args.skip:
            run_once(section, contestants, results, s)
    if "cli" not in args.skip:
        run_cli(contestants, results, s)
    results["targets"] = judge(results)
    report.save(results, out)
    report.show_rest(results)
    return out


def main() -> None:
    args = arguments()
    if args.dir:
        args.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stator-bench-", dir=args.dir) as directory:
        if report.file_system(Path(directory)) == "tmpfs":
            print("warning: stores on tmpfs, where fsync is free; choose --dir", file=sys.stderr)
        print(f"\nresults: {bench(args, Path(directory)).name} in {args.out.name}/")


if __name__ == "__main__":
    main()
