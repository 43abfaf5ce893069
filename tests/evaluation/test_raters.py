import numpy as np
import pytest

from sonorant.audio import dnsmos
from sonorant.audio.wav import read_audio
from sonorant.errors import install
from sonorant.evaluation import raters
from sonorant.evaluation.raters import NOBODY, compare, confuse, embed_renderings
from sonorant.evaluation.renderings import RECORDINGS, VOCODER, Renderings
from tests.evaluation.conftest import SENTENCES, speak_with_flite

VOICES = ("rms", "slt", "awb", "kal16")
RATE = 16_000


def renderings(**sounds: list[np.ndarray]) -> Renderings:
    count = len(sounds[RECORDINGS])
    held = {kind: tuple(found) for kind, found in sounds.items()}
    return Renderings(ids=tuple(map(str, range(count))), tokens=(), sounds=held, decoded={}, unspoken={}, rate=RATE)


def same_twice() -> Renderings:
    noise = [np.random.default_rng(seed).normal(0, 0.1, RATE).astype(np.float32) for seed in range(2)]
    return renderings(recordings=noise, vocoder=noise, fp32=noise)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raters, "MODULES", ("numpy", "no_such_module"))
    said = f"not run: no_such_module is not installed; run: {install('similarity')}"
    assert embed_renderings(same_twice()) == said


def test_cosines_are_with_other_sentences_of_the_same_and_of_other_speakers() -> None:
    recordings = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    spoken = np.array([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8], [0.6, 0.8], [1.0, 0.0]])
    found = compare(spoken, recordings, ["anna", "anna", "ben", "ben", "carl"])
    assert found["speaker_similarity"] == {
        "mean": 0.85,  # 0.8, 1, 0.8, 0.8: without its own recording
        "recordings": 0.9,  # 0.8, 0.8, 1, 1
        "others": pytest.approx((1 / 3 + 1 / 3 + (0.6 + 0.96 + 0.6) / 3 * 2) / 4, abs=1e-4),
        "utterances": 4,  # carl has one sentence
    }
    assert found["speaker_below_recordings"] == 0.05
    low, high = found["speaker_below_recordings_ci95"]
    assert -0.2 <= low < 0.05 < high <= 0.2, "the four differences are 0, -0.2, 0.2 and 0.2"
    why = "not run: no speaker has two evaluated sentences"
    assert set(compare(spoken[1:3], recordings[1:3], ["anna", "ben"]).values()) == {why}


@pytest.fixture(scope="module")
def voices(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[np.ndarray]]:
    for module in raters.MODULES:
        pytest.importorskip(module, reason=f"{module}, of the optional extra similarity, is not installed")
    folder = tmp_path_factory.mktemp("voices")

    def speak(voice: str, number: int) -> np.ndarray:
        file = folder / f"{voice}.{number}.wav"
        speak_with_flite(SENTENCES[number], file, voice)
        return read_audio(file, RATE)[0]

    return {voice: [speak(voice, number) for number in range(3)] for voice in VOICES}


def test_a_speaker_is_most_like_himself_and_a_planted_one_is_seen(voices: dict[str, list[np.ndarray]]) -> None:
    recordings = [samples for spoken in voices.values() for samples in spoken]
    speakers = [voice for voice, spoken in voices.items() for _ in spoken]
    quieter = [np.float32(0.3) * samples for samples in recordings]
    turned = [samples for voice in ("slt", "awb", "kal16", "rms") for samples in voices[voice]]
    silent = [np.zeros(RATE, np.float32) for _ in recordings]
    variants = {"fp32": quieter, "int8": turned, "bf16": silent}
    rendered = renderings(recordings=recordings, vocoder=recordings, **variants)
    embedded = embed_renderings(rendered)
    assert not isinstance(embedded, str)
    judged = {
        kind: compare(of_kind, embedded[RECORDINGS], speakers)
        for kind, of_kind in embedded.items()
        if kind != RECORDINGS
    }
    heard = {kind: confuse(of_kind, embedded[RECORDINGS], speakers) for kind, of_kind in embedded.items()}
    assert [row["recognised"] for row in heard[RECORDINGS]] == [row["recognised"] for row in heard["fp32"]] == [1.0] * 4
    assert [row["recognised"] for row in heard["int8"]] == [0.0] * 4, "everybody speaks as another"
    assert all(row["as"][NOBODY] == 3 for row in heard["bf16"])
    found = {kind: figures["speaker_similarity"] for kind, figures in judged.items()}
    below = {kind: figures["speaker_below_recordings_ci95"] for kind, figures in judged.items()}
    assert below[VOCODER] == [0, 0] and below["fp32"][1] < 0.01 and below["int8"][0] > 0.1
    right, planted = found["fp32"], found["int8"]
    assert right["mean"] == pytest.approx(right["recordings"], abs=0.005), "loudness is no part of a speaker"
    assert planted["mean"] < planted["others"] < right["mean"] - 0.15
    assert found["bf16"]["mean"] == found["bf16"]["others"] == 0, "silence is nobody"


def test_a_short_clip_is_rated_as_one_window_of_it() -> None:
    pytest.importorskip("speechmos", reason="speechmos, an optional extra, is not installed")
    time = np.arange(4 * raters.RATE) / raters.RATE
    clip = (0.3 * np.sin(2 * np.pi * 150 * time) * np.sin(2 * np.pi * 3 * time) ** 2).astype(np.float32)
    short, window = dnsmos.rate_clips([(clip, dnsmos.RATE), (np.resize(clip, dnsmos.WINDOW), dnsmos.RATE)])
    np.testing.assert_array_equal(short, window)
