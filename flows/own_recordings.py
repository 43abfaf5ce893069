"""Settings for a voice of a folder of recordings: `make demo CORPUS=<folder>`."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sonorant.audio.decoding import SUFFIXES, UndecodableError, header
from sonorant.errors import SonorantError
from sonorant.processes import usable_cores

SETTINGS = Path("corpora/recordings.yaml")


@dataclass(frozen=True)
class Recordings:
    folder: Path
    sample_rate: int
    """Lowest rate in Hz of more than 1 % of the recordings."""
    hours: float


def find_recordings(folder: Path) -> Recordings:
    """Read the header of every recording below `folder`. Raises SonorantError if none can be read."""
    if not folder.is_dir():
        raise SonorantError(f"{folder}: no such folder; CORPUS names a folder of recordings with their texts")
    rates, seconds = [], 0.0
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            continue
        try:
            found = header(path)
        except UndecodableError:
            continue  # reported by the stage `prepare`
        rates.append(found.sample_rate)
        seconds += found.frames / found.sample_rate
    if not rates:
        raise SonorantError(f"{folder}: holds no recordings ({', '.join(SUFFIXES)}); CORPUS names a folder of some")
    return Recordings(folder, sorted(rates)[len(rates) // 100], seconds / 3600)


def overrides_for(found: Recordings, model: str, family: str) -> dict[str, Any]:
    """Overrides of params.yaml for a family. `model`: registered model of the demo, which gives the name of this one.
    Raises SonorantError for an unknown family or too low a sample rate."""
    known = _known()
    if family not in known["families"]:
        raise SonorantError(f"{SETTINGS}: no settings for family {family}; it has {', '.join(known['families'])}")
    rates = [rate for rate in known["mels"] if rate <= found.sample_rate]
    if not rates:
        least = min(known["mels"])
        raise SonorantError(f"{found.folder}: recordings of {found.sample_rate} Hz; at least {least} Hz are needed")
    rate = max(rates)
    name = re.sub(r"[^a-z0-9]+", "-", found.folder.resolve().name.lower()).strip("-") or "recordings"
    return {
        "corpus.kind": "auto",
        "corpus.path": str(found.folder.resolve()),
        "audio.sample_rate": rate,
        "audio.n_mels": known["mels"][rate],
        "audio.f_max": rate / 2,
        "register.model": model.replace("demo", name) if "demo" in model else f"{model}-{name}",
        **known["settings"],
        **known["families"][family],
    }


def expected_time(found: Recordings, family: str) -> str:
    minutes = _known()["minutes"]
    trainings = minutes["trainings"][family]
    other = minutes["other"] + minutes["an_hour_of_recordings"] * found.hours
    cores = usable_cores()
    return (
        f"{found.hours:.1f} hours of recordings at {found.sample_rate} Hz: about {trainings + other:.0f} "
        f"minutes on two quiet cores of an AMD EPYC with AVX-512, {trainings:g} of them trainings, without AVX-512 up "
        f"to twice as long; here {'is one core' if cores == 1 else f'are {cores}'}. Stopped, the same command goes on "
        "from there."
    )


def _known() -> dict[str, Any]:
    known: dict[str, Any] = yaml.safe_load(SETTINGS.read_text(encoding="utf-8"))
    return known
