"""The rule that finds runs of checks: a pure, streaming function with a small state that can be kept."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stator.model.exchange.extraction_state import ExtractionState
from stator.model.extraction import checks
from stator.model.extraction.extractor import CALLS_MAX, Extractor
from stator.model.log.commit import Draft, Upsert
from stator.model.records.types import CheckRecord, PlanRecord
from stator.model.values.ids import derived, retype

SESSION = "s_" + "0" * 32
CHECKS = ("make test", "make lint", "pytest -q")
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("plan"), st.sampled_from(CHECKS), st.just("")),
        st.tuples(
            st.just("run"),
            st.sampled_from(CHECKS),
            st.sampled_from(["ok", "error", "timeout", "cancelled", "in doubt", "denied"]),
        ),
        st.tuples(st.just("both"), st.sampled_from(CHECKS), st.sampled_from(["ok", "error"])),
    ),
    max_size=30,
)


def plan(number: int, check: str) -> Draft:
    return Draft(
        id=derived("commit", "plan", str(number)),
        session=SESSION,
        kind="plan",
        changes=(Upsert("plan", PlanRecord(step=f"s{number}", check=check, status="done")),),
    )


def asked(number: int, command: str, tool: str = "Bash") -> Draft:
    made = derived("commit", "call", str(number))
    return Draft(
        id=made, session=SESSION, kind="call", call=retype(made, "call"), tool=tool,
        status="started", input={"command": command},
    )  # fmt: skip


def ended(number: int, status: str, tool: str = "Bash", **fields) -> Draft:
    call = retype(derived("commit", "call", str(number)), "call")
    return Draft(
        id=derived("commit", "end", str(number)), session=SESSION, kind="outcome", call=call,
        tool=tool, status=status, **fields,
    )  # fmt: skip


def drafts_of(acts) -> list[Draft]:
    made: list[Draft] = []
    for n, (what, name, status) in enumerate(acts):
        if what == "plan":
            made.append(plan(n, name))
        else:
            line = f"make && {name}" if what == "both" else name
            made += [asked(n, line), ended(n, status)]
    return made


def found(extractor: Extractor, drafts) -> list[Draft]:
    return [one for draft in drafts for one in extractor.drafts(draft)]


def records(drafts) -> list[CheckRecord]:
    all_found = found(Extractor(SESSION, ExtractionState(), (checks.RULE,)), drafts)
    changes = [change for draft in all_found for change in draft.changes]
    return [
        change.record
        for change in changes
        if isinstance(change, Upsert) and isinstance(change.record, CheckRecord)
    ]


@given(ACTS, st.integers(0, 60))
def test_what_is_found_in_the_beginning_is_the_beginning_of_what_is_found(acts, cut):
    drafts = drafts_of(acts)
    whole = found(Extractor(SESSION, ExtractionState(), (checks.RULE,)), drafts)
    first = Extractor(SESSION, ExtractionState(), (checks.RULE,))
    before = found(first, drafts[:cut])
    kept = msgspec.json.decode(msgspec.json.encode(first.state), type=ExtractionState)
    after = found(Extractor(SESSION, kept, (checks.RULE,)), drafts[cut:])
    assert [*before, *after] == whole


@given(ACTS)
def test_the_last_record_of_a_check_is_its_last_run_if_a_step_names_it(acts):
    newest = {record.command: record for record in records(drafts_of(acts))}
    named = {name for what, name, _ in acts if what == "plan"}
    for check in CHECKS:
        runs = [(n, s) for n, (w, c, s) in enumerate(acts) if w != "plan" and c == check]
        runs = [(n, status) for n, status in runs if status in ("ok", "error", "timeout")]
        if check not in named or not runs:
            assert check not in newest
            continue
        number, status = runs[-1]
        assert newest[check].ran_in == derived("commit", "call", str(number))
        assert newest[check].ended == ("ok" if status == "ok" else "failed")


def test_a_finding_names_the_call_and_its_end():
    made = Extractor(SESSION, ExtractionState(), (checks.RULE,))
    before = [asked(1, "make test"), ended(1, "ok"), plan(2, "make test")]
    (late,) = found(made, before)
    assert late.inputs == (before[2].id, before[0].id, before[1].id)
    again = [asked(3, "make test"), ended(3, "ok")]
    (early,) = found(made, again)
    assert early.inputs == (again[1].id, again[0].id)


def test_of_two_runs_at_the_same_time_the_one_that_began_last_counts():
    drafts = [
        plan(0, "make test"),
        asked(1, "make test"),
        asked(2, "make test"),
        ended(2, "error"),
        ended(1, "ok"),
    ]
    assert [record.ended for record in records(drafts)] == ["failed"]


def test_a_step_that_is_recorded_inside_a_call_does_not_end_the_call():
    inside = msgspec.structs.replace(plan(0, "make test"), call=asked(1, "").call)
    drafts = [asked(1, "make test"), inside, ended(1, "ok")]
    assert [record.ended for record in records(drafts)] == ["ok"]


def test_a_tool_for_files_runs_no_check():
    drafts = [plan(0, "make test"), asked(1, "make test", "Write"), ended(1, "ok", "Write")]
    assert records(drafts) == []


def test_a_call_whose_command_is_not_known_makes_what_is_known_of_checks_unknown():
    drafts = [plan(0, "make test"), asked(1, "make test"), ended(1, "ok"), ended(9, "ok")]
    assert [record.ended for record in records(drafts)] == ["ok", "unknown"]


def test_the_state_does_not_grow_with_the_conversation():
    state = ExtractionState()
    made = Extractor(SESSION, state, (checks.RULE,))
    for n in range(500):
        found(made, [plan(n, f"check {n}"), asked(n, f"a {n} > {n} && b {n}")])
        found(made, [ended(n, "ok")] if n % 2 else [])
    assert len(state.checks) == checks.CHECKS_MAX
    assert len(state.ran) == checks.RAN_MAX
    assert len(state.written) == checks.WRITTEN_MAX
    assert len(state.calls) <= CALLS_MAX


def test_a_check_that_is_given_up_is_unknown_from_then_on():
    drafts = [plan(0, "make test"), asked(0, "make test"), ended(0, "ok")]
    drafts += [plan(n, f"check {n}") for n in range(1, checks.CHECKS_MAX + 1)]
    drafts += [asked(99, "make test"), ended(99, "error")]
    found_of = [record for record in records(drafts) if record.command == "make test"]
    assert [record.ended for record in found_of] == ["ok", "unknown"]


def test_what_a_command_wrote_while_a_check_ran_was_not_checked():
    drafts = [
        plan(0, "make test"),
        asked(1, "make test"),
        asked(2, "echo x > a.py"),
        ended(2, "ok"),
        ended(1, "ok"),
        asked(3, "rm b.py"),
        ended(3, "ok"),
        asked(4, "rm b.py"),
        ended(4, "error"),
    ]
    assert [record.wrote for record in records(drafts)] == [["a.py"], ["a.py", "b.py"]]


def test_a_new_run_of_a_check_checks_what_was_written_before():
    before = [plan(0, "make test"), asked(1, "echo x > a.py && make test"), ended(1, "ok")]
    drafts = [*before, asked(2, "rm b.py"), ended(2, "ok"), asked(3, "make test"), ended(3, "ok")]
    assert [record.wrote for record in records(drafts)] == [[], ["b.py"], []]
