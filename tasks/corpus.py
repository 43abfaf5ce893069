"""Stage `corpus`: list recordings of any kind in one manifest."""

import argparse
from pathlib import Path

from sonorant.corpus.importers import CorpusConfig, import_corpus
from tasks.params import load
from tasks.stage import run


def main() -> None:
    """Read section `corpus`, import the corpus that it describes."""
    parser = argparse.ArgumentParser(prog="python -m tasks.corpus", description=__doc__)
    source = "folder of prompts, corpus folder or table, as corpus.kind says"
    parser.add_argument("--source", type=Path, required=True, help=source)
    parser.add_argument("--out", type=Path, required=True, help="folder to write: manifest.jsonl and what is made")
    cache = "folder of what earlier runs found in long recordings; outside DVC, so that it survives"
    parser.add_argument("--cache", type=Path, help=cache)
    arguments = parser.parse_args()
    import_corpus(arguments.source, arguments.out, load("corpus", CorpusConfig), cache=arguments.cache)


if __name__ == "__main__":
    run(main, stage="corpus")
