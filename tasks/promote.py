"""Make a registered voice the `champion` if it passes the gates of params.yaml; else it remains `challenger`."""

import argparse
from pathlib import Path

from sonorant.cli.say import utf8
from sonorant.registry import PromoteConfig, RegisterConfig, Verdict, promote
from tasks import params
from tasks.stage import run


def promote_version(
    version: int | None, params_file: Path = params.PARAMS, *, without_champion: str = "", again: bool = False
) -> Verdict:
    """Judge a version (None means the alias challenger) by the gates of `params_file`; see
    `sonorant.registry.promote`."""
    model = params.load("register", RegisterConfig, params_file).model
    config = params.load("promote", PromoteConfig, params_file)
    return promote(model, config, version, without_champion=without_champion, again=again)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tasks.promote", description=__doc__)
    parser.add_argument("--version", type=int, help="version to judge (default: the alias challenger)")
    parser.add_argument("--strict", action="store_true", help="exit with status 1 if the voice is refused")
    reason = "skip the comparison with the champion if it is impossible; the reason is stored with the version"
    parser.add_argument("--without-champion", type=utf8, default="", metavar="REASON", help=reason)
    parser.add_argument("--again", action="store_true", help="allow a version that was rolled back")
    given = parser.parse_args()
    verdict = promote_version(given.version, without_champion=given.without_champion, again=given.again)
    print("\n".join(verdict.says()))
    if given.strict and not verdict.passed:
        raise SystemExit(1)


if __name__ == "__main__":
    run(main)
