"""What a person does from a page, each by the use case that the command of the same name calls."""

from __future__ import annotations

import os
from typing import cast

from starlette.routing import Route

from stator.errors import BadPosition, BadQuery, HeadMoved, NotFound, NotProven
from stator.model.calls.approval import Verdict
from stator.model.records.types import PreferenceRecord
from stator.model.values.ids import short
from stator.model.values.position import check_tag
from stator.owner.approver import approver_of
from stator.runtime.branches import rewind as rewinding
from stator.runtime.driving import approvals, policy, settlement
from stator.runtime.driving.proofs import Recognised, refuse_below
from stator.runtime.views.refs import annotated
from stator.surfaces.cli.render.record_line import recorded
from stator.surfaces.http.served import Served
from stator.surfaces.web.forms import Fields, FormAnswer, acting

LOCAL = Recognised("local")
"""A browser of this machine that came through a link: the name of the user is all that is known of the person."""
VERDICTS: dict[str, Verdict] = {"approved": "approved", "denied": "denied"}
"""The answers to a waiting call: what is recorded is the word of the program, and never the text that was sent."""
STATE_MAX = 500
"""Entries of a project among which the one is that a person chose."""
SETTLED = {
    "done": "Recorded: it happened.",
    "not done": "Recorded: it did not happen, and it will not be run again.",
    "run again": "Recorded: it did not happen. The next driver of the session may run it again.",
}


def settle(found: Served, fields: Fields) -> FormAnswer:
    store = found.store
    done = settlement.settle(
        store.port,
        store.context,
        _given(fields, "call"),
        cast("settlement.Verdict", _given(fields, "verdict")),
        by=store.context.principal,
        why=fields.get("why", ""),
        session=fields.get("session") or None,
    )
    return FormAnswer(
        text=f"{SETTLED[done.verdict]} {done.tool} in {done.name}.",
        link=_commit(done.session, done.seq),
        link_text="See the record",
    )


def answer(found: Served, fields: Fields) -> FormAnswer:
    """Approve or deny a call that waits."""
    store = found.store
    call, verdict = _given(fields, "call"), VERDICTS.get(_given(fields, "verdict"))
    if verdict is None:
        raise BadQuery(f"{fields['verdict']!r:.40} is no answer", hint="approved or denied")
    demand = policy.demand_of(store.port, store.context, [call]) if verdict == "approved" else ""
    grant = approvals.answer(
        store.port,
        store.context,
        call,
        verdict,
        by=store.context.principal,
        why=fields.get("why", ""),
        how=_recognised(found, demand, fields.get("passphrase", "")),
    )
    then = (
        "it runs now, or when its session is driven next"
        if verdict == "approved"
        else "it is told why"
    )
    return FormAnswer(
        text=f"{'Allowed once' if verdict == 'approved' else 'Refused'}: {grant.record.tool}; {then}. "
        f"Recorded as given by {grant.record.by}, {grant.record.proof}.",
        link=_commit(grant.session, grant.seq),
        link_text="See the record",
    )


def _recognised(found: Served, demand: str, passphrase: str) -> Recognised:
    """How the person is recognised: by the passphrase where one was typed, else by the link alone."""
    if not demand and not passphrase:
        return LOCAL
    context = found.store.context
    refuse_below(context.below(found.store.port), demand)
    if demand == "signed":
        raise NotProven(
            "the call demands an approval that is signed by a key, which a page cannot give",
            hint="in a terminal: stator approve CALL --signing-key FILE",
        )
    approver = approver_of(os.environ)
    if approver is None or not approver.public:
        raise NotProven(
            "the call demands proof of a person, and no passphrase is set for approvals",
            hint="set one in a terminal that no agent started: stator init --approver",
        )
    if not passphrase:
        raise NotProven("the call demands your passphrase; nothing was recorded")
    signer = approver.unlock(passphrase)
    if signer is None:
        raise NotProven("the passphrase is wrong; nothing was recorded")
    return Recognised("passphrase", signer.sign)


def pause(found: Served, fields: Fields) -> FormAnswer:
    moved = found.store.lifecycle.pause(_given(fields, "session"))
    if moved.asked is None:
        return FormAnswer(text=f"{moved.name} is {moved.status}.")
    driver = moved.asked
    who = f"{driver.program} on {driver.host}, pid {driver.pid}"
    return FormAnswer(text=f"Asked {who} to pause {moved.name}; it stops before its next call.")


