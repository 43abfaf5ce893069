"""One process that speaks a text of so many words and tells what memory that took. Knows nothing of what is claimed of it."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator

from sonorant.runtime import Voice

PLACES = ("garden", "river", "station", "market", "harbour", "valley", "village", "forest", "library", "bridge")


def text(words: int) -> Iterator[str]:
    """Sentences of ten words, no two alike."""
    for number in range(words // 10):
        yield f"Nobody came to the {PLACES[number % 10]} on day {number} of it. "


def main() -> None:
    """Speak with the bundle argv[1] a text of argv[2] words; print one JSON object."""
    voice = Voice.load(sys.argv[1], threads=1)
    samples = sum(map(len, voice.stream(text(int(sys.argv[2])))))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"peak_mib": round(peak, 1), "seconds": round(samples / voice.sample_rate, 1)}))


if __name__ == "__main__":
    main()
