"""Which options help a language model to find its way through a text: each one changed alone, trained for the same
steps.

    python -m benchmarks.alignment        # after `make demo FAMILY=codec_lm`

Word error rates are of the held-out sentences, spoken in fp32 under ONNX Runtime. Differences are paired, against the
model that the demo trained (models/predictor).
"""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.quantization import RESAMPLES, System, listen
from benchmarks.report import command, finish, options
from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import compare, summarize
from sonorant.export.bundling import corpus_lengths, export_voice, family_of
from sonorant.export.onnx_graph import ExportConfig
from sonorant.extras.codec_lm.language_model import LanguageModelConfig
from sonorant.extras.codec_lm.language_model_training import LanguageModelTrainConfig
from sonorant.features.feature_store import FeatureStore
from sonorant.speech.decoding.settings import DecodingConfig
from tasks.params import load
from tasks.stage import run
from tasks.training import train
from tests.support.pipeline import tiny_project

AS_IT_IS = "as params.yaml has it"
PREFIX, UNCORRUPTED = "text: prefix", "corruption: 0"
OPTIONS: dict[str, dict[str, Any]] = {PREFIX: {"text": "prefix"}, UNCORRUPTED: {"corruption": 0.0}}
"""What is changed, in section language_model or train_language_model."""
SHORT: dict[str, Any] = {"sentences": 2, "tiny": True}
NEEDED = ("data/corpus", "data/prepared", "data/features", "data/codes", "models/predictor", "models/waveform")


def main() -> None:
    """Train, export, listen, print the verdict."""
    parser = command(__doc__)
    add, where = parser.add_argument, "(default: here, or the demo's copy below runs/workspaces)"
    add("--project", type=Path, help=f"folder of a finished demo {where}")
    add("--tiny", action="store_true", help="train a tiny voice first and take that project")
    add("--options", nargs="+", default=list(OPTIONS), choices=OPTIONS, metavar="OPTION", help="default: all")
    add("--sentences", type=int, help="held-out sentences to judge (default: recognizer.sentences)")
    arguments = options(parser, SHORT)
    given = [arguments.project] if arguments.project else [Path(), *newest_first(Path("runs/workspaces"))]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if arguments.tiny:
            given = [tiny_project(folder, "train_predictor", voice={"family": "codec_lm"})]
        project = project_of(given)
        trained = {AS_IT_IS: project / "models/predictor"}
        for number, name in enumerate(arguments.options):
            trained[name] = train_with(OPTIONS[name], project, folder / str(number))
        systems = {name: export(project, model, folder / f"voice-{name}") for name, model in trained.items()}
        heard = listen(project, systems, arguments.sentences)
        steps = load("train_language_model", LanguageModelTrainConfig, project / "params.yaml").steps
    speech = {name: summarize(counts, RESAMPLES) for name, counts in heard.items()}
    for name in arguments.options:
        speech[name]["above_as_it_is"] = compare(heard[name], heard[AS_IT_IS], RESAMPLES)
    finish("alignment", {"steps": steps, "wer": speech}, claims_of(speech), arguments)


def claims_of(speech: dict[str, Any]) -> dict[str, bool]:
    """The claims about the options that were tried: none is certainly better than params.yaml's, and the pointer is
    certainly better than a prefix."""
    above = {name: found["above_as_it_is"]["wer_ci95"] for name, found in speech.items() if "above_as_it_is" in found}
    claims = {f"{name} has not certainly fewer words wrong": high >= 0 for name, (_, high) in above.items()}
    if PREFIX in above:
        claims["a prefix alone has certainly more words wrong than the pointer"] = above[PREFIX][0] > 0
    return claims


def project_of(folders: list[Path]) -> Path:
    """The first folder that holds a language model and its training data. Raises SonorantError if none does."""
    for folder in folders:
        if all((folder / name).is_dir() for name in NEEDED) and family_of(folder / "models/predictor") == "codec_lm":
            return folder
    raise SonorantError(
        f"{folders[0]}: no codec language model with its data; run `make demo FAMILY=codec_lm`, or give --project"
    )


def newest_first(workspaces: Path) -> list[Path]:
    """Copies of the project that runs with other settings left behind."""
    return sorted(workspaces.glob("*"), key=lambda folder: folder.stat().st_mtime, reverse=True)


def train_with(changes: dict[str, Any], project: Path, folder: Path) -> Path:
    """Train a language model with the project's params.yaml and these `changes`; its folder."""
    file, data, out = project / "params.yaml", project / "data", folder / "acoustic"
    as_it_is = (
        load("language_model", LanguageModelConfig, file),
        load("train_language_model", LanguageModelTrainConfig, file),
    )
    model, settings = ({key: changes.get(key, value) for key, value in asdict(section).items()} for section in as_it_is)
    stores: dict[str, Any] = {"features": data / "features", "codes": data / "codes"}
    train("language_model", model, settings, **stores, runs=folder / "runs", out=out)
    return out


def export(project: Path, speech: Path, bundle: Path) -> System:
    """The voice of a language model and the demo's codec."""
    store = FeatureStore.open(project / "data/features")
    lengths = corpus_lengths(store.tokens_count, store.frames)
    file = project / "params.yaml"
    config, decoding = load("export", ExportConfig, file), load("decoding", DecodingConfig, file)
    export_voice(speech, project / "models/waveform", bundle, lengths, config, decoding)
    return System(bundle, "fp32")


if __name__ == "__main__":
    run(main)
