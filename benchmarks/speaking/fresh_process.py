"""A fresh process of `benchmarks first_audio` and `streaming`, with minimal imports.

`speak BUNDLE VARIANT`: CPU seconds from its start to the first audio, and MiB to speak all texts; `import`: CPU
seconds of the imports that any such process needs; `read BUNDLE WORDS`: MiB to speak a text of so many words.
"""

import json
import sys
import time


def main() -> None:
    task, *words = sys.argv[1:]
    if task == "import":
        import numpy  # noqa: F401
        import onnxruntime  # noqa: F401

        spent = time.process_time()
    else:
        from sonorant.speech.voice import Voice

        variant = {"variant": words[1]} if task == "speak" else {}
        voice = Voice.load(words[0], threads=1, **variant)
        next(voice.stream("Good morning."))
        spent = time.process_time()
        from benchmarks.speaking.texts import TEXTS, text

        if task == "speak":
            for spoken in TEXTS.values():
                voice.say(spoken)
        else:
            sum(map(len, voice.stream(text(int(words[1])))))
    from benchmarks.processes import memory_mib

    print(json.dumps({"cpu_s": round(spent, 4), "peak_mib": memory_mib("VmHWM")}))


if __name__ == "__main__":
    main()
