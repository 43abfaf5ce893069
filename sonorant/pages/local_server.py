"""HTTP server for local pages.

Listens on loopback and rejects cross-site requests: foreign Host (DNS rebinding), foreign Origin, non-JSON bodies.
"""

import errno
import json
import logging
import re
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from sonorant.errors import SonorantError

ADDRESS = "127.0.0.1"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; media-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
PAGES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
}
"""Page files by URL path. They are next to the module of the `LocalRequest` subclass; style.css is in this package."""

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")

_log = logging.getLogger(__name__)


class LocalServer(ThreadingHTTPServer):
    """Server with one thread per request; port 0 means any free port. Raises SonorantError if the port is taken or not
    allowed."""

    daemon_threads = True

    def __init__(self, port: int, request: type["LocalRequest"]) -> None:
        try:
            super().__init__((ADDRESS, port), request)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            reason = "is taken" if taken else f"cannot be listened on ({error.strerror})"
            raise SonorantError(f"port {port} {reason}; give another with --port, or 0 for any free one") from None
        except OverflowError:
            raise SonorantError(f"port must be 0 to 65535, not {port}") from None
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}

    def handle_error(self, request: Any, client_address: Any) -> None:
        if isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            _log.info("a client disconnected")
        else:
            _log.exception("a request failed")

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"


class LocalRequest(BaseHTTPRequestHandler):
    """Handler of one request per connection. Subclasses define `get` and `post`."""

    server: LocalServer
    server_version = "Sonorant"
    sys_version = ""
    timeout = 30.0
    """Timeout in seconds."""
    largest: int
    """Maximum size of a request body in bytes."""

    def get(self) -> None:
        """Handle a GET not in PAGES. A SonorantError becomes status 500."""
        raise NotImplementedError

    def post(self, asked: dict[str, Any]) -> None:
        """Handle a POST of a JSON object. A ValueError becomes status 400, a SonorantError 500."""
        raise NotImplementedError

    def do_GET(self) -> None:
        if not self.is_own():
            return
        if self.path in PAGES:
            name, kind = PAGES[self.path]
            package = __package__ if name == "style.css" else type(self).__module__.rpartition(".")[0]
            self.send(HTTPStatus.OK, files(package).joinpath(name).read_bytes(), kind)
            return
        try:
            self.get()
        except SonorantError as error:
            self.refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    def do_POST(self) -> None:
        asked = self.read_json() if self.is_own() else None
        if asked is None:
            return
        try:
            self.post(asked)
        except ValueError as error:
            self.refuse(HTTPStatus.BAD_REQUEST, str(error))
        except SonorantError as error:
            self.refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"nothing was written: {error}")

    def is_own(self) -> bool:
        """Whether the request is same-origin; sends a refusal if not."""
        host, origin = self.headers.get("Host"), self.headers.get("Origin")
        if host in self.server.hosts and origin in (None, f"http://{host}"):
            return True
        self.refuse(HTTPStatus.FORBIDDEN, f"this page is only for this machine; open {self.server.url}")
        return False

    def read_json(self) -> dict[str, Any] | None:
        """Return the body's JSON object, or None if the request was refused."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != "application/json":
            self.refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the request must be application/json")
        elif not (length.isascii() and length.isdigit()):
            self.refuse(HTTPStatus.LENGTH_REQUIRED, "the request has no Content-Length")
        elif len(length) > 12 or int(length) > self.largest:
            error = f"the request is larger than {self.largest} bytes; shorten the text"
            self.refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error)
        else:
            try:
                asked = json.loads(self.rfile.read(int(length)))
            except (ValueError, RecursionError):  # ValueError also for numbers with thousands of digits
                asked = None
            if isinstance(asked, dict):
                return asked
            self.refuse(HTTPStatus.BAD_REQUEST, "the request is not a JSON object")
        return None

    def refuse(self, status: HTTPStatus, error: str) -> None:
        self.send_json(status, {"error": error})

    def send_json(self, status: HTTPStatus, value: dict[str, Any]) -> None:
        self.send(status, as_json(value), "application/json")

    def send(self, status: HTTPStatus, body: bytes, kind: str, **more: str) -> None:
        """Send a response; `more`: additional headers, with _ instead of -."""
        self.send_head(status, kind, len(body), **more)
        self.wfile.write(body)

    def send_range(self, body: bytes, kind: str) -> None:
        """Send the requested range (RFC 9110, section 14; one range), so that players can seek."""
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        if asked is None or not (asked[1] or asked[2]) or len(asked[0]) > 40:
            self.send(HTTPStatus.OK, body, kind, Accept_Ranges="bytes")
            return
        first, last = (int(place) if place else None for place in asked.groups())
        start = max(0, len(body) - (last or 0)) if first is None else first
        end = len(body) if first is None or last is None else min(last + 1, len(body))
        if start >= end:
            self.send(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, b"", kind, Content_Range=f"bytes */{len(body)}")
            return
        place = f"bytes {start}-{end - 1}/{len(body)}"
        self.send(HTTPStatus.PARTIAL_CONTENT, body[start:end], kind, Accept_Ranges="bytes", Content_Range=place)

    def send_head(self, status: HTTPStatus, kind: str, length: int | None = None, **more: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in (HEADERS | more).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        _log.info(format, *arguments)


def as_json(value: dict[str, Any]) -> bytes:
    """Encode as ASCII JSON, including lone surrogates."""
    return json.dumps(value, allow_nan=False).encode()
