"""A tiny feature store and a process group of one, as for training."""

from tests.training.conftest import alone, features

__all__ = ["alone", "features"]
