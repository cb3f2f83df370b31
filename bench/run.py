"""`python -m bench.run`: ours and peers on one workload, in one run; measures, verdicts, and RESULTS.md.

--only SECTION,…     some of the sections
--big                100,000 turns of ours and the limit, instead of 10,000
--against VERSION    what got slower since the results that are kept of a release
--keep               keep the results as those of this version, and write RESULTS.md
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import stator
from bench import measure, report
from bench.peers import CONTESTANTS, GROUPS, LIMIT, OURS, Contestant
from bench.process import ROOT, Child, ChildError, NotInstalled
from bench.targets import changes, judge
from bench.workload import Workload

KEPT = Path(__file__).resolve().parent / "results"
BIG = 100_000
SMALL, LARGE = 1_000, 10_000
"""Turns: everyone; ours and the limit."""
PROGRAMS = ("turn_cpu", "live_reads", "programs", "bundles", "transcripts", "proxy", "postgres")
"""Modules that print their measures."""
SECTIONS = ("turns", "listing", "writers", *PROGRAMS)
PROGRAM_SECONDS = 900
Results = dict[str, Any]


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", type=_sections, default=list(SECTIONS), metavar="SECTION,…")
    parser.add_argument("--big", action="store_true")
    parser.add_argument("--peers", type=_groups, default=list(GROUPS), metavar=",".join(GROUPS))
    parser.add_argument("--quick", action="store_true", help="small: does everything work?")
    parser.add_argument("--dir", type=Path, help="where stores are made; its disk is measured")
    parser.add_argument("--against", metavar="VERSION")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--out", type=Path, help="also write the results to this file")
    return parser.parse_args(argv)


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
    plain = measure.Settings(directory)
    if not args.quick:
        return plain
    return replace(
        plain, fresh=3, asks=8, ask_s=3.0, forks=20, sessions=300, sessions_s=10.0,
        writer_turns=20,
    )  # fmt: skip


class Bench:
    """One run, section by section."""

    def __init__(self, args: argparse.Namespace, directory: Path) -> None:
        self.args = args
        self.settings = settings(args, directory)
        self.workload = Workload(cache=self.settings.cache)
        self.results: Results = {
            "version": stator.__version__,
            "environment": {},
            "peers": {},
            "runs": {},
            "listing": {},
            "writers": {},
            "measures": {},
            "seconds": {},
        }
        self.contestants: list[Contestant] = []

    @property
    def measures(self) -> dict[str, float]:
        found: dict[str, float] = self.results["measures"]
        return found

    def run(self) -> Results:
        many = BIG if self.args.big else LARGE
        sizes = [100] if self.args.quick else [SMALL, many]
        self.workload.prepare(max(sizes) + 1)
        directory = self.settings.directory
        fingerprint = self.workload.fingerprint()
        self.results["environment"] = report.environment(directory, fingerprint)
        self.contestants = self._present()
        report.show_peers(self.results)
        for section in SECTIONS:
            if section in self.args.only:
                began = time.monotonic()
                print(f"{section} …", file=sys.stderr)
                self._section(section, sizes)
                self.results["seconds"][section] = round(time.monotonic() - began, 1)
        self.results["environment"]["load_at_end"] = round(os.getloadavg()[0], 2)
        return self.results

    def _section(self, section: str, sizes: Sequence[int]) -> None:
        if section == "turns":
            for n in sizes:
                self._turns(n)
            self.measures.update(report.flattened(self.results["runs"], self.results["peers"]))
        elif section in PROGRAMS:
            self.measures.update(self._program(section))
        else:
            ask = {"listing": measure.listing, "writers": measure.writers}[section]
            self._once(section, ask)
            mine = self.results[section].get(OURS, {})
            kept = ("list_ms", "sessions", "writers_ratio")
            self.measures.update({k: mine[k] for k in kept if mine.get(k) is not None})

    def _present(self) -> list[Contestant]:
        """Contestants whose libraries are there; the others are named in the report."""
        found = []
        for contestant in (c for c in CONTESTANTS if c.group in self.args.peers):
            peers = self.results["peers"]
            try:
                with Child(contestant.target, self.settings.cache).greet() as child:
                    peers[contestant.label] = child.peer
                found.append(contestant)
            except (NotInstalled, ChildError) as error:
                text = f"not installed ({error})" if isinstance(error, NotInstalled) else str(error)
                peers[contestant.label] = {"version": text, "native": []}
        return found

    def _turns(self, n: int) -> None:
        """The race of one N and the questions after it."""
        print(f"  {n:,} turns …", file=sys.stderr)
        asked = [c for c in self.contestants if n == min(SMALL, n) or c.group in (OURS, LIMIT)]
        if n > SMALL:
            asked = [c for c in asked if c.label != "ours, no redaction"]
        if n == BIG:  # durable writing would measure the disk for an hour
            asked = [c for c in asked if c.label in ("ours, relaxed", "raw, relaxed")]
        runs = self.results["runs"][str(n)] = measure.race(n, asked, self.settings)
        for c in asked:
            got = runs[c.label]
            store = measure.store_of(c, n, self.settings)
            if "error" not in got and (n == BIG or not c.append_only) and c.group != LIMIT:
                print(f"  asking {c.label} …", file=sys.stderr)
                questions = measure.Questions(c, store, got["turns"], self.settings, self.workload)
                got |= questions.ask()
            shutil.rmtree(store, ignore_errors=True)
        report.show_run(n, self.results)

    def _once(
        self, section: str, ask: Callable[[Contestant, measure.Settings], measure.Measures]
    ) -> None:
        """A measure that does not depend on N, for everyone who answers questions in a minute."""
        for c in self.contestants:
            if c.append_only or c.group == "langgraph":
                continue
            try:
                self.results[section][c.label] = ask(c, self.settings)
            except ChildError as error:
                self.results[section][c.label] = {"error": self.settings.scrub(error)}

    def _program(self, module: str) -> dict[str, float]:
        place = self.settings.directory / module
        place.mkdir()
        words = [sys.executable, "-m", f"bench.{module}", str(place)]
        try:
            done = subprocess.run(
                words,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
                timeout=PROGRAM_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"{module}: not done after {PROGRAM_SECONDS} s", file=sys.stderr)
            return {}
        finally:
            shutil.rmtree(place, ignore_errors=True)
        if done.returncode:
            print(f"{module}: exit code {done.returncode}", file=sys.stderr)
            return {}
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return found


def against(version: str, results: Results) -> None:
    """Say what got slower since a release."""
    path = KEPT / f"{version}.json"
    if not path.exists():
        known = ", ".join(sorted(each.stem for each in KEPT.glob("*.json"))) or "none"
        raise SystemExit(f"no results of {version} are kept; there are those of: {known}")
    before = json.loads(path.read_text(encoding="utf-8"))
    report.show_changes(version, changes(before["measures"], results["measures"]))


def main() -> None:
    args = arguments()
    if args.dir:
        args.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stator-bench-", dir=args.dir) as name:
        directory = Path(name)
        os.environ["HOME"] = name  # the stores made here are this user's own, in every process
        if report.file_system(directory) == "tmpfs":
            print("warning: stores on tmpfs, where fsync is free; choose --dir", file=sys.stderr)
        results = Bench(args, directory).run()
    report.show_verdicts(judge(results["measures"]))
    if args.out:
        report.save(results, args.out)
    if args.keep:
        report.save(results, KEPT / f"{results['version']}.json")
        report.write_page(results)
    if args.against:
        against(args.against, results)


if __name__ == "__main__":
    main()
