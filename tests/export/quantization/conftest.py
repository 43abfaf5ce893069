from tests.training.conftest import alone, features

__all__ = ["alone", "features"]
