"""`stator gc`: previews or applies the retention policies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import BadQuery, NotFound
from stator.model.sessions.retention import Action, Plan, parse_size
from stator.model.values.ids import short
from stator.runtime.base import project_flags
from stator.runtime.retention import policies
from stator.runtime.retention.erase import left_on_server
from stator.runtime.retention.policies import Done
from stator.runtime.views.project_state import forget_in_indexes
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.confirm import agreed, refuse_both
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, open_to_write
from stator.surfaces.cli.render.lines import Line, widest
from stator.surfaces.cli.render.record_line import count, size
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.times import ago

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        DryRunFlag,
        JsonFlag,
        MaxSizeOption,
        NoPagerFlag,
        ProjectFlag,
        StoreOption,
        YesFlag,
    )

EXAMPLES = """
stator gc                                show what the policies would do now
stator gc --yes                        apply the policies
stator gc --max-size 2GB                 trash the oldest sessions, down to that size
stator gc --yes --force                  even if it removes much
stator gc --restore fix-login            take a session out of the trash
"""
REMOVES = ("expire", "purge")
STYLES = {"archive": "dim", "expire": "changed", "trash": "doubt", "purge": "bad", "restore": "ok"}


def gc(
    *,
    yes: YesFlag = False,
    dry_run: DryRunFlag = False,
    force: bool = False,
    project: ProjectFlag = False,
    max_size: MaxSizeOption = None,
    restore: str | None = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Preview or apply the retention policies.

    Sessions are archived, expired, moved to the trash or purged. Without --yes it shows what would
    change, and asks if it runs on a terminal. It stops with exit code 1 if it would remove more than a tenth of the
    sessions or more than 1 GB, unless you add --force. --project: only the sessions of this project.

    Parameters
    ----------
    force
        Do it even if more than a tenth of the sessions or more than 1 GB would go.
    restore
        Take this session out of the trash, and do nothing else.
    """
    refuse_both(dry_run=dry_run, yes=yes)
    if restore is not None and dry_run:
        raise BadQuery("--restore acts at once and takes no --dry-run", hint="stator ls --trash")
    if restore is not None:
        return _restore(restore, store, json=json)
    most = None if max_size is None else parse_size(max_size)
    with (
        (open_to_write if yes else open_to_read)(store) as opened,
        Screen(json=json, pager=not no_pager) as screen,
    ):
        port, context = opened.store.port, opened.store.context
        scope = opened.project if project else None
        made = policies.plan(port, context, project=scope, max_bytes=most)
        stopped = bool(made.breaker) and not force
        done: list[Done] = []
        if yes and not stopped:
            by = context.principal
            done = list(policies.apply(port, context, made, by=by, yes=force))
        failed = [one for one in done if one.failed]
        unfinished = yes and bool(opened.store.info().detail.get("unfinished"))
        if done:
            forgotten = forget_in_indexes(port, context, [one.action.session for one in done])
            unfinished = unfinished or not forgotten
        if json:
            screen.document("stator.gc/1", _as_json(made, done, applied=yes and not stopped))
        else:
            screen.lines(_lines(made, done, opened, apply=yes, stopped=stopped), hang=2)
            if any(one.action.what in REMOVES and not one.failed for one in done):
                screen.lines(Line(later, "dim") for later in [left_on_server(port)] if later)
            if unfinished:
                screen.line(
                    Line(
                        "not finished: another program is reading an older state of the store",
                        "doubt",
                    )
                )
    question = f"Apply this to {count(len(made.actions), 'session')}?"
    if made.actions and not (yes or dry_run or stopped) and agreed(question, json=json):
        return gc(
            yes=True, force=force, project=project, max_size=max_size,
            store=store, json=json, no_pager=no_pager,
        )  # fmt: skip
    return FINDING if failed or unfinished or (yes and stopped) else OK


def _restore(text: str, store: str | None, *, json: bool) -> int:
    with open_to_write(store) as opened, Screen(json=json, pager=False) as screen:
        port, context = opened.store.port, opened.store.context
        session = project_flags.find_in_trash(port, text) or opened.session(text).id
        if not policies.restore(port, context, session, by=context.principal):
            raise NotFound(f"session {text!r:.80} is not in the trash", hint="stator ls --trash")
        name = port.session(session).record.name
        if json:
            screen.document("stator.restored/1", {"session": session, "name": name})
        else:
            line = Line(name, "bold").add(" ").add(short(session), "id")
            screen.line(line.add(": taken out of the trash"))
    return OK


def _lines(
    made: Plan, done: list[Done], opened: OpenedStore, *, apply: bool, stopped: bool
) -> Iterator[Line]:
    failed = {(one.action.what, one.action.session): one.failed for one in done if one.failed}
    names = widest((action.name for action in made.actions), 32)
    for action in made.actions:
        yield _line(action, names, opened.now, failed.get((action.what, action.session), ""))
    if made.actions:
        yield Line()
    yield Line(_sum(made, done, apply=apply and not stopped), "title")
    for why, many in Counter(one.why for one in made.skipped).most_common():
        yield Line(f"  {many} {why}: unchanged", "dim")
    if made.breaker and (stopped or not apply):
        warning = f"stopped: {made.breaker}" if apply else made.breaker
        yield Line(warning, "doubt").add("; confirm with --yes --force", "dim")
    elif made.actions and not apply:
        yield Line("nothing was changed; apply with stator gc --yes", "dim")


def _line(action: Action, names: int, now: int, failed: str) -> Line:
    line = Line().add(action.what, STYLES[action.what], width=9)
    line.add(short(action.session), "id", width=11).add(action.name, "bold", width=names)
    line.add(size(action.bytes), width=11, right=True).add("  ")
    line.add(ago(action.active, now), "dim", width=14).add(action.why, "dim")
    return line.add(f"  not done: {failed}", "bad") if failed else line


def _sum(made: Plan, done: list[Done], *, apply: bool) -> str:
    actions: Iterable[Action] = made.actions
    if apply:
        actions = [one.action for one in done if not one.failed]
    tally = Counter(action.what for action in actions)
    parts = ", ".join(f"{what} {many}" for what, many in tally.items())
    freed = sum(action.bytes for action in actions if action.what == "purge")
    whole = f"{parts} of {count(made.sessions, 'session')}" if parts else "nothing to do"
    return whole + (f", {size(freed)} freed" if freed else "")


def _as_json(made: Plan, done: list[Done], *, applied: bool) -> dict[str, Any]:
    failed = {(one.action.what, one.action.session): one.failed for one in done if one.failed}
    return {
        "applied": applied,
        "breaker": made.breaker,
        "sessions": made.sessions,
        "actions": [
            {
                **msgspec.to_builtins(action),
                "failed": failed.get((action.what, action.session), ""),
            }
            for action in made.actions
        ],
        "skipped": [msgspec.to_builtins(one) for one in made.skipped],
    }
