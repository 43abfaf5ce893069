"""A speaking process: reads requests from a pipe and computes them alternately, one chunk at a time."""

from __future__ import annotations

import faulthandler
import logging
import os
import queue
import threading
from collections import OrderedDict
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sonorant.audio.encoding import open_encoder
from sonorant.errors import SonorantError
from sonorant.serving.request import Ended, Piece, ServedRequest
from sonorant.speech.speaking import FinishReason
from sonorant.speech.voice import Voice
from sonorant.text.arriving import ArrivingText

AHEAD = 4
"""Number of chunks computed ahead of the listener."""
HUNG_SECONDS = 120.0
"""Maximum time in seconds to compute one chunk; a slower process is replaced."""

_log = logging.getLogger(__name__)


class Variants:
    """A voice and its variants, each loaded on first use."""

    def __init__(self, bundle: Path) -> None:
        self._bundle = bundle
        self._loaded: dict[str | None, Voice] = {}
        self.prepared = 0
        """Number of graphs opened so far; ONNX Runtime compiles a graph only when opening it."""

    def load(self, variant: str | None = None) -> Voice:
        """Return the voice with a variant's graphs; None means the default variant."""
        own = self._loaded.get(None)
        if own and all(graph.default_variant == variant for graph in own.description.graphs.values()):
            variant = None
        if variant not in self._loaded:
            voice = Voice.load(self._bundle, threads=1, variant=variant)
            if None in self._loaded:
                voice.__dict__["frontend"] = self._loaded[None].frontend
            self._loaded[variant] = voice
            self.prepared += len(voice.bundle.graphs)
        return self._loaded[variant]


class Worker:
    """Serves requests until its pipe is closed.

    It receives ("speak", id, ServedRequest), ("more", id) for each piece taken, ("text", id, str), ("pause", id) and
    ("close", id) for an arriving text, and ("cancel", id). It sends ("piece", id, Piece), and last ("ended", id,
    Ended), ("refused", id, line) for a bad request, or ("failed", id, line) for an internal error.
    """

    def __init__(self, pipe: Connection, variants: Variants) -> None:
        self._pipe, self._variants = pipe, variants
        self._reported = variants.prepared
        self._told: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._turns: OrderedDict[int, _Turn] = OrderedDict()

    def run(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            turn = self._next()
            self._obey(wait=turn is None)
            if turn is not None and turn.number in self._turns:
                # Needs no GIL, so it also stops a hang in a library.
                faulthandler.dump_traceback_later(HUNG_SECONDS, exit=True)
                self._advance(turn)
                faulthandler.cancel_dump_traceback_later()

    def _listen(self) -> None:
        try:
            while True:
                self._told.put(self._pipe.recv())
        except (EOFError, OSError):
            os._exit(0)  # the server exited or closed this process

    def _obey(self, *, wait: bool) -> None:
        while wait or not self._told.empty():
            wait = False
            what, number, *rest = self._told.get()
            if what == "speak":
                self._turns[number] = _Turn(number, *rest)
            elif number in self._turns:
                self._turns[number].tell(what, *rest)
                if what == "cancel":
                    self._turns.pop(number).close()

    def _next(self) -> _Turn | None:
        able = [turn for turn in self._turns.values() if turn.credit and not turn.waits]
        return next((turn for turn in able if not turn.given), able[0] if able else None)

    def _advance(self, turn: _Turn) -> None:
        self._turns.move_to_end(turn.number)
        try:
            if turn.speech is None:
                turn.begin(self._variants.load(turn.request.variant))
            piece = turn.advance()
            if piece is not None:
                self._give(turn, piece)
            if turn.ended is not None:
                self._end(turn, "ended", turn.ended._replace(late=self._late()))
        except SonorantError as error:
            self._end(turn, "refused", str(error))
        except Exception:
            _log.exception("speaking a request failed")
            self._end(turn, "failed", "the speech failed; look in the server's log")

    def _late(self) -> int:
        reported, self._reported = self._reported, self._variants.prepared
        return self._reported - reported

    def _give(self, turn: _Turn, piece: Piece) -> None:
        turn.given += 1
        if turn.given > turn.request.skip:
            turn.credit -= 1
            self._pipe.send(("piece", turn.number, piece))

    def _end(self, turn: _Turn, how: str, what: Any) -> None:
        del self._turns[turn.number]
        turn.close()
        self._pipe.send((how, turn.number, what))


class _Turn:
    def __init__(self, number: int, request: ServedRequest) -> None:
        self.number, self.request = number, request
        self.credit, self.given = AHEAD, 0
        self.speech: Any = None
        self.ended: Ended | None = None
        self._text: ArrivingText | None = None
        if request.arrives:
            self._text = ArrivingText()
            self._text.write(request.text)
        self._unknown = self._sentences = 0
        self._lull = False

    @property
    def waits(self) -> bool:
        return self._lull and self._text is not None and not self._text.wait(0)

    def tell(self, what: str, text: str = "") -> None:
        if what == "more":
            self.credit += 1
        elif self._text is not None:
            with suppress(SonorantError):  # the text has ended
                if what == "text":
                    self._text.write(text)
                elif what == "pause":
                    self._text.pause()
                elif what == "close":
                    self._text.close()

    def begin(self, voice: Voice) -> None:
        request = self.request
        self._encoder = open_encoder(request.encoding, voice.sample_rate, request.sample_rate)
        self.speech = voice.speak(request if self._text is None else request.to_speech(self._text))

    def advance(self) -> Piece | None:
        try:
            samples = self.speech.advance()
        except StopIteration:
            taken = self.speech.taken
            self.ended = Ended(taken.audio_seconds, taken.work_seconds)
            return self._piece(self._encoder.end(), ())
        self._lull = not len(samples)
        return None if self._lull else self._piece(self._encoder.encode(samples), self.speech.completed)

    def _piece(self, sound: bytes, words: tuple[Any, ...]) -> Piece:
        reasons = self.speech.finish_reasons
        bad = tuple(reason.name.lower() for reason in reasons[self._sentences :] if reason != FinishReason.WELL)
        unknown = "".join(list(self.speech.unknown)[self._unknown :])
        self._unknown, self._sentences = len(self.speech.unknown), len(reasons)
        return Piece(sound, words, unknown, bad, self.speech.silent)

    def close(self) -> None:
        if self.speech is not None:
            self.speech.close()
