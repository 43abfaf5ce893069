"""Words of a text, with the labels of their phones for the aligner."""

from collections.abc import Sequence

from sonorant.corpus.manifest import Utterance
from sonorant.corpus.splits import words_of
from sonorant.text import load_with_lexicon
from sonorant.text.frontend import PAUSES

Said = tuple[str, tuple[int, ...]]
"""A written word and the labels of its phones."""


class Labels:
    """Labels, counted from 1, for the phones of all languages of a corpus."""

    def __init__(self, utterances: Sequence[Utterance], frontend: str, lexicon: str | None = None) -> None:
        """Raises SonorantError if the frontend does not support a language."""
        languages = sorted({utterance.language for utterance in utterances})
        self._frontends = {language: load_with_lexicon(frontend, language, lexicon) for language in languages}
        known = {symbol for frontend in self._frontends.values() for symbol in frontend.symbols}
        self.symbols = sorted(known - set(PAUSES))
        """Phones in the order of their labels."""
        self._label = {symbol: number for number, symbol in enumerate(self.symbols, 1)}

    def spoken(self, text: str, language: str) -> str:
        return self._frontends[language].speak(text).text

    def of_text(self, text: str, spoken: str, language: str) -> tuple[Said, ...]:
        """Return the words of a text, as written in `spoken`, with the labels of their phones."""
        phones: list[list[int]] = []
        for phoneme in self._frontends[language].speak(text).phonemes:
            if phoneme.symbol in self._label:
                if phoneme.word_start or not phones:
                    phones.append([])
                phones[-1].append(self._label[phoneme.symbol])
        written = words_of(spoken)
        if len(written) != len(phones):  # a frontend may join or omit words
            written = [f"word {number}" for number in range(1, len(phones) + 1)]
        return tuple((word, tuple(own)) for word, own in zip(written, phones, strict=True))
