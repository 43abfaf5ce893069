"""Sources of a listening test's sounds: folders of recordings, and voices."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sonorant.audio.arrays import Floats
from sonorant.audio.decoding import SUFFIXES
from sonorant.audio.wav import read_audio
from sonorant.cli.say import bundle_folder
from sonorant.corpus.manifest import Utterance, file_exists, read_manifest
from sonorant.corpus.sound import read_sound
from sonorant.errors import SonorantError
from sonorant.evaluation.recordings import held_out
from sonorant.files import sha256_file, sha256_tree
from sonorant.speech import Voice

Heard = tuple[Floats, int]
"""Samples (S,), full scale 1.0, and their sample rate in Hz."""


@dataclass(frozen=True, kw_only=True)
class Sentence:
    name: str
    text: str
    speaker: str | None = None
    utterance: Utterance | None = None


def read_sentences(path: Path) -> list[Sentence]:
    """Read sentences from a text file, with `name|text` or only a text (named by its line number) per line, or from the
    held-out rows of a manifest.jsonl. Raises SonorantError naming the file and the fault."""
    if path.suffix == ".jsonl":
        rows = read_manifest(path)
        return [
            Sentence(name=row.id, text=row.text, speaker=row.speaker, utterance=row)
            for row in held_out(rows, len(rows))
        ]
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except FileNotFoundError:
        raise SonorantError(
            f"{path}: no such file; give a text file with one sentence per line, or a manifest.jsonl"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SonorantError(f"{path}: cannot be read ({error}); give a UTF-8 text file") from None
    sentences: dict[str, Sentence] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        first, *more = line.split("|")
        name, text = (first.strip(), more[-1].strip()) if more else (f"{number:04}", first)
        if name in sentences:
            raise SonorantError(f"{path}: row {number}: a second sentence is named '{name}'; rename one")
        if text:
            sentences[name] = Sentence(name=name, text=text)
    if not sentences:
        raise SonorantError(f"{path}: contains no sentences; write one per line")
    return list(sentences.values())


class Speaker:
    """A source of sounds: a voice, which can speak every sentence."""

    def __init__(self, place: str, sentences: Mapping[str, Sentence]) -> None:
        if not sentences:
            raise SonorantError(f"{place} is a voice; give the sentences to speak with --sentences")
        self.names = frozenset(sentences)
        self._place, self._sentences, self._hash = place, sentences, ""

    def read(self, names: Sequence[str]) -> dict[str, Heard]:
        """Synthesise the sentences `names`. Raises SonorantError naming a sentence that cannot be spoken."""
        with bundle_folder(self._place) as bundle:
            self._hash = sha256_tree([file for file in bundle.iterdir() if file.is_file()])
            voice = Voice.load(bundle)
            return {name: (self._say(voice, self._sentences[name]), voice.sample_rate) for name in names}

    def _say(self, voice: Voice, sentence: Sentence) -> Floats:
        try:
            return voice.say(sentence.text, sentence.speaker if sentence.speaker in voice.speakers else None)
        except SonorantError as error:
            raise SonorantError(f"{self._place}: sentence '{sentence.name}': {error}") from None

    def content(self, names: Sequence[str]) -> str:
        return f"{self._hash} {[(name, self._sentences[name].text) for name in names]}"


class Folder:
    """A source of sounds: recordings named after their sentences, or at the paths of a manifest."""

    def __init__(self, folder: Path, sentences: Mapping[str, Sentence]) -> None:
        if not folder.is_dir():
            raise SonorantError(
                f"{folder}: no such folder; give a folder of recordings or a voice folder (with voice.json)"
            )
        self._folder = folder
        self._rows = {
            sentence.name: sentence.utterance
            for sentence in sentences.values()
            if sentence.utterance and file_exists(folder / str(sentence.utterance.audio))
        }
        self._files: dict[str, Path] = {}
        for file in sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES):
            if file.stem in self._files:
                raise SonorantError(f"{file}: {self._files[file.stem].name} has the same name; keep one of them")
            self._files[file.stem] = file
        self.names = frozenset(self._rows.keys() | self._files.keys())
        if not self.names:
            raise SonorantError(f"{folder}: contains no recordings; name each after its sentence, such as 0001.wav")

    def read(self, names: Sequence[str]) -> dict[str, Heard]:
        return {name: self._one(name) for name in names}

    def _one(self, name: str) -> Heard:
        if name in self._rows:
            return read_sound(self._folder, self._rows[name])
        return read_audio(self._files[name])

    def content(self, names: Sequence[str]) -> str:
        """Return a hash of the files and of which parts of them are used."""
        digest = hashlib.sha256()
        for name in names:
            row = self._rows.get(name)
            file = self._files[name] if row is None else self._folder / str(row.audio)
            how = row and (row.start, row.end, row.conditioning)
            digest.update(f"{name}\0{sha256_file(file)}\0{how}\n".encode())
        return digest.hexdigest()


def open_system(place: str, sentences: Mapping[str, Sentence]) -> Speaker | Folder:
    """Open a folder or a voice. Raises SonorantError if it does not exist or contains no sentences."""
    if place.startswith("models:/") or (Path(place) / "voice.json").is_file():
        return Speaker(place, sentences)
    return Folder(Path(place), sentences)
