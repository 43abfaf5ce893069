"""Import a corpus of any kind: write a manifest, and leave the recordings in place. Invalid rows are kept with their
defect, so that `prepare` can report them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sonorant.audio.recognizers import split_name
from sonorant.checked import Count, Positive, Text
from sonorant.errors import SonorantError
from sonorant.files import atomic_folder
from sonorant.plugins import added, load

VOICES = ("rms", "slt", "awb", "kal16")


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Section `corpus` of params.yaml."""

    kind: Literal["demo", "auto", "ljspeech", "texts", "speakers", "table", "lhotse", "long"] = "demo"
    """demo: prompts spoken by flite; ljspeech: metadata.csv and wavs/; texts: a text file next to each recording; auto:
    ljspeech or texts; speakers: an auto folder per speaker, named after the speaker; table: CSV or JSONL; lhotse: a
    lhotse recipe; long: recordings of minutes to hours, with or without text."""
    path: Text = "corpora/demo"
    """Folder of the corpus, prompts file or table file."""
    sentences: Count = 1860
    """For demo: number of prompts."""
    voice: str = "rms"
    """For demo: voice of flite."""
    recipe: Text | None = None
    """For lhotse: name of the recipe, such as vctk."""
    recognizer: Text = "pocketsphinx"
    """For long: recogniser, as in section `recognizer`; pocketsphinx supports English only."""
    shortest: Positive = 1.0
    """For long: minimum seconds of an utterance."""
    longest: Positive = 12.0
    """For long: maximum seconds of an utterance."""
    speaker: Text | None = None
    """Speaker name if the corpus contains none; None means "speaker"."""
    language: str = "en-us"
    """Language tag if the corpus contains none."""

    def __post_init__(self) -> None:
        if self.kind == "lhotse" and self.recipe is None:
            raise ValueError("kind 'lhotse' requires 'recipe', the name of a lhotse recipe such as vctk")
        if self.kind != "lhotse" and self.recipe is not None:
            raise ValueError(f"'recipe' is for kind 'lhotse' only; set it to null for kind '{self.kind}'")
        if self.kind == "speakers" and self.speaker is not None:
            raise ValueError("'speaker' must be null for kind 'speakers', where each folder's name is the speaker")
        if self.voice not in VOICES:
            raise ValueError(f"'voice' must be one of {', '.join(VOICES)}, not '{self.voice}'")
        split_name(self.recognizer)
        if self.shortest >= self.longest:
            raise ValueError(f"'shortest' ({self.shortest}) must be below 'longest' ({self.longest})")
        if not self.language.strip():
            raise ValueError("'language' must be a language tag such as en-us")

    @property
    def default_speaker(self) -> str:
        return self.speaker or "speaker"


Importer = Callable[[Path, Path, CorpusConfig, Path | None], None]


def import_kind(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    """Import a corpus into an existing folder; see `import_corpus`."""
    from sonorant.corpus.importers import demo, folders, lhotse, metadata_files

    kinds: dict[str, Importer] = {
        "demo": demo.import_corpus,
        "ljspeech": metadata_files.import_ljspeech,
        "texts": folders.import_texts,
        "speakers": folders.import_speakers,
        "table": metadata_files.import_table,
        "lhotse": lhotse.import_corpus,
    }
    kind = config.kind
    if kind == "auto":
        kind = "ljspeech" if (source / "metadata.csv").exists() else "texts"
    importer = kinds.get(kind) or load(added("corpora")[kind])
    importer(source, out, config, cache)


def import_corpus(source: Path, out: Path, config: CorpusConfig, *, cache: Path | None = None) -> None:
    """Write `manifest.jsonl` and new recordings (by flite, or converted from slow formats) to a new folder `out`.
    `cache` is the folder of results for long recordings. Raises SonorantError if `source` is not a corpus of the
    configured kind."""
    if not source.exists():
        raise SonorantError(f"{source}: no such file or folder; set corpus.path in params.yaml to your recordings")
    with atomic_folder(out) as folder:
        import_kind(source, folder, config, cache)
