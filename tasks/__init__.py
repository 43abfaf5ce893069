"""Pipeline stages and actions, one module each; run with `python -m tasks.<name>`."""

import os
import sys

if not sys.stderr.isatty():  # fewer log lines; tqdm reads this variable on import
    os.environ.setdefault("TQDM_MININTERVAL", "10")

# Read when torch is loaded. Threads that spin while waiting take cores from other threads, and on a busy machine from
# each other: two of them were measured to use forty times the CPU time.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
