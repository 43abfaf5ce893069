"""Stage `prepare`: check every utterance, write out its text, split it, report."""

import argparse
from pathlib import Path

from sonorant.audio.conditioning import ConditionConfig
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.text import TextConfig
from tasks.params import load
from tasks.stage import add_inputs, run


def main() -> None:
    """Read sections `text` and `prepare`, prepare an imported corpus."""
    parser = argparse.ArgumentParser(prog="python -m tasks.prepare", description=__doc__)
    add_inputs(parser, "corpus")
    out = "folder to write: manifest, rejected, summary.json, summary.html"
    parser.add_argument("--out", type=Path, required=True, help=out)
    cache = "folder of what earlier runs found in each recording; outside DVC, so that it survives"
    parser.add_argument("--cache", type=Path, help=cache)
    arguments = parser.parse_args()
    text = load("text", TextConfig)
    config = load("prepare", PrepareConfig)
    condition = load("condition", ConditionConfig)
    how = {"lexicon": text.lexicon, "cache": arguments.cache}
    prepare(arguments.corpus, arguments.out, config, text.frontend, condition=condition, **how)


if __name__ == "__main__":
    run(main, stage="prepare")
