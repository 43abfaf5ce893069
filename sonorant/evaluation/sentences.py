"""Which held-out sentences are judged. Knows nothing of how."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

from sonorant.data.manifest import Utterance
from sonorant.errors import SonorantError


def held_out(utterances: Iterable[Utterance], count: int) -> list[Utterance]:
    """The first `count` utterances of the test split by SHA-256 of their id; all of them if there are fewer.

    The order depends on the ids alone, so more recordings change the choice little. Where the split holds several languages, only the
    most frequent one: a recogniser and a voice have one. Raises SonorantError if the split is empty.
    """
    test = [utterance for utterance in utterances if utterance.split == "test"]
    if not test:
        raise SonorantError("the test split is empty: nothing to judge the voice by; raise prepare.test or add recordings")
    language = Counter(utterance.language for utterance in test).most_common(1)[0][0]
    chosen = sorted((u for u in test if u.language == language), key=lambda u: hashlib.sha256(u.id.encode()).hexdigest())
    return chosen[:count]


def spoken_text(utterance: Utterance) -> str:
    """What was to be said, numbers in words. Raises SonorantError if the utterance was not prepared."""
    if utterance.spoken is None:
        raise SonorantError(f"utterance '{utterance.id}': field 'spoken' is missing from the manifest; run the stage prepare again")
    return utterance.spoken
