"""A small receiver of OTLP/HTTP in JSON, on loopback, that takes nothing but what the protocol allows."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SPAN = {
    "traceId": str, "spanId": str, "name": str, "kind": int, "startTimeUnixNano": str, "endTimeUnixNano": str,
    "attributes": list,
}  # fmt: skip
OPTIONAL = {"parentSpanId": str, "status": dict}


def check_span(span: dict[str, Any]) -> None:
    """Raise ValueError unless it is a span as OTLP writes it in JSON."""
    unknown = set(span) - set(SPAN) - set(OPTIONAL)
    missing = set(SPAN) - set(span)
    if unknown or missing:
        raise ValueError(f"unknown {unknown}, missing {missing}")
    for name, kind in {**SPAN, **OPTIONAL}.items():
        if name in span and type(span[name]) is not kind:
            raise ValueError(f"{name} is {span[name]!r}")
    for name, digits in (("traceId", 32), ("spanId", 16), ("parentSpanId", 16)):
        if name in span and not re.fullmatch(rf"(?!0+$)[0-9a-f]{{{digits}}}", span[name]):
            raise ValueError(f"{name} is {span[name]!r}")
    if not int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]):
        raise ValueError("it ends before it starts")
    if span["kind"] not in range(1, 6) or not span["name"]:
        raise ValueError("kind or name")
    if set(span.get("status", {})) - {"code", "message"}:
        raise ValueError("status")
    check_attributes(span["attributes"])


def check_attributes(found: list[dict[str, Any]]) -> None:
    keys = [one["key"] for one in found]
    if len(keys) != len(set(keys)):
        raise ValueError("a key comes twice")
    for one in found:
        ((kind, value),) = one["value"].items()
        if set(one) != {"key", "value"} or not isinstance(value, str):
            raise ValueError(f"attribute {one!r}")
        if kind not in ("stringValue", "intValue") or (
            kind == "intValue" and str(int(value)) != value
        ):
            raise ValueError(f"attribute {one!r}")


def spans_of(body: bytes) -> list[dict[str, Any]]:
    request = json.loads(body)
    if set(request) != {"resourceSpans"}:
        raise ValueError("the request")
    spans = []
    for resource in request["resourceSpans"]:
        if set(resource) != {"resource", "scopeSpans"}:
            raise ValueError("resource")
        check_attributes(resource["resource"]["attributes"])
        for scope in resource["scopeSpans"]:
            if set(scope) != {"scope", "schemaUrl", "spans"} or set(scope["scope"]) != {
                "name",
                "version",
            }:
                raise ValueError("scope")
            spans += scope["spans"]
    for span in spans:
        check_span(span)
    return spans


class Receiver:
    """Keeps the spans it is sent. `answers` are given first, one each: (status, headers, body)."""

    def __init__(self, *answers: tuple[int, dict[str, str], bytes]) -> None:
        self.answers = list(answers)
        self.spans: list[dict[str, Any]] = []
        self.requests: list[dict[str, str]] = []
        self.wrong: list[str] = []
        self.refuse = lambda span: False
        self.arrived = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append({**dict(self.headers.items()), "path": self.path})
                status, headers, text = receiver.answer(body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)
                receiver.arrived.set()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if self.answers:
            return self.answers.pop(0)
        try:
            spans = spans_of(body)
        except (ValueError, KeyError, TypeError) as error:
            self.wrong.append(str(error))
            return 400, {}, str(error).encode()
        if any(self.refuse(span) for span in spans):
            return 400, {}, b"a span is refused"
        self.spans += spans
        return 200, {"Content-Type": "application/json"}, b"{}"

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()


def attribute(span: dict[str, Any], name: str) -> Any:
    for one in span["attributes"]:
        if one["key"] == name:
            ((kind, value),) = one["value"].items()
            return int(value) if kind == "intValue" else value
    return None
