"""What a transcript shows of files is kept: their contents, or the places that were changed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stator
from importers.claude_code_writer import TranscriptWriter, import_files, view
from importers.import_helpers import context_of
from importers.recorded_law import lose_notes
from runtime.file_writes import SECRET, apply, fill, tree
from stator import testing
from stator.errors import NotFound
from stator.importers.claude_code.transcript import FORMAT
from stator.importers.conversation import Report, import_conversation
from stator.model.exchange.hunks import texts_of
from stator.model.exchange.items import digest_of
from stator.model.exchange.kept_contents import BYTES_MAX, TouchContents
from stator.model.records.types import FileRecord
from stator.model.views.patch import text_of
from stator.runtime.views.contents import hunks_of


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with stator.connect(tmp_path / "agent.db", project="shop") as opened:
        yield opened


class Chat:
    """A transcript in which each turn writes files."""

    def __init__(self, folder, store):
        self.cwd = str(folder)
        self.file = TranscriptWriter(folder / "t" / "a.jsonl", cwd=self.cwd)
        self.store, self.n = store, 0

    def call(self, tool, given, result, *, prompt=True):
        self.n += 1
        if prompt:
            self.file.prompt(f"do {self.n}")
        self.file.says(f"msg_{self.n}", (f"toolu_{self.n}", tool, given))
        self.file.result(f"toolu_{self.n}", "ok", toolUseResult=result)

    def write(self, name, text, before=None):
        path = f"{self.cwd}/{name}"
        kind = "create" if before is None else "update"
        result = {"type": kind, "filePath": path, "content": text, "originalFile": before}
        self.call("Write", {"file_path": path, "content": text}, result)

    def edit(self, name, old, new, before, **more):
        path = f"{self.cwd}/{name}"
        given = {"file_path": path, "old_string": old, "new_string": new}
        kept = {"filePath": path, "oldString": old, "newString": new, "originalFile": before}
        self.call("Edit", given, kept | more)

    def read(self, name, text, start=1, total=None):
        lines = text.count("\n") + 1
        shown = {
            "filePath": f"{self.cwd}/{name}", "content": text,
            "numLines": lines, "startLine": start, "totalLines": total or lines,
        }  # fmt: skip
        self.call("Read", {"file_path": f"{self.cwd}/{name}"}, {"type": "text", "file": shown})

    def imported(self):
        for found in FORMAT.conversations(self.file.path):
            here = context_of(self.store, found.conversation)
            import_conversation(self.store.port, here, FORMAT, found, Report(), at_rest=True)
        return view(self.store)


@pytest.fixture
def chat(tmp_path, store):
    return Chat(tmp_path, store)


def records(shown):
    ops = [op for commit in shown.log() for op in commit.delta]
    return [op.record for op in ops if isinstance(getattr(op, "record", None), FileRecord)]


def kept_commits(shown):
    return [commit for commit in shown.log() if (commit.kind, commit.status) == ("file", "kept")]


def test_an_edit_keeps_the_content_before_it_and_after_it(chat):
    chat.edit("a.py", "1", "2", "x = 1\n")
    shown = chat.imported()
    assert shown.contents("a.py", "t0").data == b"x = 1\n"
    assert shown.contents("a.py", "t1").data == b"x = 2\n"


def test_contents_are_in_a_commit_right_before_the_outcome_that_names_it(chat):
    chat.write("a.py", "1\n")
    shown = chat.imported()
    (kept,) = kept_commits(shown)
    (outcome,) = [commit for commit in shown.log() if commit.kind == "outcome"]
    assert outcome.seq == kept.seq + 1
    assert records(shown)[0].after_in == kept.id


def test_what_the_edit_before_left_is_not_kept_again(chat):
    chat.edit("a.py", "1", "2", "x = 1\n")
    chat.edit("a.py", "2", "3", "x = 2\n")
    first, second = kept_commits(chat.imported())
    assert len(first.value("input")["contents"]) == 2
    assert list(second.value("input")["contents"]) == [digest_of("x = 3\n")]


def test_a_file_that_was_read_whole_is_known(chat):
    chat.read("a.py", "1\n2\n")
    assert chat.imported().contents("a.py").data == b"1\n2\n"


def test_a_file_that_was_read_in_part_is_not_known(chat):
    chat.read("a.py", "1\n2\n", start=5, total=10)
    shown = chat.imported()
    assert not kept_commits(shown)
    assert records(shown)[0].after == ""


def test_a_content_with_a_secret_is_a_digest_only(chat):
    chat.write("a.env", SECRET)
    shown = chat.imported()
    assert not kept_commits(shown)
    (record,) = records(shown)
    assert record.after == digest_of(SECRET)
    assert record.reason == "not kept: secret"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x" * (BYTES_MAX + 1), "size"),
        ("\ufffd\n", "not a text"),
        ("\ud800 alone\n", "not a text"),
    ],
)
def test_a_content_that_cannot_be_kept_says_why(chat, text, why):
    chat.write("a.txt", text)
    shown = chat.imported()
    assert not kept_commits(shown)
    assert records(shown)[0].reason == f"not kept: {why}"


@pytest.mark.parametrize("text", ["", "a\r\nb\r\n", "\ufeffa\n", "no end", "\f\v\x00\n", "é\n" * 3])
def test_a_content_is_kept_byte_by_byte(chat, text):
    chat.write("a.txt", text)
    assert chat.imported().contents("a.txt").data == text.encode()


def test_only_the_changed_places_of_an_edit_are_known_without_the_file(chat):
    hunk = {"oldStart": 7, "newStart": 7, "lines": [" a", "-b", "+c", " d"]}
    chat.edit("a.py", "b", "c", None, structuredPatch=[hunk])
    shown = chat.imported()
    (patch,) = shown.patch("t1")
    assert (patch.added, patch.removed, patch.patch, patch.reason) == (1, 1, "", "")
    assert patch.parts[0].places[0].body == " a\n-b\n+c\n d\n"
    with pytest.raises(NotFound, match="only the changed places are known"):
        shown.contents("a.py")


def test_changed_places_of_a_content_that_is_known_make_the_next_content(chat, tmp_path):
    hunk = {"oldStart": 1, "newStart": 1, "lines": [" a", "-b", "+c", " d"]}
    chat.write("a.py", "a\nb\nd\n")
    chat.edit("a.py", "b", "c", None, structuredPatch=[hunk])
    chat.edit("a.py", "c", "e", None)
    shown = chat.imported()
    assert shown.contents("a.py", "t2").data == b"a\nc\nd\n"
    assert shown.contents("a.py", "t3").data == b"a\ne\nd\n"
    apply(tmp_path, shown.patch("t0..t3"))
    assert (tmp_path / "a.py").read_bytes() == b"a\ne\nd\n"


def test_places_that_do_not_fit_leave_the_content_unknown(chat):
    chat.write("a.py", "a\nb\nd\n")
    chat.edit("a.py", "z", "c", None)
    with pytest.raises(NotFound, match="something else changed it"):
        chat.imported().contents("a.py")


def test_an_edit_that_the_user_changed_is_known_from_its_patch(chat):
    hunk = {"oldStart": 1, "newStart": 1, "lines": ["-x = 1", "+x = 5"]}
    chat.edit("a.py", "1", "2", "x = 1\n", userModified=True, structuredPatch=[hunk])
    assert chat.imported().contents("a.py").data == b"x = 5\n"


def test_a_patch_that_disagrees_with_its_edit_makes_no_content(chat):
    hunk = {"oldStart": 1, "newStart": 1, "lines": ["-x = 1", "+x = 5"]}
    chat.edit("a.py", "1", "2", "x = 1\n", structuredPatch=[hunk])
    (record,) = records(chat.imported())
    assert (record.after, record.after_in) == ("", "")


def test_a_change_in_between_that_nobody_recorded_is_named(chat):
    chat.edit("a.py", "1", "2", "x = 1\n")
    chat.edit("a.py", "3", "4", "x = 3\n")
    (patch,) = chat.imported().patch("t0..t2")
    assert patch.note.startswith("something that is not recorded changed it before @")
    assert "-x = 1\n+x = 4\n" in patch.patch


def test_git_applies_the_rename_of_a_file_whose_content_nobody_knows(chat, tmp_path):
    chat.call("Bash", {"command": "mv a.py b.py"}, {"stdout": ""})
    shown = chat.imported()
    fill(tmp_path / "copy", {"a.py": b"unknown\n"})
    apply(tmp_path / "copy", shown.patch("t1"))
    assert tree(tmp_path / "copy") == {"b.py": b"unknown\n"}


def test_a_renamed_file_that_replaces_another_is_a_change_of_that_one(chat, tmp_path):
    chat.write("a.py", "new\n")
    chat.write("b.py", "old\n")
    chat.call("Bash", {"command": "mv a.py b.py"}, {"stdout": ""})
    shown = chat.imported()
    fill(tmp_path / "copy", {"a.py": b"new\n", "b.py": b"old\n"})
    apply(tmp_path / "copy", shown.patch("t3"))
    assert tree(tmp_path / "copy") == {"b.py": b"new\n"}


def test_a_file_that_comes_after_an_unknown_one_went_is_not_called_new(chat):
    chat.call("Bash", {"command": "mv a.py b.py"}, {"stdout": ""})
    chat.edit("b.py", "x", "y", before=None)
    chat.write("a.py", "new\n")
    found = {patch.path: patch for patch in chat.imported().patch("t0..t3")}
    assert (found["a.py"].change, found["a.py"].patch) == ("changed", "")
    assert (found["b.py"].change, found["b.py"].from_path) == ("renamed", "a.py")


def test_the_hunks_of_one_edit_have_counts(chat):
    chat.edit("a.py", "1", "2", "x = 1\ny\n")
    shown = chat.imported()
    (outcome,) = [commit for commit in shown.log() if commit.kind == "outcome"]
    found = hunks_of(chat.store.port, shown.id, outcome.seq, "a.py")
    assert found is not None
    assert (found.added, found.removed, list(texts_of(found.places))) == (
        1,
        1,
        ["-x = 1\n+x = 2\n y\n"],
    )


def test_a_file_of_an_imported_session_is_restored(chat, store, tmp_path):
    (tmp_path / "a.py").write_text("x = 2\n")
    (tmp_path / "a.py").chmod(0o755)
    chat.edit("a.py", "1", "2", "x = 1\n")
    act = store.contribute(chat.imported().id)
    planned = act.restore("a.py", at="t0")
    assert [one.action for one in planned.files] == ["write"]
    assert (tmp_path / "a.py").read_text() == "x = 2\n"
    act.restore("a.py", at="t0", apply=True)
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    assert (tmp_path / "a.py").stat().st_mode & 0o777 == 0o755


def test_a_content_that_is_worked_out_from_changed_places_is_restored(chat, store, tmp_path):
    (tmp_path / "a.py").write_text("x = 3\n")
    chat.write("a.py", "x = 1\n")
    chat.edit("a.py", "1", "2", None)
    chat.edit("a.py", "2", "3", None)
    act = store.contribute(chat.imported().id)
    act.restore("a.py", at="t2", apply=True)
    assert (tmp_path / "a.py").read_text() == "x = 2\n"
    assert view(store).contents("a.py").data == b"x = 2\n"


def test_a_file_whose_content_is_not_known_is_not_restored(chat, store):
    chat.edit("a.py", "1", "2", None)
    act = store.contribute(chat.imported().id)
    (found,) = act.restore("a.py", at="t1").files
    assert (found.action, found.reason) == (
        "not kept",
        "only the changed places are known, not the rest of the file",
    )


NAMES = st.sampled_from(["a.txt", "b.txt"])
TEXTS = st.lists(st.sampled_from("abc\n"), max_size=30).map("".join)


@given(st.lists(st.tuples(NAMES, TEXTS), min_size=1, max_size=6))
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_git_applies_the_patch_of_every_turn_of_random_writes(tmp_path_factory, writes):
    folder = tmp_path_factory.mktemp("w")
    chat = Chat(folder, testing.memory_store(project="shop", root=str(folder)))
    now: dict[str, str] = {}
    states = [dict(now)]
    for name, text in writes:
        chat.write(name, text, now.get(name))
        now[name] = text
        states.append(dict(now))
    shown = chat.imported()
    for n, (before, after) in enumerate(pairwise(states), 1):
        work = folder / f"work{n}"
        work.mkdir()
        fill(work, {name: text.encode() for name, text in before.items()})
        apply(work, shown.patch(f"t{n}"))
        assert tree(work) == {name: text.encode() for name, text in after.items()}


def test_erasing_a_file_takes_its_changed_places_too(chat, store):
    chat.edit("a.py", "something = 1", "something = 2", None)
    shown = chat.imported()
    store.erase(store.erasing(shown.id, path="a.py"))
    (kept,) = kept_commits(view(store))
    assert kept.known("input", "gone") == "gone"


def test_contents_are_not_added_to_what_an_earlier_release_recorded(chat, store, monkeypatch):
    chat.write("a.py", "1\n")
    with monkeypatch.context() as earlier:
        earlier.setattr(TouchContents, "input", {})
        before = [commit.id for commit in chat.imported().log()]
    lose_notes(store)
    chat.write("b.py", "2\n")
    after = chat.imported()
    assert [commit.id for commit in after.log()][: len(before)] == before
    assert [list(commit.value("input")["contents"]) for commit in kept_commits(after)] == [
        [digest_of("2\n")]
    ]


@pytest.fixture
def away(chat):
    """An agent that worked in another folder: a turn below `lib/web`, and one elsewhere in the same repository."""
    chat.cwd = chat.file.cwd = "/home/dev/away"
    chat.write("lib/web/a.py", "a\n")
    chat.write("test/b.py", "b\n")
    return chat


def imported_here(chat):
    """The session in the project of this folder, which is not the agent's."""
    import_files(chat.store, chat.file.path)
    return view(chat.store)


def paths_in(patches):
    return [line[6:] for line in text_of(patches).splitlines() if line.startswith("+++ b/")]


def test_patches_of_every_turn_are_relative_to_the_same_folder(away):
    shown = imported_here(away)
    assert paths_in(shown.patch("t1")) == ["lib/web/a.py"]
    assert paths_in(shown.patch("t2")) == ["test/b.py"]


def test_patches_are_relative_to_the_repository_that_was_committed_to(away):
    away.cwd = "/home/dev"
    away.write("notes/plan.md", "plan\n")
    away.file.prompt("commit it")
    away.file.says("msg_9", ("toolu_9", "Bash", {"command": "git commit -am first"}))
    made = "[main 1234567] first\n 1 file changed\n create mode 100644 lib/web/a.py\n"
    away.file.result("toolu_9", made, toolUseResult={"stdout": made, "stderr": ""})
    shown = imported_here(away)
    assert paths_in(shown.patch("t0..t3")) == ["lib/web/a.py", "test/b.py"]
    assert "# /home/dev/notes/plan.md: outside /home/dev/away" in text_of(shown.patch("t0..t3"))
