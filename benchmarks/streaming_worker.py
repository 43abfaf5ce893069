"""One process that speaks a text of so many words and tells what memory that took. Knows nothing of what is claimed of
it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

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
    print(json.dumps({"peak_mib": round(peak_mib(), 1), "seconds": round(samples / voice.sample_rate, 1)}))


def peak_mib() -> float:
    """Most memory this process ever held. Not by getrusage, whose peak begins with that of the process it was started
    from."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), flags=re.MULTILINE)
    assert found, "this system does not tell a process' peak memory"
    return int(found[1]) / 1024


if __name__ == "__main__":
    main()
