"""Compare the words of a text with a transcript, and count faults."""

from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from sonorant.evaluation.estimates import Figures, estimate
from sonorant.evaluation.short_texts.listener import Said
from sonorant.training.intervals import wilson_interval

LEAST_BABBLE = 0.18
"""Minimum duration of babble in seconds; shorter runs of phones are breaths or word endings."""


@dataclass(frozen=True, kw_only=True)
class Faults:
    skipped: tuple[str, ...] = ()
    """Missing words that no other speech replaces."""
    repeated: tuple[str, ...] = ()
    babbled: tuple[str, ...] = ()
    """Words replaced by other speech."""
    extra: int = 0
    """Number of stretches of unexpected speech."""

    @property
    def count(self) -> int:
        return len(self.skipped) + len(self.repeated) + len(self.babbled) + self.extra

    def __bool__(self) -> bool:
        return self.count > 0


def find_faults(words: Sequence[str], said: Sequence[Said]) -> Faults:
    places = iter(_places(words, [part.word for part in said if part.word]))
    skipped: list[str] = []
    repeated: list[str] = []
    babbled: list[str] = []
    extra, due, babble, run = 0, 0, 0, 0.0
    # Babble is assigned when the next word or the end arrives: it replaces the words missing there.
    for part in [*said, Said("", 0.0, 0.0)]:
        if part.word is None:
            run += part.end - part.start
            continue
        babble, run = babble + (run >= LEAST_BABBLE), 0.0
        place = next(places) if part.word else len(words)
        if place is None:
            repeated.append(part.word)
            continue
        (babbled if babble else skipped).extend(words[due:place])
        extra += babble if due == place else 0
        due, babble = place + 1, 0
    return Faults(skipped=tuple(skipped), repeated=tuple(repeated), babbled=tuple(babbled), extra=extra)


def _places(words: Sequence[str], heard: Sequence[str]) -> list[int | None]:
    places: list[int | None] = [None] * len(heard)
    for block in Levenshtein.editops(words, heard).as_matching_blocks():
        places[block.b : block.b + block.size] = range(block.a, block.a + block.size)
    return places


def transcript(said: Sequence[Said]) -> str:
    """Return transcribed words, with "(babble)" for babble."""
    parts: list[str] = []
    run = 0.0
    for part in [*said, Said("", 0.0, 0.0)]:
        run = run + part.end - part.start if part.word is None else 0.0
        if part.word is None and run >= LEAST_BABBLE and parts[-1:] != ["(babble)"]:
            parts.append("(babble)")
        elif part.word:
            parts.append(part.word)
    return " ".join(parts)


def summarize(found: Sequence[Faults]) -> Figures:
    """Return `{texts, faulty, faulty_rate, faulty_rate_ci95, skipped, repeated, babbled, extra}`: numbers of texts,
    faulty texts and faults; the rate has a Wilson interval."""
    texts, faulty = len(found), sum(map(bool, found))
    return {
        "texts": texts,
        "faulty": faulty,
        **estimate("faulty_rate", faulty / texts, wilson_interval(faulty, texts), 5),
        **{kind: sum(len(getattr(each, kind)) for each in found) for kind in ("skipped", "repeated", "babbled")},
        "extra": sum(each.extra for each in found),
    }
