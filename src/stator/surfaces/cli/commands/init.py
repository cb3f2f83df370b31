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
    connect,
    set_up_server,
)
from stator.errors import BadQuery, NotAStore, StatorError
from stator.locations import SERVER, SERVERS, scheme_of, without_secrets
from stator.model.calls.approval import parse_policy
from stator.owner.policy_file import POLICY_FILE, policy_text
from stator.owner.project_folder import prepare_folder, write_new
from stator.owner.projects import FILE as PROJECT_FILE
from stator.owner.projects import PREFIX, id_for_new, trust_project
from stator.owner.projects import SIZE_MAX as ID_MAX
from stator.owner.regular_file import read_regular
from stator.owner.server_file import name_server, own_server_in, server_in
from stator.surfaces.agent_settings.agents import (
    AGENTS,
    BRIEFS,
    HOOK,
    PLUGINS,
    Agent,
    BriefMode,
    Programs,
    Scope,
    WantedSettings,
    known_agents,
    wanted_settings,
)
from stator.surfaces.agent_settings.files import (
    SettingsEdit,
    apply_edit,
    asks_handover,
    brief_in,
    plan_edit,
    records_in,
)
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.approver_setup import list_key, set_approver
from stator.surfaces.cli.parts.confirm import asks_yes, can_ask, refuse_both
from stator.surfaces.cli.parts.foreign import warn_if_foreign
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen, note

PLUGIN = PLUGINS / "claude-code"
"""The plugin for Claude Code that ships with the package."""

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        DryRunFlag,
        JsonFlag,
        NoPagerFlag,
        PassphraseFileOption,
        StoreOption,
        YesFlag,
    )

EXAMPLES = """
stator init                        create a store in this folder
stator init ~/code/shop            create a store in that folder
stator init claude-code            also turn on recording in Claude Code; asks first
stator init codex gemini --dry-run  show what would change in their settings
stator init claude-code --user     record every project
stator init codex --brief=start    tell it nothing with the first prompt
stator init claude-code --remove   remove our settings again
stator init --approver             set the passphrase that proves who approves
stator init --store 'postgresql://owner@db/agents?tenant=acme' --application app
stator init --json | jq -r .store
"""
TOOLS_SHOWN = 5
ADMINISTRATOR = (
    "this role may not do that; an administrator runs the SQL in psql, then you run this again"
    " as the role that it grants the tables to"
)
WORDS = {"create": "create", "change": "change", "delete": "remove", "nothing": "unchanged"}
STYLES = {"create": "added", "change": "changed", "delete": "removed", "nothing": "dim"}


