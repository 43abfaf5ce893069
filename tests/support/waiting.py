import time
from collections.abc import Callable

PATIENCE = 300.0
"""Seconds after which something counts as hanging."""


def wait_until(condition: Callable[[], object], patience: float = PATIENCE, pause: float = 0.05) -> None:
    """Return as soon as the condition holds; checks it every `pause` seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"did not happen in {patience:g} s"
        time.sleep(pause)
