"""Fewer minutes to learn from: nested parts of the training split, evenly by speaker."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

from sonorant.corpus.manifest import Utterance


def minutes_of(utterances: Sequence[Utterance]) -> float:
    """Minutes of the training split."""
    return sum(utterance.seconds or 0.0 for utterance in utterances if utterance.split == "train") / 60


def first_minutes(utterances: Sequence[Utterance], minutes: float) -> list[Utterance]:
    """The utterances with at most `minutes` of their training split; validation and test stay whole.

    Each speaker's are taken in the order of a hash of their ids, so fewer minutes are part of more. Speakers get equal
    shares; what one does not have goes to the others. Everyone keeps an utterance at least.
    """
    by_speaker: defaultdict[str, list[Utterance]] = defaultdict(list)
    for utterance in utterances:
        if utterance.split == "train":
            by_speaker[utterance.speaker].append(utterance)
    seconds = {speaker: sum(each.seconds or 0.0 for each in own) for speaker, own in by_speaker.items()}
    share = _even_share(seconds, 60 * minutes)
    taken = {each.id for own in by_speaker.values() for each in _first_seconds(own, share)}
    return [utterance for utterance in utterances if utterance.split != "train" or utterance.id in taken]


def _even_share(seconds: Mapping[str, float], total: float) -> float:
    """Most seconds of any speaker, so that all together have `total`."""
    left = total
    for number, own in enumerate(sorted(seconds.values())):
        share = left / (len(seconds) - number)
        if own >= share:
            return share
        left -= own
    return float("inf")  # there is no more


def _first_seconds(utterances: Sequence[Utterance], most: float) -> list[Utterance]:
    ordered = sorted(utterances, key=lambda utterance: hashlib.sha256(utterance.id.encode("utf-8")).digest())
    taken, total = ordered[:1], ordered[0].seconds or 0.0
    for utterance in ordered[1:]:
        total += utterance.seconds or 0.0
        if total > most:
            break
        taken.append(utterance)
    return taken
