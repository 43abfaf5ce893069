"""Time unmodified gruut for `benchmarks features`.

The lexicon needs an index, without which each new word takes 50 ms. Imports nothing of the project that changes
gruut.
"""

import time
from typing import Any

from gruut import TextProcessor
from gruut.phonemize import SqlitePhonemizer

from benchmarks.processes import answer
from sonorant.text.gruut_processor import open_lexicon


def plain_processor(language: str) -> TextProcessor:
    processor = TextProcessor(default_lang=language)
    lookup: Any = processor.get_settings(language).lookup_phonemes
    lookup.phonemizer = SqlitePhonemizer(db_conn=open_lexicon(lookup.db_path, "in a copy"), **lookup.phonemizer_args)
    return processor


def speak(texts: list[str], language: str) -> float:
    """CPU seconds to make phonemes of the texts after loading."""
    processor = plain_processor(language)
    list(processor.sentences(*processor("Warm.", lang=language)))
    began = time.thread_time()
    for text in texts:
        list(processor.sentences(*processor(text, lang=language)))
    return time.thread_time() - began


if __name__ == "__main__":
    answer(dict, {"speak": lambda job: speak(**job)})
