from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from sonorant.audio.mel import MelConfig, log_mel
from sonorant.audio.pitch import track_pitch
from sonorant.errors import SonorantError
from sonorant.evaluation import prompts
from sonorant.export.candidate import Trained
from sonorant.export.choice import ship
from sonorant.extras.codec_lm.saved import load_codec
from sonorant.speech.bundle import read_bundle
from sonorant.speech.voice import Voice
from tests.support.runtimes import edited, joined
from tests.support.tiny_voice import AUDIO

FRAMES, FRAME = 4, 512
ONCE = {"retries": 0}
"""Streams cannot retry."""


@pytest.fixture(scope="module")
def voice(codec_lm_variants: Path) -> Voice:
    return Voice.load(codec_lm_variants, threads=1)


def test_codes_of_a_recording_are_the_codecs(
    voice: Voice, trained_prompted: Trained, tmp_path: Path, murmur: Callable[..., np.ndarray]
) -> None:
    codec, _ = load_codec(trained_prompted[1])
    equal = []
    for seed in (3, 4, 5):
        samples = murmur(1.0, seed)
        soundfile.write(tmp_path / "long.wav", samples, 16000, subtype="FLOAT")
        codes = voice.prompt(tmp_path / "long.wav")
        heard = samples[: (FRAMES + 2) * FRAME]
        mel_MT = log_mel(torch.from_numpy(heard), MelConfig(**AUDIO))
        pitch_T2 = track_pitch(heard, 16000, 256, mel_MT.shape[1])
        known_1DT = torch.cat([mel_MT, torch.from_numpy(pitch_T2.T)])[None]
        assert codes.shape == (FRAMES, 2) and codes.dtype == np.int64
        assert len(np.unique(codes)) > 2
        equal.append(codes == codec.encode(known_1DT)[0, :FRAMES].numpy())
    assert np.mean(equal) >= 0.95  # rounding may change one of 24 codes


def test_strangers_are_tried_as_prompts_one_after_the_other(
    codec_lm_variants: Path, tmp_path: Path, murmur: Callable[..., np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loudness marks the speaker; the random voice follows no prompt."""
    for name, seed in (("carl", 1), ("dora", 2)):
        (tmp_path / name).mkdir()
        for number in range(2):
            soundfile.write(tmp_path / name / f"{number}.wav", seed * 0.3 * murmur(0.6, seed + number), 16000)

    def embed(clips: list[tuple[np.ndarray, int]]) -> np.ndarray:
        angles = np.array([10 * np.sqrt(np.mean(np.square(samples))) for samples, _ in clips])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    monkeypatch.setattr(prompts, "embed_clips", embed)
    monkeypatch.setattr(prompts, "not_installed", lambda: "")
    found = prompts.check_prompts(codec_lm_variants, tmp_path, 2)
    assert found["people"] == {"carl": 2, "dora": 2} and found["prompts"] == 4 and found["voice"] == ["anna", "ben"]
    assert [row["recognised"] for row in found["recordings_recognised"]] == [1.0, 1.0]


def test_what_is_said_goes_on_from_the_recording(
    voice: Voice, tmp_path: Path, murmur: Callable[..., np.ndarray]
) -> None:
    soundfile.write(tmp_path / "stereo.wav", np.stack([murmur(0.3, 1, 22050)] * 2, axis=1), 22050)
    prompt = voice.prompt(tmp_path / "stereo.wav")
    assert 0 < len(prompt) <= FRAMES
    said, without = (voice.say("Hello there.", prompt=given, decoding=ONCE) for given in (prompt, None))
    assert said.shape != without.shape or not np.allclose(said, without)
    np.testing.assert_allclose(
        joined(voice.stream("Hello there.", prompt=prompt, decoding=ONCE)), said, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize(
    ("prompt", "line"),
    [
        (np.zeros((FRAMES + 1, 2), np.int64), "a prompt must have 1 to 4 code frames of 2 codes each"),
        (np.zeros((3, 1), np.int64), "of 2 codes each, not the shape"),
        (np.full((3, 2), 15), "a prompt's codes must be 0 to 14, not 15 to 15"),
        (np.zeros((3, 2), np.float32), "a prompt's codes must be integers, not float32"),
    ],
)
def test_codes_that_are_no_prompt_are_refused(voice: Voice, prompt: np.ndarray, line: str) -> None:
    with pytest.raises(SonorantError, match=line):
        voice.say("Hi.", prompt=prompt)


def test_a_prompt_may_come_from_a_token_store(voice: Voice) -> None:
    prompt = np.random.default_rng(0).integers(0, 15, (3, 2))
    np.testing.assert_array_equal(voice.say("Hi.", prompt=prompt.astype(np.int16)), voice.say("Hi.", prompt=prompt))


def test_a_recording_that_is_none_is_named(voice: Voice, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "short.wav", np.zeros(900), 16000)
    soundfile.write(tmp_path / "nan.wav", np.full(9000, np.nan, np.float32), 16000, subtype="FLOAT")
    for name, line in (
        ("short", "too short for a prompt; give at least 0.06 seconds"),
        ("nan", "NaN"),
        ("absent", "no such audio"),
    ):
        with pytest.raises(SonorantError, match=rf"{name}\.wav: .*{line}"):
            voice.prompt(tmp_path / f"{name}.wav")


def test_the_graph_ships_with_the_voice_and_is_checked(codec_lm_variants: Path, tmp_path: Path) -> None:
    choice = {"variant": "fp32", "runtime": "onnxruntime", "table": [{"candidate": "onnxruntime/fp32", "passed": True}]}
    ship(read_bundle(codec_lm_variants), choice, tmp_path / "shipped")
    shipped = read_bundle(tmp_path / "shipped")
    path = shipped.reference_file()
    assert path is not None and path.is_file()
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(SonorantError, match=r"reference\.fp32\.onnx: damaged"):
        shipped.check_files()


def test_a_voice_without_the_graph_says_so(codec_lm_variants: Path, tmp_path: Path) -> None:
    older = edited(codec_lm_variants, tmp_path / "voice", lambda data: data.pop("reference"))
    with pytest.raises(SonorantError, match=r"^any\.wav: this voice's pretrained codec has no graph"):
        Voice.load(older, threads=1).prompt(Path("any.wav"))
