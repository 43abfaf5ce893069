"""Corpora in which each recording has its text beside it, in a file of the same name: `data/a1.wav`, `data/a1.txt`.

A bad pair spoils nothing but itself.
"""

from pathlib import Path

from tqdm import tqdm

from sonorant.audio.decoding import SUFFIXES
from sonorant.corpus.importers import CorpusConfig
from sonorant.corpus.importers.metadata_files import Row, id_of, import_row, read_text
from sonorant.corpus.manifest import Defect, file_exists, path_inside, write_manifest
from sonorant.errors import SonorantError


def import_corpus(source: Path, out: Path, config: CorpusConfig) -> None:
    """Fill `out` from a folder of recordings and texts (.txt) of the same name, at any depth; an id is their path.

    Recordings without a text, and texts without a recording, are kept for `prepare` to reject. Raises SonorantError if
    no recording has a text.
    """
    if not source.is_dir():
        raise SonorantError(f"{source}: not a folder; kind texts needs recordings, each with a text of the same name")
    files = [path.relative_to(source) for path in sorted(source.rglob("*")) if file_exists(path)]
    shown = [file for file in files if not any(part.startswith(".") for part in file.parts)]
    texts = {file.with_suffix(""): file for file in shown if file.suffix.lower() == ".txt"}
    recordings = [file for file in shown if file.suffix.lower() in SUFFIXES]
    named = {file.with_suffix("") for file in recordings}
    if not named & texts.keys():
        raise SonorantError(f"{source}: no recording has a text of the same name beside it, such as a1.wav and a1.txt")
    # A text alone becomes a recording that is missing.
    pairs = [(file, texts.get(file.with_suffix(""))) for file in recordings]
    pairs += [(text.with_suffix(".wav"), text) for name, text in texts.items() if name not in named]
    progress = tqdm(pairs, desc="importing", unit="utterance")
    write_manifest(out / "manifest.jsonl", [import_row(_row(source, *pair), source, out, config) for pair in progress])


def _row(source: Path, recording: Path, text: Path | None) -> Row:
    outside = text is not None and path_inside(source, str(text)) is None
    return Row(
        id=id_of(recording.as_posix()),
        audio=recording.as_posix(),
        text=None if text is None or outside else read_text(source / text),
        defect=Defect.LEAVES_FOLDER if outside else None,
    )
