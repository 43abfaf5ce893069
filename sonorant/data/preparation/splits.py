"""Train, validation or test: decided by the id alone, so that no other utterance can move it. Knows nothing of audio or text."""

from __future__ import annotations

import hashlib


def split_of(id: str, *, validation: float, test: float) -> str:
    """Return "train", "validation" or "test" for an id; `validation` and `test` are the fractions held out.

    The id's SHA-256 is a point in [0, 1). Test lies at one end and validation at the other: a larger fraction takes utterances
    from train only, never from the other held-out set.
    """
    point = int.from_bytes(hashlib.sha256(id.encode("utf-8")).digest()[:8], "big") / 2**64
    if point < test:
        return "test"
    return "validation" if point >= 1 - validation else "train"
