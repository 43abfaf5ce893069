"""A trigram model of one text, in ARPA's format: what a recogniser expects that knows what is read, but not where.

Interpolated absolute discounting (Ney, Essen and Kneser 1994). Any word may begin a stretch, and any may end it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

_DISCOUNT = 0.3
_END = 0.05
"""Probability that a stretch ends after a word."""


def write_language_model(path: Path, words: Sequence[str]) -> None:
    """Write the model of a text of one word or more."""
    ones, pairs, threes = (Counter(zip(*(words[place:] for place in range(n)), strict=False)) for n in (1, 2, 3))
    total = len(words) + 0.5 * len(ones)
    unigrams = {ngram: (1 - _END) * (count + 0.5) / total for ngram, count in ones.items()}
    bigrams, left_of_one = _interpolated(pairs, unigrams)
    trigrams, left_of_pair = _interpolated(threes, bigrams)
    lines = ["\\data\\", f"ngram 1={len(unigrams) + 2}", f"ngram 2={len(bigrams)}", f"ngram 3={len(trigrams)}", ""]
    lines += ["\\1-grams:", "-99 <s> 0", f"{math.log10(_END):.4f} </s>"]
    lines += _lines(unigrams, left_of_one)
    lines += ["", "\\2-grams:", *_lines(bigrams, left_of_pair), "", "\\3-grams:", *_lines(trigrams, None)]
    path.write_text("\n".join([*lines, "", "\\end\\", ""]), encoding="utf-8")


_Ngram = tuple[str, ...]


def _interpolated(
    counts: Counter[_Ngram], shorter: dict[_Ngram, float]
) -> tuple[dict[_Ngram, float], dict[_Ngram, float]]:
    """Probabilities of n-grams, and what each context leaves to shorter ones."""
    totals, followers = Counter[_Ngram](), Counter[_Ngram]()
    for ngram, count in counts.items():
        totals[ngram[:-1]] += count
        followers[ngram[:-1]] += 1
    left = {context: _DISCOUNT * followers[context] / total for context, total in totals.items()}
    found = {
        ngram: (count - _DISCOUNT) / totals[ngram[:-1]] + left[ngram[:-1]] * shorter[ngram[1:]]
        for ngram, count in counts.items()
    }
    return found, left


def _lines(probabilities: dict[_Ngram, float], left: dict[_Ngram, float] | None) -> list[str]:
    return [
        f"{math.log10(probability):.4f} {' '.join(ngram)}"
        + ("" if left is None else f" {math.log10(left.get(ngram, 1.0)):.4f}")
        for ngram, probability in sorted(probabilities.items())
    ]
