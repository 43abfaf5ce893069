"""Several people listening to one voice at once: how soon each hears something, and whether speech ever breaks off for
them.

Each listens in real time, as a loudspeaker does, sentence after sentence, in a thread of their own. Claims nothing.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.streaming_worker import text
from sonorant.runtime.voice import Voice

AT_ONCE = (1, 4, 8)
"""Listeners."""


@dataclass(frozen=True)
class Listened:
    """What one sentence was like for whoever listened."""

    first: float
    """Seconds until the first samples."""
    waited: float
    """Seconds of silence in the middle, because speech was not there when it was to be heard."""


def listen_at_once(voice: Voice, listeners: int, sentences: int) -> dict[str, Any]:
    """`first_p50_ms`, `first_p95_ms` and `broke_off`, the share of sentences with a gap, over `sentences` for each
    listener."""
    spoken = [list(text(10 * (sentences + 1)))[1:]] * listeners

    def listen(number: int) -> list[Listened]:
        # People do not begin at the same instant, nor one sentence apart.
        time.sleep(np.random.default_rng(number).uniform(0, 1.5) if number else 0)
        return [_listen(voice, sentence) for sentence in spoken[number]]

    with ThreadPoolExecutor(listeners) as pool:
        heard = [one for row in pool.map(listen, range(listeners)) for one in row]
    p50, p95 = np.percentile([one.first * 1000 for one in heard], [50, 95])
    broke_off = float(np.mean([one.waited > 0 for one in heard]))
    return {
        "first_p50_ms": round(float(p50), 1),
        "first_p95_ms": round(float(p95), 1),
        "broke_off": round(broke_off, 3),
    }


def _listen(voice: Voice, sentence: str) -> Listened:
    begin = time.perf_counter()
    first = ends = waited = 0.0
    for chunk in voice.stream(sentence):
        now = time.perf_counter() - begin
        if not first:
            first = ends = now
        waited += max(0.0, now - ends)
        ends = max(now, ends) + len(chunk) / voice.sample_rate
        # The next chunk is asked for while this one is heard.
        time.sleep(max(0.0, begin + ends - len(chunk) / voice.sample_rate - time.perf_counter()))
    return Listened(first, waited)
