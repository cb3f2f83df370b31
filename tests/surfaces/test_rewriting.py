"""`stator export --as claude-code`: writes a session as a transcript that the agent can resume."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import stator
from importers.claude_code_writer import (
    SESSION,
    TranscriptWriter,
    import_files,
    items,
    items_of_type,
)
from stator.importers.claude_code.export import FOLDER_MAX
from stator.importers.claude_code.transcript import FORMAT
from stator.model.exchange.items import Called, Prompted, Returned
from stator.model.views import open_calls

CLAUDE = os.environ.get("STATOR_CLAUDE", "")
"""The program `claude`, where it is installed."""


@pytest.fixture
def doubtful(tmp_path, monkeypatch):
    """A session of Claude Code's that was killed within a call, as the store that is meant."""
    file = TranscriptWriter(tmp_path / "source" / f"{SESSION}.jsonl")
    file.prompt("build it", promptId="p-1")
    file.says(
        "msg_1", ("toolu_1", "Read", {"file_path": "/x"}), ("toolu_2", "Bash", {"command": "make"})
    )
    file.result("toolu_1", "text")
    path = tmp_path / "agent.db"
    with stator.connect(path, project="shop") as opened:
        import_files(opened, file.path)
    monkeypatch.setenv("STATOR_STORE", str(path))
    return path


def written(ask, *words):
    answer = ask("export", "--as", "claude-code", "--json", *words)
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_every_call_has_a_result_also_in_doubt(doubtful, ask):
    made = written(ask)
    blocks = [
        b for line in lines(made["path"]) for b in line["message"]["content"] if type(b) is dict
    ]
    asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
    told = {b["tool_use_id"]: str(b["content"]) for b in blocks if b["type"] == "tool_result"}
    assert asked == list(told) == ["toolu_1", "toolu_2"]
    assert "outcome is unknown" in told["toolu_2"]
    assert made["in_doubt"] == 1


def test_the_lines_form_one_chain_of_a_new_session(doubtful, ask):
    made = written(ask)
    found = lines(made["path"])
    assert [line["parentUuid"] for line in found] == [None, *(line["uuid"] for line in found[:-1])]
    assert {line["sessionId"] for line in found} == {made["session"]} != {SESSION}
    assert Path(made["path"]).stem == made["session"]


def test_the_transcript_is_written_where_the_agent_looks(doubtful, ask):
    made = written(ask)
    folder = "".join(c if c.isascii() and c.isalnum() else "-" for c in os.path.realpath("."))
    assert Path(made["path"]).parent == Path.home() / ".claude" / "projects" / folder
    assert stat.S_IMODE(Path(made["path"]).stat().st_mode) == 0o600


def test_the_agents_own_folder_is_found_by_its_setting(doubtful, ask, monkeypatch, tmp_path):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    assert Path(written(ask)["path"]).is_relative_to(tmp_path / "config" / "projects")


def test_an_existing_transcript_is_not_overwritten(doubtful, ask, tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text("mine")
    answer = ask("export", "--as", "claude-code", "-o", str(path))
    assert answer.code == 2
    assert path.read_text() == "mine"


def test_exporting_the_same_state_gives_the_same_session(doubtful, ask, tmp_path):
    one, two = (written(ask, "-o", str(tmp_path / name)) for name in ("a", "b"))
    assert one["session"] == two["session"]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_folder_to_work_in_can_be_named(doubtful, ask, tmp_path):
    made = written(ask, "--cwd", str(tmp_path))
    assert {line["cwd"] for line in lines(made["path"])} == {os.path.realpath(tmp_path)}
    assert ask("export", "--as", "claude-code", "--cwd", str(tmp_path / "none")).code == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--as", "nobody"],
        ["--as", "claude-code", "--tree"],
        ["--cwd", "."],
        ["--as", "claude-code", "a", "b"],
    ],
)
def test_conflicting_options_are_refused(doubtful, ask, words):
    assert ask("export", *words).code == 2


def test_an_exported_transcript_imports_as_the_same_session(doubtful, ask, tmp_path):
    made = written(ask, "-o", str(tmp_path / "back.jsonl"))
    told = items(Path(made["path"]))
    assert [item.content for item in items_of_type(Prompted, told)] == ["build it"]
    assert [call.id for call in items_of_type(Called, told)] == ["toolu_1", "toolu_2"]
    assert [result.status for result in items_of_type(Returned, told)] == ["ok", "in doubt"]
    (found,) = FORMAT.conversations(Path(made["path"]))
    assert found.conversation.id == made["session"]


def test_a_driven_session_can_be_exported_as_a_transcript(store, ask, tmp_path):
    made = written(ask, "-o", str(tmp_path / "driven.jsonl"))
    roles = [line["type"] for line in lines(made["path"])]
    assert roles[0] == "user"
    assert set(roles) == {"user", "assistant"}


