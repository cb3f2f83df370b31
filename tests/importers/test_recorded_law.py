"""However a file grows, and whatever happens in between, the log of its session is that of one import."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from importers.import_helpers import DATA, RECORDINGS, detected_format, needs_recordings
from importers.recorded_law import history, whole_import

SEEDS = 6
FILES = [
    path
    for folder in ("claude-code", "codex", "gemini", "pi")
    for path in sorted((DATA / folder).rglob("*.jsonl"))
    if path.stat().st_size < 200_000
]


@cache
def whole(path: Path):
    with TemporaryDirectory() as folder:
        return whole_import(detected_format(path), path, Path(folder) / path.parent.name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name[-24:]}")
def test_a_file_that_grows_has_the_log_of_one_import(path, tmp_path):
    if not detected_format(path) or not whole(path):
        pytest.skip("it contains no conversation of its own")
    for seed in range(SEEDS):
        history(
            detected_format(path), path, tmp_path / str(seed) / path.parent.name, seed, whole(path)
        )


RECORDED = [
    path
    for path in sorted(RECORDINGS.rglob("*.jsonl"))
    if path.stat().st_size < 5_000_000 and "exec-json" not in path.name
]
"""The printed output of `codex exec` is read only where the rollout is not there."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@needs_recordings
def test_recorded_files_that_grow_have_the_log_of_one_import(tmp_path, capsys):
    counts: Counter[str] = Counter()
    for path in RECORDED:
        name = detected_format(path)
        if name and whole(path):
            for seed in range(4):
                counts += history(
                    name,
                    path,
                    tmp_path / path.stem / str(seed) / path.parent.name,
                    seed,
                    whole(path),
                )
    with capsys.disabled():
        print(dict(counts))
