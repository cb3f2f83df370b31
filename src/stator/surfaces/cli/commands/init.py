"""`stator init`: a store of its own for a project, and agents that record into it."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stator.connect import FILE, FOLDER, PROJECT_FILE, connect, prepare_folder
from stator.errors import BadQuery, NotAStore
from stator.surfaces.agent_settings.agents import (
    AGENTS,
    HOOK,
    Agent,
    Programs,
    Scope,
    agent_of,
    wanted_settings,
)
from stator.surfaces.agent_settings.files import SettingsEdit, apply_edit, plan_edit
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

PLUGIN = Path(__file__).parents[3] / "plugins" / "claude-code"
"""Our plugin for Claude Code, as it ships."""

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, StoreOption

EXAMPLES = """
stator init                        a store here
stator init ~/code/shop            there
stator init claude-code            and Claude Code records into it: shows the change, then asks
stator init codex gemini --dry-run what would change in their settings
stator init claude-code --user     in every project
stator init claude-code --remove   take our entries out again
stator init --json | jq -r .store
"""
WORDS = {"create": "create", "change": "change", "delete": "remove", "nothing": "as wanted"}
STYLES = {"create": "added", "change": "changed", "delete": "removed", "nothing": "dim"}


def init(
    *names: str,
    user: bool = False,
    shared: bool = False,
    remove: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    plugin: bool = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Make this folder a project; switch recording on in an agent.

    Creates .stator/store.db and .stator/project (the project's id), in a folder that git ignores by
    itself. Run again, it changes nothing. Programs and this command line find the store from any folder
    below.

    With the name of an agent (claude-code, codex, gemini, cursor), adds our hooks and our MCP server to
    its settings: the change is shown first, everything else in them stays as it is, and a copy of each
    changed file is kept beside it.

    Parameters
    ----------
    names
        The project's folder (default: the current one), agents, or both. ./codex is a folder.
    user
        In the user's own settings, for every project.
    shared
        Claude Code: in .claude/settings.json, which a team shares, not in settings.local.json.
    remove
        Take our entries out of an agent's settings.
    dry_run
        Only show what would change.
    yes
        Do not ask.
    plugin
        Print the folder of our plugin for Claude Code, for claude --plugin-dir.
    """
    if plugin:
        with Screen(json=json, pager=False) as screen:
            if json:
                screen.document("stator.init/1", {"plugin": str(PLUGIN)})
            else:
                screen.line(str(PLUGIN))
        return OK
    wanted = [agent_of(name) for name in dict.fromkeys(names) if name in AGENTS]
    folders = [name for name in names if name not in AGENTS]
    if len(folders) > 1:
        raise BadQuery(
            f"one folder, not {len(folders)}", hint=f"a folder and agents: {', '.join(AGENTS)}"
        )
    if (user or shared or remove or dry_run) and not wanted:
        named = f": {folders[0]!r:.40} is none that is known" if folders else ""
        raise BadQuery(f"which agent{named}?", hint=", ".join(AGENTS))
    root = Path(os.path.abspath(folders[0] if folders else "."))
    if wanted:
        where = Where(root, "user" if user else "project", shared, store)
        return _agents(wanted, where, remove=remove, dry_run=dry_run, yes=yes, json=json)
    made, file, project = _project(root, store)
    with Screen(json=json, pager=not no_pager) as screen:
        if json:
            found = {"store": str(file), "project": project, "root": str(root), "created": made}
            screen.document("stator.init/1", found)
            return OK
        if not made:
            screen.line(
                Line("nothing to do: ", "dim").add(str(file)).add(" is there already", "dim")
            )
        _show_made(screen, made)
        screen.line(Line(f"project {project}", "dim"))
    return OK


# -- agents ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Where:
    """Where recording is switched on."""

    root: Path
    scope: Scope
    shared: bool
    store: str | None

    def edits(self, agent: Agent, *, remove: bool) -> list[SettingsEdit]:
        home = Path(os.path.expanduser("~"))
        store = os.path.abspath(self.store) if self.store is not None else ""
        bare = self.shared  # what a team shares cannot name a folder of one of them
        programs = Programs(
            HOOK if bare else program(HOOK), "stator" if bare else program("stator"), store
        )
        files = wanted_settings(
            agent, programs, self.scope,
            root=self.root, home=home, environ=os.environ, shared=self.shared,
        )  # fmt: skip
        return [plan_edit(file, remove=remove) for file in files]


