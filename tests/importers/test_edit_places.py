"""What each agent's tools show of the files they change: contents where they are whole, else the changed places."""

from __future__ import annotations

import pytest

from importers.import_helpers import DATA, detected_format, import_file, views
from stator import testing
from stator.errors import NotFound
from stator.hooks import cursor
from stator.importers.codex import tools as codex
from stator.importers.copilot import tools as copilot
from stator.importers.gemini import tools as gemini
from stator.importers.reading.awaited_calls import TEXT_MAX, AwaitedCall, AwaitedCalls
from stator.importers.reading.edit_places import (
    blocks_of,
    editor_touch,
    from_numbered,
    swaps_of,
)
from stator.model.exchange.hunks import Hunk, Swap, applied
from stator.model.exchange.items import Touch, Touched, digest_of
from stator.model.exchange.patch_text import files_in_patch

SECRET = "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n"


def test_a_patch_of_codex_shows_new_files_whole_and_places_of_others():
    patch = (
        "*** Begin Patch\n*** Add File: new.py\n+one\n*** Update File: a.py\n@@ def f():\n a\n-b\n+c\n d\n"
        "@@\n kept\n*** End of File\n*** End Patch"
    )
    new, changed = files_in_patch(patch)
    assert new.after_text == "one\n"
    assert changed.places == (Hunk(" a\n-b\n+c\n d\n"),)
    assert applied(changed.places, "x\na\nb\nd\n") == "x\na\nc\nd\n"


def test_a_patch_without_numbers_is_not_applied_to_a_text_without_an_end():
    (changed,) = files_in_patch("*** Begin Patch\n*** Update File: a\n@@\n-b\n+c\n*** End Patch")
    assert applied(changed.places, "b\nend") is None


def test_a_notice_of_codex_shows_places_with_numbers():
    diff = "@@ -3,3 +3,3 @@\n a\n-b\n+c\n d\n"
    notice = {"changes": {"/w/a.py": {"update": {"unified_diff": diff, "move_path": None}}}}
    (touch,) = codex.files_of("apply_patch", None, "/w", notice)
    assert touch.places == (Hunk(" a\n-b\n+c\n d\n", 3, 3),)


def test_a_file_that_codex_deleted_is_known():
    notice = {"changes": {"/w/a.py": {"delete": {"content": "gone\n"}}}}
    (touch,) = codex.files_of("apply_patch", None, "/w", notice)
    assert (touch.op, touch.before_text) == ("deleted", "gone\n")


def test_gemini_shows_the_file_before_and_after():
    display = {
        "filePath": "/w/a",
        "originalContent": "1\n",
        "newContent": "2\n",
        "isNewFile": False,
    }
    (touch,) = gemini.files_of("replace", {}, display, "/w")
    assert (touch.before_text, touch.after_text) == ("1\n", "2\n")


def test_the_editor_of_copilot_creates_replaces_and_inserts():
    (made,) = copilot.files_of("create", {"path": "a", "file_text": "1\n"})
    (changed,) = copilot.files_of(
        "str_replace_editor",
        {"command": "str_replace", "path": "a", "old_str": "1", "new_str": "2"},
    )
    put_in = editor_touch("a", "modified", {"command": "insert", "insert_line": 1, "new_str": "x"})
    assert made.after_text == "1\n"
    assert applied(changed.places, "1\n") == "2\n"
    assert applied(put_in.places, "1\n2\n") == "1\nx\n2\n"


def test_an_editor_that_makes_spaces_of_tabs_leaves_a_text_with_tabs_unknown():
    touch = editor_touch(
        "a", "modified", {"command": "str_replace", "old_str": "1", "new_str": "2"}
    )
    assert applied(touch.places, "\t1\n") is None


def test_a_hook_of_cursor_shows_the_replaced_texts():
    payload = {
        "hook_event_name": "afterFileEdit", "file_path": "/w/a",
        "edits": [{"old_string": "1", "new_string": "2"}],
    }  # fmt: skip
    (item,) = cursor.items(payload, 1, "u", {})
    assert isinstance(item, Touched)
    assert item.files[0].places == (Swap("1", "2"),)


def test_blocks_of_search_and_replace_are_replaced_texts():
    diff = "------- SEARCH\none\n=======\ntwo\n+++++++ REPLACE\n<<<<<<< SEARCH\na\n=======\n>>>>>>> REPLACE"
    assert blocks_of(diff) == (Swap("one\n", "two\n"), Swap("a\n", ""))


def test_one_edit_that_is_not_understood_makes_all_of_them_unknown():
    assert swaps_of([{"oldText": "a", "newText": "b"}, {"oldText": 3}]) == ()


NUMBERED = "      ...\n   8 a\n-  9 b\n+  9 c\n+ 10 d\n  10 e\n  11 f\n  12 g\n  13 \n      ..."


def test_a_diff_with_numbered_lines_is_a_hunk():
    assert from_numbered(NUMBERED) == (Hunk(" a\n-b\n+c\n+d\n e\n f\n g\n \n", 8, 9),)


@pytest.mark.parametrize(
    "diff",
    ["", "x", NUMBERED.replace("  11 f", "  14 f"), NUMBERED.replace("  13 \n", ""), "+ 1 a"],
)
def test_a_numbered_diff_that_is_not_certain_is_none(diff):
    assert from_numbered(diff) == ()


@pytest.mark.parametrize("text", [SECRET, "x" * (TEXT_MAX + 1)])
def test_a_text_that_may_not_be_remembered_leaves_its_digest(text):
    calls = AwaitedCalls({})
    calls.add("a", AwaitedCall(files=(Touch(path="a", op="created", after_text=text),)))
    found = AwaitedCalls(calls.state()).pop("a")
    assert found is not None
    (touch,) = found.files
    assert (touch.after_text, touch.after) == (None, digest_of(text))


WRITTEN = {
    "pi/tree.jsonl": ("tax.py", b"RATE = 19\n"),
    "openhands/trajectory.json": ("tax.py", b"RATE = 19\n"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_that_was_written_can_be_read_from_the_record(name):
    store = testing.memory_store(project="shop", root="/project")
    path, (file, data) = DATA / name, WRITTEN[name]
    form = detected_format(path)
    import_file(store, path, form, at_rest=True)
    found = []
    for shown in views(store, path, form):
        for change in shown.files(last=None):
            if change.path.endswith(file):
                try:
                    held = shown.contents(change.path, f"@{change.seq}", root=change.root)
                except NotFound:
                    continue
                found.append(held and held.data)
    assert data in found
