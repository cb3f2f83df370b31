"""Whose line it is: against an oracle that follows every line through random edits."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stator.model.exchange.hunks import Swap, from_unified
from stator.model.exchange.items import digest_of
from stator.model.views.blame import (
    BEFORE,
    BETWEEN,
    SINCE,
    UNKNOWN,
    FileEvent,
    blame,
)
from stator.model.views.patch import FileSide, file_patch


@st.composite
def histories(draw, unique=True):
    """Versions of a file as lists of (line, author), and how each came to be: by a write or unrecorded."""
    fresh = iter(range(10**6))

    def line():
        n = next(fresh)
        return f"line {n}\n" if unique else draw(st.sampled_from(["a\n", "b\n", "\n"]))

    now: list[tuple[str, object]] = [(line(), BEFORE) for _ in range(draw(st.integers(0, 6)))]
    versions: list[tuple[int | None, list[tuple[str, object]]]] = [(None, now)]
    for n in range(draw(st.integers(1, 6))):
        recorded = draw(st.booleans())
        author = n if recorded else "unrecorded"
        for _ in range(draw(st.integers(1, 3))):
            at = draw(st.integers(0, len(now)))
            gone = draw(st.integers(0, 2))
            came = [(line(), author) for _ in range(draw(st.integers(0, 3)))]
            now = now[:at] + came + now[at + gone :]
        versions.append((n if recorded else None, now))
    return versions


def blamed(events, now):
    found = blame(events, now)
    assert found is not None
    return found


def text(version):
    return "".join(line for line, _ in version)


def events(versions, *, patches=False):
    made: list[FileEvent] = []
    for (_, before), (by, after) in pairwise(versions):
        if by is None:
            continue
        if patches:
            places = hunks(text(before), text(after))
            first = text(before) if not made else None
            same = text(after) if not places else None
            made.append(FileEvent(by=by, before=first, after=same, places=places))
        else:
            made.append(FileEvent(by=by, before=text(before), after=text(after)))
    return made


def hunks(before, after):
    made = file_patch("f", ".", FileSide("f", before.encode()), FileSide("f", after.encode()))
    return from_unified(made.patch) if made is not None else ()


def expected(versions):
    """The authors, with what is not recorded named by when it came."""
    recorded = [n for n, (by, _) in enumerate(versions) if by is not None]
    if not recorded:
        return [BEFORE] * len(versions[-1][1])
    came: dict[str, int] = {}
    for n, (_, version) in enumerate(versions):
        for line, author in version:
            if author == "unrecorded" and line not in came:
                first = n < recorded[0]
                came[line] = BEFORE if first else BETWEEN if n < recorded[-1] else SINCE
    return [came.get(line, author) for line, author in versions[-1][1]]


@given(histories())
def test_every_line_has_the_author_that_an_oracle_followed(versions):
    found = blamed(events(versions), text(versions[-1][1]))
    assert list(found.lines) == [line for line, _ in versions[-1][1]]
    assert list(found.by) == expected(versions)


@given(histories(unique=False))
def test_only_equal_lines_may_have_each_others_authors(versions):
    found = blamed(events(versions), text(versions[-1][1]))
    authors: dict[str, set[object]] = {}
    for _, version in versions:
        for line, author in version:
            authors.setdefault(line, set()).add(author)
    for line, by in zip(found.lines, found.by, strict=True):
        allowed = authors[line]
        unrecorded = {BETWEEN, SINCE, BEFORE} if "unrecorded" in allowed else {BEFORE}
        assert by in allowed | unrecorded


@given(histories())
def test_changed_places_name_the_same_authors_where_nothing_else_changed_the_file(versions):
    recorded = [versions[0], *(version for version in versions[1:] if version[0] is not None)]
    if recorded != versions:
        return
    found = blamed(events(versions, patches=True), text(versions[-1][1]))
    assert list(found.by) == expected(versions)


def test_a_write_whose_content_is_not_known_may_have_made_any_line():
    found = blamed([FileEvent(by=0), FileEvent(by=1, before="a\n", after="a\nb\n")], "a\nb\nc\n")
    assert found.by == (UNKNOWN, 1, SINCE)


def test_places_without_a_file_name_the_lines_they_show_and_no_others():
    places = hunks("x\nold\ny\n", "x\nnew\nmore\ny\n")
    found = blamed([FileEvent(by=3, places=places)], "head\nx\nnew\nmore\ny\nend\n")
    assert found.by == (UNKNOWN, UNKNOWN, 3, 3, UNKNOWN, UNKNOWN)


def test_a_replaced_text_names_the_lines_that_came_with_it():
    swap = Swap("def f():\n    return 1\n", "def f():\n    x = 2\n    return x\n")
    found = blamed([FileEvent(by=0, places=(swap,))], "def f():\n    x = 2\n    return x\n")
    assert found.by == (UNKNOWN, 0, 0)


def test_lines_of_a_new_file_are_all_of_the_write_that_created_it():
    assert blamed([FileEvent(by=4, is_new=True, after="a\nb")], None).by == (4, 4)


def test_what_was_there_before_a_file_was_deleted_is_not_in_the_next_one():
    events = [
        FileEvent(by=0, is_new=True, after="a\n"),
        FileEvent(by=1, is_gone=True),
        FileEvent(by=2, is_new=True, after="a\n"),
    ]
    assert blamed(events, "a\n").by == (2,)


def test_a_content_that_is_put_back_has_the_authors_it_had():
    events = [
        FileEvent(by=0, before="a\n", after="a\nb\n"),
        FileEvent(by=1, before="a\nb\n", after="c\n"),
        FileEvent(by=2, before="c\n", after="a\nb\n", puts_back=True),
    ]
    assert blamed(events, None).by == (BEFORE, 0)


def test_a_file_that_was_only_read_was_there_before():
    assert blamed([FileEvent(by=0, is_look=True, after="a\n")], "a\nb\n").by == (BEFORE, SINCE)


def test_without_any_record_nothing_is_claimed():
    assert blame([], None) is None
    assert blamed([], "a\n").by == (BEFORE,)


STEPS = st.lists(
    st.tuples(st.sampled_from(["t1", "t2"]), st.sampled_from(["a\n", "b\n", "a\nb\n"])), max_size=5
)


@given(STEPS, st.sampled_from(["a\n", "b\n", "a\nb\n"]), st.booleans())
def test_without_contents_lines_are_of_a_turn_only_if_it_wrote_the_file_alone(steps, now, gap):
    """Each step is the turn that wrote, and what it left; with a gap, something else changed the file in between."""
    left, made = "", []
    for by, (turn, text) in enumerate(steps):
        found = "another" if gap and by == len(steps) - 1 and by else left
        left = digest_of(text)
        made.append(
            FileEvent(by=by, turn=("s", int(turn[1])), is_new=not by, found=found, left=left)
        )
    found = blamed(made, now)
    alone = len({turn for turn, _ in steps}) == 1 and not (gap and len(steps) > 1)
    if alone and left == digest_of(now):
        assert set(found.by) == {len(steps) - 1}
    else:
        assert set(found.by) <= {UNKNOWN, BEFORE}
