"""Every command names sessions, positions and ranges in the same way."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from stator.surfaces.cli import other_names, registry
from stator.surfaces.cli.commands import load
from stator.surfaces.cli.flag_meanings import MEANINGS
from stator.surfaces.cli.old_spellings import OLD, current
from stator.surfaces.cli.parser import app
from stator.surfaces.cli.plain_words import Signature
from stator.surfaces.cli.registry import COMMANDS
from stator.surfaces.cli.render import times

SPELLINGS = [["fix-login:t2"], ["fix-login", "t2"], ["t2", "-s", "fix-login"], ["fix", "t2"]]


@pytest.fixture
def two(store, world):
    """The recorded session, and a later one, which is the last."""
    with world.open(store) as opened, opened.open("add-cart") as s:
        for prompt in ("add a cart", "empty it"):
            with s.turn(prompt) as t:
                t.file("cart.py", "modified")
    return store


@pytest.mark.parametrize("words", SPELLINGS, ids=" ".join)
@pytest.mark.parametrize(
    "command", ["log", "show", "diff", "state", "files", "decisions", "calls", "evicted", "reflog"]
)
def test_a_turn_of_a_session_is_named_in_one_way_by_every_question(command, words, two, ask):
    answer, wanted = ask(command, *words), ask(command, "fix-login:t2")
    assert (answer.code, answer.out) == (0, wanted.out)


def test_a_turn_without_a_session_is_one_of_the_last_session(two, ask):
    for command in ("log", "diff", "files"):
        assert ask(command, "t1").lines[0].startswith("add-cart ")


def test_a_turn_and_a_range_narrow_what_is_listed(store, ask):
    def listed(*words, key):
        return [json.loads(line)[key] for line in ask(*words, "--json").lines]

    assert listed("files", "t1", key="path") == ["auth.py"]
    assert listed("files", "t1..t3", key="path") == ["cookies.py"]
    assert listed("calls", "t2", key="tool") == ["run_tests"]
    assert listed("calls", "t1..t3", key="tool") == ["pay", "run_tests"]
    assert listed("decisions", "t2", "--all", key="turn") == [2]


def test_diff_takes_two_positions_of_a_session_that_is_named_first(two, ask):
    assert ask("diff", "fix-login", "t1", "t3").out == ask("diff", "fix-login:t1..t3").out
    assert ask("diff", "fix-login:t1", "fix-login:t3").code == 0
    assert ask("diff", "fix-login", "t1", "t2", "t3").code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["log", "t1", "t2"], "a range is t1..t2"),
        (["log", "fix-login", "t1", "t2"], "unexpected argument 't2'"),
        (["files", "t1", "fix-login"], "name a session, then a turn or a range"),
        (["state", "t1..t2"], "t1..t2 shows what changed"),
        (["brief", "t2"], "--after t2"),
        (["tree", "t2"], "stator log t2"),
        (["rewind"], "stator rewind t3"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_words_that_name_nothing_are_answered_with_those_that_do(words, told, store, ask):
    answer = ask(*words)
    assert answer.code == 2
    assert told in answer.err


def test_a_retry_is_named_as_a_turn_of_its_original(store, ask):
    made = json.loads(ask("retry", "t2", "--json").out)
    assert made["name"] == "fix-login~t2.2"
    assert ask("log", "fix-login:t1").code == 0
    assert ask("log", "fix-login", "t2.1").out == ask("log", "-s", "fix-login", "t2").out


# -- options --------------------------------------------------------------------------------------


def options():
    """Every option that a command takes, with the commands that take it: their help, and the kind of its value."""
    found: defaultdict[str, dict[str, tuple[str | None, str]]] = defaultdict(dict)
    made = app()
    for name in COMMANDS:
        known = made[name].assemble_argument_collection(parse_docstring=True)
        helps = {option: one.parameter.help for one in known for option in one.names}
        for option, one in Signature(load(name)).options.items():
            kind = "flag" if one.is_flag else "list" if one.is_texts else "value"
            found[option][name] = (helps[option], kind)
    return found


def test_an_option_that_several_commands_take_has_one_meaning():
    shared = {option: uses for option, uses in options().items() if len(uses) > 1}
    unlisted = set(shared) - set(MEANINGS) - {"--sessions"}
    assert not unlisted, "list its meaning in flag_meanings, or give it another name"
    for option, uses in shared.items():
        for command, (told, _) in uses.items():
            assert told.startswith(MEANINGS[option]), f"{command} {option} means something else"
        kinds = {kind for _, kind in uses.values()}
        assert len(kinds) == 1, f"{option} takes {kinds}"


def test_the_table_of_meanings_lists_no_option_that_is_not_there():
    assert set(MEANINGS) <= set(options()) | {"--sessions"}


def test_no_old_spelling_is_a_spelling_of_now():
    known = options()
    for command, rows in OLD.items():
        for old, new in rows.items():
            assert all(command in known[option] for option in new.split())
            if " " not in old:
                assert command not in known[old], f"{command} {old} is in use"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("gc --apply", "gc --yes"),
        ("gc --yes --apply", "gc --force --yes"),
        ("pause x --reason=done", "pause x --why=done"),
        ("brief --for codex", "brief --as codex"),
        ("run --again r1 -- prog --again", "run --repeat r1 -- prog --again"),
        ("log --all", "log --all"),
    ],
)
def test_old_spellings_are_read_as_those_of_now(typed, meant):
    assert current(shlex.split(typed)) == shlex.split(meant)


def test_what_cannot_be_undone_is_shown_first_and_asked_on_a_terminal(store):
    before = store.read_bytes()
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "stator.surfaces.cli.main", "erase", "@3", "--no-pager"]
    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "NO_COLOR": "1"},
    ) as running:
        os.close(theirs)
        os.write(ours, b"n\n")
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the terminal is closed when the program has ended
                break
            if not part:
                break
            shown += part
    os.close(ours)
    assert "would erase" in shown.decode()
    assert "for ever? [y/N]" in shown.decode()
    assert running.returncode == 0
    assert store.read_bytes() == before


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("log --lmit 3", "stator log has no option --lmit (did you mean: stator log --limit 3)"),
        ("log --lmit=3", "(did you mean: stator log --limit=3)"),
        ("log --zzzzzz", "stator log has no option --zzzzzz (stator log --help)"),
        ("ls json", "unexpected argument 'json' (did you mean: stator ls --json)"),
        ("ls extra", "unexpected argument 'extra' (one session: stator show extra)"),
        ("log -n", "-n needs a value (for example: stator log "),
        ("why", "THING is missing (for example: stator why src/auth.py)"),
        ("log --full --full", "--full is given twice (give it once)"),
        ("sql --seconds x", "is not a number"),
        ("files --week", "(did you mean: stator files --since 7d)"),
        ("log -v", "(did you mean: stator log --full)"),
        ("search jwt --global", "(did you mean: stator search jwt --everywhere)"),
        ("diff --since 2d", "stator diff has no option --since (stator diff --help)"),
        ("status -s fix-login", "(one session: stator show fix-login)"),
        ("lgo t2 --json", "unknown command 'lgo' (did you mean: stator log t2 --json)"),
    ],
)
def test_a_mistake_is_answered_with_the_command_that_would_be_right(typed, told, store, ask):
    answer = ask(*shlex.split(typed))
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err
    assert len(answer.err.splitlines()) == 1


# -- words that name no command -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("history t2", "(that is: stator log t2)"),
        ("spend --by model", "(that is: stator cost --by model)"),
        ("grep jwt", "(that is: stator search jwt)"),
        ("failed", "(that is: stator calls --failed)"),
        ("stauts", "(did you mean: stator status)"),
        ("serach jwt", "(did you mean: stator search jwt)"),
        ("xyzzy", "(stator --help lists all commands)"),
    ],
)
def test_a_word_that_names_no_command_is_answered_with_the_right_one(typed, told, ask):
    answer = ask(*shlex.split(typed))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.rstrip().endswith(told)


def test_a_word_that_may_mean_several_commands_names_them(ask):
    lines = ask("undo").err.splitlines()
    assert lines[0] == "stator: unknown command 'undo':"
    assert [line.split()[:2] for line in lines[1:]] == [["stator", "rewind"], ["stator", "restore"]]


def test_every_other_name_stands_for_a_command_and_is_none():
    for name, meant in other_names.OTHER_NAMES.items():
        assert name not in registry.COMMANDS
        assert meant.split()[0] in registry.COMMANDS or meant == "--version"
    for name, several in other_names.SEVERAL.items():
        assert name not in registry.COMMANDS
        assert set(several) <= set(registry.COMMANDS)


# -- times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "day"),
    [
        ("today", "2026-11-18"),
        ("yesterday", "2026-11-17"),
        ("monday", "2026-11-16"),
        ("Wednesday", "2026-11-18"),
        ("thursday", "2026-11-12"),
    ],
)
def test_a_day_can_be_named_as_people_name_it(word, day):
    wednesday = 1_795_032_000_000_000  # 2026-11-18 20:00, in UTC
    assert times.parse_since(word, wednesday) == times.parse_since(day, wednesday)


# -- what is named twice, or for the wrong command ------------------------------------------------


@pytest.mark.parametrize("typed", ["log fix-login:t1 -s short", "tag here fix-login:t1 -s short"])
def test_two_sessions_in_one_command_are_a_mistake(typed, store, world, ask):
    with world.open(store) as opened:
        opened.open("short").pause()
    answer = ask(*typed.split())
    assert answer.code == 2
    assert "two sessions are named: 'fix-login' and 'short'" in answer.err


def test_an_option_takes_a_position_with_its_session(store, ask):
    assert ask("log", "-s", "fix-login:t1").out == ask("log", "fix-login:t1").out


@pytest.mark.parametrize("typed", ["resume fix-login ls", "retry fix-login:t1 touch ran"])
def test_a_program_runs_only_after_two_hyphens(typed, store, ask, tmp_path):
    answer = ask(*typed.split())
    assert answer.code == 2
    command, named, *program = typed.split()
    assert f"stator {command} {named} -- {' '.join(program)}" in answer.err
    assert not Path("ran").exists()


def test_a_turn_to_retry_may_be_named_after_its_session(store, ask):
    assert "fix-login" in ask("retry", "fix-login", "t1").out


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("why fix-login auth.py", "stator why auth.py -s fix-login"),
        ("blame fix-login auth.py", "stator blame auth.py -s fix-login"),
        ("du fix-login", "stator du -s fix-login"),
        ("recap -s fix-login", "stator recap fix-login"),
        ("--json", "stator status --json"),
        ("-s fix-login ls", "stator ls -s fix-login"),
        ("--verison", "stator --version"),
        ("log -n", "stator log fix-login -n 20"),
        ("log --since", "stator log --since TIME"),
        ("ls --sort tokens", "stator sql"),
        ("facts", "stator state --project"),
    ],
)
def test_a_mistake_is_answered_with_the_command_that_is_right(typed, right, store, ask):
    answer = ask(*typed.split())
    assert answer.code == 2
    assert right in answer.err


def test_words_that_are_no_text_are_refused_and_not_the_stores_fault(store, ask):
    answer = ask("log", "\udcff\udcfe")
    assert answer.code == 3
    assert "is not valid UTF-8" in answer.err
    assert "doctor" not in answer.err


def test_an_error_says_no_path_into_a_programs_arguments(store, ask):
    answer = ask("budget", "fix-login", "0.0000001usd")
    assert answer.code == 2
    assert "$." not in answer.err


# -- words that people try ------------------------------------------------------------------------


def test_two_sessions_are_compared_as_they_are_now(two, ask):
    named, placed = (
        ask("diff", "fix-login", "add-cart"),
        ask("diff", "fix-login:head", "add-cart:head"),
    )
    assert named.lines[:-1] == placed.lines[:-1]
    assert named.lines[-1] == "the lines: stator diff fix-login add-cart -p"


def test_a_retry_is_compared_with_its_original_at_the_turn_that_it_tried_again(store, world, ask):
    with world.open(store) as opened, opened.open("rename") as s:
        with s.turn("rename it") as t:
            t.decide("keep an alias", topic="names")
        with s.retry("t1") as t:
            t.decide("no alias", topic="names")
            again = t.session.name
    assert ask("diff", "rename", again).lines[2:] == ask("diff", "rename", "t1", "t1.2").lines[2:]
    assert "keep an alias" in ask("diff", "rename", again).out


def test_a_file_of_a_session_is_named_after_it(store, ask):
    assert (
        ask("files", "fix-login", "auth.py").out == ask("files", "auth.py", "-s", "fix-login").out
    )
    answer = ask("files", "fix-login", "t1", "auth.py")
    assert answer.code == 2
    assert "stator diff s_" in answer.err


def test_a_topic_is_found_in_the_reasons_of_decisions_and_anywhere(two, world, ask):
    with world.open(two) as opened, opened.open("cart", project="elsewhere") as s, s.turn("x") as t:
        t.decide("round once", topic="rounding", why="each line drifts by some cents")
    answer = ask("decisions", "cents")
    assert answer.code == 3
    assert "no decision in" in answer.err
    assert "add --everywhere" in answer.err
    assert "rounding: round once" in ask("decisions", "cents", "--everywhere").out
    assert "rounding: round once" in ask("decisions", "drifts", "-s", "cart").out


def test_a_part_of_a_name_begins_where_a_word_of_it_does(two, world, ask):
    with world.open(two) as opened, opened.open("the fastest cart"):
        pass
    assert ask("show", "test").code == 3
    assert ask("show", "fastest").lines[0].startswith("the fastest cart")


def test_a_tag_of_another_session_is_named_with_it(two, ask):
    ask("tag", "good", "fix-login:t1")
    answer = ask("show", "good")
    assert answer.code == 3
    assert "fix-login has such a tag: s_" in answer.err


def test_a_tag_that_moves_says_where_it_was(store, ask):
    first = ask("tag", "good", "t1").out
    assert "before" not in first
    again = ask("tag", "good", "t2").out
    assert f"it was at {first.split('→ ')[1].split(' of ')[0]} before" in again
    assert "before" not in ask("tag", "good", "t2").out


@pytest.mark.parametrize(("typed", "kind"), [("prompt", "turn"), ("answers", "entry")])
def test_kinds_of_commits_are_asked_for_by_the_words_of_people(typed, kind, store, ask):
    assert ask("log", "--kind", typed).out == ask("log", "--kind", kind).out


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("ls fix-login", "stator show fix-login"),
        ("ls --csv", "stator sql"),
        ("state -c unverified", "stator state --project --collection unverified"),
    ],
)
def test_what_another_command_answers_is_named(typed, right, store, ask):
    answer = ask(*typed.split())
    assert answer.code == 2
    assert right in answer.err


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("why money fix-login", "stator why money -s fix-login"),
        ("why fix-login auth.py", "stator why auth.py -s fix-login"),
        ("tag here fix-login t1", "stator tag here fix-login:t1"),
        ("erase fix-login @6", "stator erase fix-login:@6"),
        ("rm fix-login", "stator erase --everything -s fix-login"),
        ("log -5", "-n 5"),
        ("hold -s fix-login", "stator hold fix-login"),
        ("-v", "stator --version"),
    ],
)
def test_the_command_that_is_right_names_what_was_typed_in_its_place(typed, right, store, ask):
    answer = ask(*typed.split())
    assert answer.code == 2
    assert right in answer.err


def test_an_option_that_takes_a_value_is_no_slip_for_one_that_does_not(store, ask):
    assert "did you mean" not in ask("log", "--reason", "x").err


def test_a_search_of_a_turn_finds_only_what_is_in_it(store, ask):
    def turns(*words):
        return [json.loads(line)["turn"] for line in ask("search", *words, "--json").lines]

    whole = turns("auth*", "-s", "fix-login")
    assert len(set(whole)) > 1
    assert turns("auth*", "-s", "fix-login:t2") == [turn for turn in whole if turn == 2]


@pytest.mark.parametrize("command", ["why auth", "blame auth.py"])
def test_a_question_about_a_whole_session_refuses_a_part_of_one(command, store, ask):
    answer = ask(*command.split(), "-s", "fix-login:t1")
    assert answer.code == 2
    assert "name only the session" in answer.err


@pytest.mark.parametrize("command", ["log", "files", "calls", "decisions", "evicted"])
def test_a_range_that_ends_before_it_begins_is_a_mistake(command, store, ask):
    answer = ask(command, "fix-login", "t2..t1")
    assert answer.code == 2
    assert "t1..t2" in answer.err


def test_up_to_the_head_is_the_whole_session(store, ask):
    assert ask("decisions", "fix-login", "head").out == ask("decisions", "fix-login").out


def test_a_cut_that_was_asked_for_is_said_beside_the_json(store, ask):
    answer = ask("calls", "--json", "-n", "1")
    assert len(answer.lines) == 1
    assert "-n 2" in answer.err
    assert ask("calls", "--json", "-n", "100").err == ""


def test_a_key_is_written_as_briefs_write_it_or_as_lists_do(store, ask):
    assert (
        ask("erase", "--record", "decision:auth").out
        == ask("erase", "--record", "decisions:auth").out
    )
    assert ask("forget", "decision:auth").code == 0


def test_a_range_is_shown_by_log(store, ask):
    answer = ask("show", "fix-login", "t1..t2")
    assert answer.code == 2
    assert "stator log s_" in answer.err


def test_a_log_of_all_turns_does_not_speak_of_more_of_them(store, ask):
    whole = ask("log", "fix-login", "-n", "1000").out
    assert "… more" not in whole
    for most in range(1, 30):
        cut = [line for line in ask("log", "fix-login", "-n", str(most)).lines if "… more" in line]
        turns = sum(line.startswith("t") for line in whole.splitlines())
        shown = sum(line.startswith("t") for line in ask("log", "fix-login", "-n", str(most)).lines)
        assert not cut or ("more turns" in cut[0]) == (shown < turns)


def test_a_query_with_as_many_rows_as_were_asked_for_was_not_stopped(store, ask):
    assert "stopped" not in ask("sql", "SELECT 1", "-n", "1").err
    assert "stopped after 1 rows" in ask("sql", "SELECT 1 UNION SELECT 2", "-n", "1").err


def test_a_tree_that_is_cut_names_the_turn_that_was_tried_again(store, world, ask):
    with world.open(store) as opened, opened.open("rename") as s, s.turn("rename it"):
        pass
    with world.open(store) as opened, opened.open("rename") as s, s.retry("t1") as t:
        again = t.session.name
    with world.open(store) as opened, opened.open(again) as s, s.turn("go on"):
        pass
    assert "retry of t1" in ask("tree", "-n", "1").out


def test_a_tag_where_a_turn_ends_names_that_turn_in_every_list(store, ask):
    ask("tag", "good", "fix-login:t2")
    for command in ("log", "files", "calls", "decisions"):
        assert (
            ask(command, "fix-login", "good").lines[1:] == ask(command, "fix-login", "t2").lines[1:]
        )


def test_a_tag_cannot_have_the_name_of_a_session(store, ask):
    answer = ask("tag", "fix-login")
    assert answer.code == 2
    assert "is the name of a session" in answer.err


def test_a_closed_session_is_opened_again_from_a_shell(store, ask):
    assert ask("close", "fix-login").code == 0
    assert "stator resume fix-login --reopen" in ask("resume", "fix-login").out
    refused = ask("rewind", "fix-login:t1", "--yes")
    assert "--reopen" in refused.err
    assert ask("resume", "fix-login", "--reopen").code == 0
    assert ask("rewind", "fix-login:t1", "--yes").code == 0


@pytest.mark.parametrize(
    ("typed", "right"),
    [("ls --sub-agents", "stator tree"), ("ls --min-tokens 5 --csv", "stator sql")],
)
def test_an_option_that_no_command_has_leads_to_what_answers(typed, right, store, ask):
    answer = ask(*typed.split())
    assert answer.code == 2
    assert right in answer.err


def test_what_an_archived_session_does_not_take_leads_to_a_fork_and_no_further(store, ask):
    assert ask("close", "fix-login").code == 0
    assert ask("archive", "fix-login").code == 0
    refused = ask("rewind", "fix-login:t1", "--yes")
    assert "stator fork s_" in refused.err
    assert "--reopen" not in refused.err
    assert ask("fork", "fix-login").code == 0
