"""What every request passes before a route sees it: Host and Origin, and a body of bounded size that comes in time."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from sonorant.errors import SonorantError

BODY_SECONDS = 10.0
"""In which a whole body must have come."""
HEAD_BYTES = 32 * 1024
"""Of all headers."""
JSON = "application/json"
LOOPBACK = frozenset(("127.0.0.1", "localhost", "[::1]"))

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def error_body(status: int, line: str, param: str | None = None) -> dict[str, Any]:
    """An error as OpenAI's interface has it, which its clients show."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": line, "type": kind, "param": param, "code": None}}


def host_name(text: str) -> str:
    """A name or an address as the header Host gives it, without a port. Raises SonorantError if it is neither."""
    with suppress(ValueError):
        address = ipaddress.ip_address(text.strip("[]"))
        if address.version == 4:
            return str(address)
        return str(address.ipv4_mapped or f"[{address}]")  # where IPv6 is listened on, IPv4 comes as ::ffff:10.0.0.5
    if not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", text.lower()):
        raise SonorantError(f"'{text}' is no host name; give it without scheme, port and path: voice.example.org")
    return text.lower()


class Gate:
    """An ASGI application around another."""

    def __init__(self, app: Any, *, most_bytes: int, hosts: frozenset[str] | None) -> None:
        """`hosts`: names by which the server may be called, in lower case, None = any. Loopback names its own, so that
        a page of another site cannot reach it by a name of that site's (DNS rebinding)."""
        self._app, self._most, self._hosts = app, most_bytes, hosts

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refusal(headers, scope.get("server"))
        if refused is None and scope["method"] == "POST":
            body = await self._body(headers, receive)
            if isinstance(body, bytes):
                receive = _replayed(body, receive)
            else:
                refused = body
        if refused is None:
            await self._app(scope, receive, send)
        else:
            await _answer(send, *refused)

    def _refusal(self, headers: dict[str, str], here: tuple[str, int] | None) -> tuple[HTTPStatus, str] | None:
        """`here`: address and port that the client has reached. Who calls it by these, as a probe does, needs no name:
        a page of another site has that site's."""
        if sum(len(name) + len(value) for name, value in headers.items()) > HEAD_BYTES:
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the headers are larger than {HEAD_BYTES} bytes"
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        hosts = self._hosts and self._hosts.union([host_name(here[0])] if here else [])
        if hosts is not None and hosts.isdisjoint(_names_in(host)):
            return HTTPStatus.FORBIDDEN, "this server does not go by that name; start it with --allow-host <name>"
        if origin is not None and origin.lower().partition("://")[2] != host:
            return HTTPStatus.FORBIDDEN, "pages of other sites may not ask this server"
        return None

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes | tuple[HTTPStatus, str]:
        """The whole body, or why it is refused."""
        if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the request must be {JSON}"
        too_large = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the request is larger than {self._most} bytes; shorten it"
        length = headers.get("content-length", "0")
        if len(length) > 12 or int(length) > self._most:
            return too_large
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    body += message.get("body", b"")
                    if len(body) > self._most:
                        return too_large
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            return HTTPStatus.REQUEST_TIMEOUT, f"the request did not come within {BODY_SECONDS:g} seconds"
        try:
            json.loads(body)
        except (ValueError, RecursionError):  # ValueError also for numbers of thousands of digits
            return HTTPStatus.BAD_REQUEST, "the request is not JSON, or holds a number that is too long"
        return bytes(body)


def _names_in(host: str) -> Iterator[str]:
    """What a header Host may name: all of it, and what is before a port."""
    for text in (host, host.rpartition(":")[0]):
        with suppress(SonorantError):
            yield host_name(text)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Give the body once, then what comes, which is that the client goes."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _answer(send: Send, status: HTTPStatus, line: str) -> None:
    body = json.dumps(error_body(status, line)).encode()
    # What is left of the body is not read, so the connection ends with this answer.
    head = [(b"content-type", JSON.encode()), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": int(status), "headers": head})
    await send({"type": "http.response.body", "body": body})
