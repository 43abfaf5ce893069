"""One process that speaks: takes wishes from a pipe and speaks them in turns, chunk by chunk. Knows nothing of HTTP."""

from __future__ import annotations

import faulthandler
import logging
import os
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from sonorant.errors import SonorantError
from sonorant.serving.encoding import open_encoder
from sonorant.serving.wish import Ended, Piece, Wish
from sonorant.speech.decoding.advance import FinishReason
from sonorant.speech.voice import Voice
from sonorant.text.arriving import ArrivingText
from sonorant.text.user_lexicon import Lexicon

AHEAD = 4
"""Chunks that are computed before the listener has taken them: what a stalled listener costs."""
HUNG_SECONDS = 120.0
"""A process that is this long at one chunk hangs, and ends: another takes its place and its requests."""

_log = logging.getLogger(__name__)


class Worker:
    """Speaks until its pipe is closed.

    It is told ("speak", id, Wish), ("more", id) for each piece that was taken, ("text", id, str), ("pause", id) and
    ("close", id) of a text that arrives, and ("cancel", id). It tells ("piece", id, Piece), and at last ("ended", id,
    Ended), ("refused", id, line) or ("failed", id, line), the last for a fault of its own.
    """

    def __init__(self, pipe: Connection, load: Callable[[str | None], Voice], prepared: Callable[[], int]) -> None:
        """`load` gives the voice in a variant, None = its own choice; `prepared`: how many graphs it has prepared."""
        self._pipe, self._load, self._prepared = pipe, load, prepared
        self._told_of = prepared()
        self._told: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._turns: OrderedDict[int, _Turn] = OrderedDict()

    def run(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            turn = self._next()
            self._obey(wait=turn is None)
            if turn is not None and turn.number in self._turns:
                # Its thread needs no lock of Python's, so it also ends what hangs within a library, and says where.
                faulthandler.dump_traceback_later(HUNG_SECONDS, exit=True)
                self._advance(turn)
                faulthandler.cancel_dump_traceback_later()

    def _listen(self) -> None:
        """Take messages at once, so that who sends them never waits."""
        try:
            while True:
                self._told.put(self._pipe.recv())
        except (EOFError, OSError):
            os._exit(0)  # the server has ended or wants this process no more

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
        """Whose turn it is: who was not heard yet comes first, then who waited longest."""
        able = [turn for turn in self._turns.values() if turn.credit and not turn.waits]
        return next((turn for turn in able if not turn.given), able[0] if able else None)

    def _advance(self, turn: _Turn) -> None:
        self._turns.move_to_end(turn.number)
        try:
            if turn.speech is None:
                turn.begin(self._load(turn.wish.variant))
            piece = turn.advance()
            if piece is not None:
                self._give(turn, piece)
            if turn.ended is not None:
                self._end(turn, "ended", turn.ended._replace(late=self._late()))
        except SonorantError as error:
            self._end(turn, "refused", str(error))
        except Exception:
            _log.exception("a speech failed")
            self._end(turn, "failed", "the speech failed; the server's log says why")

    def _late(self) -> int:
        """Graphs prepared since this was asked before; what a request waited for that left is told with the next."""
        told_of, self._told_of = self._told_of, self._prepared()
        return self._told_of - told_of

    def _give(self, turn: _Turn, piece: Piece) -> None:
        turn.given += 1
        if turn.given > turn.wish.skip:
            turn.credit -= 1
            self._pipe.send(("piece", turn.number, piece))

    def _end(self, turn: _Turn, how: str, what: Any) -> None:
        del self._turns[turn.number]
        turn.close()
        self._pipe.send((how, turn.number, what))


class _Turn:
    """One speech."""

    def __init__(self, number: int, wish: Wish) -> None:
        self.number, self.wish = number, wish
        self.credit, self.given = AHEAD, 0
        self.speech: Any = None
        self.ended: Ended | None = None
        self._text: ArrivingText | None = None
        if wish.arrives:
            self._text = ArrivingText()
            self._text.write(wish.text)
        self._unknown = self._sentences = 0
        self._lull = False

    @property
    def waits(self) -> bool:
        """Whether there is nothing to read. Who reads on all the same waits for text, and all others for them."""
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
        wish = self.wish
        self._voice = with_words(voice, wish.lexicon) if wish.lexicon else voice
        self._encoder = open_encoder(wish.encoding, voice.sample_rate, wish.sample_rate)
        self.speech = self._voice.stream(
            wish.text if self._text is None else self._text,
            wish.speaker,
            wish.speed,
            pitch=wish.pitch,
            energy=wish.energy,
            seed=wish.seed,
            decoding=voice.decoding(temperature=wish.temperature),
            limits=wish.limits,
            markup=wish.markup,
            timings=wish.timings,
        )

    def advance(self) -> Piece | None:
        """The next chunk; None where there is none before more text comes."""
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
        return Piece(sound, words, unknown, bad)

    def close(self) -> None:
        if self.speech is not None:
            self.speech.close()


def with_words(voice: Voice, words: dict[str, str]) -> Voice:
    """The voice with words of one request before its own lexicon's. Raises SonorantError naming a word whose phonemes
    the voice does not have."""
    own = voice.frontend
    entries = {**(own.lexicon.entries if own.lexicon else {}), **words}
    lexicon = Lexicon(voice.description.frontend.language, entries, own.symbols)
    # Not copied: a copy of a frontend is loaded anew.
    frontend = object.__new__(type(own))
    frontend.__dict__.update(own.__dict__, lexicon=lexicon)
    changed = Voice(voice.bundle, voice.runtime)
    changed.__dict__["frontend"] = frontend
    return changed
