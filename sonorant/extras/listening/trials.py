"""The trials of a listening test: who hears what beside what, in which order, under names that tell nothing.

First pairs of A and B, of which one may be preferred or neither; then, if there are recordings, ratings from 0 to 100
beside the recording, with the recording itself hidden among what is rated and a low anchor (MUSHRA, ITU-R BS.1534-3).
"""

import hashlib
import hmac
import random
from dataclasses import dataclass

from sonorant.extras.listening.answers import PAIR, RATING, Header
from sonorant.extras.listening.test_sounds import ANCHOR, RECORDINGS, A, B, Sounds


@dataclass(frozen=True)
class Trial:
    kind: str
    """PAIR or RATING."""
    sentence: str
    order: tuple[str, ...]
    """The systems, as they stand on the page."""


class ListeningTest:
    """`places`: where each system comes from, as it was typed."""

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
        """The listener's trials, the same each time: sentences in random order, A first in half of the pairs."""
        draw = random.Random(f"{self._seed} {listener}")
        names = list(self.sounds.sentences)
        draw.shuffle(names)
        first = draw.randrange(2)  # of an odd number of pairs, one side has one more
        sides = [((A, B), (B, A))[(place + first) % 2] for place in range(len(names))]
        draw.shuffle(sides)
        pairs = [Trial(PAIR, name, order) for name, order in zip(names, sides, strict=True)]
        if not self.sounds.rated:
            return pairs
        draw.shuffle(names)
        rated = [A, B, RECORDINGS, ANCHOR]
        return pairs + [Trial(RATING, name, tuple(draw.sample(rated, len(rated)))) for name in names]

    def token(self, listener: str, trial: Trial, what: object = "") -> str:
        """An opaque name (32 hexadecimal digits) of a trial, or of what is at a place in it, for this listener."""
        told = f"{listener}\0{trial.kind}\0{trial.sentence}\0{what}".encode()
        return hmac.new(f"{self.sounds.content} {self._seed}".encode(), told, hashlib.sha256).hexdigest()[:32]
