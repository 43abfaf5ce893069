"""Several speakers' recordings side by side: a folder of a corpus each, named after who speaks there.

Each may be read in its own layout, of LJSpeech or as recordings with a text beside them, and be of any length. A folder
with `prompts.txt`, named after a voice of flite, is spoken by that voice: other persons to try things with."""

import posixpath
from dataclasses import replace
from pathlib import Path

from sonorant.corpus.importers import CORPORA, VOICES, CorpusConfig
from sonorant.corpus.importers.metadata_files import read_lines
from sonorant.corpus.manifest import Utterance, read_manifest, write_manifest
from sonorant.errors import SonorantError


def import_corpus(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    """Fill `out` from the folders in `source`; the speaker of each is its name, which ids begin with.

    Raises SonorantError naming a folder that holds no corpus, or if there are none.
    """
    folders = [path for path in sorted(source.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    if not folders:
        raise SonorantError(f"{source}: holds no folders; kind speakers needs one for each speaker, named after them")
    utterances: list[Utterance] = []
    for folder in folders:
        own = out / folder.name
        own.mkdir()
        settings = _settings(folder, config)
        CORPORA[settings.kind](folder, own, settings, cache)
        manifest = own / "manifest.jsonl"
        utterances += [_placed(utterance, folder.name) for utterance in read_manifest(manifest)]
        manifest.unlink()
    write_manifest(out / "manifest.jsonl", utterances)


def _settings(folder: Path, config: CorpusConfig) -> CorpusConfig:
    own = replace(config, kind="auto", speaker=folder.name)
    prompts = folder / "prompts.txt"
    if not prompts.is_file():
        return own
    if folder.name not in VOICES:
        voices = ", ".join(VOICES)
        raise SonorantError(f"{prompts}: the folder must be named after the voice of flite that speaks it: {voices}")
    count = sum(bool(line.strip()) for line in read_lines(prompts))
    return replace(own, kind="demo", voice=folder.name, sentences=max(count, 1))


def _placed(utterance: Utterance, folder: str) -> Utterance:
    audio = posixpath.normpath(posixpath.join(folder, utterance.audio)) if utterance.audio else None
    return replace(utterance, id=f"{folder}-{utterance.id}", audio=audio)
