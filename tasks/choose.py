"""Stage `choose`: write the bundle to ship, with the fastest variant that is good enough.

The variant must pass verify, be as intelligible as fp32, and pass the gates that fp32 passes. Settings: params.yaml,
sections `choose` and `promote`.
"""

from sonorant.errors import SonorantError
from sonorant.export.choice import ChooseConfig, choose, ship
from sonorant.files import read_json, write_json
from sonorant.registry import PromoteConfig
from sonorant.registry.figures import deciding
from sonorant.registry.gates import judge_alone
from sonorant.speech.bundle import read_bundle
from tasks.params import load
from tasks.stage import run, stage_arguments


def main() -> None:
    paths = {
        "variants": "bundle of all variants, written by the stage export",
        "choice": "JSON file to write: the choice and its table",
        "figures": "JSON file to write: the chosen variant's figures that decide, for `dvc metrics`",
        "out": "bundle to write; an older one is replaced",
    }
    arguments = stage_arguments("choose", __doc__, "metrics", **paths)
    bundle, config = read_bundle(arguments.variants), load("choose", ChooseConfig)
    metrics, limits = read_json(arguments.metrics), load("promote", PromoteConfig)

    def gates(candidate: str) -> str:
        judged = judge_alone(metrics, bundle.description, candidate, limits)
        return "; ".join(f"{gate.name}: {gate.reason}" for gate in judged if not gate.passed)

    try:
        choice = choose(metrics, config, gates)
    except SonorantError as error:
        raise SonorantError(f"{arguments.metrics}: {error}") from None
    ship(bundle, choice, arguments.out)
    write_json(arguments.choice, choice)
    write_json(arguments.figures, deciding(metrics, choice["runtime"], choice["variant"]))
    print(choice["sentence"])


if __name__ == "__main__":
    run(main, stage="choose")
