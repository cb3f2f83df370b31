"""The reading service: the documents of the command line, by pages, with tags, and errors with their codes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

import stator
from stator import errors
from stator.errors import StatorError
from stator.runtime.facade.store import Store
from stator.surfaces.cli.main import main
from stator.surfaces.http import reads, service
from stator.surfaces.http.problems import FAULT, status_of
from web.running import RunningInspector
from web.service_client import ServiceClient

LARGE = random.Random(19).randbytes(40_000).hex()
"""More than a row of the log holds, and it cannot be compressed much."""


@stator.tool(effect="read")
def read_it(n: int) -> str:
    return f"read {n}"


@pytest.fixture
def client(inspector: RunningInspector) -> ServiceClient:
    return ServiceClient(inspector.address, inspector.access.new_token())


@pytest.fixture
def worked(store: Store) -> str:
    """A session in which something of everything happened."""
    with store.open("fix-login", agent="robot") as session:
        for n in range(3):
            with session.turn(f"do thing {n}") as turn:
                turn.decide(f"way {n}", topic="auth", why=f"reason {n}")
                turn.fact("n", n)
                turn.file(f"src/file{n}.py", "created")
                turn.call(read_it, n=n)
        with session.turn(LARGE):
            pass
    return session.id


def printed(capsys: pytest.CaptureFixture[str], tmp_path: Path, *words: str) -> list[object]:
    """What a command prints as JSON: one document, or the items of a list."""
    capsys.readouterr()
    assert main([*words, "--json", "--store", str(tmp_path / "store.db")]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", ["show", "fix-login"]),
        ("/commits/@5", ["show", "fix-login:@5"]),
        ("/state?at=t2", ["state", "fix-login:t2"]),
        ("/diff/t1..t3", ["diff", "fix-login:t1..t3"]),
        ("/tree", ["tree", "fix-login"]),
        ("/brief", ["brief", "fix-login", "--no-disk"]),
    ],
)
def test_a_document_is_the_one_that_the_command_prints(
    client: ServiceClient, worked: str, path: str, words: list[str],
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    got = client.get(f"/sessions/{worked}{path}")
    assert got.status == 200
    assert [got.json] == printed(capsys, tmp_path, *words)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/log", ["log", "fix-login", "--reverse"]),
        ("/calls", ["calls", "fix-login"]),
        ("/files", ["files", "fix-login"]),
        ("/decisions?which=all", ["decisions", "fix-login", "--all"]),
        ("/why?thing=auth", ["why", "auth", "-s", "fix-login"]),
        ("/evicted", ["evicted", "fix-login"]),
    ],
)
def test_the_items_of_a_list_are_those_that_the_command_prints(
    client: ServiceClient, worked: str, path: str, words: list[str],
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    got = client.get(f"/sessions/{worked}{path}")
    assert got.status == 200
    assert got.json["schema"] == "stator.page/1"
    assert got.json["items"] == printed(capsys, tmp_path, *words)


def test_sessions_and_matches_are_those_that_the_commands_print(
    client: ServiceClient, worked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(client.items("/sessions")) == printed(capsys, tmp_path, "ls", "--all")
    found = list(client.items("/search", q="reason"))
    assert found
    assert found == printed(capsys, tmp_path, "search", "reason", "--all")


@pytest.mark.parametrize("path", ["/log", "/turns", "/calls", "/files", "/decisions"])
def test_pages_of_any_size_give_every_item_once(
    client: ServiceClient, worked: str, path: str
) -> None:
    whole = list(client.items(f"/sessions/{worked}{path}"))
    assert whole
    for limit in (1, 2, len(whole)):
        assert list(client.items(f"/sessions/{worked}{path}", limit=limit)) == whole


def test_the_newest_come_first_where_that_is_asked_for(client: ServiceClient, worked: str) -> None:
    for path in ("log", "turns"):
        whole = list(client.items(f"/sessions/{worked}/{path}"))
        turned = list(client.items(f"/sessions/{worked}/{path}", newest=1, limit=2))
        assert turned == whole[::-1]


def test_a_page_ends_at_its_size_and_goes_on_after_it(
    client: ServiceClient, worked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = list(client.items(f"/sessions/{worked}/log"))
    monkeypatch.setattr(reads, "PAGE_BYTES", 1_500)
    assert len(client.get(f"/sessions/{worked}/log").json["items"]) < len(whole)
    assert list(client.items(f"/sessions/{worked}/log")) == whole


def test_a_cursor_that_was_changed_or_is_of_another_question_is_refused(
    client: ServiceClient, worked: str
) -> None:
    cursor = client.get(f"/sessions/{worked}/log", limit=2).json["next"]
    other = cursor[:-1] + ("0" if cursor[-1] != "0" else "1")
    for path, query in (
        ("log", {"limit": 2, "cursor": other}),
        ("log", {"limit": 3, "cursor": cursor}),
        ("turns", {"limit": 2, "cursor": cursor}),
        ("log", {"limit": 2, "cursor": "not even hex"}),
    ):
        got = client.get(f"/sessions/{worked}/{path}", **query)
        assert (got.status, got.json["code"]) == (400, "E_QUERY")


@pytest.mark.parametrize(
    "path", ["", "/log", "/turns", "/state", "/diff/t1", "/calls", "/files", "/decisions"]
)
def test_what_stands_as_it_was_is_not_sent_again(
    client: ServiceClient, store: Store, worked: str, path: str
) -> None:
    address = f"/sessions/{worked}{path}"
    tag = client.get(address).headers["etag"]
    assert store.read(worked).head.hash in tag
    same = client.get(address, {"If-None-Match": f'"other", W/{tag}'})
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", tag)
    with store.open("fix-login") as session, session.turn("more"):
        pass
    assert client.get(address, {"If-None-Match": tag}).status == 200


DRIVER = """
import sys, stator
with stator.connect(sys.argv[1]) as store, store.open("a") as session, session.turn("go"):
    print("driving", flush=True)
    sys.stdin.read()
