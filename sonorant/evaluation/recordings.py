"""Choose the held-out sentences and measure the error rate of their recordings, the best that a voice can reach."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sonorant.audio.recognizers import Clip, RecognizerConfig, load_recognizer, not_heard, transcribe
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.sound import read_sound
from sonorant.corpus.splits import read_in_training, text_key
from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import ErrorCounts, Normalizer, count_errors
from sonorant.evaluation.estimates import Figures
from sonorant.files import read_json

RECORDINGS, VOCODER = "recordings", "vocoder"
"""Kinds of sound other than variants; `vocoder` means copies by vocoder or codec."""


def held_out(utterances: Sequence[Utterance], count: int) -> list[Utterance]:
    """Return the first `count` test utterances, ordered by SHA-256 of their ids, with one take per sentence.

    The hash keeps the choice stable as the corpus grows. Speakers alternate; only the most frequent language is used.
    Sentences that are also in the training set are omitted unless there are no others. Raises SonorantError if the test
    split is empty.
    """
    test = [utterance for utterance in utterances if utterance.split == "test"]
    if not test:
        raise SonorantError("the test split is empty; increase prepare.test or add recordings")
    language = Counter(utterance.language for utterance in test).most_common(1)[0][0]
    chosen = sorted(
        (u for u in test if u.language == language), key=lambda u: hashlib.sha256(u.id.encode()).hexdigest()
    )
    read = read_in_training(utterances)
    unread = [utterance for utterance in chosen if text_key(utterance) not in read]
    takes: dict[str, Utterance] = {}
    for utterance in unread or chosen:
        takes.setdefault(text_key(utterance), utterance)
    return _in_turn(list(takes.values()))[:count]


def _in_turn(utterances: Sequence[Utterance]) -> list[Utterance]:
    place: Counter[str] = Counter()
    turns = []
    for utterance in utterances:
        turns.append(place[utterance.speaker])
        place[utterance.speaker] += 1
    return [utterances[index] for index in np.argsort(turns, kind="stable")]


def spoken_text(utterance: Utterance) -> str:
    """Return the reference text with numbers written out. Raises SonorantError if the utterance was not prepared."""
    if utterance.spoken is None:
        raise SonorantError(
            f"utterance '{utterance.id}': field 'spoken' is missing from the manifest; run the stage prepare again"
        )
    return utterance.spoken


@dataclass(frozen=True, kw_only=True)
class RecognizedRecordings:
    recognizer: str
    revision: str
    normalizer: str
    language: str
    requested: int
    """Requested number of sentences; there may be fewer."""
    ids: tuple[str, ...]
    """Utterance ids in the order of `held_out`."""
    references: tuple[str, ...]
    transcripts: tuple[str, ...]
    """Unnormalised transcripts; empty if the recogniser did not run."""
    not_run: str | None = None
    """Reason why the recogniser did not run, or None."""


def score(references: Sequence[str], transcripts: Sequence[str], normalizer: Normalizer) -> ErrorCounts:
    return count_errors([normalizer(text) for text in references], [normalizer(text) for text in transcripts])


def recognize_recordings(utterances: list[Utterance], corpus: Path, config: RecognizerConfig) -> Figures:
    """Transcribe the held-out recordings; return the contents of `recordings.json`.

    For unsupported languages, error rates are `not run: <why>` and transcripts are null. Raises SonorantError naming
    the file or setting.
    """
    sentences = held_out(utterances, config.sentences)
    language = sentences[0].language
    references = [spoken_text(sentence) for sentence in sentences]
    normalizer = Normalizer(language)
    known: Figures = {"normalizer": normalizer.name, "language": language, "requested": config.sentences}
    known["utterances"] = len(sentences)
    if why := not_heard(config.name, language):
        known |= {"recognizer": config.name, "revision": why, "wer": why, "cer": why}
        transcripts: list[str | None] = [None] * len(sentences)
    else:
        recognizer = load_recognizer(config.name, language)
        heard = transcribe([Clip(*read_sound(corpus, sentence)) for sentence in sentences], config.name, language)
        counts, transcripts = score(references, heard, normalizer), [*heard]
        known |= {"recognizer": recognizer.name, "revision": recognizer.revision, "words": int(counts.words.sum())}
        known |= {"wer": round(counts.wer, 3), "cer": round(counts.cer, 3)}
    rows = [
        {"id": sentence.id, "reference": reference, "transcript": transcript}
        for sentence, reference, transcript in zip(sentences, references, transcripts, strict=True)
    ]
    return known | {"sentences": rows}


def read_recognized(path: Path) -> RecognizedRecordings:
    data = read_json(path)
    try:
        rows, not_run = data["sentences"], data["wer"] if isinstance(data["wer"], str) else None
        return RecognizedRecordings(
            **{key: data[key] for key in ("recognizer", "revision", "normalizer", "language", "requested")},
            ids=tuple(row["id"] for row in rows),
            references=tuple(row["reference"] for row in rows),
            transcripts=() if not_run else tuple(row["transcript"] for row in rows),
            not_run=not_run,
        )
    except (KeyError, TypeError) as error:
        raise SonorantError(f"{path}: not a report of the stage recognize_recordings ({error}); run it again") from None
