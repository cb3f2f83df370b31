"""`stator init`: creates a project's store, and turns on recording in agents."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stator.connect import (
    FILE,
    FOLDER,
    POLICY_FILE,
    connect,
    policy_text,
    prepare_folder,
    write_new,
)
from stator.errors import BadQuery, NotAStore, StatorError
from stator.model.calls.approval import parse_policy
from stator.owner.projects import FILE as PROJECT_FILE
from stator.owner.projects import PREFIX, id_for_new, trust_project
from stator.owner.projects import SIZE_MAX as ID_MAX
from stator.owner.regular_file import read_regular
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
from stator.surfaces.cli.parts.approver_setup import list_key, set_approver
from stator.surfaces.cli.parts.confirm import asks_yes, can_ask
from stator.surfaces.cli.parts.foreign import warn_if_foreign
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

PLUGIN = Path(__file__).parents[3] / "plugins" / "claude-code"
"""The plugin for Claude Code that ships with the package."""

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        JsonFlag,
        NoPagerFlag,
        PassphraseFileOption,
        StoreOption,
    )

EXAMPLES = """
stator init                        create a store in this folder
stator init ~/code/shop            create a store in that folder
stator init claude-code            also turn on recording in Claude Code; asks first
stator init codex gemini --dry-run  show what would change in their settings
stator init claude-code --user     record every project
stator init claude-code --remove   remove our settings again
stator init --approver             set the passphrase that proves who approves
stator init --json | jq -r .store
"""
TOOLS_SHOWN = 5
WORDS = {"create": "create", "change": "change", "delete": "remove", "nothing": "unchanged"}
STYLES = {"create": "added", "change": "changed", "delete": "removed", "nothing": "dim"}


def init(
    *names: str,
    user: bool = False,
    shared: bool = False,
    remove: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    plugin: bool = False,
    approver: bool = False,
    approver_key: str | None = None,
    passphrase_file: PassphraseFileOption = None,
    old_passphrase_file: str | None = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Make this folder a project, or turn on recording in an agent.

    Creates .stator/store.db and .stator/project (the project's id); git ignores this folder automatically.
    Running it again changes nothing. Programs and this command find the store from every folder below.

    With the name of an agent (claude-code, codex, gemini, cursor), adds our hooks and our MCP server to the
    agent's settings. The change is shown first, other settings stay as they are, and a copy of each changed
    file is kept beside it.

    Parameters
    ----------
    names
        The folder of the project (default: this one), agents, or both. Write ./codex for a folder of that name.
    user
        Change the user's own settings, for every project.
    shared
        Claude Code: change .claude/settings.json, which a team shares, instead of settings.local.json.
    remove
        Remove our entries from the agent's settings.
    dry_run
        Only show what would change.
    yes
        Change the settings without asking.
    plugin
        Print the folder of our Claude Code plugin, for claude --plugin-dir.
    approver
        Set the passphrase that proves that a person approves, or change it: then the old one is asked for.
    approver_key
        Accept approvals that are signed by this key too: a file with a public Ed25519 key in PEM.
    old_passphrase_file
        Read the passphrase that is set now from the first line of this file.
    """
    if approver or approver_key is not None:
        if names or (approver and approver_key is not None):
            raise BadQuery("use --approver or --approver-key alone: stator init --approver")
        files = passphrase_file, old_passphrase_file
        return _approver(approver_key, files, store, json=json)
    if plugin:
        return _plugin(json=json)
    wanted = [agent_of(name) for name in dict.fromkeys(names) if name in AGENTS]
    folders = [name for name in names if name not in AGENTS]
    if len(folders) > 1:
        raise BadQuery(
            f"init takes one folder, got {len(folders)}", hint=f"known agents: {', '.join(AGENTS)}"
        )
    if (user or shared or remove or dry_run) and not wanted:
        what = f"unknown agent {folders[0]!r:.40}" if folders else "the agent is missing"
        raise BadQuery(what, hint=f"known agents: {', '.join(AGENTS)}")
    root = Path(os.path.abspath(folders[0] if folders else "."))
    if wanted:
        where = SetupTarget(root, "user" if user else "project", shared, store)
        return _agents(wanted, where, remove=remove, dry_run=dry_run, yes=yes, json=json)
    made, file, project = _project(root, store)
    with Screen(json=json, pager=not no_pager) as screen:
        if json:
            found = {"store": str(file), "project": project, "root": str(root), "created": made}
            screen.document("stator.init/1", found)
            return OK
        if not made:
            screen.line(Line("nothing to do: ", "dim").add(str(file)).add(" exists already", "dim"))
        _show_made(screen, made)
        _show_project(screen, project, root, is_new=str(file) in made)
    return OK


def _plugin(*, json: bool) -> int:
    with Screen(json=json, pager=False) as screen:
        if json:
            screen.document("stator.init/1", {"plugin": str(PLUGIN)})
        else:
            screen.line(str(PLUGIN))
    return OK


def _approver(
    key: str | None, files: tuple[str | None, str | None], store: str | None, *, json: bool
) -> int:
    """Set the passphrase of approvals, or list a key that may sign them."""
    with Screen(json=json, pager=False) as screen:
        if key is None:
            set_approver(screen, *files, store)
        else:
            list_key(screen, key, files[1] or files[0], store)
    return OK


