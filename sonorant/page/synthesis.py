"""Serve requests to speak on one thread per core. HTTP stays in the server."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sonorant.decoding.advance import FinishReason
from sonorant.errors import SonorantError
from sonorant.families import load_family
from sonorant.processes import usable_cores
from sonorant.runtime.bundle import read_bundle
from sonorant.runtime.speaking import Limits
from sonorant.runtime.streaming import Speech
from sonorant.runtime.timings import WordTiming
from sonorant.runtime.voice import Voice
from sonorant.text.arriving import ArrivingText

LIMITS = Limits(characters=5_000, audio_seconds=1_800.0, work_seconds=120.0)
"""For one request: about five minutes of speech, which the page holds in memory."""


HEARTBEAT, IDLE = 1.0, 60.0
"""Seconds between two signs of life while text is waited for, and until a text without any more is over."""


class BusyError(Exception):
    """Too many requests are being served."""


@dataclass(frozen=True, kw_only=True)
class SpeechRequest:
    text: str
    speaker: str | None = None
    """None = the voice's first."""
    speed: float = 1.0
    """As `Voice.say`, and so are the next two."""
    pitch: float = 0.0
    energy: float = 0.0
    seed: int | None = None
    """As `Voice.say`, for voices that decode."""
    temperature: float | None = None
    """As `Voice.decoding`, for voices that decode."""
    variant: str | None = None
    """Precision of the graphs; None = the voice's choice."""
    arrives: bool = False
    """Whether more text follows while it is spoken."""

    @classmethod
    def parse(cls, value: Any) -> SpeechRequest:
        """Read parsed JSON. Raises SonorantError naming a key that is missing, unknown or of the wrong type."""
        kinds: dict[str, tuple[type, ...]] = {
            "text": (str,),
            "speaker": (str, type(None)),
            "speed": (int, float),
            "pitch": (int, float),
            "energy": (int, float),
            "seed": (int, type(None)),
            "temperature": (int, float, type(None)),
            "variant": (str, type(None)),
            "arrives": (bool,),
        }
        if not isinstance(value, dict) or "text" not in value:
            raise SonorantError("the request has no text")
        for key, given in value.items():
            if key not in kinds:
                raise SonorantError(f"the request's key '{key}' is not known; there are: {', '.join(kinds)}")
            if not isinstance(given, kinds[key]) or (isinstance(given, bool) and kinds[key] != (bool,)):
                raise SonorantError(f"the request's {key} is of type {type(given).__name__}")
        return cls(**value)


class SpeechChunk(NamedTuple):
    """A chunk of speech, and what went wrong since the chunk before; empty while text is waited for."""

    samples: NDArray[np.float32] | None
    """float32 (S,) in -1..1; None or empty if there is only something to report."""
    unknown: str
    """Characters that cannot be spoken."""
    bad: list[str]
    """Finish reasons of sentences that went wrong."""
    words: tuple[WordTiming, ...]
    """Words that are over with these samples."""


class Synthesis:
    """A voice and its variants on one thread per core; refuses requests beyond a limit.

    `workers`: chunks computed at a time, None = one per core; `waiting`: requests accepted beyond those. Raises
    SonorantError as `Voice.load` does.
    """

    def __init__(self, bundle: Path, *, workers: int | None = None, waiting: int = 8, limits: Limits = LIMITS) -> None:
        workers = usable_cores() if workers is None else workers
        if workers < 1:
            raise SonorantError(f"workers must be at least 1, not {workers}")
        self.limits = limits
        self.description = read_bundle(bundle).description
        self._bundle = bundle
        self._voices: dict[str | None, Voice] = {}
        self._lock = threading.Lock()
        self._places = workers + waiting
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="speaker")
        self.speaking = 0
        """Requests being served."""
        # Load now, so that the first request need not wait for it.
        self._pool.submit(lambda: self._voice(None).frontend.speak("a")).result()

    @property
    def prosody(self) -> bool:
        """Whether pitch and energy can be changed."""
        return any(tensor.name == "pitch" for tensor in self.description.graphs["encoder"].inputs)

    @property
    def why_untimed(self) -> str:
        """Why the voice does not tell when its words are spoken; empty where it does."""
        return load_family(self.description.family).why_untimed(self.description)

    @property
    def variants(self) -> tuple[str, ...]:
        """Variants that every graph has."""
        graphs = list(self.description.graphs.values())
        return tuple(name for name in graphs[0].variants if all(name in graph.variants for graph in graphs))

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Count as one of the requests being served. Raises BusyError if there are too many."""
        with self._lock:
            if self.speaking >= self._places:
                raise BusyError
            self.speaking += 1
        try:
            yield
        finally:
            with self._lock:
                self.speaking -= 1

    def speak(self, request: SpeechRequest, text: ArrivingText | None = None) -> Generator[SpeechChunk, None, None]:
        """Yield speech as it is computed; use it within `admitted`. `text`: what is spoken if it arrives.

        Requests take turns by chunks, so that a long one delays no other, and one that waits for text holds no thread
        of the pool. Closing the generator ends the work.
        """
        speech = self._pool.submit(lambda: self._begin(request, request.text if text is None else text)).result()
        unknown = sentences = 0
        try:
            samples: NDArray[np.float32] | None = np.zeros(0, np.float32)
            while samples is not None:
                samples = self._pool.submit(_advance, speech).result()
                ended = speech.finish_reasons[sentences:]
                bad = [reason.name.lower() for reason in ended if reason != FinishReason.WELL]
                if samples is not None or bad:
                    yield SpeechChunk(samples, "".join(list(speech.unknown)[unknown:]), bad, speech.completed)
                unknown, sentences = len(speech.unknown), len(speech.finish_reasons)
                if text is not None and samples is not None and not len(samples):
                    yield from _wait(text)
        finally:
            speech.close()

    def _begin(self, request: SpeechRequest, text: str | ArrivingText) -> Speech:
        voice = self._voice(request.variant)
        decoding = voice.decoding(temperature=request.temperature)
        asked, limits = (text, request.speaker, request.speed), self.limits
        how: dict[str, Any] = {"pitch": request.pitch, "energy": request.energy, "seed": request.seed}
        return voice.stream(*asked, limits=limits, decoding=decoding, timings=not self.why_untimed, **how)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _voice(self, variant: str | None) -> Voice:
        with self._lock:
            if variant not in self._voices:
                self._voices[variant] = Voice.load(self._bundle, threads=1, variant=variant)
            return self._voices[variant]


def _advance(speech: Speech) -> NDArray[np.float32] | None:
    """The next chunk; None at the end, as a generator cannot pass on that an iterator ended."""
    try:
        return speech.advance()
    except StopIteration:
        return None


def _wait(text: ArrivingText) -> Iterator[SpeechChunk]:
    """Wait for more text, with signs of life, which fail where the listener has gone."""
    waited = 0.0
    while not text.wait(HEARTBEAT):
        yield SpeechChunk(None, "", [], ())
        waited += HEARTBEAT
        if waited >= IDLE:
            text.close()
