"""Runs an MCP server over stdio for tests, with a few tools that each behave differently."""

from __future__ import annotations

import json
import os
import sys

TOOLS = [
    {"name": "echo", "description": "Says it back.", "inputSchema": {"type": "object"}},
    {
        "name": "look",
        "description": "Only reads.",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "put",
        "description": "Twice is once.",
        "inputSchema": {"type": "object"},
        "annotations": {"idempotentHint": True},
    },
]


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(id, result):
    send({"jsonrpc": "2.0", "id": id, "result": result})


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def died_before(marker):
    """Whether this is the first time: the server dies once, and is started again."""
    if os.path.exists(marker):
        return False
    with open(marker, "w"):
        return True


def tools():
    listed = json.loads(json.dumps(TOOLS))
    given = os.environ.get("DESCRIPTION")
    if given:
        listed[0]["description"] = given
    return listed


def call(id, name, arguments):
    how = arguments.get("how", "")
    if how == "die":
        os._exit(7)
    if how == "die once" and died_before(arguments["marker"]):
        os._exit(7)
    if how == "never":
        return
    if how == "isError":
        answer(id, text("no such file", isError=True))
    elif how == "error":
        error = {"code": -32602, "message": "no such tool"}
        send({"jsonrpc": "2.0", "id": id, "error": error})
    elif how == "twice":
        answer(id, text("one"))
        answer(id, text("two"))
    elif how == "garbage":
        print("Traceback: this is no message")
        answer(id, text("after garbage"))
    elif how == "strange":
        send({"hello": "world", "x": [1, 2]})
        send({"jsonrpc": "2.0", "id": 999, "result": {}})
        answer(id, text("after strange"))
    elif how == "large":
        answer(id, text("x" * arguments["size"]))
    else:
        answer(id, text(json.dumps(arguments)))


def main():
    print("server says hello", file=sys.stderr, flush=True)
    waiting, last = [], []
    for line in sys.stdin:
        try:
            message = json.loads(line)
        except ValueError:
            error = {"code": -32700, "message": "not JSON"}
            send({"jsonrpc": "2.0", "id": None, "error": error})
            continue
        id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method == "initialize":
            answer(id, {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}})
        elif method == "tools/list":
            answer(id, {"tools": tools()})
        elif method == "tools/call" and params.get("arguments", {}).get("how") == "hold":
            waiting.append(id)
        elif method == "tools/call" and params.get("arguments", {}).get("how") == "at the end":
            last.append(id)
        elif method == "notifications/release":
            for held in waiting:
                answer(held, text("released"))
            waiting.clear()
        elif method == "tools/call":
            call(id, params.get("name"), params.get("arguments") or {})
        elif method == "ping":
            answer(id, {})
        elif method == "redefine":
            TOOLS[0]["description"] = "Says it back, and more."
            answer(id, {})
        elif id is not None:
            error = {"code": -32601, "message": f"no method {method}"}
            send({"jsonrpc": "2.0", "id": id, "error": error})
    for held in last:
        answer(held, text("at last"))


if __name__ == "__main__":
    main()
