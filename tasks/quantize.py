"""Stage `quantize`: convert both trained models to int8, by calibration or by further training in int8.

The training runs and resumes in runs/quantize_<kind>/<fingerprint>.
"""

import argparse
import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.export.quantization.quantize import QuantizeConfig, decide, post_train
from sonorant.files import atomic_folder, read_json, write_json
from sonorant.layers.model_folder import load_model, save_model
from sonorant.plugins import model_kind
from sonorant.training.config import TrainConfig
from sonorant.training.initial import read_initial
from tasks.params import load
from tasks.stage import add_inputs, run
from tasks.training import add_fresh, train


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tasks.quantize", description=__doc__)
    add_inputs(parser, "predictor", "waveform", "features", "runs")
    parser.add_argument("--codes", type=Path, help="token store of the codec, required for a language model")
    parser.add_argument("--out", type=Path, required=True, help="folder for both int8 models; an older one is replaced")
    parser.add_argument("--report", type=Path, required=True, help="JSON file to write: losses and methods")
    add_fresh(parser)
    arguments = parser.parse_args()
    config = load("quantize", QuantizeConfig)
    data = Data(arguments.features, arguments.codes, arguments.runs, arguments.fresh)
    report = {}
    with atomic_folder(arguments.out) as out:
        for name in ("predictor", "waveform"):
            report[name] = quantize(getattr(arguments, name), data, out / name, config)
            print(report[name]["sentence"], flush=True)
    write_json(arguments.report, report)


@dataclass(frozen=True)
class Data:
    features: Path
    codes: Path | None
    runs: Path
    fresh: bool = False


def quantize(folder: Path, data: Data, out: Path, config: QuantizeConfig) -> dict[str, Any]:
    kind = read_json(folder / "model.json").get("kind")
    try:
        settings = load(f"train_{kind}", model_kind(kind).settings())
    except SonorantError as error:
        raise SonorantError(f"{folder}: cannot be quantised: {error}") from None
    ptq = post_train(kind, folder, data.features, dataclasses.asdict(settings), config, data.codes)
    with tempfile.TemporaryDirectory() as temporary:
        by_method = {"ptq": Path(temporary) / "ptq", "qat": Path(temporary) / "qat"}
        ptq.save(by_method["ptq"])
        trains = config.why_not_trained(kind, ptq.above_float) is None
        if trains:
            train_on(kind, by_method["ptq"], folder, data, by_method["qat"], settings, config)
        shipped, report = decide(ptq, by_method["qat"] if trains else None, config)
        model, description = load_model(by_method[shipped], kind)
        save_model(out, model.state_dict(), description)
    return report


def train_on(
    kind: str, start: Path, named: Path, data: Data, out: Path, settings: TrainConfig, config: QuantizeConfig
) -> None:
    """Continue training the model in `start` with the settings of section `quantize`, in int8 if the model is int8, and
    write it to `out`.

    `named` is recorded as the source of the weights.
    """
    initial = dataclasses.replace(read_initial(start, kind), source=str(named))
    model = dict(initial.description["config"])
    if "quantization" in initial.description:
        model["quantization"] = initial.description["quantization"] | {"method": "qat"}
    changed = dataclasses.asdict(continued(settings, config))
    codes = data.codes if model_kind(kind).learns_codes else None
    where: dict[str, Any] = {"features": data.features, "codes": codes, "runs": data.runs, "out": out}
    train(kind, model, changed, **where, stage="quantize", initial=initial, fresh=data.fresh)


def continued(settings: TrainConfig, config: QuantizeConfig) -> TrainConfig:
    """Return the settings of the float model's training run, changed for a short continuation."""
    return dataclasses.replace(
        settings.from_scratch(),
        steps=config.steps,
        learning_rate=config.learning_rate,
        warmup_steps=max(1, config.steps // 10),
        validate_every=config.steps,
        patience=None,
        compile=False,
    )


if __name__ == "__main__":
    run(main, stage="quantize")
