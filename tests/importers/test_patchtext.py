"""The patch text of `apply_patch`: which files it changes, and nothing that only stands in a file."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stator.importers.reading import patch_text
from stator.model.exchange.items import digest_of

PATCH = """*** Begin Patch
*** Add File: new.txt
+one
+two
*** Update File: same.py
@@
-old
+new
*** Update File: here.py
*** Move to: there.py
@@
 kept
*** Delete File: gone.txt
*** End Patch"""


def told(touches):
    return [(touch.op, touch.path, touch.from_path) for touch in touches]


def test_every_order_of_a_patch_is_a_file():
    assert told(patch_text.files_in_patch(PATCH)) == [
        ("created", "new.txt", ""),
        ("modified", "same.py", ""),
        ("renamed", "there.py", "here.py"),
        ("deleted", "gone.txt", ""),
    ]


def test_what_a_new_file_holds_is_known_by_its_digest():
    assert patch_text.files_in_patch(PATCH)[0].after == digest_of("one\ntwo\n")


def test_an_order_inside_a_file_is_only_text():
    patch = "*** Begin Patch\n*** Add File: a\n+*** Delete File: b\n*** End Patch"
    assert told(patch_text.files_in_patch(patch)) == [("created", "a", "")]


def test_a_patch_that_was_cut_off_says_nothing():
    assert patch_text.files_in_patch(PATCH.removesuffix("*** End Patch")) == ()


def test_a_patch_in_a_here_document_is_found():
    command = f"cd x && apply_patch <<'EOF'\n{PATCH}\nEOF\n"
    assert len(patch_text.files_in_command(command)) == 4


def test_a_patch_that_a_command_only_prints_is_none():
    assert patch_text.files_in_command(f"cat <<'EOF'\n{PATCH}\nEOF\n") == ()


@given(st.text(max_size=400))
def test_any_text_can_be_read(text):
    patch_text.files_in_patch(f"*** Begin Patch\n{text}\n*** End Patch")
    patch_text.files_in_command(f"apply_patch <<EOF\n{text}\nEOF")
