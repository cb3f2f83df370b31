"""Which calls of agents' tools bring in text from the web."""

from __future__ import annotations

import pytest

from stator.model.calls.web_calls import fetched_hosts

FETCHES = [
    ("WebFetch", {"url": "https://a.example/x"}, ["a.example"]),
    ("WebSearch", {"query": "x"}, [""]),
    ("browser_action", {"action": "launch", "url": "http://b.example"}, ["b.example"]),
    ("Bash", {"command": "curl -s https://a.example/x | jq ."}, ["a.example"]),
    ("Bash", {"command": "cd x && wget -q a.example/file"}, ["a.example"]),
    ("exec_command", {"cmd": ["bash", "-lc", "curl $URL"]}, [""]),
    ("run_shell_command", {"command": "sudo curl https://A.Example."}, ["a.example"]),
    ("Bash", {"command": "X=1 /usr/bin/curl https://a.example"}, ["a.example"]),
    ("Bash", {"command": "gh issue view 12 --comments"}, ["github.com"]),
    ("Bash", {"command": "gh api repos/a/b/commits"}, ["github.com"]),
    ("Bash", {"command": "git clone https://c.example/a.git && ls a"}, ["c.example"]),
    ("Bash", {"command": "git clone git@c.example:a/b.git"}, ["c.example"]),
    ("Bash", {"command": "python -c \"import requests; requests.get('https://e.example')\""}, ["e.example"]),
    ("mcp__github__get_issue", {"number": 1}, [""]),
    ("mcp__playwright__browser_navigate", {"url": "https://a.example"}, ["a.example"]),
    ("mcp__anything__read", {"address": "https://a.example/b"}, ["a.example"]),
]  # fmt: skip
STAYS_HERE = [
    ("Bash", {"command": "curl localhost:3000/health"}),
    ("Bash", {"command": "curl -s http://127.0.0.1:8080/"}),
    ("Bash", {"command": "which curl"}),
    ("Bash", {"command": "curl --version"}),
    ("Bash", {"command": "grep -rn 'curl ' src"}),
    ("Bash", {"command": "apt-get install -y curl wget git"}),
    ("Bash", {"command": "git clone ../other"}),
    ("Bash", {"command": "git push origin main"}),
    ("Bash", {"command": "git remote add origin https://c.example/a.git"}),
    ("Read", {"file_path": "/a/curl https://a.example"}),
    ("mcp__stator__record", {"kind": "fact"}),
    ("mcp__files__read", {"path": "a.py"}),
    ("Bash", None),
    ("Bash", {"command": 7}),
]


@pytest.mark.parametrize(("tool", "given", "hosts"), FETCHES)
def test_a_call_that_fetches_names_the_hosts_that_it_fetched_from(tool, given, hosts):
    assert fetched_hosts(tool, given) == hosts


@pytest.mark.parametrize(("tool", "given"), STAYS_HERE)
def test_a_call_that_stays_on_this_machine_brings_in_nothing(tool, given):
    assert fetched_hosts(tool, given) == []
