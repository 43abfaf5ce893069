"""Prepare a corpus for training: check utterances, write out texts, assign splits, and report rejected utterances."""

from sonorant.corpus.preparation.checks import PrepareConfig
from sonorant.corpus.preparation.prepare import prepare

__all__ = ["PrepareConfig", "prepare"]
