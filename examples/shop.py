"""The world of the examples: an invoice, a bank's ledger, and three tools that touch real files.

Nothing here uses Stator. The environment variable `CRASH` kills the process with SIGKILL: `before` just
before the bank takes the money, `after` just after it, `receipt` when the receipt is written.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROMPT = "pay the invoice in invoice.txt, and leave a receipt"
INVOICE = "ACME, 4200 cents\n"
LEDGER = Path("ledger.txt")
EFFECTS = {"read_file": "read", "write_file": "idempotent", "pay": "write"}
"""What a call of each tool may do to the world. A tool that is not listed counts as a write."""


def read_file(path: str) -> str:
    return Path(path).read_text()


def write_file(path: str, text: str) -> str:
    Path(path).write_text(text)
    crash("receipt")
    return f"{len(text)} characters written"


def pay(to: str, cents: int) -> str:
    """Move money: one line in the ledger of the bank, which is never removed."""
    crash("before")
    with LEDGER.open("a") as ledger:
        ledger.write(f"{to} {cents}\n")
    crash("after")
    return f"paid {cents} cents to {to}"


def crash(when: str) -> None:
    if os.environ.get("CRASH") == when:
        os.kill(os.getpid(), signal.SIGKILL)


TOOLS: dict[str, Callable[..., str]] = {
    "read_file": read_file,
    "write_file": write_file,
    "pay": pay,
}


def dispatch(name: str, arguments: dict[str, Any]) -> str:
    """Run a tool by its name, as most agents do."""
    if name not in TOOLS:
        raise LookupError(f"there is no tool {name!r}")
    return TOOLS[name](**arguments)


def _definition(name: str, *arguments: str) -> dict[str, Any]:
    kinds = {word: {"type": "integer" if word == "cents" else "string"} for word in arguments}
    schema = {"type": "object", "properties": kinds, "required": list(arguments)}
    return {"name": name, "description": f"{name} of the shop", "input_schema": schema}


ANTHROPIC_TOOLS = [
    _definition("read_file", "path"),
    _definition("write_file", "path", "text"),
    _definition("pay", "to", "cents"),
]
OPENAI_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": tool["name"],
            "description": tool["description"],
            "parameters": tool["input_schema"],
        },
    }
    for tool in ANTHROPIC_TOOLS
]
