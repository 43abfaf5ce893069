"""Waiting for what must happen, with one limit for all tests."""

import time
from collections.abc import Callable

PATIENCE = 300.0
"""Seconds after which something hangs. Only a safety net: no test shows by it that anything is quick."""


def wait_until(condition: Callable[[], object]) -> None:
    """Return as soon as the condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"did not happen in {PATIENCE:g} s"
        time.sleep(0.05)
