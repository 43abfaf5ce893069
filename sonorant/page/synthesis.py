"""Requests to speak, as many at a time as the machine has cores. Knows nothing of HTTP."""

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
from sonorant.processes import usable_cores
from sonorant.runtime.bundle import read_bundle
from sonorant.runtime.speaking import Limits
from sonorant.runtime.streaming import Speech
from sonorant.runtime.voice import Voice

LIMITS = Limits(characters=5_000, audio_seconds=1_800.0, work_seconds=120.0)
"""Of one request: about five minutes of speech, which the page holds in memory."""


class BusyError(Exception):
    """As many requests are served as are let in."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is to be spoken, and how."""

    text: str
    """What to say."""
    speaker: str | None = None
    """Who says it; None = the voice's first."""
    speed: float = 1.0
    """As `Voice.say`."""
    seed: int | None = None
    """As `Voice.say`: for voices that decode, as is the temperature."""
    temperature: float | None = None
    """As `Voice.decoding`."""
    variant: str | None = None
    """Precision of the graphs; None = the voice's own choice."""

    @classmethod
    def parse(cls, value: Any) -> Wish:
        """A wish from parsed JSON. Raises SonorantError naming the key that is missing, unknown or of another type."""
        kinds: dict[str, tuple[type, ...]] = {
            "text": (str,),
            "speaker": (str, type(None)),
            "speed": (int, float),
            "seed": (int, type(None)),
            "temperature": (int, float, type(None)),
            "variant": (str, type(None)),
        }
        if not isinstance(value, dict) or "text" not in value:
            raise SonorantError("the request has no text")
        for key, given in value.items():
            if key not in kinds:
                raise SonorantError(f"the request's key '{key}' is not known; there are: {', '.join(kinds)}")
            if not isinstance(given, kinds[key]) or isinstance(given, bool):
                raise SonorantError(f"the request's {key} is of type {type(given).__name__}")
        return cls(**value)


class Heard(NamedTuple):
    """A chunk of speech, and what there is to tell since the one before."""

    samples: NDArray[np.float32] | None
    """float32 (S,) in -1..1."""
    unknown: str
    """Characters met that cannot be spoken."""
    bad: list[str]
    """Verdicts of sentences that did not go well."""


class Synthesis:
    """A voice and its variants, spoken by one thread a core; whoever comes when too many wait is turned away."""

    def __init__(self, bundle: Path, *, workers: int | None = None, waiting: int = 8, limits: Limits = LIMITS) -> None:
        """`workers`: chunks computed at a time, None = one a core; `waiting`: requests let in beyond those.

        Raises SonorantError as `Voice.load`.
        """
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
        """Requests that are being served."""
        self._pool.submit(
            lambda: self._voice(None).frontend.speak("a")
        ).result()  # the first to ask need not wait for loading

    @property
    def variants(self) -> tuple[str, ...]:
        """Variants that every graph comes in."""
        graphs = list(self.description.graphs.values())
        return tuple(name for name in graphs[0].variants if all(name in graph.variants for graph in graphs))

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place among those that are served. Raises BusyError where there is none."""
        with self._lock:
            if self.speaking >= self._places:
                raise BusyError
            self.speaking += 1
        try:
            yield
        finally:
            with self._lock:
                self.speaking -= 1

    def speak(self, wish: Wish) -> Generator[Heard, None, None]:
        """Speech as it is computed; the last has no samples where there is only something left to tell. To be used in a
        `place`.

        Requests take turns by chunks, so that a long one delays no other. Closing the generator ends the work.
        """
        speech = self._pool.submit(lambda: self._begin(wish)).result()
        unknown = sentences = 0
        try:
            samples: NDArray[np.float32] | None = np.zeros(0, np.float32)
            while samples is not None:
                samples = self._pool.submit(next, speech, None).result()
                bad = [
                    finish_reason.name.lower()
                    for finish_reason in speech.finish_reasons[sentences:]
                    if finish_reason != FinishReason.WELL
                ]
                if samples is not None or bad:
                    yield Heard(samples, "".join(list(speech.unknown)[unknown:]), bad)
                unknown, sentences = len(speech.unknown), len(speech.finish_reasons)
        finally:
            speech.close()

    def _begin(self, wish: Wish) -> Speech:
        voice = self._voice(wish.variant)
        decoding = voice.decoding(temperature=wish.temperature)
        return voice.stream(wish.text, wish.speaker, wish.speed, limits=self.limits, seed=wish.seed, decoding=decoding)

    def close(self) -> None:
        """Take no more work."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _voice(self, variant: str | None) -> Voice:
        with self._lock:
            if variant not in self._voices:
                self._voices[variant] = Voice.load(self._bundle, threads=1, variant=variant)
            return self._voices[variant]
