"""Tests which files a patch for `apply_patch` changes, and that file contents are not mistaken for
operations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stator.model.exchange import patch_text
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


def described(touches):
    return [(touch.op, touch.path, touch.from_path) for touch in touches]


def test_every_operation_of_a_patch_yields_a_file():
    assert described(patch_text.files_in_patch(PATCH)) == [
        ("created", "new.txt", ""),
        ("modified", "same.py", ""),
        ("renamed", "there.py", "here.py"),
        ("deleted", "gone.txt", ""),
    ]


def test_a_new_file_has_the_digest_of_its_content():
    assert patch_text.files_in_patch(PATCH)[0].after == digest_of("one\ntwo\n")


def test_an_operation_inside_a_files_content_is_ignored():
    patch = "*** Begin Patch\n*** Add File: a\n+*** Delete File: b\n*** End Patch"
    assert described(patch_text.files_in_patch(patch)) == [("created", "a", "")]


def test_a_cut_patch_yields_nothing():
    assert patch_text.files_in_patch(PATCH.removesuffix("*** End Patch")) == ()


def test_a_patch_in_a_here_document_is_found():
    command = f"cd x && apply_patch <<'EOF'\n{PATCH}\nEOF\n"
    assert len(patch_text.files_in_command(command)) == 4


def test_a_patch_that_a_command_only_prints_yields_nothing():
    assert patch_text.files_in_command(f"cat <<'EOF'\n{PATCH}\nEOF\n") == ()


@given(st.text(max_size=400))
def test_any_text_is_accepted(text):
    patch_text.files_in_patch(f"*** Begin Patch\n{text}\n*** End Patch")
    patch_text.files_in_command(f"apply_patch <<EOF\n{text}\nEOF")
