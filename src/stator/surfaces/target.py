"""Calls a Python function as the program of a run: `python -m stator.surfaces.target DOCUMENT`.

The document names the function, the module search path and the arguments; `runtime.runs.prepare.target`
writes it. Only the person who starts a run chooses the function: nothing is imported because a session
recorded it.
"""

from __future__ import annotations

import importlib
import inspect
import json
import runpy
import sys
from typing import Any


def main(document: str) -> None:
    called: dict[str, Any] = json.loads(document)
    sys.path[:] = called["path"]
    module, _, name = called["function"].partition(":")
    found: Any
    if called["main"]:
        sys.argv = [called["main"]]
        # Not as __main__: the code that runs only as a script must not run again.
        found = runpy.run_path(called["main"], run_name="__stator_main__")
        first, _, rest = name.partition(".")
        found = found[first]
        name = rest
    else:
        sys.argv = [called["function"]]
        found = importlib.import_module(module)
    for part in name.split(".") if name else ():
        found = getattr(found, part)
    result = found(*called["args"])
    if inspect.iscoroutine(result):
        import asyncio

        asyncio.run(result)


if __name__ == "__main__":
    main(sys.argv[1])
