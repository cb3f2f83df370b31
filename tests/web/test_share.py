"""A session as one page: whole, readable without a script, and without what must not leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

import stator
from stator.runtime.facade.store import Store
from stator.surfaces.cli.main import main
from stator.surfaces.web.share import shared_page

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e</div></details>"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


@stator.tool(effect="read")
def look_up(word: str) -> str:
    return f"found {word}"


def record(store: Store, *words: str) -> str:
    with store.open("shared", agent="tester") as s, s.turn(f"look up {words[0]}") as t:
        for word in words:
            t.call(look_up, word=word)
        t.decide("keep it", topic="storage", why=words[0])
        t.say(f"Done with {words[-1]}.")
    return s.id


def page_of(store: Store, session: str) -> str:
    return "".join(shared_page(store, session, now=store.context.clock()))


def test_the_page_holds_prompts_calls_answers_and_decisions(store: Store) -> None:
    text = page_of(store, record(store, "okapi"))
    for shown in ("look up okapi", "found okapi", "keep it", "Done with okapi."):
        assert shown in text


def test_recorded_markup_and_control_characters_stay_text(store: Store) -> None:
    text = page_of(store, record(store, HOSTILE))
    assert "<script" not in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_secrets_that_were_recorded_without_redaction_are_masked(tmp_path: Path) -> None:
    with stator.connect(tmp_path / "open.db", redact=False) as plain:
        assert SECRET not in page_of(plain, record(plain, SECRET))


def test_erased_content_is_absent(store: Store, tmp_path: Path) -> None:
    session = record(store, "okapi")
    call = next(c for c in store.read(session).log() if c.kind == "outcome")
    store.contribute(session).erase(f"@{call.seq}", fields=("output",))
    text = page_of(store, session)
    assert "found okapi" not in text
    assert "erased" in text


def test_a_long_turn_is_shared_in_full(store: Store) -> None:
    words = [f"word{n}" for n in range(400)]
    text = page_of(store, record(store, *words))
    assert all(f"found {word}<" in text or f"found {word}\n" in text for word in words)


def test_the_page_asks_for_nothing_and_runs_nothing(
    browser: Browser, store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_of(store, record(store, HOSTILE)), encoding="utf-8")
    opened = browser.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("console", lambda line: wrong.append(line.text))
    opened.on("dialog", lambda dialog: wrong.append(dialog.message))
    try:
        opened.goto(file.as_uri())
        opened.locator("details summary").first.click()
        assert "found" in opened.inner_text("details")
        assert asked == [file.as_uri()]
        assert not wrong
    finally:
        opened.close()


def test_the_command_writes_a_file_and_does_not_replace_one(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(store, "okapi")
    store.close()
    target = tmp_path / "page.html"
    words = ["share", "shared", "-o", str(target), "--store", str(tmp_path / "store.db")]
    assert main(words) == 0
    assert "okapi" in target.read_text(encoding="utf-8")
    target.write_text("mine", encoding="utf-8")
    assert main(words) != 0
    assert target.read_text(encoding="utf-8") == "mine"
    assert "--force" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0
    assert "okapi" in target.read_text(encoding="utf-8")
