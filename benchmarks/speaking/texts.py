"""Shared by processes that speak with a voice: texts, and loading of a candidate (`<runtime>/<variant>`). Imports
no torch."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sonorant.errors import SonorantError
from sonorant.speech.bundle import read_bundle
from sonorant.speech.runtimes import LoadOptions, load_runtime, runtime_row
from sonorant.speech.voice import Voice

TEXTS = {
    "short": "Good morning.",
    "medium": "The train was late again, so we walked along the river.",
    "long": "When the rain had stopped at last, the children ran out into the garden, where the old dog was already "
    "waiting for them beside the gate, and nobody thought of going home before the lamps were lit.",
    "paragraph": "Good morning. It had been a long winter, and the village was slow to wake from it. Snow still "
    "lay in the shade of the mill. Down by the bridge, two men were mending a boat which had not seen "
    "water since October. One of them sang. The other, who had heard the song before, counted nails. By noon the sun "
    "had reached the church, and the first windows were opened. Somebody laughed.",
}
PLACES = ("garden", "river", "station", "market", "harbour", "valley", "village", "forest", "library", "bridge")
Loaded = TypeVar("Loaded")


def text(words: int) -> Iterator[str]:
    for number in range(words // 10):
        yield f"Nobody came to the {PLACES[number % 10]} on day {number} of it. "


@dataclass(frozen=True, kw_only=True)
class VoiceJob:
    bundle: str
    trained: dict[str, list[str] | None]
    """`float` and `quantized`: folders of the predictor and of the waveform model, or None."""


def load(job: VoiceJob, candidate: str, **options: Any) -> Voice:
    """A candidate's voice, prepared for all its shapes; `options` as in `LoadOptions`. Raises SonorantError with
    the reason if it cannot run."""
    runtime, variant = candidate.split("/")
    trained = None
    if not runtime_row(runtime).standalone:
        folders = job.trained["quantized" if variant == "int8" else "float"]
        if folders is None:
            raise SonorantError("no trained models of that kind")
        trained = Path(folders[0]), Path(folders[1])
    bundle = read_bundle(Path(job.bundle))
    how = LoadOptions(variant=variant, trained=trained, warm_up=True, **options)
    return Voice(bundle, load_runtime(runtime, bundle, how))


def load_all(
    job: VoiceJob, candidates: Iterable[str], load_one: Callable[[str], Loaded]
) -> tuple[dict[str, Loaded], dict[str, str]]:
    """Candidates loaded by `load_one`, and the reasons why others do not run."""
    loaded, not_run = {}, {}
    for candidate in candidates:
        try:
            loaded[candidate] = load_one(candidate)
        except SonorantError as error:
            not_run[candidate] = f"not run: {error}".replace(f"{job.bundle}/", "")
    return loaded, not_run


def hear_first(voice: Voice, text: str) -> None:
    """Speak a text up to the first chunk of a stream, frontend included."""
    speech = voice.stream(text)
    next(speech)
    speech.close()