# -- agents ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SetupTarget:
    """Where recording is turned on: project or user, shared or local, and the store to use."""

    root: Path
    scope: Scope
    shared: bool
    store: str | None

    def edits(self, agent: Agent, *, remove: bool) -> list[SettingsEdit]:
        home = Path(os.path.expanduser("~"))
        store = os.path.abspath(self.store) if self.store is not None else ""
        bare = self.shared  # shared settings must not name a folder of one member's machine
        programs = Programs(
            HOOK if bare else program(HOOK), "stator" if bare else program("stator"), store
        )
        files = wanted_settings(
            agent, programs, self.scope,
            root=self.root, home=home, environ=os.environ, shared=self.shared,
        )  # fmt: skip
        return [plan_edit(file, remove=remove) for file in files]


def _agents(
    agents: list[Agent], where: SetupTarget, *, remove: bool, dry_run: bool, yes: bool, json: bool
) -> int:
    plans = {agent.name: where.edits(agent, remove=remove) for agent in agents}
    todo = [edit for edits in plans.values() for edit in edits if edit.action != "nothing"]
    with Screen(json=json, pager=False) as screen:
        if not json:
            for edits in plans.values():
                for edit in edits:
                    _show_edit(screen, edit)
            screen.flush()
        asked = yes or (not json and can_ask() and asks_yes("Make these changes?"))
        written = not dry_run and bool(todo) and asked
        made: list[str] = []
        if not dry_run and where.scope == "project" and not remove and (written or not todo):
            made = _project(where.root, where.store)[0]
        kept = [copy for edit in todo if (copy := apply_edit(edit))] if written else []
        if json:
            screen.document("stator.init/1", _as_json(plans, made, kept, written=written))
        else:
            _show_end(
                screen, agents, made, kept, bool(todo),
                written=written, dry_run=dry_run, remove=remove,
            )  # fmt: skip
    return FINDING if todo and not written and not dry_run else OK


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
        screen.line(Line("kept ", "dim").add(copy).add(" (the old file)", "dim"))
    if not todo:
        screen.line(Line("nothing to do", "dim"))
    elif dry_run:
        screen.line(Line("nothing was changed: this was a dry run", "dim"))
    elif not written:
        screen.line(Line("nothing was changed; confirm with --yes", "doubt"))
    elif not remove:
        for agent in agents:
            screen.line(Line(f"{agent.name}: {agent.note}", "dim"))
        if importlib.util.find_spec("mcp") is None:
            screen.line(Line("the MCP server needs: pip install 'stator[mcp]'", "doubt"))


def _as_json(
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
    """The full path of one of our programs, so that an agent can start it from any folder."""
    beside = Path(sys.executable).parent / name
    if beside.exists():
        return str(beside)
    return shutil.which(name) or name


# -- the project ----------------------------------------------------------------------------------


def _project(root: Path, store: str | None) -> tuple[list[str], Path, str]:
    """Create the project's store; returns the paths created, the store and the project's id."""
    folder = root / FOLDER
    file = Path(os.path.abspath(store)) if store is not None else folder / FILE
    try:
        made = _make(root, folder, file)
        id = read_regular(folder / PROJECT_FILE, ID_MAX).decode("utf-8", "replace").strip()
    except OSError as error:
        raise NotAStore(
            f"{error.filename or root}: {error.strerror}", hint="choose another folder"
        ) from None
    return made, file, id


def _show_made(screen: Screen, made: list[str]) -> None:
    for name in made:
        screen.line(Line("created ", "added").add(name))


def _show_project(screen: Screen, id: str, root: Path, *, is_new: bool) -> None:
    """Name the project, and say what a policy file that was here before it allows: it may have come with a clone, and
    counts from now on."""
    screen.line(Line(f"project {id}", "dim"))
    rules = []
    with contextlib.suppress(StatorError):  # who drives a session gets the error
        rules = parse_policy(policy_text(root)) if is_new else []
    if allowed := [rule.tool for rule in rules if rule.action == "allow"]:
        tools = ", ".join(allowed[:TOOLS_SHOWN]) + (", …" if allowed[TOOLS_SHOWN:] else "")
        known = f"{POLICY_FILE} was here already and counts from now on; without asking it allows: "
        screen.line(Line(known, "doubt").add(tools))


def _make(root: Path, folder: Path, file: Path) -> list[str]:
    """Create what is missing; returns the paths created."""
    made = []
    root.mkdir(parents=True, exist_ok=True)
    if not folder.is_dir():
        made.append(f"{folder}{os.sep} (ignored by git)")
    prepare_folder(str(folder))
    identity = folder / PROJECT_FILE
    if not os.path.lexists(identity):
        id = id_for_new(os.environ, root) or PREFIX + secrets.token_hex(16)
        write_new(identity, f"{id}\n")
        trust_project(os.environ, root)
        made.append(str(identity))
    if not os.path.lexists(file):
        made.append(str(file))
    with connect(file) as opened:
        warn_if_foreign(opened)
    return made
