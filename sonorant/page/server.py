"""The demo page's HTTP server: the page, and the speech it asks for."""

import base64
import secrets
from contextlib import closing
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from sonorant.audio.wav import pcm16
from sonorant.errors import SonorantError
from sonorant.page.local import LocalRequest, LocalServer, as_json
from sonorant.page.synthesis import BusyError, SpeechRequest, Synthesis
from sonorant.runtime.speaking import FASTEST, MOST_ENERGY, MOST_PITCH, SLOWEST
from sonorant.text.arriving import ArrivingText

PAGES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
_BYTES_BESIDE_TEXT = 1_000
_BYTES_A_CHARACTER = 12
"""At most: two JSON escapes such as \\ud83d."""


class PageServer(LocalServer):
    """Serves the page and the speech it asks for. `port` 0 takes any free one.

    Raises SonorantError if the port is taken or not allowed.
    """

    def __init__(self, synthesis: Synthesis, port: int) -> None:
        self.synthesis = synthesis
        self.texts: dict[str, ArrivingText] = {}
        """Those that are spoken while they are typed, by the id that their listener was told."""
        super().__init__(port, PageRequest)


class PageRequest(LocalRequest):
    """One request on a connection of its own."""

    server: PageServer

    def do_GET(self) -> None:
        """Send the page, or what it must know about the voice."""
        if not self.is_own():
            return
        if self.path in PAGES:
            name, kind = PAGES[self.path]
            self.send(HTTPStatus.OK, files(__package__).joinpath(name).read_bytes(), kind)
        elif self.path == "/voice":
            self.send_json(HTTPStatus.OK, self._voice())
        else:
            self.refuse(HTTPStatus.NOT_FOUND, "there is no such page")

    def do_POST(self) -> None:
        """Speak, or take more of a text that is spoken while it is typed."""
        if not self.is_own():
            return
        answers = {"/speech": self._answer, "/text": self._add}
        if self.path not in answers:
            self.refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            return
        most = self.server.synthesis.limits.characters * _BYTES_A_CHARACTER + _BYTES_BESIDE_TEXT
        is_json, asked = self.read_json(most)
        if is_json:
            answers[self.path](asked)

    def _answer(self, asked: Any) -> None:
        """Speak. The answer is JSON lines without empty keys: {"pcm": base64 of 16-bit samples, "unknown": characters
        left out, "bad": finish reasons of sentences that went wrong, "words": [first character, the one after the last,
        start, end] of words that are over, in seconds of the speech}. The last is {"end": true} or {"error": a line},
        also for a text that cannot be spoken. The first is {"id": of the text} for one that arrives.
        """
        try:
            request = SpeechRequest.parse(asked)
            with self.server.synthesis.admitted():
                self.send_head(HTTPStatus.OK, "application/x-ndjson")
                if request.arrives:
                    self._speak_as_it_arrives(request)
                else:
                    self._speak(request)
        except BusyError:
            self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many are speaking; try again in a moment")
        except SonorantError as error:
            self.refuse(HTTPStatus.BAD_REQUEST, str(error))

    def _add(self, asked: Any) -> None:
        """Add to a text that arrives: {"id": as told, "text": what follows, "pause": whether nothing more comes for a
        while, "end": whether that was all}, all but the id as wanted."""
        given = asked if isinstance(asked, dict) else {}
        text, more = self.server.texts.get(str(given.get("id"))), given.get("text", "")
        try:
            if text is None:
                raise SonorantError("this text is no longer spoken; begin another")
            text.write(more)
            if given.get("pause"):
                text.pause()
            if given.get("end"):
                text.close()
            self.send_json(HTTPStatus.OK, {})
        except SonorantError as error:
            self.refuse(HTTPStatus.BAD_REQUEST, str(error))

    def _speak_as_it_arrives(self, request: SpeechRequest) -> None:
        name = secrets.token_urlsafe(9)
        with ArrivingText() as text:
            text.write(request.text)
            self.server.texts[name] = text
            try:
                self._line({"id": name})
                self._speak(request, text)
            finally:
                del self.server.texts[name]

    def _speak(self, request: SpeechRequest, text: ArrivingText | None = None) -> None:
        # Writing to a listener who disconnected fails, which closes the generator and so ends the work.
        with closing(self.server.synthesis.speak(request, text)) as chunks:
            try:
                for samples, unknown, bad, completed in chunks:
                    pcm = None if samples is None else base64.b64encode(pcm16(samples).tobytes()).decode()
                    words = [[word.first, word.last, word.start, word.end] for word in completed]
                    line = {"pcm": pcm, "unknown": unknown, "bad": bad, "words": words}
                    self._line({key: value for key, value in line.items() if value})
                self._line({"end": True})
            except SonorantError as error:
                self._line({"error": str(error)})

    def _line(self, value: dict[str, Any]) -> None:
        self.wfile.write(as_json(value) + b"\n")

    def _voice(self) -> dict[str, Any]:
        description = self.server.synthesis.description
        decoding = description.decoding
        return {
            "language": description.frontend.language,
            "sample_rate": description.audio.sample_rate,
            "speakers": description.speakers,
            "variants": self.server.synthesis.variants,
            "speeds": [SLOWEST, FASTEST] if decoding is None else None,
            "pitches": [-MOST_PITCH, MOST_PITCH] if self.server.synthesis.prosody else None,
            "energies": [-MOST_ENERGY, MOST_ENERGY] if self.server.synthesis.prosody else None,
            "temperature": decoding and decoding.defaults.temperature,
            "characters": self.server.synthesis.limits.characters,
            "untimed": self.server.synthesis.why_untimed,
        }
