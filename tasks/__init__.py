"""Verbs: one module a stage or action, run as `python -m tasks.<name>`."""

import os
import sys

if not sys.stderr.isatty():  # in a log, a progress bar speaks now and then; tqdm reads this when it is imported
    os.environ.setdefault("TQDM_MININTERVAL", "10")
