"""The parts of a text that carry most are chosen, nothing is said twice, and the room is never exceeded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.model.brief.condense import (
    GAP,
    Choice,
    SourceText,
    _terms,
    chosen,
    condensed,
    joined,
    leads_in,
    terms,
    units_of,
    weighed,
)

LONG = st.text(st.sampled_from("ab .,\n-*#`|1X_/é—"), max_size=2000)


@given(LONG, st.integers(0, 400))
def test_a_condensed_text_takes_no_more_than_its_room(text, room):
    assert len(condensed(text, room)) <= max(room, 1) + 2 * len(GAP)


@given(LONG, st.integers(1, 400))
def test_the_same_text_is_condensed_to_the_same_words(text, room):
    assert condensed(text, room) == condensed(text, room)


def test_a_text_that_fits_stays_as_it_is():
    assert condensed("fix the  login\nand test it", 100) == "fix the login and test it"


def test_headings_lists_and_sentences_are_units_and_code_is_none():
    text = "## Next\n- run `make test`\n- push it to origin\n\n```\nsecret = 1\n```\nIt works now. All 12 tests pass."
    units = units_of(text)
    assert [unit.text for unit in units] == [
        "run make test",
        "push it to origin",
        "It works now.",
        "All 12 tests pass.",
    ]
    assert {unit.heading for unit in units} == {"Next"}


def test_what_announces_something_is_no_unit_without_it():
    text = "The flags are:\n- show_code\n- show_badges too\n\nRun it so:\n```sh\nmake all\n```\n"
    assert [unit.text for unit in units_of(text)] == [
        "The flags are: show_code",
        "show_badges too",
        "Run it so: make all",
    ]


def test_the_marks_of_a_quotation_and_lines_of_data_are_no_words():
    data = '{"type": "message", "content": "' + "x" * 200 + '"}'
    text = f"> ## Limits\n> - never push to main\n\n{data}\n"
    assert [(u.heading, u.text) for u in units_of(text)] == [("Limits", "never push to main")]


def test_what_was_said_already_is_not_chosen_again():
    same = [
        weighed(SourceText(units=units_of("The parser in parse.py drops the header line.")))
        for _ in range(2)
    ]
    first, second = chosen(same, 500)
    assert len(first) + len(second) == 1


def test_what_an_older_text_calls_open_gives_way_to_what_it_found():
    text = "Next steps: rename config.yml to settings.yml. The cache in store.py was never cleared."
    (units,) = chosen([weighed(SourceText(units=units_of(text), newest=False))], 60)
    assert [unit.text for unit in units] == ["The cache in store.py was never cleared."]


def test_left_out_parts_are_marked():
    units = units_of("One thing is here. Another thing is there. A third thing is gone.")
    assert joined(units[:1], units) == "One thing is here. …"
    assert joined([units[0], units[2]], units) == "One thing is here. … A third thing is gone."


@pytest.mark.parametrize(
    ("long", "short"), [("src/app/auth.py", "auth.py"), ("src/app/auth.py:12", "auth.py")]
)
def test_a_path_is_known_by_its_last_part(long, short):
    assert terms(short).keys() <= terms(long).keys()


def test_a_sentence_that_only_announces_what_follows_is_known():
    assert leads_in("We'll modify the file incrementally:")
    assert leads_in("Now let me look at the tests")
    assert leads_in("Great! I need to read app.js first.")
    assert not leads_in("The parser drops the last row because the loop ends early.")


def test_a_sentence_that_points_back_is_not_put_after_another_one():
    text = (
        "- The DSL refused :state with Spark error 12.\n"
        "- Pages were empty. Fixed by Sandbox.mode(Repo, {:shared, self()}) instead of Sandbox.checkout.\n"
    )
    units = units_of(text)
    (found,) = chosen([weighed(SourceText(units=units))], 165)
    assert "Fixed by" in units[-1].text
    assert units[-1] not in found or units[-2] in found


@given(
    st.lists(LONG, max_size=4), st.lists(st.integers(0, 400), min_size=1, max_size=4), LONG, LONG
)
def test_what_is_chosen_does_not_depend_on_what_was_chosen_before(texts, rooms, asked, said):
    passages = [weighed(SourceText(units=units_of(text))) for text in texts]
    wanted, known = set(terms(asked)), set(terms(said))
    choice = Choice(passages, wanted, known)
    for room in rooms:
        fresh = chosen(passages, room, wanted=wanted, known=known, least=0.02, worth=1.5)
        assert choice.best(room, least=0.02, worth=1.5) == fresh


@given(LONG)
def test_the_terms_of_a_text_are_the_same_each_time(text):
    assert list(terms(text).items()) == list(terms("".join(text)).items())
    assert list(terms(text).items()) == list(_terms(text).items())
