"""Waiting for what must happen, with one limit for all tests."""

import time
from collections.abc import Callable

PATIENCE = 300.0
"""Seconds after which something hangs. Only a safety net: no test shows by it that anything is quick."""


def wait_until(condition: Callable[[], object], patience: float = PATIENCE, pause: float = 0.05) -> None:
    """Return as soon as the condition holds; it is looked at every `pause` seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"did not happen in {patience:g} s"
        time.sleep(pause)
