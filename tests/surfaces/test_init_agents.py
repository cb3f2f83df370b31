"""`stator init AGENT`: turns on recording in an agent's settings, and keeps all other settings."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from stator.errors import InvalidInput
from stator.surfaces.agent_settings.agents import (
    AGENTS,
    CLAUDE,
    SERVER,
    Programs,
    hooks_of,
    wanted_settings,
)
from stator.surfaces.agent_settings.merge import add_entries, is_ours, remove_entries

PROGRAMS = Programs("/opt/bin/stator-hook", "/opt/bin/stator")
OTHERS: dict[str, Any] = {
    "permissions": {"allow": ["Bash(ls)"], "new": [1, {"x": None}]},
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
        "SomethingNew": [{"hooks": []}],
    },
    "mcpServers": {"other": {"command": "y"}},
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty project folder and an empty home."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    return tmp_path / "home"


def files(agent, scope="project", root=Path("/p"), home=Path("/h"), **options):
    return wanted_settings(
        AGENTS[agent], PROGRAMS, scope, root=root, home=home, environ={}, **options
    )


def edited(agent):
    """The files of an agent that others have settings in too."""
    return [file for file in files(agent) if file.kind != "file"]


@pytest.mark.parametrize("scope", ["project", "user"])
@pytest.mark.parametrize("agent", AGENTS)
def test_other_settings_stay(agent, scope):
    for file in files(agent, scope):
        if file.kind == "json":
            after = json.loads(add_entries(json.dumps(OTHERS), file))
            assert after["permissions"] == OTHERS["permissions"]
            assert after["hooks"]["Stop"][0] == OTHERS["hooks"]["Stop"][0]
            assert after["mcpServers"]["other"] == {"command": "y"}


@pytest.mark.parametrize("agent", AGENTS)
def test_adding_twice_changes_nothing_the_second_time(agent):
    for file in files(agent):
        once = add_entries(None, file)
        assert add_entries(once, file) == once


@pytest.mark.parametrize("agent", AGENTS)
def test_removing_restores_the_previous_settings(agent):
    for file in edited(agent):
        before = (
            "# mine\nmodel = 1\n" if file.kind == "toml" else json.dumps(OTHERS, indent=2) + "\n"
        )
        assert remove_entries(add_entries(before, file), file) == before


@pytest.mark.parametrize("agent", AGENTS)
def test_removing_our_entries_from_a_file_with_only_ours_deletes_it(agent):
    for file in files(agent):
        assert remove_entries(add_entries(None, file), file) is None


def test_a_new_path_of_the_hook_program_replaces_the_old_one():
    file = files("claude-code")[0]
    old = json.loads(add_entries(None, file))
    old["hooks"]["Stop"][0]["hooks"][0]["command"] = "/old/stator-hook claude-code"
    after = json.loads(add_entries(json.dumps(old), file))
    (entry,) = after["hooks"]["Stop"]
    assert entry["hooks"][0]["command"] == "/opt/bin/stator-hook claude-code"


@pytest.mark.parametrize(
    "command", ["echo stator-hook", "/opt/my-stator-hook-wrapper x", "say 'it", "", "A=1"]
)
def test_a_hook_that_only_mentions_our_program_stays(command):
    assert not is_ours({"command": command})


@pytest.mark.parametrize(
    "command",
    ["stator-hook cursor", "'/my tools/stator-hook' x", "STATOR_STORE=/a /b/stator-hook x"],
)
def test_our_hook_is_recognised_in_every_way_of_starting_it(command):
    assert is_ours({"command": command})


def test_another_hook_in_the_same_group_stays():
    file = files("claude-code")[0]
    lint = {"type": "command", "command": "lint"}
    ours = {"type": "command", "command": "stator-hook claude-code"}
    text = json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [lint, ours]}]}})
    kept = {"matcher": "Bash", "hooks": [lint]}
    assert json.loads(add_entries(text, file))["hooks"]["PreToolUse"][0] == kept
    assert json.loads(remove_entries(text, file) or "") == {"hooks": {"PreToolUse": [kept]}}


def test_adding_twice_from_a_folder_with_a_space_changes_nothing():
    programs = Programs("/my tools/stator-hook", "/my tools/stator")
    for agent in AGENTS.values():
        for file in wanted_settings(
            agent, programs, "user", root=Path("/p"), home=Path("/h"), environ={}
        ):
            once = add_entries(None, file)
            assert add_entries(once, file) == once
            assert remove_entries(once, file) is None


def test_a_lone_surrogate_in_the_settings_stays():
    file = files("claude-code")[0]
    after = add_entries('{"prompts": ["cut \\ud83d"]}', file)
    assert json.loads(after.encode())["prompts"] == ["cut \ud83d"]


def test_a_comment_above_the_table_after_ours_stays():
    file = files("codex")[1]
    text = '[mcp_servers.stator]\ncommand = "old"\n\n# about the other\n[other]\nb = 2\n'
    assert remove_entries(text, file) == "\n# about the other\n[other]\nb = 2\n"
    assert "# about the other\n[other]" in add_entries(text, file)


@pytest.mark.parametrize(
    "text", ['[mcp_servers]\nstator = {command = "x"}\n', 'a = """\n[mcp_servers.stator]\n"""\n']
)
def test_a_table_that_cannot_be_removed_is_refused(text):
    with pytest.raises(InvalidInput):
        remove_entries(text, files("codex")[1])


def test_servers_that_are_not_a_table_are_refused():
    with pytest.raises(InvalidInput):
        add_entries("mcp_servers = 5\n", files("codex")[1])


def test_a_toml_file_keeps_every_byte_outside_our_table():
    file = files("codex")[1]
    before = '# mine\nmodel = "x"  # good\n\n[mcp_servers.other]\ncommand = "y"\n'
    after = add_entries(before, file)
    assert after.startswith(before)
    assert tomllib.loads(after)["mcp_servers"][SERVER]["args"] == ["mcp"]
    assert remove_entries(after, file) == before


def test_our_table_in_the_middle_of_a_file_is_removed():
    file = files("codex")[1]
    text = 'a = 1\n\n[mcp_servers.stator]\ncommand = "old"\n\n[other]\nb = 2\n'
    assert tomllib.loads(remove_entries(text, file) or "") == {"a": 1, "other": {"b": 2}}


def test_servers_written_inline_are_refused_rather_than_broken(ask, home):
    Path(".codex").mkdir()
    text = 'mcp_servers = { other = { command = "y" } }\n'
    Path(".codex/config.toml").write_text(text)
    result = ask("init", "codex", "--yes")
    assert result.code == 2
    assert Path(".codex/config.toml").read_text() == text


def test_paths_with_spaces_reach_the_shell_as_one_word():
    entry = hooks_of(CLAUDE, Programs("/my tools/stator-hook", "stator", "/a b.db"))["Stop"]
    command = entry["hooks"][0]["command"]
    assert command == "'/my tools/stator-hook' claude-code --store '/a b.db'"


def test_the_change_is_shown_and_written_only_after_yes(ask, home):
    result = ask("init", "claude-code")
    assert "stator-hook claude-code" in result.out
    assert "nothing was changed" in result.out
    assert result.code == 0
    assert os.listdir(".") == []


def test_a_dry_run_changes_nothing(ask, home):
    result = ask("init", "claude-code", "codex", "gemini", "cursor", "--dry-run")
    assert result.code == 0
    assert os.listdir(".") == []


def test_yes_writes_the_settings_and_creates_the_store(ask, home):
    assert ask("init", "claude-code", "--yes").code == 0
    settings = json.loads(Path(".claude/settings.local.json").read_text())
    assert set(settings["hooks"]) == set(CLAUDE.events)
    assert json.loads(Path(".mcp.json").read_text())["mcpServers"][SERVER]["args"] == ["mcp"]
    assert Path(".stator/store.db").exists()


def test_a_second_init_changes_nothing(ask, home):
    ask("init", "claude-code", "--yes")
    before = {path: path.read_bytes() for path in Path(".claude").iterdir()}
    result = ask("init", "claude-code", "--yes")
    assert "nothing to do" in result.out
    assert {path: path.read_bytes() for path in Path(".claude").iterdir()} == before


def test_no_file_is_left_beside_a_changed_one(ask, home):
    Path(".claude").mkdir()
    Path(".claude/settings.local.json").write_text('{"a": 1}')
    ask("init", "claude-code", "--yes")
    assert os.listdir(".claude") == ["settings.local.json"]


def test_remove_deletes_all_our_entries(ask, home):
    ask("init", *AGENTS, "--yes")
    ask("init", *AGENTS, "--remove", "--yes")
    assert os.listdir(".") == [".stator"]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"hooks": []}', '{"hooks": {"Stop": 1}}', '{"a": 1 "b": 2}', "{'a': 1}"]
)
def test_settings_that_cannot_be_parsed_are_not_changed(ask, home, text):
    Path(".claude").mkdir()
    Path(".claude/settings.local.json").write_text(text)
    result = ask("init", "claude-code", "--yes")
    assert result.code == 2
    assert "settings.local.json" in result.err
    assert Path(".claude/settings.local.json").read_text() == text


def test_a_linked_settings_file_stays_a_link(ask, home, tmp_path):
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").symlink_to(real)
    ask("init", "claude-code", "--user", "--yes")
    assert (home / ".claude" / "settings.json").is_symlink()
    assert "stator-hook" in real.read_text()


def test_the_mode_of_a_file_is_kept(ask, home):
    (home / ".claude.json").write_text("{}")
    (home / ".claude.json").chmod(0o640)
    ask("init", "claude-code", "--user", "--yes")
    assert (home / ".claude.json").stat().st_mode & 0o777 == 0o640


def test_user_settings_are_where_the_environment_says(ask, home, tmp_path, monkeypatch):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "cx"))
    ask("init", "codex", "--user", "--yes")
    assert (tmp_path / "cx" / "hooks.json").exists()


def test_shared_settings_name_no_personal_folder(ask, home):
    ask("init", "claude-code", "--shared", "--yes")
    assert "/stator-hook" not in Path(".claude/settings.json").read_text()


def test_a_folder_called_like_an_agent_can_be_named(ask, home):
    assert ask("init", "./codex").code == 0
    assert Path("codex/.stator/store.db").exists()


def test_json_output_lists_the_changes(ask, home):
    document = json.loads(ask("init", "gemini", "--dry-run", "--json").out)
    (edit,) = document["agents"]["gemini"]
    assert edit["action"] == "create"
    assert document["written"] is False


def test_the_plugin_has_the_same_hooks_as_init(ask):
    folder = Path(ask("init", "--plugin").out.strip())
    bare = Programs("stator-hook", "stator")
    hooks = {event: [entry] for event, entry in hooks_of(CLAUDE, bare).items()}
    assert json.loads((folder / "hooks/hooks.json").read_text())["hooks"] == hooks
    assert json.loads((folder / ".mcp.json").read_text())["mcpServers"][SERVER] == bare.server
    assert json.loads((folder / ".claude-plugin/plugin.json").read_text())["name"] == "stator"


def test_init_warns_if_the_mcp_package_is_missing(ask, home, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install 'stator[mcp]'" in ask("init", "claude-code", "--yes").out


@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--yes"], ["--remove"]])
def test_the_error_for_an_unknown_agent_lists_the_known_ones(ask, home, more):
    answer = ask("init", "windsurf", *more)
    assert answer.code == 2
    assert "'windsurf'" in answer.err
    assert ", ".join(AGENTS) in answer.err
    assert os.listdir(".") == []


@pytest.mark.parametrize(
    ("word", "meant"),
    [("claude", "claude-code"), ("openocde", "opencode"), ("gemini-cli", "gemini")],
)
def test_an_agent_that_was_probably_meant_is_named(ask, home, word, meant):
    assert f"did you mean {meant}?" in ask("init", word).err


def test_a_folder_that_exists_needs_no_slash(ask, home):
    Path("shop").mkdir()
    assert ask("init", "shop").code == 0
    assert Path("shop/.stator/store.db").exists()


# -- files that a team commits ----------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_files_that_a_team_commits_name_no_folder_of_this_machine(ask, home, agent):
    ask("init", agent, "--shared", "--yes")
    texts = [
        path.read_text()
        for path in Path(".").rglob("*")
        if path.is_file() and ".stator" not in path.parts
    ]
    assert texts
    assert not any(str(Path(sys.executable).parent) in text for text in texts)


def test_the_users_own_settings_name_the_program_with_its_folder(ask, home):
    ask("init", "gemini", "--user", "--yes")
    shown = json.loads((home / ".gemini/settings.json").read_text())
    command = shown["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    assert command == f"{Path(sys.executable).parent}/stator-hook gemini"


def test_init_says_that_a_program_is_not_on_the_path(ask, home, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    shown = ask("init", "gemini", "--yes").out
    assert "stator-hook and stator not on the PATH" in shown
    assert f'export PATH="{Path(sys.executable).parent}:$PATH"' in shown


def test_a_store_of_this_machine_does_not_reach_files_that_a_team_commits(ask, home):
    answer = ask("init", "gemini", "--store", "/elsewhere/store.db", "--yes")
    assert answer.code == 2
    assert not Path(".gemini").exists()


# -- two scopes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"), [("--user", ""), ("", "--user"), ("--user", "--shared")]
)
@pytest.mark.parametrize("agent", AGENTS)
def test_a_second_scope_is_not_turned_on_unasked(ask, home, agent, first, second):
    ask("init", agent, "--yes", *filter(None, [first]))
    before = contents(home.parent)
    answer = ask("init", agent, "--yes", *filter(None, [second]))
    assert answer.code == 1
    assert f"{agent} is recorded already" in answer.out
    assert contents(home.parent) == before


def test_force_turns_on_a_second_scope(ask, home):
    ask("init", "gemini", "--user", "--yes")
    assert ask("init", "gemini", "--force", "--yes").code == 0
    assert Path(".gemini/settings.json").exists()


def test_shared_and_local_settings_are_two_scopes(ask, home):
    ask("init", "claude-code", "--shared", "--yes")
    assert "recorded already" in ask("init", "claude-code", "--yes").out


# -- the files on disk ------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def folders(folder: Path) -> set[str]:
    return {
        str(path) for path in folder.rglob("*") if path.is_dir() and ".stator" not in path.parts
    }


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("scope", [[], ["--user"]])
def test_an_agents_folder_that_was_there_and_empty_stays(ask, home, agent, scope):
    for folder in (".claude", ".codex", ".gemini", ".cursor", ".opencode", ".config/opencode"):
        Path(folder).mkdir(parents=True)
        (home / folder).mkdir(parents=True)
    before = folders(home.parent)
    ask("init", agent, "--yes", *scope)
    ask("init", agent, "--remove", "--yes", *scope)
    assert folders(home.parent) == before


def test_a_folder_in_which_the_user_put_something_stays(ask, home):
    ask("init", "gemini", "--yes")
    Path(".gemini/mine.md").write_text("mine")
    ask("init", "gemini", "--remove", "--yes")
    assert os.listdir(".gemini") == ["mine.md"]


def test_removing_keeps_a_plugin_of_the_user(ask, home):
    folder = Path(".opencode/plugins")
    folder.mkdir(parents=True)
    (folder / "stator.js").write_text("export const Mine = 1")
    assert ask("init", "opencode", "--yes").code == 2
    ask("init", "opencode", "--remove", "--yes")
    assert (folder / "stator.js").read_text() == "export const Mine = 1"


def test_the_plugin_for_opencode_starts_the_program_it_was_installed_for(ask, home):
    ask("init", "opencode", "--user", "--yes")
    text = (home / ".config/opencode/plugins/stator.js").read_text()
    assert f'const COMMAND = ["{Path(sys.executable).parent}/stator-hook", "opencode"]' in text
    shown = json.loads((home / ".config/opencode/opencode.json").read_text())
    assert shown["mcp"]["stator"]["command"][1:] == ["mcp"]


def test_opencodes_settings_with_comments_are_extended(ask, home):
    text = '{\n  // mine\n  "model": "x",\n}\n'
    Path("opencode.jsonc").write_text(text)
    ask("init", "opencode", "--yes")
    assert (
        '"stator": {"type": "local", "command": ["stator", "mcp"]'
        in Path("opencode.jsonc").read_text()
    )
    assert not Path("opencode.json").exists()
    ask("init", "opencode", "--remove", "--yes")
    assert Path("opencode.jsonc").read_text() == text


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640])
def test_a_file_keeps_its_mode_and_its_owner(ask, home, mode):
    Path(".mcp.json").write_text("{}")
    Path(".mcp.json").chmod(mode)
    before = Path(".mcp.json").stat()
    ask("init", "claude-code", "--yes")
    after = Path(".mcp.json").stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


# -- settings that earlier versions wrote -----------------------------------------------------------


OLD_HOOK = {"type": "command", "command": "/old/venv/bin/stator-hook gemini", "timeout": 10000}
OLD = {
    "theme": "dark",
    "hooks": {event: [{"hooks": [OLD_HOOK]}] for event in AGENTS["gemini"].events},
    "mcpServers": {"stator": {"command": "/old/venv/bin/stator", "args": ["mcp"]}},
}


def write_as_before(text: str) -> None:
    """Write settings as version 0.7 did: indented again, with this machine's path, and a copy beside."""
    Path(".gemini").mkdir()
    Path(".gemini/settings.json").write_text(json.dumps(OLD, indent=2) + "\n")
    Path(".gemini/settings.json.before-stator").write_text(text)