def _agents(
    agents: list[Agent], where: Where, *, remove: bool, dry_run: bool, yes: bool, json: bool
) -> int:
    plans = {agent.name: where.edits(agent, remove=remove) for agent in agents}
    todo = [edit for edits in plans.values() for edit in edits if edit.action != "nothing"]
    with Screen(json=json, pager=False) as screen:
        if not json:
            for edits in plans.values():
                for edit in edits:
                    _show_edit(screen, edit)
            screen.flush()
        written = not dry_run and bool(todo) and (yes or _agreed(json))
        made: list[str] = []
        if not dry_run and where.scope == "project" and not remove and (written or not todo):
            made = _project(where.root, where.store)[0]
        kept = [copy for edit in todo if (copy := apply_edit(edit))] if written else []
        if json:
            screen.document("stator.init/1", _plain(plans, made, kept, written=written))
        else:
            _show_end(
                screen, agents, made, kept, bool(todo),
                written=written, dry_run=dry_run, remove=remove,
            )  # fmt: skip
    return FINDING if todo and not written and not dry_run else OK


def _agreed(json: bool) -> bool:
    """Whether a person at the terminal says yes."""
    if json or not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write("make these changes? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _show_edit(screen: Screen, edit: SettingsEdit) -> None:
    screen.line(Line(WORDS[edit.action], STYLES[edit.action]).add(" ").add(edit.path, "bold"))
    if edit.action != "nothing":
        screen.whole(_coloured(edit.patch()[2:]))


def _coloured(patch: list[str]) -> Iterator[Line]:
    styles = {"+": "added", "-": "removed", "@": "dim"}
    for line in patch:
        yield Line("  ").add(line.expandtabs(4), styles.get(line[:1], ""))


def _show_end(
    screen: Screen, agents: list[Agent], made: list[str], kept: list[str], todo: bool,
    *, written: bool, dry_run: bool, remove: bool,
) -> None:  # fmt: skip
    _show_made(screen, made)
    for copy in kept:
        screen.line(Line("kept ", "dim").add(copy).add(" (as it was)", "dim"))
    if not todo:
        screen.line(Line("nothing to do", "dim"))
    elif dry_run:
        screen.line(Line("nothing was changed: this was a dry run", "dim"))
    elif not written:
        screen.line(Line("nothing was changed; --yes makes these changes", "doubt"))
    elif not remove:
        for agent in agents:
            screen.line(Line(f"{agent.name}: {agent.note}", "dim"))
        if importlib.util.find_spec("mcp") is None:
            screen.line(Line("the MCP server needs: pip install 'stator[mcp]'", "doubt"))


def _plain(
    plans: dict[str, list[SettingsEdit]], made: list[str], kept: list[str], *, written: bool
) -> dict[str, Any]:
    return {
        "created": made,
        "written": written,
        "kept": kept,
        "agents": {
            name: [
                {"path": edit.path, "action": edit.action, "patch": "\n".join(edit.patch())}
                for edit in edits
            ]
            for name, edits in plans.items()
        },
    }


def program(name: str) -> str:
    """A program of ours by the path an agent can start it by, wherever it is started from."""
    beside = Path(sys.executable).parent / name
    if beside.exists():
        return str(beside)
    return shutil.which(name) or name


# -- the project ----------------------------------------------------------------------------------


def _project(root: Path, store: str | None) -> tuple[list[str], Path, str]:
    """Make the project's store; what was made, where the store is, what the project is called."""
    folder = root / FOLDER
    file = Path(os.path.abspath(store)) if store is not None else folder / FILE
    try:
        made = _make(root, folder, file)
    except OSError as error:
        raise NotAStore(
            f"{error.filename or root}: {error.strerror}", hint="choose another folder"
        ) from None
    return made, file, (folder / PROJECT_FILE).read_text(encoding="utf-8").strip()


def _show_made(screen: Screen, made: list[str]) -> None:
    for name in made:
        screen.line(Line("created ", "added").add(name))


def _make(root: Path, folder: Path, file: Path) -> list[str]:
    """Make what is missing; what was made."""
    made = []
    root.mkdir(parents=True, exist_ok=True)
    if not folder.is_dir():
        made.append(f"{folder}{os.sep} (ignored by git)")
    prepare_folder(str(folder))
    identity = folder / PROJECT_FILE
    if not identity.exists():
        identity.write_text(f"p_{secrets.token_hex(16)}\n", encoding="utf-8")
        made.append(str(identity))
    if not os.path.lexists(file):
        made.append(str(file))
    connect(file).close()
    return made
