"""The files of every project on one page: what changed lately, and what several sessions changed."""

from __future__ import annotations

import re

import pytest

from stator.runtime.facade.store import Store
from web.asking import PlainBrowser
from web.running import RunningInspector


@pytest.fixture
def shown(store: Store, inspector: RunningInspector) -> PlainBrowser:
    for project, name, paths in (
        ("shop", "basket", ["basket.py", "total.py"]),
        ("blog", "posts", ["basket.py", "post.py"]),
        ("shop", "rounding", ["total.py"]),
    ):
        with store.open(name, project=project) as s, s.turn("change it") as t:
            for path in paths:
                t.file(path, "modified")
    return PlainBrowser(inspector)


def test_files_of_every_project_are_listed_last_changed_first(shown: PlainBrowser) -> None:
    text = shown.page("/files").decode()
    lately = text[text.index("Changed lately") :]
    assert re.findall(r"path=(\w+)\.py\S*project=(\w+)", lately) == [
        ("total", "shop"),
        ("basket", "blog"),
        ("post", "blog"),
        ("basket", "shop"),
    ]


def test_only_files_of_one_project_count_as_the_same(shown: PlainBrowser) -> None:
    text = shown.page("/files").decode()
    several = text[text.index("Changed by several") : text.index("Changed lately")]
    assert re.findall(r"path=(\w+)\.py", several) == ["total"]


def test_a_project_shows_its_own_files_most_changed_first(shown: PlainBrowser) -> None:
    text = shown.page("/files?project=shop").decode()
    assert re.findall(r"path=(\w+)\.py", text) == ["total", "basket"]
