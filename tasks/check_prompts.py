"""Measure how similar a voice sounds to unknown speakers when their recordings are its prompts."""

import argparse
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.evaluation.prompts import check_prompts, table
from sonorant.files import check_name, write_json
from tasks.stage import run


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tasks.check_prompts",
        description=__doc__,
        epilog="For voices of the family codec_lm with language_model.prompt_frames; requires the extra `similarity`.",
    )
    add = parser.add_argument
    add("--voice", type=Path, default=Path("artifacts/voice"), help="voice bundle (default %(default)s)")
    add("--variant", help="precision to speak with (default: the shipped one)")
    people = "folder with a folder of recordings per speaker; the voice must not be trained on these speakers"
    add("--people", type=Path, required=True, metavar="FOLDER", help=people)
    add("--count", type=int, default=20, help="maximum recordings per speaker (default %(default)s)")
    add("--out", type=Path, help="JSON file to write: cosines, intervals, and the recognised speaker of each sentence")
    given = parser.parse_args()
    if given.count < 2:
        raise SonorantError(f"--count must be at least 2, not {given.count}")
    if given.out:
        check_name(given.out, [".json"])
    found = check_prompts(given.voice, given.people, given.count, given.variant)
    print(table(found))
    if given.out:
        write_json(given.out, found)


if __name__ == "__main__":
    run(main)
