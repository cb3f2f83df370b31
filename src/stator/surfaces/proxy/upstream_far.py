"""Sends requests to a server over HTTPS, or through an HTTP proxy that the environment names."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from stator.surfaces.loopback import Headers
from stator.surfaces.proxy.upstream_direct import CONNECT_S, IDLE_MAX, Unreached, UpstreamFailed


class FarTransport:
    """Connections to one server, by the library that knows certificates and HTTP proxies."""

    def __init__(self, origin: str, proxy: str | None) -> None:
        self._origin = origin
        # a transport, not a client: a client would share cookies between callers and follow redirects
        self._transport = httpx2.AsyncHTTPTransport(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=IDLE_MAX),
            trust_env=False,
            proxy=proxy,
        )

    async def send(
        self, method: str, target: str, headers: Headers, body: bytes | AsyncIterator[bytes] | None
    ) -> FarResponse:
        try:
            request = httpx2.Request(
                method,
                self._origin + target,
                headers=headers,
                content=body,
                # No timeout for reading: a tool may take its time, and `--timeout` is about calls only.
                extensions={"timeout": {"connect": CONNECT_S}},
            )
            return FarResponse(await self._transport.handle_async_request(request))
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise Unreached(str(error) or type(error).__name__) from None
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise UpstreamFailed(str(error) or type(error).__name__) from None

    async def aclose(self) -> None:
        await self._transport.aclose()


class FarResponse:
    """A response of that library."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status: int = response.status_code
        self.headers: Headers = list(response.headers.raw)
        self._response = response

    async def pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.aiter_raw():
                yield piece
        except httpx2.TransportError as error:
            raise UpstreamFailed(str(error) or type(error).__name__) from None

    async def aclose(self) -> None:
        await self._response.aclose()