"""


def test_the_tag_of_a_session_changes_with_its_status_although_no_commit_came(
    client: ServiceClient, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path / "store.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"driving\n"
        driven = client.get("/sessions/a")
        driver.kill()
    left = client.get("/sessions/a")
    assert driven.json["head"] == left.json["head"]
    assert (driven.json["shown"], left.json["shown"]) == ("active", "interrupted")
    assert driven.headers["etag"] != left.headers["etag"]


def test_content_that_the_log_names_by_its_digest_comes_as_an_attachment(
    client: ServiceClient, store: Store, worked: str
) -> None:
    large = [
        (item["seq"], item["input"]["digest"])
        for item in client.items(f"/sessions/{worked}/log")
        if item["kind"] == "turn" and isinstance(item["input"], dict)
    ]
    ((seq, digest),) = large
    got = client.get(f"/blobs/{digest}", session=worked, seq=seq)
    assert got.status == 200
    assert LARGE.encode() in got.body
    assert got.headers["content-disposition"].startswith("attachment")
    assert got.headers["content-type"] == "application/octet-stream"
    assert client.get(f"/blobs/{digest}", session=worked, seq=seq - 1).status == 404


def test_an_answer_that_is_too_large_is_refused_with_what_to_do(
    client: ServiceClient, worked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "BODY_MAX", 500)
    got = client.get(f"/sessions/{worked}/state")
    assert (got.status, got.json["code"]) == (413, "E_SIZE")
    assert "fewer collections" in got.json["hint"]


def test_errors_are_problems_with_the_codes_of_the_library(client: ServiceClient) -> None:
    for path, status, code in (
        ("/sessions/nobody", 404, "E_NOT_FOUND"),
        ("/sessions?status=asleep", 400, "E_QUERY"),
        ("/sessions?colour=red", 400, "E_QUERY"),
        ("/sessions?limit=0", 400, "E_QUERY"),
        ("/sessions?limit=1&limit=2", 400, "E_QUERY"),
        ("/nothing", 404, "E_NOT_FOUND"),
        ("/search", 400, "E_QUERY"),
    ):
        got = client.get(path)
        assert (got.status, got.json["code"], got.json["status"]) == (status, code, status)
        assert got.headers["content-type"] == "application/problem+json"
        assert got.json["title"]


def test_a_program_without_the_token_gets_a_problem_and_no_page(
    inspector: RunningInspector,
) -> None:
    got = ServiceClient(inspector.address).get("/sessions")
    assert (got.status, got.json["code"]) == (401, "E_UNAUTHORIZED")
    assert got.headers["www-authenticate"] == "Bearer"


def test_what_a_caller_did_wrong_is_never_called_a_fault_of_the_service() -> None:
    found: list[type[StatorError]] = [errors.InvalidInput, errors.NotFound, errors.Ambiguous]
    for kind in found:
        found += kind.__subclasses__()
        assert 400 <= status_of(kind.__new__(kind)) < FAULT, kind
