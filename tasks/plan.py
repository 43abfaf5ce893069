"""`sonorant plan`: the time, memory and cost of a training on this machine, measured by a short probe, or estimated for
GPUs that are not here; which hardware is enough; and a plan held against a training that was measured whole.
`sonorant plan corpus` is of what comes before it."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.extras.planning.against import compare, job_of_run, measured_in
from sonorant.extras.planning.estimate import WIDER, estimate, recommend, scaled
from sonorant.extras.planning.forecast import forecast, table
from sonorant.extras.planning.hardware import BETWEEN, GPUS, Fleet
from sonorant.extras.planning.probe import Needs, needs_of, speed_of
from sonorant.plugins import all_kinds, model_kind
from sonorant.training.config import DataConfig, MachineConfig
from sonorant.training.worker import Job
from tasks import params, plan_corpus
from tasks.stage import INPUTS, run


def job_of(kind: str, path: Path, features: Path, codes: Path | None = None) -> Job:
    """The training that the stage would start; fine-tuning from other weights changes neither size nor speed.

    Raises SonorantError for a language model without the `codes` it learns, and for a pretrained codec.
    """
    of_kind = model_kind(kind)
    if of_kind.learns_codes and codes is None:
        raise SonorantError(
            f"a {of_kind.title} is planned with the codes it learns: give --codes, the token store of train_waveform"
        )
    sizes: Any = params.load(kind, of_kind.sizes(), path)
    if named := of_kind.pretrained(sizes):
        raise SonorantError(f"{kind}.pretrained is '{named}', which is taken as it is: there is no training to plan")
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
    """Probe and forecast."""
    _check(arguments)
    if arguments.against:
        job = job_of_run(arguments.against)
        measured = measured_in(arguments.against, job)
    else:
        job = job_of(arguments.model, arguments.params, arguments.features, arguments.codes)
    needs = needs_of(job)
    [key] = {"frames_per_micro_batch", "segments_per_micro_batch"} & job.train.keys()
    job.train[key] = needs.budget
    steps = arguments.steps or job.train["steps"]
    speed = speed_of(job, needs, arguments.probe_steps)
    price = None if arguments.gpu else arguments.price
    found = forecast(job, needs, speed, steps=steps, price=price, watts=arguments.watts)
    if arguments.against:
        return found | {"against": {"run": str(arguments.against), **compare(measured, speed)}}
    return found | _elsewhere(job, needs, steps, arguments)


def _elsewhere(job: Job, needs: Needs, steps: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The estimate for other hardware, and the hardware that is enough, as far as they are asked for."""
    found: dict[str, Any] = {}
    if arguments.parameters:
        needs = scaled(needs, arguments.parameters)
    if arguments.gpu:
        fleet = Fleet(gpu=arguments.gpu, gpus=arguments.gpus, machines=arguments.machines, link=arguments.link)
        found["estimate"] = estimate(job, needs, fleet, steps, arguments.price)
    if arguments.within:
        found["recommended"] = recommend(job, needs, steps, arguments.within, arguments.link)
    for part in found.values():
        if arguments.parameters:
            part["of_a_model"] = f"of {arguments.parameters:,.0f} parameters ({WIDER})"
    return found


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what contradicts itself before anything runs. Raises SonorantError."""
    if not arguments.against and (arguments.model is None or arguments.features is None):
        raise SonorantError("name a model and give --features, or give --against a run directory")
    if arguments.gpu:
        Fleet(gpu=arguments.gpu, gpus=arguments.gpus, machines=arguments.machines, link=arguments.link)
    if (arguments.gpus, arguments.machines) != (1, 1) and not arguments.gpu:
        raise SonorantError("--gpus and --machines say how many GPUs of one model there are: give --gpu too")
    if arguments.parameters and not (arguments.gpu or arguments.within):
        raise SonorantError("--parameters is for hardware that is not here: give --gpu or --within too")
    for name in ("parameters", "within", "steps", "probe_steps"):
        value = getattr(arguments, name)
        if value is not None and value <= 0:
            raise SonorantError(f"--{name.replace('_', '-')} {value:g}: give a number above 0")


def main() -> None:
    """Print the plan."""
    if sys.argv[1:2] == ["corpus"]:
        sys.argv[1:2] = []
        plan_corpus.main()
        return
    parser = argparse.ArgumentParser(prog="sonorant plan", description=__doc__)
    add = parser.add_argument
    add("model", nargs="?", choices=all_kinds(), help="what to train: the sections <model> and train_<model>")
    add("--params", type=Path, default=params.PARAMS, help="settings (default params.yaml)")
    add("--features", type=Path, help=INPUTS["features"])
    add("--codes", type=Path, help=f"{INPUTS['codes']}; for a language model")
    add("--steps", type=int, metavar="N", help="optimizer steps to plan for (default: the settings')")
    add("--probe-steps", type=int, default=8, metavar="N", help="steps to measure speed with (default 8)")
    add(
        "--price",
        type=float,
        metavar="X",
        help="of an hour of this machine, or of one GPU with --gpu, in your currency",
    )
    add("--watts", type=float, metavar="W", help="power that this machine draws while it trains")
    add("--gpu", metavar="NAME", help=f"estimate for a GPU that is not here: {', '.join(GPUS)}")
    add("--gpus", type=int, default=1, metavar="N", help="so many of --gpu in a machine (default 1)")
    add("--machines", type=int, default=1, metavar="N", help="so many machines (default 1)")
    link = f"between machines (default ethernet-10g): {', '.join(BETWEEN)}"
    add("--link", choices=BETWEEN, default="ethernet-10g", metavar="NAME", help=link)
    add("--within", type=float, metavar="HOURS", help="recommend the hardware that is enough for so many hours")
    add("--parameters", type=float, metavar="N", help="for --gpu and --within: as if the model had so many parameters")
    add("--against", type=Path, metavar="RUN", help="hold the plan of this run directory against what it took")
    add("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    found = plan(arguments)
    print(json.dumps(found, allow_nan=False) if arguments.json else table(found))


if __name__ == "__main__":
    run(main)