def test_entries_of_an_earlier_version_are_replaced(ask, home):
    write_as_before('{"theme":"dark"}')
    ask("init", "gemini", "--yes")
    text = Path(".gemini/settings.json").read_text()
    assert "/old/venv" not in text
    assert text.count("stator-hook gemini") == len(AGENTS["gemini"].events)
    assert json.loads(text)["theme"] == "dark"


def test_removing_gives_back_the_copy_that_an_earlier_version_kept(ask, home):
    write_as_before('{"theme":"dark"}')
    ask("init", "gemini", "--remove", "--yes")
    assert contents(Path(".gemini")) == {".gemini/settings.json": b'{"theme":"dark"}'}


def test_a_copy_with_other_settings_is_left_alone(ask, home):
    write_as_before('{"theme":"light"}')
    ask("init", "gemini", "--remove", "--yes")
    assert json.loads(Path(".gemini/settings.json").read_text()) == {"theme": "dark"}
    assert Path(".gemini/settings.json.before-stator").read_text() == '{"theme":"light"}'


# -- what an agent is told ------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("mode", ["off", "start"])
def test_what_an_agent_is_told_is_in_the_command_of_its_hooks(ask, home, agent, mode):
    assert ask("init", agent, "--yes", f"--brief={mode}").code == 0
    (first, *_) = [
        file for file in files(agent, root=Path.cwd()) if file.hooks or file.kind == "file"
    ]
    written = (Path.cwd() / ".claude/settings.local.json") if agent == "claude-code" else first.path
    assert f"--brief={mode}" in written.read_text()


@pytest.mark.parametrize("agent", AGENTS)
def test_init_without_the_option_keeps_what_an_agent_is_told(ask, home, agent):
    ask("init", agent, "--yes", "--brief=start")
    again = ask("init", agent, "--yes")
    assert "nothing to do" in again.out
    assert "--brief=start" in again.out


@pytest.mark.parametrize("agent", AGENTS)
def test_full_is_the_default_and_writes_nothing_about_it(ask, home, agent):
    ask("init", agent, "--yes", "--brief=off")
    ask("init", agent, "--yes", "--brief=full")
    found = [
        path for path in Path.cwd().rglob("*") if path.is_file() and ".stator" not in path.parts
    ]
    assert not any("--brief" in path.read_text() for path in found)


def test_what_an_agent_is_told_needs_an_agent(ask, home):
    assert "the agent is missing" in ask("init", "--brief=off").err
