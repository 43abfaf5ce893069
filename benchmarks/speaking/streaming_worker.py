"""One process of `benchmarks streaming`: how much memory it takes to speak with the bundle argv[1] a text of argv[2]
words."""

import json
import sys

from benchmarks.processes import memory_mib
from benchmarks.speaking.texts import text
from sonorant.speech import Voice

if __name__ == "__main__":
    voice = Voice.load(sys.argv[1], threads=1)
    samples = sum(map(len, voice.stream(text(int(sys.argv[2])))))
    print(json.dumps({"peak_mib": memory_mib("VmHWM"), "seconds": round(samples / voice.sample_rate, 1)}))
