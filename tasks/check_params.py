"""Check every section of params.yaml before any stage runs."""

import argparse
from pathlib import Path

from sonorant.families.family import VoiceConfig
from sonorant.plugins import load_family
from tasks import params
from tasks.stage import run


def check(path: Path = params.PARAMS) -> None:
    """Raise SonorantError naming the first key that is unknown, missing, of the wrong type or contradictory, or a
    pretrained model that is missing or unsuitable."""
    for section in params.sections():
        params.load(section, params.owner(section), path)
    family = load_family(params.load("voice", VoiceConfig, path).family)
    for kind in family.kinds:
        kind.check(params.load(kind.name, kind.sizes(), path), params.load("audio", params.owner("audio"), path))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tasks.check_params", description=__doc__)
    parser.add_argument("params", type=Path, nargs="?", default=params.PARAMS, help="settings (default params.yaml)")
    path = parser.parse_args().params
    check(path)
    print(f"{path}: all {len(params.sections())} sections are valid")


if __name__ == "__main__":
    run(main)
