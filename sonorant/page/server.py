"""The demo page's HTTP server, for this machine alone.

It listens on loopback and refuses what another site's page could make the browser send: a foreign Host (DNS
rebinding), a foreign Origin, a body that is not JSON.
"""

import base64
import errno
import json
import logging
import sys
from contextlib import closing
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from sonorant.audio.wav import pcm16
from sonorant.errors import SonorantError
from sonorant.page.synthesis import BusyError, SpeechRequest, Synthesis
from sonorant.runtime.speaking import FASTEST, SLOWEST

ADDRESS = "127.0.0.1"
PAGES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_BYTES_BESIDE_TEXT = 1_000
_BYTES_A_CHARACTER = 12
"""At most: two JSON escapes such as \\ud83d."""

_log = logging.getLogger(__name__)


class PageServer(ThreadingHTTPServer):
    """Serves the page and the speech it asks for. `port` 0 takes any free one.

    Raises SonorantError if the port is taken or not allowed.
    """

    daemon_threads = True

    def __init__(self, synthesis: Synthesis, port: int) -> None:
        self.synthesis = synthesis
        try:
            super().__init__((ADDRESS, port), PageRequest)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            reason = "is taken" if taken else f"cannot be listened on ({error.strerror})"
            raise SonorantError(f"port {port} {reason}; give another with --port, or 0 for any free one") from None
        except OverflowError:
            raise SonorantError(f"port must be 0 to 65535, not {port}") from None
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log errors; a client that disconnected is not one."""
        if isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            _log.info("a client disconnected")
        else:
            _log.exception("a request failed")

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"


class PageRequest(BaseHTTPRequestHandler):
    """One request on a connection of its own."""

    server: PageServer
    server_version = "Sonorant"
    sys_version = ""
    timeout = 30.0
    """Seconds a client may take to send or to receive."""

    def do_GET(self) -> None:
        """Send the page, or what it must know about the voice."""
        if not self._is_own():
            return
        if self.path in PAGES:
            name, kind = PAGES[self.path]
            self._send(HTTPStatus.OK, files(__package__).joinpath(name).read_bytes(), kind)
        elif self.path == "/voice":
            self._send_json(HTTPStatus.OK, self._voice())
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")

    def do_POST(self) -> None:
        """Speak. The answer is JSON lines without empty keys: {"pcm": base64 of 16-bit samples, "unknown": characters
        left out, "bad": finish reasons of sentences that went wrong}. The last is {"end": true} or {"error": a line},
        also for a text that cannot be spoken.
        """
        if not self._is_own():
            return
        if self.path != "/speech":
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            return
        body = self._body()
        if body is None:
            return
        try:
            asked = json.loads(body)
        except (ValueError, RecursionError):  # ValueError also for numbers of thousands of digits
            self._refuse(HTTPStatus.BAD_REQUEST, "the request is not JSON, or holds a number that is too long")
            return
        try:
            request = SpeechRequest.parse(asked)
            with self.server.synthesis.admitted():
                self._head(HTTPStatus.OK, "application/x-ndjson")
                self._speak(request)
        except BusyError:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many are speaking; try again in a moment")
        except SonorantError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))

    def _speak(self, request: SpeechRequest) -> None:
        # Writing to a listener who disconnected fails, which closes the generator and so ends the work.
        with closing(self.server.synthesis.speak(request)) as chunks:
            try:
                for samples, unknown, bad in chunks:
                    pcm = None if samples is None else base64.b64encode(pcm16(samples).tobytes()).decode()
                    line = {"pcm": pcm, "unknown": unknown, "bad": bad}
                    self._line({key: value for key, value in line.items() if value})
                self._line({"end": True})
            except SonorantError as error:
                self._line({"error": str(error)})

    def _line(self, value: dict[str, Any]) -> None:
        self.wfile.write(_json(value) + b"\n")

    def _voice(self) -> dict[str, Any]:
        description = self.server.synthesis.description
        decoding = description.decoding
        return {
            "language": description.frontend.language,
            "sample_rate": description.audio.sample_rate,
            "speakers": description.speakers,
            "variants": self.server.synthesis.variants,
            "speeds": [SLOWEST, FASTEST] if decoding is None else None,
            "temperature": decoding and decoding.defaults.temperature,
            "characters": self.server.synthesis.limits.characters,
        }

    def _is_own(self) -> bool:
        """Whether the request comes from the page itself; refuse it if not."""
        host, origin = self.headers.get("Host"), self.headers.get("Origin")
        if host in self.server.hosts and origin in (None, f"http://{host}"):
            return True
        self._refuse(HTTPStatus.FORBIDDEN, f"this page is for this machine alone; open {self.server.url}")
        return False

    def _body(self) -> bytes | None:
        """Read the request's body; None if it was refused."""
        most = self.server.synthesis.limits.characters * _BYTES_A_CHARACTER + _BYTES_BESIDE_TEXT
        length = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the request must be application/json")
        elif not (length.isascii() and length.isdigit()):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "the request does not say its length")
        elif len(length) > 12 or int(length) > most:
            error = f"the request is larger than {most} bytes; shorten the text"
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error)
        else:
            return self.rfile.read(int(length))
        return None

    def _refuse(self, status: HTTPStatus, error: str) -> None:
        self._send_json(status, {"error": error})

    def _send_json(self, status: HTTPStatus, value: dict[str, Any]) -> None:
        self._send(status, _json(value), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self._head(status, kind, len(body))
        self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write requests to the log, not to the terminal."""
        _log.info(format, *arguments)


def _json(value: dict[str, Any]) -> bytes:
    """ASCII, which can hold anything that was in a request, even half a surrogate pair."""
    return json.dumps(value).encode()
