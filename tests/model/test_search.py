"""The pure part of search: words of a text, parsing a query, and snippets."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.errors import BadQuery
from stator.model.values.tokenizer import (
    BETWEEN,
    WORD_MAX,
    folded,
    indexed,
    parts,
    places,
    words,
)
from stator.model.views.search import (
    SNIPPET,
    TEXT_MAX,
    Term,
    parse,
    snippet,
)
from strategies import any_text

# -- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Use JWT, not cookies!", ["use", "jwt", "not", "cookies"]),
        ("snake_case_name", ["snake", "case", "name"]),
        ("src/auth/login.py:42", ["src", "auth", "login", "py", "42"]),
        ("GitHub", ["github"]),
        ("naïve CAFÉ", ["naive", "cafe"]),
        ("cafe\u0301", ["cafe"]),
        ("straße", ["strasse"]),
        ("ＦＵＬＬ", ["full"]),
        ("日本語テスト", list("日本語テスト")),
        ("한국어 text", ["한", "국", "어", "text"]),
        ("ガギ", ["ガ", "ギ"]),
        ("カ\u3099キ\u3099", ["ガ", "ギ"]),
        ("\u1112\u1161\u11ab", ["한"]),
        ("a\x00b\ud800c", ["a", "b", "c"]),
        ("→ … ++", []),
    ],
)
def test_a_text_is_split_into_words(text, found):
    assert words(text) == found


def test_a_very_long_word_is_split_into_adjacent_words():
    assert words("x" * (WORD_MAX + 3)) == ["x" * WORD_MAX, "xxx"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("parseHttpRequest", ["parse", "http", "request"]),
        ("HTTPServer", ["http", "server"]),
        ("sha256Digest", ["sha256", "digest"]),
        ("plain", []),
        ("LOUD", []),
    ],
)
def test_capital_letters_divide_a_name(name, found):
    assert parts(name) == found


def test_the_parts_of_names_are_indexed_after_the_text():
    assert indexed(["call parseHttp now", "twice"]) == (
        f"call parsehttp now {BETWEEN} twice {BETWEEN} parse http"
    )


@given(any_text, any_text)
def test_every_word_of_a_text_is_indexed_as_valid_utf_8(one, other):
    made = indexed([one, other])
    made.encode()
    assert set(words(one) + words(other)) <= set(made.split(" "))


@given(any_text)
def test_every_offset_in_a_folded_text_maps_to_the_original_character(text):
    ends = list(accumulate(len(folded(char)) for char in text))
    found = places(text, range(len(folded(text))))
    assert found == [bisect_right(ends, place) for place in range(len(folded(text)))]


# -- queries --------------------------------------------------------------------------------------


def test_all_words_of_a_query_are_required():
    assert parse("jwt login") == ((Term(("jwt",)), Term(("login",))), ())


def test_quotes_make_a_phrase():
    assert parse('"Session Store"')[0] == (Term(("session", "store")),)


def test_a_phrase_needs_no_closing_quote():
    assert parse('"session store')[0] == (Term(("session", "store")),)


def test_typographic_quotes_are_quotes():
    assert parse("“session store”")[0] == (Term(("session", "store")),)


def test_a_star_makes_a_prefix():
    assert parse("auth*")[0] == (Term(("auth",), prefix=True),)


def test_a_minus_excludes_a_word_or_phrase():
    assert parse('jwt -cookie -"session store"')[1] == (
        Term(("cookie",)),
        Term(("session", "store")),
    )


def test_a_command_line_option_is_searched_for_and_not_excluded():
    assert parse("push --force-with-lease") == (
        (Term(("push",)), Term(("force", "with", "lease"))),
        (),
    )


def test_a_name_is_searched_for_whole_and_by_its_parts():
    assert parse("parseHttp")[0] == (Term(("parsehttp",), parts=("parse", "http")),)


def test_a_path_is_a_phrase_of_its_words():
    assert parse("src/auth.py")[0] == (Term(("src", "auth", "py")),)


@pytest.mark.parametrize(
    "text",
    ["", "   ", "***", '""', "\0", "-only -these", "→", "a*", "x " * TEXT_MAX, "NOT" * 400, 7],
)
def test_a_query_without_a_word_is_refused(text):
    with pytest.raises(BadQuery):
        parse(text)


@given(any_text)
def test_any_text_parses_as_a_query_or_is_refused(text):
    try:
        wanted, without = parse(text)
    except BadQuery:
        return
    for term in (*wanted, *without):
        assert all(word.isalnum() for word in (*term.words, *term.parts))


# -- snippets -------------------------------------------------------------------------------------


def shown(text, question):
    found = snippet([text], parse(question)[0])
    return found.text, [found.text[start:end] for start, end in found.matched]


def test_a_snippet_marks_what_matched():
    assert shown("Use JWT for the login", "login jwt") == (
        "Use JWT for the login",
        ["JWT", "login"],
    )


def test_a_snippet_is_one_line():
    assert shown("one\n\n\ttwo", "two")[0] == "one two"


def test_a_long_text_is_cut_around_the_match():
    text, matched = shown("begin " * 200 + "needle" + " end" * 200, "needle")
    assert matched == ["needle"]
    assert text.startswith("…")
    assert text.endswith("…")
    assert len(text) <= SNIPPET + 2


def test_a_snippet_shows_the_part_that_matches_most_words():
    text = "jwt " + "x " * 500 + "the login with jwt works"
    assert shown(text, "jwt login")[1] == ["login", "jwt"]


def test_a_word_typed_without_its_accent_marks_the_accented_word():
    assert shown("un café noir", "cafe")[1] == ["café"]


def test_letters_that_fold_to_several_do_not_shift_the_match():
    assert shown("ﬁﬁﬁ ½ straße: needle", "needle")[1] == ["needle"]


def test_a_part_of_a_name_is_marked_inside_it():
    assert shown("def parseHttpRequest():", "http")[1] == ["Http"]


def test_a_whole_word_is_marked_rather_than_part_of_another():
    assert shown("startle the art", "art")[1] == ["art"]


def test_characters_of_scripts_without_spaces_are_marked():
    assert shown("これは日本語です", "日本語")[1] == ["日本語"]


def test_a_match_of_decomposed_characters_is_marked_as_one():
    assert shown("\u1112\u1161\u11ab text", "한") == ("한 text", ["한"])


def test_a_snippet_joins_the_texts_of_a_record():
    assert (
        snippet(["auth", "use JWT", "no store"], parse("jwt")[0]).text
        == "auth · use JWT · no store"
    )


@given(st.lists(any_text, max_size=4), any_text)
def test_every_marked_range_lies_within_the_snippet(texts, question):
    try:
        terms, _ = parse(question)
    except BadQuery:
        return
    found = snippet(texts, terms)
    end = 0
    for low, high in found.matched:
        assert end <= low < high <= len(found.text)
        end = high
    assert "\n" not in found.text
