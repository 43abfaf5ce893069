"""Corpora in folders: each recording is next to its text (`a1.wav`, `a1.txt`), optionally in a folder per speaker."""

import posixpath
import unicodedata
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from sonorant.audio.decoding import SUFFIXES
from sonorant.corpus.importers import VOICES, CorpusConfig, import_kind
from sonorant.corpus.importers.metadata_files import CorpusRow, distinct, id_of, import_row
from sonorant.corpus.importers.tables import read_lines, read_text
from sonorant.corpus.manifest import Defect, Utterance, path_inside, read_manifest, write_manifest
from sonorant.errors import SonorantError
from sonorant.files import files_below


def import_texts(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    """Import recordings and texts (.txt) of the same name, at any depth; ids are their paths. Unpaired files are kept
    for `prepare` to reject."""
    if not source.is_dir():
        raise SonorantError(
            f"{source}: not a folder; kind texts requires a folder of recordings, each with a text of the same name"
        )
    files = [path.relative_to(source) for path in files_below(source)]
    shown = [file for file in files if not any(part.startswith(".") for part in file.parts)]
    texts = {file.with_suffix(""): file for file in shown if file.suffix.lower() == ".txt"}
    composed = {_composed(name): name for name in texts}
    recordings = {file: file.with_suffix("") for file in shown if file.suffix.lower() in SUFFIXES}
    found = {file: name if name in texts else composed.get(_composed(name), name) for file, name in recordings.items()}
    named = set(found.values())
    if not named & texts.keys():
        raise SonorantError(
            f"{source}: no recording has a text of the same name next to it; add texts, such as a1.txt for a1.wav"
        )
    # A text alone is imported as a missing recording.
    pairs = [(file, texts.get(name)) for file, name in found.items()]
    pairs += [(text.with_suffix(".wav"), text) for name, text in texts.items() if name not in named]
    progress, taken = tqdm(pairs, desc="importing", unit="utterance"), dict[str, str]()
    rows = (_row(source, file, text, taken) for file, text in progress)
    write_manifest(out / "manifest.jsonl", [import_row(row, source, out, config) for row in rows])


def _composed(name: Path) -> str:
    return unicodedata.normalize("NFC", str(name))


def _row(source: Path, recording: Path, text: Path | None, taken: dict[str, str]) -> CorpusRow:
    outside = text is not None and path_inside(source, str(text)) is None
    return CorpusRow(
        id=id_of(recording.as_posix(), taken),
        audio=recording.as_posix(),
        text=None if text is None or outside else read_text(source / text),
        defect=Defect.LEAVES_FOLDER if outside else None,
    )


def import_speakers(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    """Import each folder in `source` as one speaker, whose name prefixes the ids. flite speaks a folder with
    `prompts.txt`, in the voice that the folder is named after."""
    folders = [path for path in sorted(source.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    if not folders:
        raise SonorantError(
            f"{source}: contains no folders; kind speakers requires one per speaker, named after the speaker"
        )
    utterances: list[Utterance] = []
    taken: dict[str, str] = {}
    for folder in folders:
        own = out / folder.name
        own.mkdir()
        settings = _settings(folder, config)
        import_kind(folder, own, settings, cache)
        manifest = own / "manifest.jsonl"
        utterances += [_placed(utterance, folder.name, taken) for utterance in read_manifest(manifest)]
        manifest.unlink()
    write_manifest(out / "manifest.jsonl", utterances)


def _settings(folder: Path, config: CorpusConfig) -> CorpusConfig:
    own = replace(config, kind="auto", speaker=folder.name)
    prompts = folder / "prompts.txt"
    if not prompts.is_file():
        return own
    if folder.name not in VOICES:
        voices = ", ".join(VOICES)
        raise SonorantError(
            f"{prompts}: the folder must be named after the flite voice that speaks the prompts: {voices}"
        )
    count = sum(bool(line.strip()) for line in read_lines(prompts))
    return replace(own, kind="demo", voice=folder.name, sentences=max(count, 1))


def _placed(utterance: Utterance, folder: str, taken: dict[str, str]) -> Utterance:
    audio = posixpath.normpath(posixpath.join(folder, utterance.audio)) if utterance.audio else None
    return replace(utterance, id=distinct(f"{folder}-{utterance.id}", folder, taken), audio=audio)
