"""From an imported corpus to one to train on: sound utterances, spoken texts, splits, and a report on rejected ones."""

from sonorant.corpus.preparation.checks import PrepareConfig
from sonorant.corpus.preparation.prepare import prepare

__all__ = ["PrepareConfig", "prepare"]
