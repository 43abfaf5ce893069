"""From a corpus as found to one to train on: sound utterances, spoken texts, splits, and a report on the rejected
ones."""

from sonorant.data.preparation.config import PrepareConfig
from sonorant.data.preparation.prepare import prepare

__all__ = ["PrepareConfig", "prepare"]
