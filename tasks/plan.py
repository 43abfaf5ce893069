"""`sonorant plan`: predict time, memory and cost of a training with a short probe; or estimate them for another GPU."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonorant.errors import SonorantError
from sonorant.extras.planning.hardware import BETWEEN, GPUS, Fleet
from sonorant.files import did_you_mean
from sonorant.plugins import all_kinds, model_kind
from tasks import params
from tasks.stage import INPUTS, check_existing, run

if TYPE_CHECKING:
    from sonorant.training.worker import Job


def job_of(kind: str, path: Path, features: Path, codes: Path | None = None) -> "Job":
    """Return the stage's training job without `init_from`, which affects neither size nor speed.

    Raises SonorantError for a language model without `codes`, and for a pretrained codec.
    """
    from sonorant.training.worker import Job

    of_kind = model_kind(kind)
    if of_kind.learns_codes and codes is None:
        raise SonorantError(
            f"planning a {of_kind.title} requires its codes; give --codes, the token store of train_waveform"
        )
    sizes: Any = params.load(kind, of_kind.sizes(), path)
    if named := of_kind.pretrained(sizes):
        raise SonorantError(f"{kind}.pretrained is '{named}', which is used without training; plan another model")
    return Job(
        recipe=kind,
        model=asdict(sizes),
        train=asdict(params.load(f"train_{kind}", of_kind.settings(), path).from_scratch()),
        features=str(features),
        codes=str(codes) if codes else None,
        run="",
        out="",
        fingerprint="plan",
        provenance={},
        data=asdict(params.load("data", params.owner("data"), path)),
        machine=asdict(params.load("machine", params.owner("machine"), path)),
    )


def plan(arguments: argparse.Namespace) -> dict[str, Any]:
    """Probe this machine and forecast; with --gpu, only estimate for that GPU. Raises SonorantError for invalid
    options."""
    fleet = None
    if arguments.gpu:
        if (gpu := arguments.gpu.lower().replace(" ", "")) not in GPUS:
            raise SonorantError(f"--gpu {arguments.gpu}: unknown{did_you_mean(gpu, list(GPUS))}")
        fleet = Fleet(gpu=gpu, gpus=arguments.gpus, machines=arguments.machines, link=arguments.link)
    elif (arguments.gpus, arguments.machines) != (1, 1):
        raise SonorantError("--gpus and --machines require a GPU model; give --gpu too")
    for name in ("steps", "probe_steps", "gpus", "machines"):
        value = getattr(arguments, name)
        if value is not None and value <= 0:
            raise SonorantError(f"--{name.replace('_', '-')} {value:g}: give a number above 0")
    check_existing(arguments.features, arguments.codes or arguments.features)
    from sonorant.extras.planning.estimate import estimate, on_gpu
    from sonorant.extras.planning.forecast import forecast, sizes
    from sonorant.extras.planning.probe import needs_of, speed_of

    job = job_of(arguments.model, arguments.params, arguments.features, arguments.codes)
    needs = needs_of(job, fleet.model if fleet else None)
    [key] = {"frames_per_micro_batch", "segments_per_micro_batch"} & job.train.keys()
    needs = on_gpu(job, needs, fleet.model, auto=job.train[key] == "auto") if fleet else needs
    job.train[key] = needs.budget
    steps = arguments.steps or job.train["steps"]
    if fleet:
        return sizes(job, needs) | {"estimate": estimate(job, needs, fleet, steps, arguments.price)}
    speed = speed_of(job, needs, arguments.probe_steps)
    return forecast(job, needs, speed, steps=steps, price=arguments.price, watts=arguments.watts)


EXAMPLES = """\
examples:
  sonorant plan acoustic --features data/features
  sonorant plan acoustic --features data/features --gpu h100 --gpus 8 --price 2.5
"""


def main() -> None:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="sonorant plan", description=__doc__, epilog=EXAMPLES, formatter_class=shape)
    add = parser.add_argument
    add("model", choices=all_kinds(), help="model to train, with the sections <model> and train_<model>")
    add("--params", type=Path, default=params.PARAMS, help="settings file (default params.yaml)")
    add("--features", type=Path, required=True, help=INPUTS["features"])
    add("--codes", type=Path, help=f"{INPUTS['codes']}; required for a language model")
    add("--steps", type=int, metavar="N", help="optimizer steps to plan for (default: from the settings)")
    add("--probe-steps", type=int, default=8, metavar="N", help="steps to measure the speed on (default 8)")
    add("--price", type=float, metavar="X", help="price per hour of this machine or, with --gpu, of one GPU")
    add("--watts", type=float, metavar="W", help="power of this machine during training")
    add("--gpu", metavar="NAME", help=f"estimate for this GPU instead, without measuring: {', '.join(GPUS)}")
    add("--gpus", type=int, default=1, metavar="N", help="GPUs per machine (default 1)")
    add("--machines", type=int, default=1, metavar="N", help="number of machines (default 1)")
    link = f"network between machines (default ethernet-10g): {', '.join(BETWEEN)}"
    add("--link", choices=BETWEEN, default="ethernet-10g", metavar="NAME", help=link)
    add("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    found = plan(arguments)
    from sonorant.extras.planning.forecast import table

    print(json.dumps(found, allow_nan=False) if arguments.json else table(found))


if __name__ == "__main__":
    run(main)
