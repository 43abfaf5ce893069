"""What every entry point shares: an error is one line and a non-zero exit. Knows nothing of the stages."""

from __future__ import annotations

import sys
from collections.abc import Callable

from sonorant.errors import SonorantError


def run(main: Callable[[], None]) -> None:
    """Run a task's `main`; a SonorantError becomes one line and exit status 1. Any other exception is a defect and keeps its traceback."""
    try:
        main()
    except SonorantError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None
