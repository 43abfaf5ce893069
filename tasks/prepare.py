"""Stage `prepare`: check every utterance, write out its text, split by id, report."""

import argparse
from pathlib import Path

from sonorant.data.preparation import PrepareConfig, prepare
from sonorant.text import TextConfig
from tasks.params import load
from tasks.stage import add_inputs, run


def main() -> None:
    """Read sections `text` and `prepare`, prepare an imported corpus."""
    parser = argparse.ArgumentParser(prog="python -m tasks.prepare", description=__doc__)
    add_inputs(parser, "corpus")
    out = "folder to write: manifest, rejected, summary.json, summary.html"
    parser.add_argument("--out", type=Path, required=True, help=out)
    arguments = parser.parse_args()
    frontend = load("text", TextConfig).frontend
    prepare(arguments.corpus, arguments.out, load("prepare", PrepareConfig), frontend)


if __name__ == "__main__":
    run(main, stage="prepare")
