"""Trials of a listening test: pairs of A and B, then, if there are recordings, ratings from 0 to 100 with a hidden
reference and a low anchor (MUSHRA, ITU-R BS.1534-3)."""

import hashlib
import hmac
import random
from dataclasses import dataclass

from sonorant.extras.listening.answers import PAIR, RATING, Header
from sonorant.extras.listening.listening_sounds import ANCHOR, RECORDINGS, A, B, Sounds


@dataclass(frozen=True)
class Trial:
    kind: str
    sentence: str
    order: tuple[str, ...]
    """Systems in the order in which the page presents them."""


class ListeningTest:
    """Trials of all listeners. `places`: folder or voice of each system, as the user typed it."""

    def __init__(self, sounds: Sounds, places: dict[str, str], seed: int) -> None:
        self.sounds = sounds
        self._seed = seed
        self.header = Header(
            test=hashlib.sha256(f"{sounds.content} {seed}".encode()).hexdigest()[:16],
            seed=seed,
            A=places[A],
            B=places[B],
            recordings=places.get(RECORDINGS),
            sentences=sounds.sentences,
        )

    def trials(self, listener: str) -> list[Trial]:
        """Return the listener's trials: sentences in random order, A first in half of the pairs."""
        draw = random.Random(f"{self._seed} {listener}")
        names = list(self.sounds.sentences)
        draw.shuffle(names)
        first = draw.randrange(2)  # with an odd number of pairs, one system is first once more
        sides = [((A, B), (B, A))[(place + first) % 2] for place in range(len(names))]
        draw.shuffle(sides)
        pairs = [Trial(PAIR, name, order) for name, order in zip(names, sides, strict=True)]
        if not self.sounds.rated:
            return pairs
        draw.shuffle(names)
        rated = [A, B, RECORDINGS, ANCHOR]
        return pairs + [Trial(RATING, name, tuple(draw.sample(rated, len(rated)))) for name in names]

    def token(self, listener: str, trial: Trial, what: object = "") -> str:
        """Return an opaque name (32 hex digits) of a trial, or of the sound `what` in it, for this listener."""
        told = f"{listener}\0{trial.kind}\0{trial.sentence}\0{what}".encode()
        return hmac.new(f"{self.sounds.content} {self._seed}".encode(), told, hashlib.sha256).hexdigest()[:32]
