"""Who is measured. Nothing is imported here: a peer's libraries are loaded in its own process."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from bench.peers.base import BARRIER, FULL, RELAXED, Peer


@dataclass(frozen=True)
class Contestant:
    """A peer in one of its modes."""

    label: str
    group: str
    """The name `--peers` takes."""
    target: str
    """module:class"""
    durability: str = FULL
    options: dict[str, Any] = field(default_factory=dict)
    append_only: bool = False
    """Measured for appending only; its `full` sibling answers the questions."""


OURS, LIMIT = "ours", "raw"
_OURS = "bench.peers.ours:Stator"
_RAW = "bench.peers.raw_apsw:RawApsw"
_LANGGRAPH = "bench.peers.langgraph_saver:LangGraph"

CONTESTANTS = (
    Contestant("raw", "raw", _RAW),
    Contestant("ours", "ours", _OURS),
    Contestant("ours, no redaction", "ours", _OURS, FULL, {"redaction": False}, append_only=True),
    Contestant("ours, barrier", "ours", _OURS, BARRIER, append_only=True),
    Contestant("ours, relaxed", "ours", _OURS, RELAXED, append_only=True),
    Contestant("raw, relaxed", "raw", _RAW, RELAXED, append_only=True),
    Contestant("jsonl", "jsonl", "bench.peers.jsonl:Jsonl"),
    Contestant("openai", "openai", "bench.peers.openai_agents:OpenAIAgents"),
    Contestant("langgraph full", "langgraph", _LANGGRAPH + "Full"),
    Contestant("langgraph delta", "langgraph", _LANGGRAPH + "Delta"),
)
GROUPS = tuple(dict.fromkeys(c.group for c in CONTESTANTS))


def load(target: str) -> Peer:
    """Import a peer; ImportError means it is not installed."""
    module, _, name = target.partition(":")
    peer: Peer = getattr(import_module(module), name)()
    return peer
