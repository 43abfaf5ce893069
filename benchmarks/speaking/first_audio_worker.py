"""A fresh process of `benchmarks first_audio`: argv[1] `speak` speaks with the bundle argv[2] in the variant argv[3],
`import` only imports what any such process needs. It imports nothing else of the benchmarks: that would show."""

import json
import sys
import time


def main() -> None:
    """Print the CPU seconds since the process began to its first audio, and the MiB it took to speak on."""
    if sys.argv[1] == "speak":
        from sonorant.speech.voice import Voice

        voice = Voice.load(sys.argv[2], variant=sys.argv[3], threads=1)
        next(voice.stream("Good morning."))
        spent = time.process_time()
        from benchmarks.speaking.texts import TEXTS

        for text in TEXTS.values():
            voice.say(text)
    else:
        import numpy  # noqa: F401
        import onnxruntime  # noqa: F401

        spent = time.process_time()
    from benchmarks.processes import memory_mib

    print(json.dumps({"cpu_s": round(spent, 4), "peak_mib": memory_mib("VmHWM")}))


if __name__ == "__main__":
    main()