def test_a_session_without_messages_is_refused(tmp_path, ask, monkeypatch):
    path = tmp_path / "b.db"
    with stator.connect(path, project="shop") as opened, opened.open("empty"):
        pass
    monkeypatch.setenv("STATOR_STORE", str(path))
    assert ask("export", "--as", "claude-code").code == 2


def test_a_path_too_long_for_the_agents_folder_needs_a_name(doubtful, ask, tmp_path):
    deep = tmp_path / ("d" * 100) / ("e" * FOLDER_MAX)
    deep.mkdir(parents=True)
    answer = ask("export", "--as", "claude-code", "--cwd", str(deep))
    assert answer.code == 2
    assert "-o FILE" in answer.err


def test_export_prints_the_resume_command(doubtful, ask):
    answer = ask("export", "--as", "claude-code")
    assert "claude --resume" in answer.out
    assert "1 call in doubt" in answer.out


def test_doctor_names_a_call_in_doubt_and_the_command(doubtful, ask, monkeypatch):
    monkeypatch.setattr(open_calls, "HISTORY_US", 2**62)  # the transcript of the test is old
    answer = ask("doctor")
    assert answer.code == 1
    assert "in doubt: Bash" in answer.out
    (command,) = re.findall(r"stator settle (c_\w+)", " ".join(answer.out.split()))
    assert "stator export --as claude-code" in " ".join(ask("settle", command).out.split())


def test_doctor_names_a_result_without_its_call(tmp_path, ask, monkeypatch):
    file = TranscriptWriter(tmp_path / f"{SESSION}.jsonl")
    file.prompt("go")
    file.result("toolu_9", "late")
    path = tmp_path / "b.db"
    with stator.connect(path, project="shop") as opened:
        import_files(opened, file.path)
    monkeypatch.setenv("STATOR_STORE", str(path))
    assert "a result without its call" in ask("doctor").out


MODEL = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *words): pass
    def say(self, code, kind, text):
        data = text.encode()
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def do_GET(self): self.say(404, "application/json", "{}")
    do_HEAD = do_GET
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        with open(sys.argv[1], "a") as file: file.write(json.dumps(asked) + "\\n")
        usage = {"input_tokens": 5, "output_tokens": 1}
        told = {"id": "msg_x", "type": "message", "role": "assistant", "model": "m", "content": [],
                "stop_reason": None, "stop_sequence": None, "usage": usage}
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Unknown."}}
        end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
        parts = [{"type": "message_start", "message": told}, block, delta,
                 {"type": "content_block_stop", "index": 0}, end, {"type": "message_stop"}]
        if asked.get("stream"):
            text = "".join(f"event: {p['type']}\\ndata: {json.dumps(p)}\\n\\n" for p in parts)
            return self.say(200, "text/event-stream", text)
        told |= {"content": [{"type": "text", "text": "Unknown."}], "stop_reason": "end_turn"}
        self.say(200, "application/json", json.dumps(told))

server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.mark.slow
@pytest.mark.skipif(not CLAUDE, reason="STATOR_CLAUDE names no `claude` program")
def test_the_real_program_resumes_what_was_written(doubtful, ask, tmp_path):
    made = written(ask)
    sent = tmp_path / "sent.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", MODEL, str(sent)], stdout=subprocess.PIPE, text=True
    ) as model:
        try:
            assert model.stdout is not None
            port = model.stdout.readline().strip()
            quiet = "DISABLE_TELEMETRY DISABLE_AUTOUPDATER CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"
            environ = {
                "HOME": str(Path.home()),
                "PATH": os.environ["PATH"],
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
                "ANTHROPIC_API_KEY": "none",
                **dict.fromkeys(quiet.split(), "1"),
            }
            done = subprocess.run(
                [CLAUDE, "-p", "--resume", made["session"], "and now?"],
                env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100,
            )  # fmt: skip
        finally:
            model.kill()
    assert done.returncode == 0, done.stderr
    asked = json.loads(sent.read_text().splitlines()[0])["messages"]
    results = [
        b for m in asked for b in m["content"] if type(b) is dict and b["type"] == "tool_result"
    ]
    assert [result["tool_use_id"] for result in results] == ["toolu_1", "toolu_2"]
    assert "outcome is unknown" in str(results[1]["content"])


def test_the_resume_command_copies_a_file_the_agent_would_not_find(doubtful, ask, tmp_path):
    made = written(ask, "-o", str(tmp_path / "my file.jsonl"))
    subprocess.run(["sh", "-c", made["command"].rpartition(" && ")[0]], check=True)
    placed = next((Path.home() / ".claude" / "projects").rglob(f"{made['session']}.jsonl"))
    assert placed.read_bytes() == Path(made["path"]).read_bytes()


def test_a_failed_write_leaves_no_transcript(doubtful, ask, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert ask("export", "--as", "claude-code", "-o", str(tmp_path / "new" / "a.jsonl")).code == 5
    assert list((tmp_path / "new").iterdir()) == []