def init(
    *names: str,
    user: bool = False,
    shared: bool = False,
    remove: bool = False,
    force: bool = False,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    brief: BriefMode | None = None,
    handover: bool = False,
    plugin: bool = False,
    approver: bool = False,
    approver_key: str | None = None,
    passphrase_file: PassphraseFileOption = None,
    old_passphrase_file: str | None = None,
    application: str | None = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Make this folder a project, or turn on recording in an agent.

    Creates .stator/store.db and .stator/project (the project's id); git ignores this folder automatically.
    Running it again changes nothing. Programs and this command find the store from every folder below.
    With --store postgresql://…, makes its tables and tenant instead, or prints the SQL for an administrator (exit 1).

    With the name of an agent (claude-code, codex, gemini, cursor, opencode), adds our hooks and our MCP server to
    the agent's settings; for opencode, installs our plugin. The change is shown first. Only our own bytes change:
    --remove gives each file back as it was. Files that a team commits name our programs without a folder, so they
    must be on the PATH.

    Parameters
    ----------
    names
        The folder of the project (default: this one), agents, or both. Write ./codex for a folder of that name.
    user
        For every project of yours: change the user's own settings.
    shared
        Claude Code: change .claude/settings.json, which a team shares, instead of settings.local.json.
    remove
        Remove our entries from the agent's settings.
    force
        Do it even if other settings of the agent turn on recording already.
    brief
        What the agent is given: off (nothing), start (when a session starts), full (also with the first prompt).
        Without this option, what its settings say, else full. $STATOR_BRIEF overrides it where the agent starts.
    handover
        Ask the agent for a handover (goal, decisions, constraints, state, next, dead ends) when it stops, once for
        each conversation, after a compaction, and every 20 turns. It is kept as the artifact «handover», in the
        model's words. The agent answers the request last, also where a program reads its last answer.
    plugin
        Print the folder of our Claude Code plugin, for claude --plugin-dir.
    approver
        Set the passphrase that proves that a person approves, or change it: then the old one is asked for.
    approver_key
        Accept approvals that are signed by this key too: a file with a public Ed25519 key in PEM.
    old_passphrase_file
        Read the passphrase that is set now from the first line of this file.
    application
        PostgreSQL: the role that programs connect as; it is allowed to use the tables, and nothing more.
    """
    refuse_both(dry_run=dry_run, yes=yes)
    if approver or approver_key is not None:
        _check_alone(names, approver, approver_key)
        return _approver(approver_key, (passphrase_file, old_passphrase_file), store, json=json)
    if plugin:
        return _plugin(json=json)
    for_agents = user or shared or remove or dry_run or force or handover or brief is not None
    wanted, folders = _named(names, agents_only=for_agents)
    root = Path(os.path.abspath(folders[0] if folders else "."))
    if wanted:
        where = SetupTarget(root, "user" if user else "project", shared, store, brief, handover)
        options = SetupOptions(remove=remove, force=force, dry_run=dry_run, yes=yes)
        return _agents(wanted, where, options, json=json)
    if application is not None or scheme_of(store or "") in SERVERS:
        return _init_server(folders, store or "", application or "", json=json)
    return _init_project(root, store, json=json, pager=not no_pager)


def _init_project(root: Path, store: str | None, *, json: bool, pager: bool) -> int:
    """Create the project's store, and say so."""
    made, file, project = _project(root, store)
    with Screen(json=json, pager=pager) as screen:
        if json:
            found = {"store": str(file), "project": project, "root": str(root), "created": made}
            screen.document("stator.init/1", found)
            return OK
        if not made:
            screen.line(Line("nothing to do: ", "dim").add(str(file)).add(" exists already", "dim"))
        _show_made(screen, made)
        _show_project(screen, project, root, is_new=str(file) in made)
    return OK


def _named(names: tuple[str, ...], *, agents_only: bool) -> tuple[list[Agent], list[str]]:
    """The agents and the folders that are named."""
    wanted = [AGENTS[name] for name in dict.fromkeys(names) if name in AGENTS]
    folders = [name for name in names if name not in AGENTS]
    _check_folders(folders, agents_only=agents_only)
    if agents_only and not wanted:
        raise BadQuery("the agent is missing", hint=known_agents(""))
    return wanted, folders


def _check_alone(names: tuple[str, ...], approver: bool, key: str | None) -> None:
    if names or (approver and key is not None):
        raise BadQuery("use --approver or --approver-key alone: stator init --approver")


def _init_server(folders: list[str], url: str, application: str, *, json: bool) -> int:
    """Make the tables and the tenant of a store on a server, or print the SQL that makes them."""
    if scheme_of(url) not in SERVERS:
        raise BadQuery("--application names a role of a server", hint="--store postgresql://…")
    if folders and application:
        raise BadQuery(
            "--application is for the owner of the database, and a project's store is what programs connect to",
            hint="first: stator init --store URL --application ROLE; then: stator init . --store URL",
        )
    if folders:
        return _init_project(Path(os.path.abspath(folders[0])), url, json=json, pager=False)
    done = set_up_server(url, application=application)
    with Screen(json=json, pager=False) as screen:
        if json:
            found = {"store": without_secrets(url), "tenant": done.tenant, "created": done.made}
            screen.document("stator.init/1", {**found, "sql": done.sql})
        elif done.sql:
            screen.whole(Line(text) for text in done.sql.splitlines())
        else:
            _show_made(screen, done.made)
            if not done.made:
                screen.line(Line("nothing to do: ", "dim").add(without_secrets(url)))
    if done.sql:
        note(ADMINISTRATOR)
    return FINDING if done.sql else OK


def _check_folders(folders: list[str], *, agents_only: bool) -> None:
    """Refuse a word that is neither an agent nor a folder: it is an agent that we do not know."""
    for name in folders:
        is_word = os.path.basename(name) == name and name not in (".", "..")
        if is_word and (agents_only or not os.path.isdir(name)):
            hint = f"{known_agents(name)}; to make a folder: stator init ./{name}"
            raise BadQuery(f"unknown agent {name!r:.40}", hint=hint)
    if len(folders) > 1:
        raise BadQuery(f"init takes one folder, got {len(folders)}", hint=known_agents(""))


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
    brief: BriefMode | None
    handover: bool

    def handover_of(self, agent: Agent) -> bool:
        """Whether an agent is asked for handovers: as asked for, else as its settings say."""
        if self.handover:
            return True
        files = self.files(agent, self.scope, shared=self.shared, brief="full", handover=True)
        return any(map(asks_handover, files))

    def brief_of(self, agent: Agent) -> BriefMode:
        """What an agent is given: as asked for, else as its settings say."""
        if self.brief is not None:
            return self.brief
        files = self.files(agent, self.scope, shared=self.shared, brief="full", handover=True)
        return next(filter(None, map(brief_in, files)), "full")

    def files(
        self,
        agent: Agent,
        scope: Scope,
        *,
        shared: bool,
        brief: BriefMode | None = None,
        handover: bool = False,
    ) -> list[WantedSettings]:
        """The settings files of an agent in a scope."""
        store = self.store or ""
        if scheme_of(store) in SERVERS:
            # A project has a file of its own for it, so that what a team commits does not name it.
            store = store if scope == "user" else ""
        elif store:
            store = os.path.abspath(store)
        mode = brief or self.brief_of(agent)
        asks = handover or self.handover_of(agent)
        programs = Programs(program(HOOK), program("stator"), store, mode, asks)
        return wanted_settings(
            agent, programs, scope,
            root=self.root, home=Path(os.path.expanduser("~")), environ=os.environ, shared=shared,
        )  # fmt: skip

    def edits(self, agent: Agent, *, remove: bool) -> list[SettingsEdit]:
        files = self.files(agent, self.scope, shared=self.shared)
        return [plan_edit(file, remove=remove) for file in files]

    def other_files(self, agent: Agent) -> list[str]:
        """The other settings of an agent that turn on recording: with both, it would be turned on twice."""
        own = {file.path for file in self.files(agent, self.scope, shared=self.shared)}
        scopes: list[tuple[Scope, bool]] = [("project", False), ("project", True), ("user", False)]
        others = {
            file.path: file
            for scope, shared in scopes
            for file in self.files(agent, scope, shared=shared)
            if file.path not in own
        }
        return [str(path) for path, file in others.items() if records_in(file)]

    def names_programs(self, agents: list[Agent]) -> bool:
        """Whether a file names our programs without their folder."""
        return any(
            file.is_shared
            for agent in agents
            for file in self.files(agent, self.scope, shared=self.shared)
        )


@dataclass(frozen=True)
class SetupOptions:
    """What is to be done with the settings, and whether without asking."""

    remove: bool
    force: bool
    dry_run: bool
    yes: bool


def _agents(agents: list[Agent], where: SetupTarget, options: SetupOptions, *, json: bool) -> int:
    is_server = scheme_of(where.store or "") in SERVERS
    if is_server:
        _check_url(where.store or "")
    elif scheme_of(where.store or "") and not options.remove:
        raise BadQuery("hooks record into a file or into a PostgreSQL store")
    if where.store is not None and where.scope == "project" and not (options.remove or is_server):
        raise BadQuery(
            "--store would put a path of this machine into files that a team commits",
            hint="use --user, or set STATOR_STORE where the agent starts",
        )
    twice = {} if options.remove or options.force else _recorded_already(agents, where)
    plans = {
        agent.name: where.edits(agent, remove=options.remove)
        for agent in agents
        if agent.name not in twice
    }
    todo = [edit for edits in plans.values() for edit in edits if edit.action != "nothing"]
    with Screen(json=json, pager=False) as screen:
        if not json:
            for edits in plans.values():
                for edit in edits:
                    _show_edit(screen, edit)
            screen.flush()
        asked = options.yes or (
            bool(todo) and not json and can_ask() and asks_yes("Make these changes?")
        )
        written = not options.dry_run and bool(todo) and asked
        made: list[str] = []
        is_new = where.scope == "project" and bool(plans) and (written or not todo)
        if not options.dry_run and is_new and not options.remove:
            made = _project(where.root, where.store)[0]
        for edit in todo if written else []:
            apply_edit(edit)
        if json:
            screen.document("stator.init/1", _as_json(plans, twice, made, written=written))
        else:
            _show_twice(screen, twice)
            done = [agent for agent in agents if agent.name in plans]
            _show_end(screen, done, made, bool(todo), options, written=written)
            if not options.remove and not options.dry_run:
                for agent in done:
                    mode = where.brief_of(agent)
                    screen.line(Line(f"{agent.name}: {BRIEFS[mode]} (--brief={mode})", "dim"))
            if not options.remove and where.names_programs(done):
                _show_missing(screen)
    return FINDING if twice else OK


def _recorded_already(agents: list[Agent], where: SetupTarget) -> dict[str, list[str]]:
    """The agents that other settings turn on recording for, and these settings."""
    found = {agent.name: where.other_files(agent) for agent in agents}
    return {name: files for name, files in found.items() if files}


def _show_twice(screen: Screen, twice: dict[str, list[str]]) -> None:
    for name, files in twice.items():
        known = f"{name} is recorded already, by {', '.join(files)}; nothing was changed for it"
        screen.line(Line(known, "doubt"))
        screen.line(Line("to turn it on here too: --force; to turn it off there: --remove", "dim"))


def _show_missing(screen: Screen) -> None:
    """Say if an agent will not find our programs, which shared settings name without a folder."""
    missing = [name for name in (HOOK, "stator") if shutil.which(name) is None]
    if missing:
        folder = Path(program(missing[0])).parent
        text = f"{' and '.join(missing)} not on the PATH: the agent will not find it"
        screen.line(Line(text, "doubt"))
        screen.line(
            Line(f'put it there: export PATH="{folder}:$PATH", or pipx install stator', "dim")
        )


def _show_edit(screen: Screen, edit: SettingsEdit) -> None:
    screen.line(Line(WORDS[edit.action], STYLES[edit.action]).add(" ").add(edit.path, "bold"))
    if edit.action != "nothing":
        screen.whole(_coloured(edit.patch()[2:]))


def _coloured(patch: list[str]) -> Iterator[Line]:
    styles = {"+": "added", "-": "removed", "@": "dim"}
    for line in patch:
        yield Line("  ").add(line.expandtabs(4), styles.get(line[:1], ""))


def _show_end(
    screen: Screen, agents: list[Agent], made: list[str], todo: bool, options: SetupOptions,
    *, written: bool,
) -> None:  # fmt: skip
    _show_made(screen, made)
    if not todo:
        if agents:
            screen.line(Line("nothing to do", "dim"))
    elif options.dry_run:
        screen.line(Line("nothing was changed: this was a dry run", "dim"))
    elif not written:
        screen.line(Line("nothing was changed; confirm with --yes", "doubt"))
    elif not options.remove:
        for agent in agents:
            screen.line(Line(f"{agent.name}: {agent.note}", "dim"))
        if importlib.util.find_spec("mcp") is None:
            screen.line(Line("the MCP server needs: pip install 'stator[mcp]'", "doubt"))


def _as_json(
    plans: dict[str, list[SettingsEdit]],
    twice: dict[str, list[str]],
    made: list[str],
    *,
    written: bool,
) -> dict[str, Any]:
    return {
        "created": made,
        "written": written,
        "recorded_by": twice,
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
    server = store if scheme_of(store or "") in SERVERS else None
    if store is None:
        server = own_server_in(os.environ, str(folder))
    elif server is not None:
        _check_url(server)
    file = Path(os.path.abspath(store)) if store is not None else folder / FILE
    if server is not None:
        file = folder / SERVER
    try:
        made = _make(root, folder, file, server)
        id = read_regular(folder / PROJECT_FILE, ID_MAX).decode("utf-8", "replace").strip()
    except OSError as error:
        raise NotAStore(
            f"{error.filename or root}: {error.strerror}", hint="choose another folder"
        ) from None
    return made, file, id


def _check_url(url: str) -> None:
    """Refuse a URL that cannot be written down: it holds a password, or leaves open whose part of the store it is."""
    if url != without_secrets(url):
        raise BadQuery(
            "the URL holds a password, which would be written into a file of the project or of an agent",
            hint="put it into ~/.pgpass or $PGPASSWORD, and leave it out",
        )
    if "tenant=" not in url:
        raise BadQuery("the URL names no tenant", hint="add it: ?tenant=NAME")


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


def _make(root: Path, folder: Path, file: Path, server: str | None = None) -> list[str]:
    """Create what is missing; returns the paths created. A project whose store is on a server has a file that names
    it."""
    made = []
    if server is not None:
        connect(server).close()
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
    if server is not None:
        if server_in(os.environ, str(folder)) != server:
            name_server(os.environ, str(folder), server)
            made.append(str(file))
        return made
    if not os.path.lexists(file):
        made.append(str(file))
    with connect(file) as opened:
        warn_if_foreign(opened)
    return made
