"""`stator init AGENT`: turns on recording in an agent's settings, and keeps all other settings."""

from __future__ import annotations

import importlib.util
import json
import os
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
        once = add_entries("", file)
        assert add_entries(once, file) == once


@pytest.mark.parametrize("agent", AGENTS)
def test_removing_restores_the_previous_settings(agent):
    for file in files(agent):
        before = (
            "# mine\nmodel = 1\n" if file.kind == "toml" else json.dumps(OTHERS, indent=2) + "\n"
        )
        assert remove_entries(add_entries(before, file), file) == before


@pytest.mark.parametrize("agent", AGENTS)
def test_removing_our_entries_from_a_file_with_only_ours_deletes_it(agent):
    for file in files(agent):
        assert remove_entries(add_entries("", file), file) == ""


def test_a_new_path_of_the_hook_program_replaces_the_old_one():
    file = files("claude-code")[0]
    old = json.loads(add_entries("", file))
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
    assert json.loads(remove_entries(text, file)) == {"hooks": {"PreToolUse": [kept]}}


def test_adding_twice_from_a_folder_with_a_space_changes_nothing():
    programs = Programs("/my tools/stator-hook", "/my tools/stator")
    for agent in AGENTS.values():
        for file in wanted_settings(
            agent, programs, "user", root=Path("/p"), home=Path("/h"), environ={}
        ):
            once = add_entries("", file)
            assert add_entries(once, file) == once
            assert remove_entries(once, file) == ""


def test_a_lone_surrogate_in_the_settings_stays():
    file = files("claude-code")[0]
    after = add_entries('{"prompts": ["cut \\ud83d"]}', file)
    assert json.loads(after.encode())["prompts"] == ["cut \ud83d"]


def test_a_comment_above_the_table_after_ours_stays():
    file = files("codex")[1]
    text = '[mcp_servers.stator]\ncommand = "old"\n\n# about the other\n[other]\nb = 2\n'
    assert remove_entries(text, file) == "# about the other\n[other]\nb = 2\n"
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
    assert tomllib.loads(remove_entries(text, file)) == {"a": 1, "other": {"b": 2}}


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
    assert result.code == 1
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


def test_a_copy_of_the_old_file_is_kept(ask, home):
    Path(".claude").mkdir()
    Path(".claude/settings.local.json").write_text('{"a": 1}')
    ask("init", "claude-code", "--yes")
    assert Path(".claude/settings.local.json.before-stator").read_text() == '{"a": 1}'


def test_remove_deletes_all_our_entries(ask, home):
    ask("init", "claude-code", "codex", "gemini", "cursor", "--yes")
    ask("init", "claude-code", "codex", "gemini", "cursor", "--remove", "--yes")
    left = [path for path in Path(".").rglob("*") if path.is_file() and ".stator" not in str(path)]
    assert left == []


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"hooks": []}', '{"hooks": {"Stop": 1}}', "// no\n{}"]
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


def test_the_error_for_an_unknown_agent_lists_the_known_ones(ask, home):
    answer = ask("init", "windsurf", "--dry-run")
    assert answer.code == 2
    assert "'windsurf'" in answer.err
    assert "claude-code, codex, gemini, cursor" in answer.err
