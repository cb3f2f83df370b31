"""An outlet that sends spans over OTLP/HTTP, as JSON, to a collector or to what takes its place.

A receiver that is away or busy is tried again, with growing waits. One that refuses what it is sent is an error that
names the commit: nothing is left out silently.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from stator import __version__
from stator.errors import BadQuery, OutletFailed
from stator.model.log.shown_text import cut_short
from stator.model.outlets import genai_names
from stator.model.outlets.spans import OtlpSpan, attributes

PATH = "/v1/traces"
AGAIN = frozenset({408, 429, 502, 503, 504})
"""Answers after which the same is sent again."""
BAD = frozenset({400, 413, 422})
"""Answers that are about what was sent."""
UNREADABLE = (ValueError, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading an answer raises that is not as it should be; the spans were taken all the same."""
FIRST_S, LAST_S = 1.0, 30.0
RETRY_AFTER_MAX_S = 300.0
TIMEOUT_S = 30.0
ANSWER_MAX = 64 * 1024
SPANS_MAX = 512
BYTES_MAX = 2 * 2**20
"""Of one request; a span that is larger by itself is sent alone."""

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_VALUE = re.compile(r"[\t -~\xa0-\xff]{0,8000}")


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes = b""
    retry_after: str = ""
    why: str = ""
    """Why there is no answer."""


