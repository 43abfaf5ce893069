"""Count the phones and diphones in a list of prompts."""

import argparse
from pathlib import Path

from tqdm import tqdm

from sonorant.corpus.prompt_coverage import describe, measure_coverage, read_prompts
from sonorant.text import FRONTENDS, load_frontend
from tasks.stage import run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tasks.prompt_coverage", description=__doc__)
    parser.add_argument("prompts", type=Path, help="UTF-8 text, one prompt per line, such as corpora/demo/prompts.txt")
    frontend_help = "text frontend (default gruut)"
    parser.add_argument("--frontend", choices=sorted(FRONTENDS), default="gruut", help=frontend_help)
    parser.add_argument("--language", default="en-us", help="language of the prompts (default en-us)")
    arguments = parser.parse_args()
    prompts = read_prompts(arguments.prompts)
    frontend = load_frontend(arguments.frontend, arguments.language)
    print(describe(measure_coverage(tqdm(prompts, desc="phonemes", unit="prompt"), frontend)))


if __name__ == "__main__":
    run(main)
