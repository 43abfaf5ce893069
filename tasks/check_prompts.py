"""Measure how similar a voice sounds to unknown speakers whose recordings it gets as prompts."""

import argparse
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.evaluation.prompts import check_prompts, table
from sonorant.files import write_json
from tasks.stage import run


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tasks.check_prompts",
        description=__doc__,
        epilog="For voices of the family codec_lm with language_model.prompt_frames; needs the extra similarity.",
    )
    add = parser.add_argument
    add("--voice", type=Path, default=Path("artifacts/voice"), help="voice bundle (default %(default)s)")
    add("--variant", help="precision to speak with (default: the one that ships)")
    people = "folder with a folder of recordings of each speaker, none of whom the voice was trained on"
    add("--people", type=Path, required=True, metavar="FOLDER", help=people)
    add("--count", type=int, default=20, help="recordings of each person at most (default %(default)s)")
    add("--out", type=Path, help="JSON to write: cosines, intervals, and as whom each sentence is recognised")
    given = parser.parse_args()
    if given.count < 2:
        raise SonorantError(f"--count must be at least 2, not {given.count}")
    found = check_prompts(given.voice, given.people, given.count, given.variant)
    print(table(found))
    if given.out:
        write_json(given.out, found)


if __name__ == "__main__":
    run(main)
