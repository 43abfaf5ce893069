"""Let the gates of params.yaml decide whether a registered voice becomes `champion`; a refused one stays `challenger`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sonorant.registry import PromoteConfig, RegisterConfig, Verdict, promote
from tasks import params
from tasks.stage import run


def promote_version(version: int | None, params_file: Path = params.PARAMS) -> Verdict:
    """Judge a version (None = the alias challenger) by the gates of `params_file`."""
    model = params.load("register", RegisterConfig, params_file).model
    return promote(model, params.load("promote", PromoteConfig, params_file), version)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", type=int, help="version to judge (default: the alias challenger)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if the voice is refused")
    given = parser.parse_args()
    verdict = promote_version(given.version)
    print("\n".join(verdict.says()))
    if given.strict and not verdict.passed:
        raise SystemExit(1)


if __name__ == "__main__":
    run(main)
