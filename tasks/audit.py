"""Stage `audit`: does the sound of each utterance say its text? Scores, likely faults, and what is dropped."""

import argparse
from pathlib import Path

from sonorant.corpus.audit.audit import AuditConfig, audit
from sonorant.corpus.importers import CorpusConfig
from sonorant.text import TextConfig
from tasks.params import load
from tasks.stage import add_inputs, run

SYNTHETIC = "a synthesiser spoke the texts of corpus.kind demo, so they are what is said"


def main() -> None:
    """Read sections `audit`, `text` and `corpus`, judge a prepared corpus."""
    parser = argparse.ArgumentParser(prog="python -m tasks.audit", description=__doc__)
    add_inputs(parser, "corpus", "prepared")
    cache = "folder of what earlier runs found in each recording; outside DVC, so that it survives"
    parser.add_argument("--cache", type=Path, required=True, help=cache)
    out = "folder to write: manifest.jsonl of what is kept, audit.jsonl, dropped.jsonl, summary.json, audit.html"
    parser.add_argument("--out", type=Path, required=True, help=out)
    arguments = parser.parse_args()
    skip = SYNTHETIC if load("corpus", CorpusConfig).kind == "demo" else None
    config, text = load("audit", AuditConfig), load("text", TextConfig)
    folders = (arguments.corpus, arguments.prepared, arguments.out)
    audit(*folders, config, text.frontend, lexicon=text.lexicon, cache=arguments.cache, skip=skip)


if __name__ == "__main__":
    run(main, stage="audit")
