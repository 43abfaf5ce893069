"""Import recordings of minutes to hours, each with or without a text.

Each utterance refers to a part of its recording. Recordings that seek slowly (mp3, m4a) are copied as 16-bit FLAC.
"""

import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import soundfile

from sonorant.audio.containers import cut_off
from sonorant.audio.decoding import SUFFIXES, UndecodableError, decode_blocks, header, seeks_fast
from sonorant.audio.recognizers import load_recognizer
from sonorant.corpus.importers import CorpusConfig
from sonorant.corpus.importers.metadata_files import clean, distinct, place_of
from sonorant.corpus.importers.tables import read_lines
from sonorant.corpus.manifest import Utterance, path_inside, write_manifest
from sonorant.errors import SonorantError
from sonorant.extras.long.long_recording import LongConfig, Placement, place
from sonorant.extras.long.script import without_cues
from sonorant.files import files_below, sha256_file, write_json, write_jsonl
from sonorant.text.written_words import plain_words


@dataclass(frozen=True)
class _Pair:
    name: str
    """Path relative to the source folder, without suffix."""
    recording: Path | None
    text: str | None


def import_corpus(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    """Import recordings and texts with the same name (`chapter1.mp3`, `chapter1.txt`), in any subfolder. Writes
    manifest.jsonl, unplaced.jsonl (speech without text, text without speech), summary.json, and copies in audio/.
    Raises SonorantError naming the faulty file, or if the recogniser does not support the language."""
    pairs = _pairs(source)
    settings = _settings(pairs, config)
    utterances: list[Utterance] = []
    unplaced: list[dict[str, Any]] = []
    figures: list[dict[str, float]] = []
    taken: dict[str, str] = {}
    for pair in pairs:
        id = distinct(clean(pair.name).replace("/", "-"), pair.name, taken)
        kept = _quick(pair.name, pair.recording, out) if pair.recording else None
        audio, sha256 = _named(kept, source, out) if kept else (None, None)
        found = place(kept, pair.name, pair.text, settings, cache) if kept else _without_recording(pair)
        for number, one in enumerate(found.utterances, 1):
            utterances.append(
                Utterance(
                    id=f"{id}-{number:05d}",
                    audio=audio,
                    start=one.start,
                    end=one.end,
                    text=one.text,
                    speaker=config.default_speaker,
                    language=config.language,
                    sha256=sha256,
                    confidence=one.confidence,
                )
            )
        unplaced += [{"name": pair.name, **row} for row in found.unplaced]
        figures.append(_figures(found))
    if not utterances:
        raise SonorantError(f"{source}: no utterance could be cut from its recordings; {_why_none(unplaced)}")
    total = {key: round(sum(one[key] for one in figures), 3) for key in figures[0]}
    rows = [{"name": pair.name, **one} for pair, one in zip(pairs, figures, strict=True)]
    write_manifest(out / "manifest.jsonl", utterances)
    write_jsonl(out / "unplaced.jsonl", unplaced)
    write_json(out / "summary.json", {"all": total, "recordings": rows})
    _tell(total)


def _pairs(source: Path) -> list[_Pair]:
    if not source.is_dir():
        raise SonorantError(f"{source}: not a folder; give a folder of recordings, each with a text of the same name")
    recordings: dict[str, Path] = {}
    texts: dict[str, Path] = {}
    subtitles: dict[str, Path] = {}
    kinds = dict.fromkeys(SUFFIXES, recordings) | {".txt": texts, ".srt": subtitles, ".vtt": subtitles}
    for path in files_below(source):
        inside, kind = path.relative_to(source), kinds.get(path.suffix.lower())
        if kind is None or any(part.startswith(".") for part in inside.parts):
            continue
        if path_inside(source, str(inside)) is None:
            raise SonorantError(f"{path}: is a link to a file outside {source}; copy the file instead")
        name = unicodedata.normalize("NFC", inside.with_suffix("").as_posix())
        if name in kind:
            raise SonorantError(f"{path}: {kind[name].name} in the same folder has the same name; delete or rename one")
        kind[name] = path
    if not recordings:
        raise SonorantError(f"{source}: contains no recordings; add some, each with a text of the same name")
    read = {name: _read(path) for name, path in (subtitles | texts).items()}
    return [_Pair(name, recordings.get(name), read.get(name)) for name in sorted(recordings | read)]


def _read(path: Path) -> str:
    text = "\n".join(read_lines(path))
    if "\ufffd" in clean(text):
        raise SonorantError(f"{path}: not UTF-8; save it as UTF-8")
    return without_cues(text)


def _settings(pairs: list[_Pair], config: CorpusConfig) -> LongConfig:
    for pair in pairs:
        if pair.recording:
            header(pair.recording)
            if cut := cut_off(pair.recording):
                raise UndecodableError(pair.recording, cut)
    try:
        revision = load_recognizer(config.recognizer, config.language).revision
    except SonorantError as error:
        raise SonorantError(str(error).replace("recognizer.name", "corpus.recognizer")) from None
    return LongConfig(
        recognizer=config.recognizer,
        revision=revision,
        language=config.language,
        shortest=config.shortest,
        longest=config.longest,
    )


def _named(kept: Path, source: Path, out: Path) -> tuple[str, str | None]:
    """Return the recording's path for the manifest, and its hash if it is outside `out`."""
    if kept.is_relative_to(out):
        return kept.relative_to(out).as_posix(), None
    return place_of(kept, source, out), sha256_file(kept)


def _quick(name: str, recording: Path, out: Path) -> Path:
    """Return the recording, or a FLAC copy if it seeks slowly."""
    if seeks_fast(recording):
        return recording
    kept = out / "audio" / f"{name}.flac"
    kept.parent.mkdir(parents=True, exist_ok=True)
    pieces = decode_blocks(recording)
    samples, rate = next(pieces)
    with soundfile.SoundFile(kept, "w", rate, samples.shape[1], "PCM_16", format="FLAC") as file:
        file.write(samples)
        for samples, _ in pieces:
            file.write(samples)
    return kept


def _without_recording(pair: _Pair) -> Placement:
    text = " ".join((pair.text or "").split())
    words = len(plain_words(text))
    lost = {"words": words, "text": text, "why": "no recording has this name"}
    return Placement(seconds=0.0, speech=0.0, words=words, utterances=[], unplaced=[lost] if words else [])


def _figures(found: Placement) -> dict[str, float]:
    return {
        "seconds": found.seconds,
        "speech_seconds": found.speech,
        "utterances": len(found.utterances),
        "utterance_seconds": round(sum(one.end - one.start for one in found.utterances), 3),
        "untold_seconds": round(sum(row["end"] - row["start"] for row in found.unplaced if "end" in row), 3),
        "words": found.words,
        "unheard_words": sum(row["words"] for row in found.unplaced if "words" in row),
    }


def _why_none(unplaced: list[dict[str, Any]]) -> str:
    reasons = sorted({row["why"] for row in unplaced}) or ["no speech was found"]
    return f"{' and '.join(reasons)}; check that texts, corpus.language and recordings match"


def _tell(total: dict[str, float]) -> None:
    if total["untold_seconds"] or total["unheard_words"]:
        speech, words = f"{total['untold_seconds']:.0f} of {total['speech_seconds']:.0f} s of speech", total["words"]
        lost = f"{speech} and {total['unheard_words']:.0f} of {words:.0f} words of the texts are in no utterance"
        print(f"warning: {lost}; see unplaced.jsonl next to the manifest", file=sys.stderr, flush=True)