def tag(found: Served, fields: Fields) -> FormAnswer:
    store, name = found.store, check_tag(_given(fields, "name"))
    view = store.read(_given(fields, "session"))
    point = view.at(fields.get("at") or "head")
    if point.session != view.id:
        raise BadPosition("a tag cannot name a position of another session")
    store.contribute(view.id).tag(name, f"@{point.seq}")
    return FormAnswer(text=f"Tagged @{point.seq} of {view.name} as {name}.")


def flag(found: Served, fields: Fields) -> FormAnswer:
    store, session = found.store, _given(fields, "session")
    on = annotated(store.port, session, fields["on"]) if fields.get("on") else ""
    store.contribute(session).flag(_given(fields, "name"), on=on, why=fields.get("why", ""))
    return FormAnswer(text=f"Flagged {on or 'the session'}: {fields['name']}.")


def score(found: Served, fields: Fields) -> FormAnswer:
    store, session = found.store, _given(fields, "session")
    try:
        value = float(_given(fields, "value"))
    except ValueError:
        raise BadQuery(f"{fields['value']!r:.40} is not a number", hint="for example 0.8") from None
    on = annotated(store.port, session, fields["on"]) if fields.get("on") else ""
    name = _given(fields, "name")
    store.contribute(session).score(name, value, on=on, comment=fields.get("comment", ""))
    return FormAnswer(text=f"Scored {on or 'the session'}: {name} {value:g}.")


def fork(found: Served, fields: Fields) -> FormAnswer:
    made = found.store.fork(
        _given(fields, "session"), fields.get("at") or "head", as_name=fields.get("name", "")
    )
    return FormAnswer(
        text=f"Forked as {made.name}. Continue it: stator resume {short(made.id)} -- COMMAND",
        link=f"/s/{made.id}",
        link_text="Open it",
    )


def rewind(found: Served, fields: Fields) -> FormAnswer:
    """Rewind a session as its dry run showed, which names the head that it was made from."""
    store, session, to = found.store, _given(fields, "session"), _given(fields, "to")
    view = store.read(session)
    rewinding.refuse_recorded(view.record)
    head = view.head
    if str(head.seq) != _given(fields, "head"):
        raise HeadMoved(
            f"{view.name} has moved to @{head.seq} since you looked; look again at what a rewind would do",
            head=head.hash,
            session=session,
        )
    done = store.contribute(session).rewind(to)
    return FormAnswer(
        text=f"Rewound {done.name} to @{done.end}, from @{done.start}. The log keeps everything.",
        hint=f"to undo it, rewind to {done.tag}",
        back=f"/s/{session}/act",
    )


def adopt(found: Served, fields: Fields) -> FormAnswer:
    done = found.store.contribute(_given(fields, "session")).adopt(fields.get("what") or "head")
    return FormAnswer(
        text=f"{done.name} is {done.by_name} from now on. No session was changed or deleted.",
        link=f"/s/{done.by}",
        link_text="Open it",
    )


def prefer(found: Served, fields: Fields) -> FormAnswer:
    """Let one of the values that sessions disagree on hold for the whole project."""
    store, project, name = found.store, _given(fields, "project"), _given(fields, "name")
    entries = store.state(project=project, limit=STATE_MAX)["preferences"]
    values = [
        value.record.value
        for entry in entries
        for value in (entry, *entry.conflicts)
        if isinstance(value.record, PreferenceRecord)
        and value.record.name == name
        and value.commit == _given(fields, "commit")
    ]
    if not values:
        raise NotFound(f"no session says this of {name!r:.60} any more", hint="look again")
    store.prefer(name, values[0], project=project, why=fields.get("why", ""))
    return FormAnswer(text=f"From now on in this project: {name} is {recorded(values[0])}.")


def _given(fields: Fields, name: str) -> str:
    if not (value := fields.get(name, "").strip()):
        raise BadQuery(f"the field {name} is empty; nothing was recorded")
    return value


def _commit(session: str, seq: int) -> str:
    return f"/s/{session}/@{seq}"


ROUTES = tuple(
    Route(f"/act/{act.__name__}", acting(act), methods=["POST"])
    for act in (settle, answer, pause, tag, flag, score, fork, rewind, adopt, prefer)
)
