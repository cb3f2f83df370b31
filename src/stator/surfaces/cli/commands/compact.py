"""`stator compact`: shortens the transcript an agent sees, and lists what was removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import BadQuery
from stator.model.values.ids import short
from stator.model.window.compaction import LEVELS
from stator.runtime.driving import compact as compacting
from stator.runtime.facade.view import SessionView
from stator.runtime.window import compaction
from stator.runtime.window.compaction import Compaction
from stator.surfaces.cli.parts.open_store import open_to_read, open_to_write
from stator.surfaces.cli.render.evictions import counts, key_line
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        DryRunFlag,
        FitOption,
        JsonFlag,
        KeepOption,
        NoPagerFlag,
        SessionArgument,
        StoreOption,
        StrategyOption,
    )

EXAMPLES = """
stator compact --dry-run           show what would be removed from the last session
stator compact --max-tokens 20000  remove outputs first, then calls, until it fits
stator compact --strategy outputs --keep 10
stator compact --summary gist.txt  replace the older part with your own summary
stator compact --undo              undo the last compaction
"""
SHOWN = 12
"""At most this many keys are listed."""


def compact(
    session: SessionArgument = None,
    *,
    max_tokens: FitOption = None,
    keep: KeepOption = compaction.KEEP,
    strategy: StrategyOption = None,
    summary: str | None = None,
    scratch: bool = False,
    undo: bool = False,
    dry_run: DryRunFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Shorten the transcript an agent sees, and list what was removed.

    Parameters
    ----------
    summary
        A file with a summary of what is removed; without it, the summarise strategy is skipped.
    scratch
        Also drop older scratch notes.
    undo
        Undo the last compaction; the agent sees exactly what it saw before.
    """
    shortens = summary is not None or strategy or max_tokens is not None or keep != compaction.KEEP
    if undo and (shortens or dry_run or scratch):
        raise BadQuery("--undo cannot be combined with other compaction options")
    options = compaction.CompactionOptions(
        max_tokens=max_tokens,
        keep=keep,
        strategy=tuple(strategy or LEVELS),
        summary=None if summary is None else _read(summary),
        scratch=scratch,
    )
    opening = open_to_read if dry_run else open_to_write
    with opening(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view, port, context = opened.session(session), opened.store.port, opened.store.context
        if undo:
            found = compacting.undo_from_outside(port, context, view.id)
        else:
            found = compacting.compact_from_outside(
                port, context, view.id, options, record=not dry_run
            )
        if json:
            screen.document("stator.compaction/1", _as_json(found) | {"dry_run": dry_run})
        else:
            _show(screen, view, found, dry_run=dry_run)
    return 0 if found.fits else 1


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(compaction.SUMMARY_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise BadQuery(f"cannot read the summary {path!r:.200}: {error}") from None


def _as_json(found: Compaction) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(found)
    return plain | {"evicted": [msgspec.structs.asdict(record) for record in found.evicted]}


def _show(screen: Screen, view: SessionView, found: Compaction, *, dry_run: bool) -> None:
    line = Line(view.name, "bold").add(" ").add(short(view.id), "id").add(": ")
    if found.undone:
        line.add(f"undid the compaction @{found.undone}", "ok")
        screen.line(line.add(f" · @{found.seq}", "id"))
        return
    if not found.levels:
        limit = "it fits" if found.fits else "it does not fit, and nothing more can be removed"
        screen.line(line.add(f"nothing to compact: {limit} ({found.before:,} tokens)"))
        return
    line.add("would be compacted" if dry_run else "compacted", "changed")
    line.add(f" ({', '.join(found.levels)}): {found.before:,} → {found.after:,} tokens")
    if not found.fits:
        line.add(", still too many", "bad")
    screen.line(line if dry_run else line.add(f" · @{found.seq}", "id"))
    screen.line(f"removed from the view: {counts(found.left)}")
    for record in found.evicted[:SHOWN]:
        screen.line(key_line(record))
    if len(found.evicted) > SHOWN:
        screen.line(
            Line(
                f"  … {len(found.evicted) - SHOWN} more: stator evicted {short(found.session)}",
                "dim",
            )
        )
