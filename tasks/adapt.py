"""Stage `adapt`: the waveform model learns on from what the predictor says of the recordings, as it will be given it.

Predicted mels are kept in runs/predicted by content; the training runs in runs/adapt_<kind>/<fingerprint> and resumes
there. With adapt.steps 0, and in families that have no such phase, the model stays as it was trained.
"""

import argparse
import dataclasses
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.features.predicted import predicted_store
from sonorant.files import atomic_folder, read_json
from sonorant.layers.model_folder import load_model
from sonorant.plugins import family_of, model_kind
from sonorant.training.adaptation import AdaptConfig
from tasks.params import load
from tasks.stage import add_inputs, run
from tasks.training import add_fresh, hash_of, train

STAGE = "adapt"
PREDICTED = "predicted"
"""Below the folder of run directories. What lies there may be deleted at any time: it is made again when needed."""


def main() -> None:
    """Read section `adapt`, adapt the waveform model or copy it, and leave it in --out."""
    parser = argparse.ArgumentParser(prog="python -m tasks.adapt", description=__doc__)
    add_inputs(parser, "features", "predictor", "waveform", "runs")
    parser.add_argument("--out", type=Path, required=True, help="folder of the adapted waveform model")
    add_fresh(parser)
    arguments = parser.parse_args()
    config = load("adapt", AdaptConfig)
    kind = read_json(arguments.waveform / "model.json").get("kind")
    if why := why_not_adapted(kind, config):
        print(f"{model_kind(kind).title}: stays as it was trained: {why}", flush=True)
        with atomic_folder(arguments.out) as out:
            shutil.copytree(arguments.waveform, out, dirs_exist_ok=True)
        return
    adapt(kind, config, **vars(arguments))


def why_not_adapted(kind: str, config: AdaptConfig) -> str | None:
    """Why a waveform model of this kind is not adapted, for a person; None where it is."""
    return family_of(kind).why_not_adapted or ("adapt.steps is 0" if config.steps == 0 else None)


def adapt(
    kind: str,
    config: AdaptConfig,
    *,
    features: Path,
    predictor: Path,
    waveform: Path,
    runs: Path,
    out: Path,
    fresh: bool = False,
) -> None:
    """Train on from the model of `kind` in the folder `waveform`, on the mels of the trained `predictor`."""
    try:
        settings: Any = load(f"train_{kind}", model_kind(kind).settings())
    except SonorantError as error:
        raise SonorantError(f"{waveform}: cannot be adapted: {error}") from None
    sizes = load_model(waveform, kind)[1]["config"]
    changed = dataclasses.asdict(config.continued(settings, str(waveform)))
    spoken = predicted_features(kind, features, predictor, runs)
    train(kind, sizes, changed, features=spoken, runs=runs, out=out, stage=STAGE, fresh=fresh)


def predicted_features(kind: str, features: Path, predictor: Path, runs: Path) -> Path:
    """The feature store with the mels that the trained `predictor` says to a waveform model of `kind`."""
    says = partial(family_of(kind).predicted_mels, predictor)
    return predicted_store(features, predictor, runs / PREDICTED, says)


def learned_from(waveform: Path, features: Path, predictor: Path, runs: Path) -> Path:
    """The feature store that the model in `waveform` learned from last: `features`, or what it was adapted to."""
    model = read_json(waveform / "model.json")
    learned = model.get("provenance", {}).get("data")
    if learned in (None, hash_of(features)) or family_of(model["kind"]).why_not_adapted:
        return features
    spoken = predicted_features(model["kind"], features, predictor, runs)
    return spoken if hash_of(spoken) == learned else features


if __name__ == "__main__":
    run(main, stage=STAGE)
