"""Write docs/reference/openapi.json and docs/reference/http.md from the service's table of routes.

python scripts/gen_http_docs.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from stator.surfaces.http.endpoint import Endpoint, RouteParameter
from stator.surfaces.http.openapi import PREFIX, openapi
from stator.surfaces.http.reads import TABLE

FOLDER = Path(__file__).resolve().parent.parent / "docs/reference"
INTRODUCTION = """\
# The reading service

<!-- Made by scripts/gen_http_docs.py from the table of routes: do not edit by hand. -->

`stator web` serves what a store holds as JSON under `/v1`, on this machine only; the pages of the
[inspector](../guides/inspector.md) follow sessions through it. Programs send the token that `stator web --json`
prints: `Authorization: Bearer TOKEN`. The same in OpenAPI 3.1: [openapi.json](openapi.json), and
`/v1/openapi.json` of a running service.

- **Documents** are those that the command line prints with `--json` ([shapes](json.md)). A list is sent by pages:
  `{"schema": "stator.page/1", "items": […], "next": …}`, each item as the command prints it.
- **Pages**: send `next` as `cursor`, with the same other parameters. Null is the end. Cursors are signed and end
  with the service. A page of commits or turns ends after about 1 MB, whatever its limit.
- **ETag**: the hash of the session's head; a request with `If-None-Match` gets 304 while it stands. Where a
  document also says what readers know beyond the log (whether a driver lives), the tag has a digest of that too.
- **Errors** are `application/problem+json` with `code`, `hint` and `ids` of [the library's errors](errors.md).
- A document over 8 MB is refused (`E_SIZE`): ask for less of it.

## Following

`GET /v1/sessions/{session}/tail` and `GET /v1/heads` are streams of server-sent events. A comment comes
every 15 seconds.

| event | of | data |
|---|---|---|
| `head` | tail | first: `seq` and `hash` of the head. Its `id` is your cursor |
| `commit` | tail | one commit, as in the log; `id` is its seq |
| `reset` | tail | last: `cursor` is where you are, `head` where the log is, `why`. Read the log from there |
| `heads` | heads | `moved`: seqs by session, null for one that is gone; `all`: look at all of them |
| `problem` | both | last: an error |

Each commit comes once and in order. A reader that is cut off sends the last `id` it has as `Last-Event-ID`, as browsers
do, and misses nothing. One that lacks more than 10,000 commits gets `reset`. No writer ever waits for a reader.

## Routes
"""


def section(endpoint: Endpoint) -> str:
    """The part of the page about one route."""
    lines = [f"\n### `GET {PREFIX}{endpoint.path}`\n\n{endpoint.about}\n"]
    given = [one for one in endpoint.parameters if not one.in_path]
    if given:
        lines.append("\n| parameter | | |\n|---|---|---|\n")
        lines += [f"| `{one.name}` | {allowed(one)} | {one.about} |\n" for one in given]
    return "".join(lines)


def allowed(one: RouteParameter) -> str:
    """What a parameter may be."""
    if one.choices:
        found = ", ".join(f"`{choice}`" for choice in one.choices)
    elif one.kind == "whole":
        found = f"{one.least:,} to {one.most:,}"
    else:
        found = {"flag": "`true` or `false`"}.get(one.kind, "text")
    if one.kind == "list":
        found += "; can be repeated"
    if one.required:
        return f"{found}; required"
    has_default = one.default not in (None, False)
    return f"{found}; default {one.default}" if has_default else found


def generate() -> dict[Path, str]:
    """The files and their texts."""
    page = INTRODUCTION + "".join(section(endpoint) for endpoint in TABLE)
    document = json.dumps(openapi(TABLE), indent=1, ensure_ascii=False) + "\n"
    return {FOLDER / "http.md": page, FOLDER / "openapi.json": document}


def main() -> int:
    for path, text in generate().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
