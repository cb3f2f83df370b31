"""Responses and tools for tests about edges, and the commits they make."""

from __future__ import annotations

import stator


def asks(*tools, text="so"):
    """A response that asks for these tools."""
    wanted = [
        {"type": "tool_use", "id": f"use_{n}", "name": name, "input": {"n": n}}
        for n, name in enumerate(tools)
    ]
    return {"role": "assistant", "content": [{"type": "text", "text": text}, *wanted]}


def look(n=0):
    return n


TOOLS = {"look": stator.tool(look, effect="read"), "peek": stator.tool(look, effect="read")}


def only(view, kind, tool=""):
    """The commits of a kind, and their inputs."""
    return [c for c in view.log() if c.kind == kind and tool in ("", c.tool)]


def last(view, kind):
    return only(view, kind)[-1]
