"""Verbs: one module a stage or action, run as `python -m tasks.<name>`."""

import os
import sys

if not sys.stderr.isatty():  # in a log, a progress bar speaks now and then; tqdm reads this when it is imported
    os.environ.setdefault("TQDM_MININTERVAL", "10")

# Read when torch is loaded: threads that spin while they wait take the cores from their neighbours, and on a busy
# machine from themselves (two such threads, more work than cores: forty times the CPU time, measured).
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
