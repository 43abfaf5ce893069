"""Corpora for which lhotse has a recipe (https://github.com/lhotse-speech/lhotse). Downloads nothing."""

import hashlib
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from sonorant.audio.wav import write_wav
from sonorant.corpus.importers import CorpusConfig
from sonorant.corpus.importers.metadata_files import CorpusRow, clean, import_row
from sonorant.corpus.manifest import Defect, Utterance, write_manifest
from sonorant.errors import SonorantError, needing

_TAG = re.compile(r"[a-z]{2,3}(-[a-z0-9]+)*")
_WHOLE = 0.01  # seconds by which a segment of the whole recording may differ from it


def import_corpus(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    """Run lhotse's recipe on the downloaded corpus `source`. Each supervision becomes an utterance; parts of
    recordings are written as 16-bit WAV."""
    manifests = _run_recipe(str(config.recipe), source)
    pairs = [(recordings, segment) for recordings, segments in _parts(manifests) for segment in segments]
    if not pairs:
        raise SonorantError(f"{source}: lhotse's recipe '{config.recipe}' found no utterances; check corpus.path")
    progress = tqdm(pairs, desc="importing", unit="utterance")
    utterances = [_utterance(recordings, segment, source, out, config) for recordings, segment in progress]
    write_manifest(out / "manifest.jsonl", utterances)


def _run_recipe(recipe: str, source: Path) -> Any:
    prepare = _recipe(recipe)
    try:
        return prepare(source)
    except Exception as error:  # recipes raise any exception
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SonorantError(
            f"{source}: lhotse's recipe '{recipe}' failed: {reason}; if it requires more arguments, run it yourself "
            "and import the result as kind table"
        ) from error


def _recipe(recipe: str) -> Callable[..., Any]:
    with needing("corpora", "corpus.kind lhotse"):
        recipes = importlib.import_module("lhotse.recipes")
    known = sorted(name.removeprefix("prepare_") for name in dir(recipes) if name.startswith("prepare_"))
    if recipe not in known:
        raise SonorantError(f"corpus.recipe: lhotse has no recipe '{recipe}'; use one of {', '.join(known)}")
    return getattr(recipes, f"prepare_{recipe}")


def _parts(manifests: Any) -> Iterator[tuple[Any, Any]]:
    """Yield recordings and supervisions, which recipes nest by split, language or speaker."""
    if not isinstance(manifests, dict):
        return
    if "recordings" in manifests and "supervisions" in manifests:
        yield manifests["recordings"], manifests["supervisions"]
        return
    for part in manifests.values():
        yield from _parts(part)


def _utterance(recordings: Any, segment: Any, source: Path, out: Path, config: CorpusConfig) -> Utterance:
    recording = recordings[segment.recording_id]
    one_file = len(recording.sources) == 1 and recording.sources[0].type == "file"
    whole = segment.start < _WHOLE and abs(segment.duration - recording.duration) < _WHOLE
    file = Path(recording.sources[0].source) if one_file and whole else None
    row = CorpusRow(
        id=segment.id,
        audio=str(file.absolute()) if file else f"{segment.id}.wav",
        text=segment.text or "",
        speaker=segment.speaker,
        language=_language(segment.language, config),
    )
    if file:
        return import_row(row, source, out, config)
    return _cut(row, recording, segment, out, config)


def _cut(row: CorpusRow, recording: Any, segment: Any, out: Path, config: CorpusConfig) -> Utterance:
    mark = hashlib.sha256(segment.id.encode()).hexdigest()[:8]  # distinguishes "a/b" from "a_b"
    name = f"audio/{re.sub(r'[^A-Za-z0-9._-]', '_', segment.id)}-{mark}.wav"
    defect = None
    try:
        # Rounding may move a segment's end beyond the recording.
        seconds = min(segment.duration, recording.duration - segment.start)
        samples = recording.load_audio(channels=segment.channel, offset=segment.start, duration=seconds)
        write_wav(out / name, samples.mean(axis=0), recording.sampling_rate)
    except Exception:  # lhotse's readers raise any exception
        defect = Defect.UNREADABLE
    return Utterance(
        id=clean(row.id),
        audio=name,
        text=clean(row.text or ""),
        speaker=clean(row.speaker or "") or config.default_speaker,
        language=row.language or config.language,
        defect=defect,
    )


def _language(language: str | None, config: CorpusConfig) -> str:
    """Return `language` as a tag, or the configured tag if that is more specific or `language` is a name
    ("English")."""
    tag = (language or "").lower().replace("_", "-")
    return tag if _TAG.fullmatch(tag) and not config.language.startswith(f"{tag}-") else config.language
