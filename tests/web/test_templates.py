"""Recorded content is hostile: no template marks anything as safe, and no page has inline styles or handlers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import stator.surfaces.web
from stator.surfaces.web.page import environment

WEB = Path(stator.surfaces.web.__file__).parent
TEMPLATES = sorted((WEB / "templates").glob("*.html"))
MODULES = sorted(WEB.rglob("*.py"))
SCRIPTS = sorted(path for path in (WEB / "static").glob("*.js") if "htmx" not in path.name)
FORBIDDEN = {
    "a filter that marks text as safe": r"\|\s*safe\b|\bMarkup\b",
    "escaping switched off": r"autoescape\s+false|{%-?\s*autoescape",
    "an inline style": r"\sstyle\s*=|<style\b",
    "an inline handler": r"\son[a-z]+\s*=|\shx-on",
    "an inline script": r"<script(?![^>]*\ssrc=)",
    "a script address": r"javascript:",
    "an attribute without quotes around what is recorded": r"\s[\w-]+=\{\{",
}


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_has_nothing_that_would_let_recorded_content_act(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    assert [what for what, pattern in FORBIDDEN.items() if re.search(pattern, text)] == []


def test_no_module_of_the_pages_makes_markup_by_itself() -> None:
    for module in MODULES:
        names = {
            getattr(node, "id", getattr(node, "attr", getattr(node, "name", "")))
            for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        }
        assert not names & {"Markup", "markupsafe", "pass_eval_context"}, module.name


def test_scripts_of_ours_put_no_text_into_a_page_as_markup_and_are_short() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in SCRIPTS)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text
    )
    assert text.count("\n") <= 300


def test_every_expression_of_a_template_shows_hidden_characters_and_escapes_markup() -> None:
    made = environment().from_string("{{ text }}|{{ text | upper }}")
    shown = made.render(text="<b>\u202e\x1b[2J\u200b\"'")
    assert (
        shown
        == "&lt;b&gt;\\u202e\\x1b[2J\\u200b&#34;&#39;|&lt;B&gt;\\u202e\\x1b[2J\\u200b&#34;&#39;"
    )
