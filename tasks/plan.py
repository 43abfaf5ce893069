"""`sonorant plan`: the time, memory and cost of a training on this machine, measured by a short probe."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.families import all_kinds, model_kind
from sonorant.planning.forecast import GPUS, forecast, gpu_named, table
from sonorant.planning.probe import needs_of, speed_of
from sonorant.training.config import DataConfig, MachineConfig
from sonorant.training.worker import Job
from tasks import params
from tasks.stage import INPUTS, add_inputs, run


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
        train=asdict(params.load(f"train_{kind}", of_kind.settings(), path)) | {"init_from": None},
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
    if arguments.gpu:
        gpu_named(arguments.gpu)
    job = job_of(arguments.model, arguments.params, arguments.features, arguments.codes)
    needs = needs_of(job)
    [key] = {"frames_per_micro_batch", "segments_per_micro_batch"} & job.train.keys()
    job.train[key] = needs.budget
    speed = speed_of(job, arguments.probe_steps)
    steps = arguments.steps or job.train["steps"]
    return forecast(job, needs, speed, steps=steps, price=arguments.price, watts=arguments.watts, gpu=arguments.gpu)


def main() -> None:
    """Print the plan."""
    parser = argparse.ArgumentParser(prog="sonorant plan", description=__doc__)
    parser.add_argument("model", choices=all_kinds(), help="what to train: the sections <model> and train_<model>")
    parser.add_argument("--params", type=Path, default=params.PARAMS, help="settings (default params.yaml)")
    add_inputs(parser, "features")
    parser.add_argument("--codes", type=Path, help=f"{INPUTS['codes']}; for a language model")
    parser.add_argument("--steps", type=int, metavar="N", help="optimizer steps to plan for (default: the settings')")
    probe = "steps to measure speed with (default 8)"
    parser.add_argument("--probe-steps", type=int, default=8, metavar="N", help=probe)
    price = "of an hour of this machine, or of the named GPU, in your currency"
    parser.add_argument("--price", type=float, metavar="X", help=price)
    parser.add_argument("--watts", type=float, metavar="W", help="power that this machine draws while it trains")
    parser.add_argument("--gpu", metavar="NAME", help=f"estimate for a GPU that is not here: {', '.join(GPUS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    found = plan(arguments)
    print(json.dumps(found, allow_nan=False) if arguments.json else table(found))


if __name__ == "__main__":
    run(main)
