"""From a corpus as found to one that can be trained on: sound utterances, spoken texts, splits, and a report on all the
others."""

from sonorant.data.preparation.checks import PrepareConfig
from sonorant.data.preparation.prepare import prepare

__all__ = ["PrepareConfig", "prepare"]