class OtlpHttp:
    """Sends spans to one address. `tries` is how often a receiver that is away is tried; None: until it is back."""

    def __init__(
        self,
        url: str,
        *,
        headers: str = "",
        tries: int | None = None,
        sleep: Callable[[float], object],
        jitter: Callable[[], float],
        now: Callable[[], float],
        note: Callable[[str], object],
    ) -> None:
        self._url = _checked(url)
        self._headers = {
            "Content-Type": "application/json",
            "User-Agent": f"stator/{__version__}",
            **_headers(headers),
        }
        self._tries = tries
        self._sleep, self._jitter, self._now, self._note = sleep, jitter, now, note
        self.rejected = 0
        """Spans that the receiver reports as not kept."""

    def send(self, spans: Sequence[OtlpSpan]) -> None:
        """Send spans; all of them were taken when this returns."""
        for batch in _batches(spans):
            self._deliver(batch)

    def _deliver(self, batch: list[tuple[OtlpSpan, bytes]]) -> None:
        answer = self._until_taken(batch)
        if answer.status in BAD and len(batch) > 1:
            # Which of them is refused? The others are taken.
            middle = len(batch) // 2
            self._deliver(batch[:middle])
            self._deliver(batch[middle:])
            return
        if not 200 <= answer.status < 300:
            raise self._refused(batch[0][0], answer)
        self._read(answer)

    def _until_taken(self, batch: list[tuple[OtlpSpan, bytes]]) -> _Answer:
        body = _request([line for _, line in batch])
        tried, wait = 0, FIRST_S
        while True:
            answer = self._post(body)
            tried += 1
            if answer.status and answer.status not in AGAIN:
                if tried > 1:
                    self._note(f"{self._shown} answers again")
                return answer
            why = answer.why or f"HTTP {answer.status}"
            if self._tries is not None and tried >= self._tries:
                raise OutletFailed(
                    f"{self._shown} did not take spans in {tried} tries: {why}",
                    hint="run it again when the receiver is there; nothing is lost",
                    commit=batch[0][0].commit,
                )
            if tried == 1:
                self._note(f"{self._shown}: {why}; trying again until it answers")
            pause = self._asked_pause(answer)
            self._sleep(wait * (0.5 + self._jitter()) if pause is None else pause)
            wait = min(LAST_S, wait * 2)

    def _post(self, body: bytes) -> _Answer:
        url = self._url
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        connection = kind(url.hostname or "", url.port, timeout=TIMEOUT_S)
        target = f"{url.path}?{url.query}" if url.query else url.path
        try:
            connection.request("POST", target, body, self._headers)
            response = connection.getresponse()
            text = response.read(ANSWER_MAX)
            return _Answer(response.status, text, response.getheader("Retry-After") or "")
        except ssl.SSLCertVerificationError as error:
            raise OutletFailed(
                f"{self._shown}: {error.verify_message}", hint="nothing was sent"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            return _Answer(0, why=getattr(error, "strerror", None) or type(error).__name__)
        finally:
            connection.close()

    def _asked_pause(self, answer: _Answer) -> float | None:
        """How long the receiver asks to wait; None if it does not."""
        asked = answer.retry_after
        if asked.isdecimal():
            return min(float(asked), RETRY_AFTER_MAX_S)
        with contextlib.suppress(ValueError):
            until = parsedate_to_datetime(asked).timestamp() if asked else None
            if until is not None:
                return min(max(0.0, until - self._now()), RETRY_AFTER_MAX_S)
        return None

    def _read(self, answer: _Answer) -> None:
        """See whether the receiver kept all of it; what it did not keep, it wants no more of."""
        with contextlib.suppress(*UNREADABLE):
            partly = json.loads(answer.body).get("partialSuccess") or {}
            rejected = int(partly.get("rejectedSpans") or 0)
            if rejected:
                self.rejected += rejected
                said = cut_short(str(partly.get("errorMessage") or "no reason given"), 200)
                self._note(f"{self._shown} did not keep {rejected} spans: {said}")

    def _refused(self, span: OtlpSpan, answer: _Answer) -> OutletFailed:
        said = cut_short(" ".join(answer.body.decode("utf-8", "replace").split()), 200)
        return OutletFailed(
            f"{self._shown} refuses commit {span.commit}: HTTP {answer.status}"
            + (f" {said}" if said else ""),
            hint="nothing after it was sent; correct the receiver or the address and run it again",
            commit=span.commit,
            status=answer.status,
        )

    @property
    def _shown(self) -> str:
        """The address without what could be a password."""
        port = f":{self._url.port}" if self._url.port else ""
        return f"{self._url.scheme}://{self._url.hostname}{port}{self._url.path}"


def _checked(url: str) -> SplitResult:
    try:
        found = urlsplit(url)
        found.port  # noqa: B018  raises if it is no number
        (found.hostname or "").encode("idna")
        if not re.fullmatch("[!-~]{1,2000}", url):
            raise ValueError("spaces and letters beyond ASCII are to be percent-encoded")
    except ValueError as error:
        raise BadQuery(
            f"not an address of a receiver: {error}", hint="for example http://127.0.0.1:4318"
        ) from None
    if found.scheme not in ("http", "https") or not found.hostname:
        raise BadQuery(
            f"not an address of a receiver: {url!r:.80}", hint="for example http://127.0.0.1:4318"
        )
    if found.username is not None:
        raise BadQuery(
            "an address cannot hold a password", hint="set OTEL_EXPORTER_OTLP_HEADERS instead"
        )
    return found._replace(path=found.path if found.path not in ("", "/") else PATH, fragment="")


def _headers(text: str) -> Mapping[str, str]:
    """The headers of `OTEL_EXPORTER_OTLP_HEADERS`: `name=value,name=value`, percent-encoded."""
    found = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = pair.partition("=")
        value = unquote(value.strip())
        if not equals or not _HEADER.fullmatch(name.strip()) or not _VALUE.fullmatch(value):
            raise BadQuery("OTEL_EXPORTER_OTLP_HEADERS is not a list of name=value")
        found[name.strip()] = value
    return found


def _batches(spans: Sequence[OtlpSpan]) -> Iterator[list[tuple[OtlpSpan, bytes]]]:
    batch: list[tuple[OtlpSpan, bytes]] = []
    size = 0
    for span in spans:
        line = json.dumps(span.otlp(), separators=(",", ":")).encode()
        if batch and (len(batch) >= SPANS_MAX or size + len(line) > BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append((span, line))
        size += len(line)
    if batch:
        yield batch


def _request(lines: list[bytes]) -> bytes:
    """An `ExportTraceServiceRequest` in JSON."""
    about: dict[str, Any] = {
        "resource": {
            "attributes": attributes(
                {genai_names.SERVICE: "stator", genai_names.SERVICE_VERSION: __version__}
            )
        }
    }
    scope = {"name": "stator", "version": __version__}
    head = json.dumps(about, separators=(",", ":"))[:-1]
    inner = json.dumps({"scope": scope, "schemaUrl": genai_names.SCHEMA_URL}, separators=(",", ":"))
    return (
        f'{{"resourceSpans":[{head},"scopeSpans":[{inner[:-1]},"spans":['.encode()
        + b",".join(lines)
        + b"]}]}]}"
    )
