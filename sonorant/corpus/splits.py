"""Assign utterances to splits by their text, so that all takes of a sentence are in one split."""

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from rapidfuzz.distance import Levenshtein

from sonorant.corpus.manifest import Utterance

SplitBy = Literal["text", "speaker"]
NEAR = 0.2
"""Maximum fraction of words in which near-duplicates differ."""
WORD = re.compile(r"\w+(?:['’]\w+)*")
_SHINGLE = 3
_COMMON = 50  # a word sequence in more texts than this is a common phrase
_FEW = 10


def split_of(key: str, *, validation: float, test: float) -> str:
    """Return "train", "validation" or "test", determined by `key` alone.

    The key's SHA-256 is a point in [0, 1), with test at one end and validation at the other, so that a larger fraction
    reduces train only.
    """
    point = _point(key)
    if point < test:
        return "test"
    return "validation" if point >= 1 - validation else "train"


def beyond(utterances: Iterable[Utterance], by: SplitBy, most: int) -> set[str]:
    """Return the held-out keys that exceed `most` utterances in validation or test.

    Each set keeps the whole keys nearest to its end of [0, 1), at least one. So a smaller `most` holds out a subset,
    and a growing corpus moves nothing from training into a full set.
    """
    sizes = Counter((utterance.split, split_key(utterance, by)) for utterance in utterances)
    found = set()
    for split, nearest in (("validation", lambda key: -_point(key)), ("test", _point)):
        held_out = 0
        for place, key in enumerate(sorted((key for of, key in sizes if of == split), key=nearest)):
            held_out += sizes[split, key]
            if place and held_out > most:
                found.add(key)
    return found


def _point(key: str) -> float:
    return int.from_bytes(hashlib.sha256(key.encode("utf-8")).digest()[:8], "big") / 2**64


def split_key(utterance: Utterance, by: SplitBy) -> str:
    """Return the key that all utterances of one text or speaker share."""
    return utterance.speaker if by == "speaker" else text_key(utterance)


def text_key(utterance: Utterance) -> str:
    """Return the spoken text without case and punctuation, which is equal for every take of a sentence."""
    return " ".join(words_of(utterance.spoken or ""))


def words_of(text: str) -> list[str]:
    """Return words in lower case without punctuation."""
    return WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def read_in_training(utterances: Iterable[Utterance]) -> set[str]:
    return {text_key(utterance) for utterance in utterances if utterance.split == "train"}


def describe_texts(utterances: Sequence[Utterance]) -> dict[str, Any]:
    """Count distinct texts (`texts`), utterances with a repeated text (`takes`) and held-out ones with a training text
    (`held_out_read`). List `near_duplicates`: held-out texts that differ from a training text in at most a fraction
    `NEAR` of the words."""
    times, read = Counter(map(text_key, utterances)), read_in_training(utterances)
    held_out = [text_key(utterance) for utterance in utterances if utterance.split != "train"]
    return {
        "texts": len(times),
        "takes": sum(count for count in times.values() if count > 1),
        "held_out_read": sum(key in read for key in held_out),
        "near_duplicates": near_duplicates(set(held_out) - read, read),
    }


def near_duplicates(held_out: set[str], read: set[str]) -> list[dict[str, Any]]:
    """Return the training text nearest to each held-out text by Levenshtein distance, and the number of differing
    words.

    Compares only texts that share three consecutive words, so that time grows linearly.
    """
    holders: dict[tuple[str, ...], list[str]] = {shingle: [] for text in held_out for shingle in _shingles(text)}
    for text in read:
        for shingle in _shingles(text) & holders.keys():
            holders[shingle].append(text)
    found = []
    for text in sorted(held_out):
        others = {
            other for shingle in _shingles(text) if len(holders[shingle]) <= _COMMON for other in holders[shingle]
        }
        near = [(Levenshtein.distance(text.split(), other.split()), other) for other in others]
        if near and (nearest := min(near))[0] <= NEAR * len(text.split()):
            found.append({"held_out": text, "read": nearest[1], "words": nearest[0]})
    return found


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[start : start + _SHINGLE]) for start in range(max(1, len(words) - _SHINGLE + 1))}


def few_texts(utterances: list[Utterance], by: SplitBy, test: float) -> str | None:
    """Return a warning if the corpus repeats a few texts, such as digits or commands; otherwise None."""
    texts = len({text_key(utterance) for utterance in utterances})
    if by != "text" or len(utterances) < 3 * texts or texts * test >= _FEW:
        return None
    return (
        f"{len(utterances)} utterances contain only {texts} different texts, too few to hold out whole texts; set "
        "prepare.split_by to speaker, or record more sentences"
    )


def empty_splits(utterances: list[Utterance], by: SplitBy, validation: float, test: float) -> str | None:
    """Return which splits are empty and the settings that fill them, or None. A fraction of 0 asks for no split."""
    shares = {"train": 1.0, "validation": validation, "test": test}
    there = {utterance.split for utterance in utterances}
    missing = [split for split, share in shares.items() if share and split not in there]
    if not missing:
        return None
    points = sorted({_point(split_key(utterance, by)) for utterance in utterances})
    needed = {"validation": 1 - points[-1], "test": points[0]}
    changed = {split: math.floor(needed[split] * 1000 + 1) / 1000 for split in needed if split in missing}
    shares |= changed
    learned = any(shares["test"] <= point < 1 - shares["validation"] for point in points)
    settings = " and ".join(f"prepare.{split} to {share:g}" for split, share in changed.items())
    remedy = f"set {settings}, or add recordings" if learned else "add recordings, or change prepare.split_by"
    splits = " and no ".join(missing)
    return f"{len(utterances)} utterances ({len(points)} {by}s) leave no {splits} split; {remedy}"
