"""Import a corpus of any kind: a manifest of its utterances, whose recordings stay where they lie.

An importer keeps bad rows and notes their defect, so that `prepare` reports everything that is wrong at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sonorant.audio.recognizers import split_name
from sonorant.errors import SonorantError
from sonorant.files import atomic_folder
from sonorant.plugins import added, load

VOICES = ("rms", "slt", "awb", "kal16")


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Section `corpus` of params.yaml: where recordings come from."""

    kind: Literal["demo", "auto", "ljspeech", "texts", "speakers", "table", "lhotse", "long"]
    """demo: prompts spoken by flite; ljspeech: metadata.csv and wavs/; texts: each recording with a text of the same
    name beside it; auto: of these two, what lies there; speakers: a folder of either for each speaker, named after
    them; table: CSV or JSONL; lhotse: its recipes; long: recordings of minutes to hours, with or without a text."""
    path: str
    """The folder of prompts, the corpus folder or the table's file; dvc.yaml passes it to the stage as --source."""
    sentences: int = 1000
    """demo only: number of prompts to speak."""
    voice: str = "rms"
    """demo only: flite's voice."""
    recipe: str | None = None
    """lhotse only: the recipe's name, such as vctk."""
    recognizer: str = "pocketsphinx"
    """long only: who finds the words, by name as in section `recognizer`; pocketsphinx hears English alone."""
    shortest: float = 1.0
    """long only: seconds that an utterance cut out of a recording has at least."""
    longest: float = 12.0
    """long only: seconds that it has at most."""
    speaker: str | None = None
    """Speaker of a corpus that names none; None = "speaker"."""
    language: str = "en-us"
    """Language tag of a corpus that names none."""

    def __post_init__(self) -> None:
        if self.kind == "lhotse" and self.recipe is None:
            raise ValueError("kind 'lhotse' needs 'recipe', the name of a lhotse recipe such as vctk")
        if self.kind != "lhotse" and self.recipe is not None:
            raise ValueError(f"'recipe' is for kind 'lhotse' only; set it to null for kind '{self.kind}'")
        if self.kind == "speakers" and self.speaker is not None:
            raise ValueError("'speaker' is the name of each folder for kind 'speakers'; set it to null")
        if self.voice not in VOICES:
            raise ValueError(f"'voice' must be one of {', '.join(VOICES)}, not '{self.voice}'")
        split_name(self.recognizer)
        if not 0 < self.shortest < self.longest:
            raise ValueError(f"'shortest' ({self.shortest}) must be above 0 and below 'longest' ({self.longest})")
        if self.sentences < 1:
            raise ValueError(f"'sentences' must be at least 1, not {self.sentences}")
        if not self.language.strip():
            raise ValueError("'language' must be a language tag such as en-us")

    @property
    def default_speaker(self) -> str:
        return self.speaker or "speaker"


Importer = Callable[[Path, Path, CorpusConfig, Path | None], None]


def _demo(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    from sonorant.corpus.importers import demo

    demo.import_corpus(source, out, config)


def _ljspeech(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    from sonorant.corpus.importers import metadata_files

    metadata_files.import_ljspeech(source, out, config)


def _texts(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    from sonorant.corpus.importers import text_files

    text_files.import_corpus(source, out, config)


def _auto(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    CORPORA["ljspeech" if (source / "metadata.csv").exists() else "texts"](source, out, config, cache)


def _speakers(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    from sonorant.corpus.importers import speaker_folders

    speaker_folders.import_corpus(source, out, config, cache)


def _table(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    from sonorant.corpus.importers import metadata_files

    metadata_files.import_table(source, out, config)


def _lhotse(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    from sonorant.corpus.importers import lhotse

    lhotse.import_corpus(source, out, config)


CORPORA: dict[str, Importer] = {
    "demo": _demo,
    "auto": _auto,
    "ljspeech": _ljspeech,
    "texts": _texts,
    "speakers": _speakers,
    "table": _table,
    "lhotse": _lhotse,
}


def import_corpus(source: Path, out: Path, config: CorpusConfig, *, cache: Path | None = None) -> None:
    """Fill the folder `out` with `manifest.jsonl`, or leave `out` as it was.

    Recordings that have to be made (spoken by flite, cut out, of a slow format) are written there too.

    `cache`: folder of what earlier runs found in recordings that take long; None = nothing is kept.

    Raises SonorantError naming what is missing if `source` is not a corpus of the configured kind.
    """
    if not source.exists():
        raise SonorantError(f"{source}: no such file or folder; set corpus.path in params.yaml to your recordings")
    with atomic_folder(out) as folder:
        importer = CORPORA.get(config.kind) or load(added("corpora")[config.kind])
        importer(source, folder, config, cache)
