"""From a corpus as found to one to train on: sound utterances, spoken texts, splits, and a report on the rejected
ones."""

from sonorant.corpus.preparation.prepare import prepare
from sonorant.corpus.preparation.settings import PrepareConfig

__all__ = ["PrepareConfig", "prepare"]
