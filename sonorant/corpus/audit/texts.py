"""The words of texts, each with its phones as labels of the aligner."""

from collections.abc import Sequence

from sonorant.corpus.audit.hearing import words_of
from sonorant.corpus.audit.planted import Said
from sonorant.corpus.manifest import Utterance
from sonorant.text import load_with_lexicon
from sonorant.text.frontend import PAUSES


class Labels:
    """Labels of the phones of all languages of a corpus, from 1 for the first symbol."""

    def __init__(self, utterances: Sequence[Utterance], frontend: str, lexicon: str | None = None) -> None:
        """`frontend`: its name; `lexicon`: file of the user's words. Raises SonorantError if it lacks a language."""
        languages = sorted({utterance.language for utterance in utterances})
        self._frontends = {language: load_with_lexicon(frontend, language, lexicon) for language in languages}
        known = {symbol for frontend in self._frontends.values() for symbol in frontend.symbols}
        self.symbols = sorted(known - set(PAUSES))
        """Of the labels from 1 on."""
        self._label = {symbol: number for number, symbol in enumerate(self.symbols, 1)}

    def spoken(self, text: str, language: str) -> str:
        """A text as the frontend speaks it."""
        return self._frontends[language].speak(text).text

    def of_text(self, text: str, spoken: str, language: str) -> tuple[Said, ...]:
        """The words of a text, named as in `spoken`, with their phones."""
        phones: list[list[int]] = []
        for phoneme in self._frontends[language].speak(text).phonemes:
            if phoneme.symbol in self._label:
                if phoneme.word_start or not phones:
                    phones.append([])
                phones[-1].append(self._label[phoneme.symbol])
        written = words_of(spoken)
        if len(written) != len(phones):  # a frontend may join or leave out words
            written = [f"word {number}" for number in range(1, len(phones) + 1)]
        return tuple((word, tuple(own)) for word, own in zip(written, phones, strict=True))
