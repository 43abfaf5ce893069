"""Sentences to listen to and look at: a player, a mel spectrogram and what was heard, for every kind. Knows nothing of
other figures."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence

import numpy as np
import soundfile
from numpy.typing import NDArray

from sonorant.audio.mel import MelConfig
from sonorant.audio.wav import read_audio
from sonorant.report.kinds import label
from sonorant.report.markup import Html, element, note
from sonorant.report.sentences import Sentence
from sonorant.report.spectrograms import spectrogram
from sonorant.report.transcripts import marked


def article(sentence: Sentence, audio: MelConfig, normalized: Callable[[str], str], shipped: str) -> Html:
    """One sentence in all its kinds, side by side where there is room. `shipped`: the kind that is marked as what
    ships."""
    sounds = {kind: read_audio(file, audio.sample_rate)[0] for kind, file in sentence.samples.items()}
    longest = max(len(sound) for sound in sounds.values())
    reference = normalized(sentence.reference)
    cards = [
        _card(
            sentence,
            kind,
            sound,
            len(sound) / longest,
            audio,
            marked(reference, normalized(sentence.heard[kind])),
            kind == shipped,
        )
        for kind, sound in sounds.items()
    ]
    return element(
        "article", element("h3", sentence.reference), note(sentence.id), element("div", *cards, class_="cards")
    )


def _card(
    sentence: Sentence, kind: str, sound: NDArray[np.float32], width: float, audio: MelConfig, heard: Html, ships: bool
) -> Html:
    name, seconds = label(kind), len(sound) / audio.sample_rate
    shown = f"Mel spectrogram, {name}, {seconds:.1f} s, up to {audio.f_max / 1000:g} kHz"
    count = sentence.errors[kind]
    wrong = "no error" if count == 0 else f"{count} of {sentence.words} wrong"
    return element(
        "div",
        element(
            "h4",
            name,
            element("span", " ships" if ships else "", class_="ships"),
            element("span", wrong, class_="wrong"),
        ),
        element("div", spectrogram(sound, audio, shown, width), class_="picture"),
        _player(sound, audio.sample_rate, f"{name}: {sentence.reference}"),
        element("p", heard or "(nothing)", class_="heard"),
        class_="card",
    )


def _player(sound: NDArray[np.float32], rate: int, said: str) -> Html:
    data = base64.b64encode(_flac(sound, rate)).decode("ascii")
    return element("audio", controls="", preload="metadata", aria_label=said, src=f"data:audio/flac;base64,{data}")


def _flac(sound: NDArray[np.float32], rate: int) -> bytes:
    """16 bit, lossless: what a WAV of 16 bit holds, at about half its size."""
    buffer = io.BytesIO()
    integers = np.clip(np.rint(sound.astype(np.float64) * 32768), -32768, 32767).astype(np.int16)
    soundfile.write(buffer, integers, rate, format="FLAC", subtype="PCM_16")
    return buffer.getvalue()


def listening(
    sentences: Sequence[Sentence], audio: MelConfig, normalized: Callable[[str], str], shipped: str
) -> list[Html]:
    """An article for each sentence."""
    return [article(sentence, audio, normalized, shipped) for sentence in sentences]
