"""Settings for training a voice on a folder of recordings: `make demo CORPUS=<folder>`."""

from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from flows.workspace import is_free, place_of_voice, safe_name
from sonorant.audio.decoding import SUFFIXES, UndecodableError, header
from sonorant.errors import SonorantError
from sonorant.files import files_below
from sonorant.processes import usable_cores

SETTINGS = Path("corpora/recordings.yaml")


@dataclass(frozen=True)
class Recordings:
    folder: Path
    sample_rate: int
    """1st percentile of the recordings' sample rates in Hz."""
    hours: float


def find_recordings(folder: Path) -> Recordings:
    """Read the header of every recording below `folder`. Raises SonorantError if none can be read."""
    if not folder.is_dir():
        raise SonorantError(f"{folder}: no such folder; set CORPUS to a folder of recordings with their texts")
    rates, seconds = [], 0.0
    for path in files_below(folder):
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            continue
        try:
            found = header(path)
        except UndecodableError:
            continue  # reported by the stage `prepare`
        rates.append(found.sample_rate)
        seconds += found.frames / found.sample_rate
    if not rates:
        raise SonorantError(f"{folder}: contains no recordings ({', '.join(SUFFIXES)}); set CORPUS to another folder")
    return Recordings(folder, sorted(rates)[len(rates) // 100], seconds / 3600)


def overrides_for(found: Recordings, model: str, family: str) -> dict[str, Any]:
    """Return overrides of params.yaml for a family. `model`: the demo's registered model; the new model's name is
    derived from it. Raises SonorantError for an unknown family or a sample rate that is too low."""
    known = _known()
    if family not in known["families"]:
        raise SonorantError(f"{SETTINGS}: no settings for family {family}; choose from: {', '.join(known['families'])}")
    rates = [rate for rate in known["mels"] if rate <= found.sample_rate]
    if not rates:
        least = min(known["mels"])
        raise SonorantError(f"{found.folder}: recordings have {found.sample_rate} Hz; give some of at least {least} Hz")
    rate = max(rates)
    folder = found.folder.resolve()
    return {
        "corpus.kind": "auto",
        "corpus.path": str(folder),
        "audio.sample_rate": rate,
        "audio.n_mels": known["mels"][rate],
        "audio.f_max": rate / 2,
        "register.model": _free_model(model, folder),
        **known["settings"],
        **known["families"][family],
    }


def _free_model(model: str, folder: Path) -> str:
    """Return a model name after `folder` that no other corpus's voice has."""
    for number in count(1):
        name = safe_name(folder.name) + f"-{number}" * (number > 1)
        found = model.replace("demo", name) if "demo" in model else f"{model}-{name}"
        if found != model and is_free(place_of_voice(Path(), found), str(folder)):
            return found
    raise AssertionError


def expected_time(found: Recordings, family: str) -> str:
    minutes = _known()["minutes"]
    trainings = minutes["trainings"][family]
    other = minutes["other"] + minutes["an_hour_of_recordings"] * found.hours
    cores = usable_cores()
    return (
        f"{found.hours:.1f} hours of recordings at {found.sample_rate} Hz: about {trainings + other:.0f} "
        f"minutes on two idle cores of an AMD EPYC with AVX-512, {trainings:g} of them for training; without AVX-512, "
        f"up to twice as long; this machine has {'one core' if cores == 1 else f'{cores} cores'}. If it is stopped, "
        "the same command resumes it."
    )


def _known() -> dict[str, Any]:
    known: dict[str, Any] = yaml.safe_load(SETTINGS.read_text(encoding="utf-8"))
    return known
