"""Measure zero-shot speaker similarity by prompting a voice with recordings of unseen people.

Requires the family codec_lm, trained with `language_model.prompt_frames`.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from sonorant.audio.arrays import Doubles
from sonorant.audio.decoding import SUFFIXES
from sonorant.audio.wav import read_audio
from sonorant.errors import SonorantError
from sonorant.evaluation.estimates import Figures, estimate
from sonorant.evaluation.raters import Clip, compare, confuse, embed_clips, not_installed
from sonorant.evaluation.short_texts.texts import suite
from sonorant.files import files_below
from sonorant.speech.voice import Voice
from sonorant.training.intervals import bootstrap

RESAMPLES = 2000


def check_prompts(bundle: Path, people: Path, count: int, variant: str | None = None) -> Figures:
    """Speak a sentence with and without each of the first `count` recordings per person as a prompt; see
    `judge_prompts`.

    `people` contains a folder per person, none of them in the training set. `variant` None means the bundle's default.
    Raises SonorantError if the voice does not support prompts or was trained on one of the people, if there are fewer
    than two people or two recordings of one, or if the speaker network is not installed.
    """
    voice = Voice.load(bundle, variant=variant)
    files = find_people(people, count)
    if known := sorted(set(files) & set(voice.speakers)):
        raise SonorantError(
            f"{people / known[0]}: the voice was trained on '{known[0]}'; give recordings of other people"
        )
    named = [(name, file) for name, own in files.items() for file in own]
    prompts = [voice.prompt(file) for _, file in named]  # fails if the voice does not support prompts
    if why := not_installed():
        raise SonorantError(why.removeprefix("not run: "))
    texts = suite(voice.description.frontend.language)
    if isinstance(texts, str):
        raise SonorantError(f"{bundle}: {texts.removeprefix('not run: ')}; give a voice of another language")
    sentences = [text.text for text in texts.sentences(len(named))]
    recorded = [read_audio(file) for _, file in named]
    clips: dict[str, list[Clip]] = {"recordings": recorded, "prompted": [], "without": []}
    for number, prompt in enumerate(tqdm(prompts, desc="speak", unit="prompt")):
        sentence = sentences[number % len(sentences)]
        clips["prompted"].append((voice.say(sentence, prompt=prompt), voice.sample_rate))
        clips["without"].append((voice.say(sentence), voice.sample_rate))
    embedded = embed_clips([clip for kind in clips.values() for clip in kind])
    recordings, prompted, without = np.split(embedded, len(clips))
    found = judge_prompts(recordings, prompted, without, [name for name, _ in named])
    return {"voice": list(voice.speakers), "people": {name: len(own) for name, own in files.items()}, **found}


def find_people(folder: Path, count: int) -> dict[str, list[Path]]:
    if not folder.is_dir():
        raise SonorantError(f"{folder}: no such folder; --people must contain a folder of recordings for each person")
    found = {}
    for own in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
        files = [path for path in files_below(own) if path.suffix.lower() in SUFFIXES]
        if len(files[:count]) > 1:
            found[own.name] = files[:count]
    if len(found) < 2:
        raise SonorantError(f"{folder} must contain folders of at least two people, each with at least two recordings")
    return found


def judge_prompts(recordings: Doubles, prompted: Doubles, without: Doubles, people: Sequence[str]) -> Figures:
    """Compare speaker similarity with and without a prompt.

    `recordings` are embeddings (U, D) of the prompts; `prompted` and `without` those of a sentence spoken with and
    without each prompt. No sentence is compared with its own prompt.

    Returns `prompted`, `without` (see `raters.compare`; `recordings` is the ceiling, `others` the floor), `gained`
    (increase in cosine with its 95 % interval), `recognised` and `recordings_recognised` (see `confuse`).
    """
    gained = _own(prompted, recordings, people) - _own(without, recordings, people)
    return {
        "prompts": len(people),
        "prompted": compare(prompted, recordings, people),
        "without": compare(without, recordings, people),
        **estimate("gained", gained.mean(), bootstrap(np.mean, gained, resamples=RESAMPLES), 4),
        "recognised": confuse(prompted, recordings, people),
        "recordings_recognised": confuse(recordings, recordings, people),
    }


def _own(spoken: Doubles, recordings: Doubles, people: Sequence[str]) -> Doubles:
    same = np.equal.outer(people, people)
    np.fill_diagonal(same, False)
    return np.asarray(np.average(spoken @ recordings.T, axis=1, weights=same))


def table(found: Figures) -> str:
    rows: list[tuple[str, ...]] = [("", "same person", "other people", "recordings")]
    for kind in ("prompted", "without"):
        figures = found[kind]["speaker_similarity"]
        rows.append((kind, *(f"{figures[key]:.3f}" for key in ("mean", "others", "recordings"))))
    low, high = found["gained_ci95"]
    sure = "more" if low > 0 else ("less" if high < 0 else "not significantly more or less")
    lines = ["".join(f"{cell:<20}" for cell in row).rstrip() for row in rows]
    lines.append(f"{sure} similar to the person with the prompt: {found['gained']:+.3f} ({low:+.3f} to {high:+.3f})")
    for kind, rows_of in (("spoken", found["recognised"]), ("recordings", found["recordings_recognised"])):
        for row in rows_of:
            low, high = (100 * end for end in row["recognised_ci95"])
            share = f"{100 * row['recognised']:.0f} % ({low:.0f} to {high:.0f})"
            lines.append(f"{kind}, {row['speaker']}: {share} of {row['sentences']} recognised as this speaker")
    return "\n".join(lines)
