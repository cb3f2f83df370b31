"""Resolving positions in a log and names of sessions."""

from __future__ import annotations

import pytest

from stator.errors import Ambiguous, BadPosition, NotFound


@pytest.fixture
def session(memory):
    with memory.open("a") as opened:
        for number in (1, 2, 3):
            with opened.turn(f"turn {number}") as t:
                t.fact("n", number)
        yield opened


def test_head_is_the_last_commit_and_head_minus_n_counts_commits(session):
    head = session.head.seq
    assert session.at("head").seq == head
    assert session.at("head~3").seq == head - 3
    assert session.at(f"head~{head}").seq == 0
    with pytest.raises(NotFound):
        session.at(f"head~{head + 1}")


def test_a_turn_resolves_to_its_last_commit(session):
    rows = {row.turn: row for row in session.turns()}
    assert session.at("t2").seq == rows[2].last
    assert session.at("t-1").seq == rows[3].last
    assert session.at("t-3").seq == rows[1].last


def test_t0_is_before_the_first_commit(session):
    assert session.at("t0").seq == 0
    assert session.state("t0", collections=["session"])["session"] == {}


@pytest.mark.parametrize("ref", ["t4", "t-4", "@999", "abcdef123456"])
def test_a_position_beyond_the_log_is_not_found(session, ref):
    with pytest.raises(NotFound):
        session.at(ref)


def test_a_seq_resolves_to_itself(session):
    assert session.at("@5").seq == 5
    assert session.at("@0").seq == 0


def test_a_commit_is_found_by_the_start_of_its_hash_and_the_end_of_its_id(session):
    commit = session.commit("@4")
    for text in (commit.hash, commit.hash[:12], commit.id, commit.id[-12:]):
        assert session.at(text).seq == 4


def test_a_tag_names_a_position_even_if_it_looks_like_a_hash(session):
    session.tag("release", "t1")
    session.tag("abcdef", "t2")
    assert session.commit("release").turn == 1
    assert session.at("abcdef").seq == session.at("t2").seq


def test_the_error_of_an_unknown_tag_gives_examples(session):
    with pytest.raises(BadPosition, match=r"t4\.\.t5"):
        session.at("nightly")


def test_a_ref_can_point_into_another_session(memory, session):
    with memory.open("b") as other:
        other.turn("one").end()
        assert other.at("a:t2").session == session.id
        assert other.at(f"{session.id}:head").seq == session.head.seq
        assert other.at("a:").seq == session.head.seq


# -- sessions -----------------------------------------------------------------------------------------


def test_a_session_is_found_by_name_id_and_id_suffix(memory, session):
    for text in ("a", session.id, session.id[-8:], f"s_{session.id[-8:]}"):
        assert memory.read(text).id == session.id


def test_last_is_the_most_recently_used_session_of_the_project(memory, session):
    memory.open("b").pause()
    memory.open("c", project="other").pause()
    assert memory.read("last").name == "b"
    session.turn("more").end()
    assert memory.read("last").name == "a"


def test_last_in_a_store_without_sessions_is_not_found(memory):
    with pytest.raises(NotFound, match="no sessions"):
        memory.read("last")


def test_a_name_in_this_project_takes_precedence_over_other_projects(memory, session):
    memory.open("a", project="other").pause()
    assert memory.read("a").id == session.id


def test_a_name_that_only_another_project_has_is_found_there(memory):
    memory.open("x", project="other").pause()
    assert memory.read("x").record.project == "other"


def test_a_name_that_several_other_projects_have_is_ambiguous(memory):
    for project in ("one", "two"):
        memory.open("x", project=project).pause()
    with pytest.raises(Ambiguous) as caught:
        memory.read("x")
    assert len(caught.value.candidates) == 2
