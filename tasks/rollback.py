"""Swap the registry's champion and the previous champion; a second rollback undoes the first."""

import argparse

from sonorant.cli.say import utf8
from sonorant.registry import RegisterConfig, rollback
from tasks import params
from tasks.stage import run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tasks.rollback", description=__doc__)
    parser.add_argument("--reason", type=utf8, default="", help="reason to store with both versions")
    given = parser.parse_args()
    print(rollback(params.load("register", RegisterConfig).model, given.reason).says())


if __name__ == "__main__":
    run(main)
