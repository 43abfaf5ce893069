"""Select nested subsets of the training split by minutes, evenly across speakers."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

from sonorant.corpus.manifest import Utterance


def minutes_of(utterances: Sequence[Utterance]) -> float:
    return sum(utterance.seconds or 0.0 for utterance in utterances if utterance.split == "train") / 60


def first_minutes(utterances: Sequence[Utterance], minutes: float) -> list[Utterance]:
    """Keep at most `minutes` of the training split, and all of validation and test.

    Utterances are taken in the order of their ids' hashes, so that a smaller subset is part of a larger one. Speakers
    get equal shares, with at least one utterance each; unused time goes to other speakers.
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
    """Return the limit in seconds per speaker at which all speakers together have `total`."""
    left = total
    for number, own in enumerate(sorted(seconds.values())):
        share = left / (len(seconds) - number)
        if own >= share:
            return share
        left -= own
    return float("inf")


def _first_seconds(utterances: Sequence[Utterance], most: float) -> list[Utterance]:
    ordered = sorted(utterances, key=lambda utterance: hashlib.sha256(utterance.id.encode("utf-8")).digest())
    taken, total = ordered[:1], ordered[0].seconds or 0.0
    for utterance in ordered[1:]:
        total += utterance.seconds or 0.0
        if total > most:
            break
        taken.append(utterance)
    return taken
