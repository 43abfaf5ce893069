"""Send what run directories still owe to MLflow, after its server was away."""

from __future__ import annotations

import argparse
from pathlib import Path

from sonorant.tracking import sync
from tasks.stage import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directories", type=Path, nargs="+", metavar="DIRECTORY", help="run directory: runs/<stage>/<fingerprint>")
    for directory in parser.parse_args().directories:
        print(f"{directory}: MLflow run {sync(directory)} has everything")


if __name__ == "__main__":
    run(main)
