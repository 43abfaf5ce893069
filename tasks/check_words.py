"""Speak short texts and many sentences, and count skipped, repeated and babbled words."""

import argparse
from pathlib import Path

from sonorant.evaluation.short_texts.check import check_words, table
from sonorant.evaluation.short_texts.texts import SEED
from sonorant.files import check_name, write_json
from tasks.stage import run


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tasks.check_words",
        description=__doc__,
        epilog="Speaks more sentences than the stage evaluate, to find rare faults.",
    )
    parser.add_argument(
        "--voice", type=Path, default=Path("artifacts/voice"), help="voice bundle (default %(default)s)"
    )
    parser.add_argument("--variant", help="precision to speak with (default: the shipped one)")
    parser.add_argument("--sentences", type=int, default=1000, help="plain sentences to speak (default %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="seed that selects the sentences (default %(default)s)")
    parser.add_argument("--out", type=Path, help="JSON file to write: results by kind, and every text with a fault")
    given = parser.parse_args()
    if given.out:
        check_name(given.out, [".json"])
    found = check_words(given.voice, given.variant, given.sentences, given.seed)
    print(table(found))
    if given.out:
        write_json(given.out, found)


if __name__ == "__main__":
    run(main)
