"""A voice of a folder of recordings with the settings that were found for such: `make demo CORPUS=<folder>`."""

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
    """What lies in a folder, as far as settings depend on it."""

    folder: Path
    sample_rate: int
    """The lowest that more than one in a hundred recordings have, Hz."""
    hours: float


def find_recordings(folder: Path) -> Recordings:
    """Look into the head of every recording below `folder`. Raises SonorantError if there is none that can be read."""
    if not folder.is_dir():
        raise SonorantError(f"{folder}: no such folder; CORPUS names a folder of recordings with their texts")
    rates, seconds = [], 0.0
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            continue
        try:
            found = header(path)
        except UndecodableError:
            continue  # the stage `prepare` names it
        rates.append(found.sample_rate)
        seconds += found.frames / found.sample_rate
    if not rates:
        raise SonorantError(f"{folder}: holds no recordings ({', '.join(SUFFIXES)}); CORPUS names a folder of some")
    return Recordings(folder, sorted(rates)[len(rates) // 100], seconds / 3600)


def overrides_for(found: Recordings, model: str, family: str) -> dict[str, Any]:
    """Settings in place of those of params.yaml, for a voice of a family. `model`: the registered model of the demo's
    voice, after which that of these recordings is named. Raises SonorantError if nothing is known of the family."""
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
    """A sentence on how long a voice of a family that is known takes."""
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
    """What the file of settings holds."""
    known: dict[str, Any] = yaml.safe_load(SETTINGS.read_text(encoding="utf-8"))
    return known
