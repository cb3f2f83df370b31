"""`stator approve`: approves calls that wait for approval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.runtime.driving import approvals as use
from stator.surfaces.cli.parts.grants import ApprovalAnswer, show_grant
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_write
from stator.surfaces.cli.parts.person import Person
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        ExpiresOption,
        ForOption,
        JsonFlag,
        NoPagerFlag,
        PassphraseFileOption,
        PatternOption,
        ProofOption,
        SessionOption,
        SigningKeyOption,
        StoreOption,
    )

EXAMPLES = """
stator approve c_7f2a91bc          this call, once
stator approve 7f2a91bc --for session --expires 2h
stator approve 7f2a91bc --pattern 'pay(amount<=100)' --for project
stator approve --everything        every call that waits in this project
stator approve --pattern 'read_*' -s fix-login
stator approve 7f2a91bc --proof passphrase   prove it is you, also if the call does not demand it
"""


def approve(
    *calls: str,
    everything: bool = False,
    scope: ForOption = None,
    pattern: PatternOption = None,
    expires: ExpiresOption = None,
    proof: ProofOption = None,
    passphrase_file: PassphraseFileOption = None,
    signing_key: SigningKeyOption = None,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Approve a call that waits for approval.

    Records how you were recognised: by a terminal, by your passphrase (stator init --approver) or by a signature. If
    the call demands a passphrase, it is asked for. An approval from a process below an agent is refused then.

    Parameters
    ----------
    calls
        Call ids, or their last characters, as stator approvals shows them.
    everything
        Everything there is: every call that waits in this project, or in the session.
    """
    with open_to_write(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        person = Person(proof or "", passphrase_file, signing_key)
        answer = ApprovalAnswer(
            opened, session, scope, pattern, expires, verdict="approved", person=person
        )
        wanted = calls or (tuple(_waiting(opened, session)) if everything else ())
        found = [] if everything and not wanted else answer.apply(wanted)
        for grant in found:
            show_grant(screen, grant)
        if not found:
            return opened.report_empty("no call waits for approval")
    return 0


def _waiting(opened: OpenedStore, session: str | None) -> list[str]:
    one = opened.session(session).id if session is not None else None
    project = None if one else opened.project
    found = use.waiting(
        opened.store.port,
        now=opened.now,
        session=one,
        project=project,
        context=opened.store.context,
    )
    return [item.call for item in found if not item.answer]
