"""Stage `choose`: decide which variant ships, and write the bundle that ships it."""

import argparse
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.export.choice import ChooseConfig, choose, ship
from sonorant.files import read_json, write_json
from sonorant.registry import PromoteConfig
from sonorant.registry.gates import judge_candidate
from sonorant.registry.speaker_gates import judge_speakers
from sonorant.speech.bundle import read_bundle
from tasks.params import load
from tasks.stage import add_inputs, run


def main() -> None:
    """Read section `choose`, choose, write the bundle and the reasons."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.choose",
        description="Choose the fastest variant that passed verify, is understood as well as fp32 and may be champion "
        "where fp32 may, and write the bundle that ships. Settings: params.yaml, sections 'choose' and 'promote'.",
        epilog='Next: sonorant say "Hello." --voice <the bundle> -o hello.wav',
    )
    parser.add_argument("--variants", type=Path, required=True, help="bundle of all variants, from the stage export")
    add_inputs(parser, "metrics")
    parser.add_argument("--choice", type=Path, required=True, help="JSON to write: the choice and its table")
    parser.add_argument("--out", type=Path, required=True, help="the bundle to write; an older one is replaced")
    arguments = parser.parse_args()
    bundle, config = read_bundle(arguments.variants), load("choose", ChooseConfig)
    metrics, limits = read_json(arguments.metrics), load("promote", PromoteConfig)

    def gates(candidate: str) -> str:
        judged = judge_candidate(metrics, bundle.description.family, candidate, limits)
        judged += judge_speakers(metrics, bundle.description, candidate.split("/", 1)[1], limits)
        return "; ".join(f"{gate.name}: {gate.reason}" for gate in judged if not gate.passed)

    try:
        choice = choose(metrics, config, gates)
    except SonorantError as error:
        raise SonorantError(f"{arguments.metrics}: {error}") from None
    ship(bundle, choice, arguments.out)
    write_json(arguments.choice, choice)
    print(choice["sentence"])


if __name__ == "__main__":
    run(main, stage="choose")
