"""`sonorant plan`: predict time, memory and cost of a training with a short probe; estimate them for another GPU."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.extras.planning.estimate import estimate
from sonorant.extras.planning.forecast import forecast, table
from sonorant.extras.planning.hardware import BETWEEN, GPUS, Fleet
from sonorant.extras.planning.probe import needs_of, speed_of
from sonorant.plugins import all_kinds, model_kind
from sonorant.training.config import DataConfig, MachineConfig
from sonorant.training.worker import Job
from tasks import params
from tasks.stage import INPUTS, run


def job_of(kind: str, path: Path, features: Path, codes: Path | None = None) -> Job:
    """Return the stage's training job without `init_from`, which affects neither size nor speed.

    Raises SonorantError for a language model without `codes`, and for a pretrained codec.
    """
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
        data=asdict(params.load("data", DataConfig, path)),
        machine=asdict(params.load("machine", MachineConfig, path)),
    )


def plan(arguments: argparse.Namespace) -> dict[str, Any]:
    """Probe this machine and forecast; with --gpu, also estimate for that GPU. Raises SonorantError for invalid
    options."""
    fleet = None
    if arguments.gpu:
        fleet = Fleet(gpu=arguments.gpu, gpus=arguments.gpus, machines=arguments.machines, link=arguments.link)
    elif (arguments.gpus, arguments.machines) != (1, 1):
        raise SonorantError("--gpus and --machines require a GPU model; give --gpu too")
    for name in ("steps", "probe_steps", "gpus", "machines"):
        value = getattr(arguments, name)
        if value is not None and value <= 0:
            raise SonorantError(f"--{name.replace('_', '-')} {value:g}: give a number above 0")
    job = job_of(arguments.model, arguments.params, arguments.features, arguments.codes)
    needs = needs_of(job)
    [key] = {"frames_per_micro_batch", "segments_per_micro_batch"} & job.train.keys()
    job.train[key] = needs.budget
    steps = arguments.steps or job.train["steps"]
    speed = speed_of(job, needs, arguments.probe_steps)
    found = forecast(job, needs, speed, steps=steps, price=None if fleet else arguments.price, watts=arguments.watts)
    return found | ({"estimate": estimate(job, needs, fleet, steps, arguments.price)} if fleet else {})


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
    add("--gpu", choices=GPUS, metavar="NAME", help=f"estimate for this GPU: {', '.join(GPUS)}")
    add("--gpus", type=int, default=1, metavar="N", help="GPUs per machine (default 1)")
    add("--machines", type=int, default=1, metavar="N", help="number of machines (default 1)")
    link = f"network between machines (default ethernet-10g): {', '.join(BETWEEN)}"
    add("--link", choices=BETWEEN, default="ethernet-10g", metavar="NAME", help=link)
    add("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    found = plan(arguments)
    print(json.dumps(found, allow_nan=False) if arguments.json else table(found))


if __name__ == "__main__":
    run(main)
