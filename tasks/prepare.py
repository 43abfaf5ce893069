"""Stage `prepare`: check every utterance, write out its text, split by id, report. Settings: sections text and
prepare."""

from __future__ import annotations

import argparse
from pathlib import Path

from sonorant.data.preparation import PrepareConfig, prepare
from sonorant.text import TextConfig
from tasks.params import load
from tasks.stage import run


def main() -> None:
    """Prepare an imported corpus as params.yaml says."""
    parser = argparse.ArgumentParser(prog="python -m tasks.prepare", description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="folder the stage corpus wrote")
    out = "folder to write: manifest, rejected, summary.json, summary.html"
    parser.add_argument("--out", type=Path, required=True, help=out)
    arguments = parser.parse_args()
    frontend = load("text", TextConfig).frontend
    prepare(arguments.corpus, arguments.out, load("prepare", PrepareConfig), frontend)


if __name__ == "__main__":
    run(main, stage="prepare")
