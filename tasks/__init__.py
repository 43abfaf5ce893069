"""Stages and actions: one module each, run as `python -m tasks.<name>`."""

import os
import sys

if not sys.stderr.isatty():  # fewer lines in a log; tqdm reads this when it is imported
    os.environ.setdefault("TQDM_MININTERVAL", "10")

# Read when torch is loaded. Threads that spin while they wait take cores from others, and on a busy machine from
# themselves: forty times the CPU time was measured with two of them.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
