"""Tests that the hook program writes one line for any input and never gets in an agent's way."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import stator
from importers.hook_lines import HOOK, HookedStore, before_tool, hook_input, prompt, session
from owner.repositories import made, worktree
from stator.hooks.spool import SpoolLine, parse_spool_line
from stator.locations import CURRENT, KEY
from stator.surfaces import hook


def payload_of(line: bytes) -> dict[str, Any]:
    """The payload of a spool line."""
    found = parse_spool_line(line, CURRENT, len(line))
    assert isinstance(found, SpoolLine), found
    return found.payload


SECRET = "sk-ant-api03-" + "Ab1" * 20


def test_a_line_contains_the_agents_input(hooked):
    assert hooked.hook(before_tool("t1", command="ls")).returncode == 0
    (line,) = hooked.lines()
    found = parse_spool_line(line, CURRENT, len(line))
    assert isinstance(found, SpoolLine)
    assert found.agent == "cursor"
    assert found.payload["tool_input"] == {"command": "ls"}


def test_a_hook_in_a_worktree_records_for_the_store_of_the_main_checkout(tmp_path):
    main = HookedStore(made(tmp_path / "shop"))
    tree = worktree(main.root, tmp_path / "elsewhere" / "feature", "feature")
    main.hook({**prompt(), "cwd": str(tree)})
    assert len(main.lines()) == 1


def test_a_session_in_a_worktree_belongs_to_the_project_of_the_main_checkout(tmp_path):
    main = HookedStore(made(tmp_path / "shop"))
    tree = worktree(main.root, tmp_path / "feature", "feature")
    main.hook({**prompt(), "cwd": str(tree)})
    with stator.connect(main.path) as store:
        assert session(store).record.project == str(main.root)


def test_an_ordinary_hook_prints_nothing(hooked):
    done = hooked.hook(prompt())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_spool_is_readable_by_its_owner_only(hooked):
    hooked.hook(prompt(text=f"use {SECRET}"))
    assert hooked.spool.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in hooked.spool.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\xff\xfe binary",
        b"{",
        b"[1, 2]",
        b'{"a": 1} {"b": 2}',
        b"[" * 5000,
        b"\xff\xfe{\0}\0",
    ],
    ids=["empty", "binary", "cut", "a list", "two", "deep", "utf-16"],
)
def test_hook_exits_zero_for_any_input(hooked, data):
    done = hooked.hook(data)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_unreadable_input_is_replaced_by_a_placeholder(hooked):
    hooked.hook(b'{"prompt": "password=hunter22hunter22"')
    (line,) = hooked.lines()
    assert payload_of(line) == {"unread": "not a JSON object", "bytes": 38}


def test_closed_standard_input_records_nothing(hooked):
    command = ["sh", "-c", f"{HOOK[0]} -m {HOOK[2]} cursor <&-"]
    done = subprocess.run(command, cwd=hooked.root, env=hooked.environ, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_hook_does_not_wait_for_an_open_standard_input(hooked):
    """The program ends although its standard input is never closed."""
    with subprocess.Popen(
        [*HOOK, "cursor"], stdin=subprocess.PIPE, cwd=hooked.root, env=hooked.environ
    ) as running:
        assert running.stdin is not None
        os.write(running.stdin.fileno(), json.dumps(prompt()).encode())
        assert running.wait(timeout=60) == 0
        assert len(hooked.lines()) == 1


def test_complete_input_is_recorded_without_waiting_for_the_end(monkeypatch):
    """Otherwise every tool call would take as long as the timeout for silent agents."""
    waits: list[float] = []
    pieces = [b'{"a":', b"1}"]

    def chosen(*given: Any) -> tuple[list[int], list[int], list[int]]:
        waits.append(given[3])
        return ([0] if pieces else []), [], []

    monkeypatch.setattr(select, "select", chosen)
    monkeypatch.setattr(os, "isatty", lambda _: False)
    monkeypatch.setattr(os, "read", lambda *_: pieces.pop(0))
    assert hook._read_all() == (b'{"a":1}', "")
    assert waits == [hook.PAUSE_S] * 3


def test_endless_input_is_cut_after_a_time_limit(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(select, "select", lambda *_: ([0], [], []))
    monkeypatch.setattr(os, "isatty", lambda _: False)
    monkeypatch.setattr(os, "read", lambda *_: b"x")
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    assert hook._read_all()[1] == "not at its end after 20 s"


def test_a_hook_name_that_is_not_text_is_recorded(hooked):
    hooked.hook(hook_input("x") | {"hook_event_name": ["PreToolUse"]})
    assert len(hooked.lines()) == 1


def test_input_nested_too_deeply_is_replaced_by_a_placeholder(hooked):
    hooked.hook(b'{"a":' * 1200 + b'"password=hunter22hunter22"' + b"}" * 1200)
    (line,) = hooked.lines()
    # Which of the two depends on how far this Python's own parser goes.
    assert payload_of(line)["unread"] in ("nested too deeply", "not a JSON object")


def test_a_secret_in_a_folder_name_is_redacted(hooked):
    folder = hooked.root / SECRET
    folder.mkdir()
    hooked.hook(prompt() | {"cwd": str(folder)})
    (line,) = hooked.lines()
    assert SECRET.encode() not in line


def test_an_agent_in_another_folder_records_into_its_projects_store(hooked, tmp_path):
    other = HookedStore(tmp_path / "other")
    line = {"hook_event_name": "Stop", "session_id": "s1", "cwd": str(other.root)}
    hooked.hook(line, "claude-code", CLAUDE_PROJECT_DIR=str(hooked.root))
    assert (len(hooked.lines()), len(other.lines())) == (1, 0)


def test_input_above_the_limit_is_replaced_by_a_placeholder(hooked):
    done = hooked.hook(b'{"prompt": "' + b"x" * (hook.STDIN_MAX + 10) + b'"}')
    assert done.returncode == 0
    (line,) = hooked.lines()
    assert b"more than 32 MB" in line
    assert len(line) < 10_000


def test_input_on_several_lines_becomes_one_line(hooked):
    data = json.dumps({"cwd": str(hooked.root), **prompt()}, indent=2).encode()
    hooked.hook(data)
    (line,) = hooked.lines()
    assert isinstance(parse_spool_line(line, CURRENT, 0), SpoolLine)


def test_hook_exits_zero_and_notes_what_it_could_not_record(hooked):
    hooked.spool.mkdir()
    (hooked.spool / KEY).mkdir()
    done = hooked.hook(prompt(text=SECRET))
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"cursor: " in (hooked.spool / "note").read_bytes()
    assert hooked.lines() == []


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_hook_exits_zero_in_a_read_only_folder(hooked):
    hooked.spool.mkdir(mode=0o500)
    assert hooked.hook(before_tool("t1")).returncode == 0


def test_hook_exits_zero_on_a_full_disk(hooked):
    limited = ["sh", "-c", f"ulimit -f 0; exec {HOOK[0]} -m {HOOK[2]} cursor"]
    data = json.dumps({"cwd": str(hooked.root), **before_tool("t1")}).encode()
    done = subprocess.run(
        limited, input=data, cwd=hooked.root, env=hooked.environ, capture_output=True
    )
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize(
    "make", [os.mkdir, os.mkfifo, lambda path: os.symlink("elsewhere", path)],
    ids=["folder", "fifo", "link"],
)  # fmt: skip
def test_a_line_goes_to_another_file_if_current_is_not_a_file(hooked, make):
    hooked.spool.mkdir(mode=0o700)
    make(hooked.spool / CURRENT)
    hooked.hook(prompt())
    assert sorted(file.name[:4] for file in hooked.spool.iterdir()) == ["curr", "own-"]
    assert hooked.kinds() == ["open", "turn"]


def test_without_a_home_or_a_store_nothing_is_recorded(tmp_path):
    done = subprocess.run(
        [*HOOK, "cursor"], input=json.dumps(prompt()).encode(), cwd=tmp_path,
        env={"PATH": os.environ["PATH"]}, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert list(tmp_path.iterdir()) == []


def test_without_a_store_nearby_the_users_store_is_used(tmp_path, hooked):
    hooked.hook(prompt() | {"cwd": "/"}, HOME=str(tmp_path / "home"), XDG_DATA_HOME="")
    assert (tmp_path / "home/.local/share/stator/store.db-spool" / CURRENT).exists()


@pytest.mark.parametrize("given", ["sqlite:///{}", "{}"])
def test_the_environment_variable_selects_the_store(hooked, tmp_path, given):
    named = tmp_path / "other.db"
    stator.connect(named).close()
    hooked.hook(prompt(), STATOR_STORE=given.format(named).replace("sqlite:////", "sqlite:////"))
    assert (tmp_path / "other.db-spool" / CURRENT).exists()


def test_a_symbolic_link_as_the_spool_is_not_followed(hooked, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    hooked.spool.symlink_to(tmp_path / "elsewhere")
    assert hooked.hook(prompt()).returncode == 0
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    "data",
    [
        prompt(text=f"the key is {SECRET}"),
        before_tool("t1", command="curl", env={"API_KEY": "hunter22hunter22"}),
        before_tool("t1", command="psql postgres://me:hunter22hunter22@db/x"),
        hook_input("preToolUse", tool_use_id="t1", tool_input={"password": "hunter22hunter22"}),
        before_tool("t1", command="export DB_PASSWORD=hunter22hunter22"),
    ],
    ids=["shape", "name", "url", "password", "assigned"],
)
def test_secrets_never_reach_the_spool(hooked, data):
    hooked.hook(data)
    written = b"".join(file.read_bytes() for file in hooked.spool.iterdir() if file.name != "key")
    assert b"secret:" in written
    assert SECRET.encode() not in written
    assert b"hunter22" not in written


def test_a_secret_in_json_escapes_is_redacted(hooked):
    data = json.dumps({"cwd": str(hooked.root), **prompt(text=SECRET)}).replace("sk-", "\\u0073k-")
    hooked.hook(data.encode())
    assert b"secret:" in hooked.lines()[0]


LONG = "x = 1\n" * (hook.LOOKED_AT_MAX // 6 + 1)


def test_long_input_without_a_secret_is_kept_as_it_came(hooked):
    data = json.dumps(before_tool("t1", command=LONG), indent=1).encode()
    hooked.hook(data)
    (line,) = hooked.lines()
    assert line.partition(b"\t")[2].strip() == data.replace(b"\n", b" ")


def test_long_input_with_a_secret_keeps_all_but_the_secret(hooked):
    hooked.hook(before_tool("t1", command=f"{LONG}use {SECRET}"))
    (line,) = hooked.lines()
    assert SECRET.encode() not in line
    kept = payload_of(line)["tool_input"]["command"]
    assert kept.startswith(f"{LONG}use ")
    assert "secret:" in kept


@pytest.mark.parametrize("within", ['{"a": %s}', '{"a": [1, {"b": %s}]}'], ids=["near", "deep"])
def test_a_secret_under_a_key_that_is_given_twice_is_not_kept(hooked, within):
    """Of two values for one key a reader of JSON sees the last."""
    twice = within % f'{{"x": "{SECRET}", "x": "{LONG[:20].strip()}"}}'.replace("\n", " ")
    data = json.dumps(before_tool("t1", command=LONG))[:-1] + f', "more": {twice}}}'
    assert SECRET not in json.dumps(json.loads(data))
    hooked.hook(data.encode())
    (line,) = hooked.lines()
    assert SECRET.encode() not in line
    assert payload_of(line) == json.loads(data)


def test_the_same_secret_has_the_same_placeholder_in_a_spool(hooked):
    for _ in range(2):
        hooked.hook(prompt(text=SECRET))
    placeholders = {payload_of(line)["prompt"] for line in hooked.lines()}
    assert len(placeholders) == 1


@pytest.mark.parametrize("lines", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_ten_concurrent_agents_lose_no_lines_and_keep_their_order(hooked, lines):
    def agent(number: int) -> None:
        for n in range(lines):
            assert (
                hooked.hook(before_tool(f"{number}-{n:02}", conversation=f"c{number}")).returncode
                == 0
            )

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(agent, range(10)))
    ids = [payload_of(line)["tool_use_id"] for line in hooked.lines()]
    assert sorted(ids) == [f"{number}-{n:02}" for number in range(10) for n in range(lines)]
    for number in range(10):
        own = [found for found in ids if found.startswith(f"{number}-")]
        assert own == sorted(own)


def test_a_line_goes_to_another_file_while_current_is_locked(hooked):
    import fcntl

    hooked.write(prompt(1))
    with open(hooked.spool / CURRENT, "ab") as taken:
        fcntl.flock(taken, fcntl.LOCK_EX)
        hooked.hook(prompt(2))
    assert len((hooked.spool / CURRENT).read_bytes().splitlines()) == 1
    assert len(list(hooked.spool.glob("own-*"))) == 1


def test_the_checksum_covers_header_and_payload():
    mark, checksum, size, body = (
        hook.line_of("cursor", "/", b'{"a": 1}').rstrip(b"\n").split(b" ", 3)
    )
    assert (mark, checksum) == (b"stator1", b"%08x" % zlib.crc32(body))
    assert int(size) == len(body)


def test_an_ordinary_line_imports_no_slow_modules(hooked):
    heavy = "re json msgspec apsw hashlib typing stator.connect stator.model.log.redact".split()
    program = (
        "import os, sys; from stator.surfaces import hook; leave = os._exit\n"
        f"os._exit = lambda code: leave(bool(set({heavy}) & set(sys.modules)))\n"
        "sys.argv = ['stator-hook', 'cursor']; hook.main()"
    )
    data = json.dumps({"cwd": str(hooked.root), **before_tool("t1", command="ls")}).encode()
    done = subprocess.run(
        [HOOK[0], "-S", "-c", "import sys; sys.path.insert(0, 'src')\n" + program],
        input=data, env=hooked.environ, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(hooked.lines()) == 1


def test_a_new_store_has_no_spool(tmp_path):
    assert not HookedStore(tmp_path).spool.exists()
