import dataclasses
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from sonorant.audio import dnsmos
from sonorant.audio.conditioning import ConditionConfig, Conditioning, Level, apply
from sonorant.audio.measures import BANDS, Measures
from sonorant.audio.wav import read_audio, resample
from sonorant.corpus.manifest import Defect, Utterance, read_manifest, write_manifest
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.corpus.preparation.checks import LIMITS, Unsound, check_limits
from sonorant.corpus.preparation.outliers import find_outliers
from sonorant.corpus.sound import read_sound
from sonorant.errors import SonorantError
from sonorant.files import read_json, read_jsonl
from tests.audio.conftest import noisy
from tests.evaluation.conftest import SENTENCES, speak_with_flite

CONDITION = ConditionConfig(margin=0.1, longest_pause=0.3, remove_dc=True, loudness=-23.0, true_peak=-1.0)
USUAL = Measures(
    speech_seconds=4.0, snr_db=30.0, noise_floor_db=-60.0, reverberation=0.3, bandwidth_hz=11000.0, hum_db=3.0,
    clipped=0.0, soft_clipped=0.0, dc=0.0, pitch_hz=120.0, spectrum=(0.0,) * len(BANDS),
)  # fmt: skip


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Imported corpus of four flite sentences, each in one second of noise, with an offset."""
    folder = tmp_path_factory.mktemp("corpus")
    rows = []
    for number, text in enumerate(SENTENCES):
        speak_with_flite(text, folder / "flite.wav")
        spoken, rate = read_audio(folder / "flite.wav")
        samples = noisy(np.pad(spoken - spoken.mean(), rate), -60.0, number) * np.float32(0.5) + np.float32(0.01)
        soundfile.write(folder / f"{number}.wav", samples, rate)
        rows.append(Utterance(id=f"u{number}", audio=f"{number}.wav", text=text, speaker="s", language="en-us"))
    write_manifest(folder / "manifest.jsonl", rows)
    return folder


def prepared(corpus: Path, out: Path, config: PrepareConfig, condition: ConditionConfig = CONDITION) -> list[Utterance]:
    trained = replace(config, validation=0.0, test=0.0, max_rejected=1.0)
    prepare(corpus, out, trained, "gruut", condition=condition)
    return read_manifest(out / "manifest.jsonl")


def test_what_is_read_is_the_recording_as_planned(corpus: Path, tmp_path: Path, prepare_config: PrepareConfig) -> None:
    for utterance in prepared(corpus, tmp_path / "out", prepare_config):
        planned = utterance.conditioning
        assert planned is not None and utterance.measures is not None
        assert planned.before.seconds - planned.after.seconds > 1.5
        assert planned.before.dc == pytest.approx(0.01, abs=1e-3) and abs(planned.after.dc) < 1e-3
        assert planned.after.loudness == pytest.approx(-23.0, abs=0.05)
        recorded, rate = read_audio(corpus / str(utterance.audio))
        heard = apply(recorded, rate, planned)
        assert np.array_equal(read_sound(corpus, utterance)[0], heard)
        assert np.array_equal(read_sound(corpus, utterance, 22050)[0], resample(heard, rate, 22050))
        assert len(heard) / rate == pytest.approx(utterance.seconds, abs=1e-3)


def test_the_summary_says_what_was_done(corpus: Path, tmp_path: Path, prepare_config: PrepareConfig) -> None:
    utterances = prepared(corpus, tmp_path / "out", prepare_config)
    sound = read_json(tmp_path / "out/summary.json")
    plans = [utterance.conditioning for utterance in utterances if utterance.conditioning]
    assert sound["conditioning"]["trimmed_seconds"] == pytest.approx(sum(plan.trimmed for plan in plans), abs=1e-2)
    assert sound["conditioning"]["trimmed_utterances"] == 4
    assert sound["measures"]["snr_db"]["max"] == max(u.measures.snr_db or 0 for u in utterances if u.measures)
    assert sound["measures"]["dnsmos"] is None
    assert sound["conditioning"]["gain_lowered_utterances"] == 0
    prepared(corpus, tmp_path / "loud", prepare_config, replace(CONDITION, loudness=-6.0))
    assert read_json(tmp_path / "loud/summary.json")["conditioning"]["gain_lowered_utterances"] == 4
    ratios = sorted(u.measures.snr_db or 0 for u in utterances if u.measures)
    stricter = replace(prepare_config, min_snr_db=(ratios[0] + ratios[1]) / 2)
    assert len(prepared(corpus, tmp_path / "quiet", stricter)) == 3
    (row,) = read_jsonl(tmp_path / "quiet/rejected.jsonl")
    assert row["reason"] == Defect.NOISY and "dB above the noise, at least" in row["detail"]
    page = (tmp_path / "out/summary.html").read_text(encoding="utf-8")
    for words in ("Signal-to-noise ratio", "Loudness before conditioning", "-23 LUFS", "edges trimmed", "Bandwidth"):
        assert words in page, words


@pytest.mark.parametrize(
    ("setting", "value", "field", "measured", "defect"),
    [
        ("min_snr_db", 20.0, "snr_db", 19.9, Defect.NOISY),
        ("max_reverberation", 0.5, "reverberation", 0.51, Defect.REVERBERANT),
        ("min_bandwidth_hz", 5000.0, "bandwidth_hz", 3900.0, Defect.NARROW),
        ("max_hum_db", 20.0, "hum_db", 25.0, Defect.HUM),
        ("max_soft_clipped", 0.01, "soft_clipped", 0.02, Defect.CLIPPED),
        ("min_dnsmos", 2.5, "dnsmos", 2.4, Defect.RATED_BAD),
    ],
)
def test_a_limit_rejects_by_name_and_null_does_not(
    prepare_config: PrepareConfig, setting: str, value: float, field: str, measured: float, defect: Defect
) -> None:
    off = replace(prepare_config, rate_dnsmos=True, **dict.fromkeys(LIMITS))  # type: ignore[arg-type]
    config = replace(off, **{setting: value})
    broken = replace(USUAL, **{field: measured})
    with pytest.raises(Unsound) as caught:
        check_limits(broken, config)
    assert caught.value.defect == defect and "{" not in caught.value.found
    check_limits(replace(USUAL, **{field: value}), config)
    check_limits(replace(USUAL, **{field: None}), config)
    check_limits(broken, off)


def test_dnsmos_is_asked_for_by_name(
    corpus: Path, tmp_path: Path, prepare_config: PrepareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(prepare_config, rate_dnsmos=True)
    monkeypatch.setattr(dnsmos, "rate_clip", lambda clip: (3.14159, 1.0))
    monkeypatch.setattr(dnsmos, "installed", lambda: True)
    assert {u.measures.dnsmos for u in prepared(corpus, tmp_path / "out", config) if u.measures} == {3.142}
    monkeypatch.setattr(dnsmos, "installed", lambda: False)
    with pytest.raises(SonorantError, match=r"rate_dnsmos: speechmos is not installed; run: pip install"):
        prepared(corpus, tmp_path / "absent", config)
    with pytest.raises(ValueError, match="min_dnsmos requires ratings"):
        replace(prepare_config, min_dnsmos=3.0)


def usual(count: int, speaker: str = "anna") -> list[Utterance]:
    """Recordings of one speaker, microphone and room."""
    generator = np.random.default_rng(len(speaker))
    found = []
    for number in range(count):
        snr, floor, hum, loud, pitch = generator.normal([30, -60, 3, -25, 12 * np.log2(120)], [3, 4, 2, 1.5, 1])
        sound = replace(
            USUAL, snr_db=snr, noise_floor_db=floor, hum_db=hum, pitch_hz=2 ** (pitch / 12),
            reverberation=generator.normal(0.3, 0.03), bandwidth_hz=float(generator.choice([10800.0, 11000.0])),
            spectrum=tuple(generator.normal(0, 3, len(BANDS)).tolist()),
            speech_seconds=generator.uniform(1, 6),
        )  # fmt: skip
        found.append(spoken(f"{speaker}{number}", speaker, sound, loud))
    return found


def spoken(id: str, speaker: str, sound: Measures, loudness: float | None) -> Utterance:
    level = Level(seconds=4.0, loudness=loudness, true_peak=None, dc=0.0)
    conditioning = Conditioning(before=level, after=level)
    return Utterance(
        id=id, audio="a", text="t", speaker=speaker, language="en", measures=sound, conditioning=conditioning
    )


def test_hardly_any_of_a_homogeneous_corpus_is_listed() -> None:
    assert len(find_outliers(usual(2000))) <= 20
    assert find_outliers(usual(19)) == find_outliers([]) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reverberation": 0.7}, "another room"),
        ({"snr_db": 8.0, "noise_floor_db": -35.0}, "noise"),
        ({"bandwidth_hz": 3900.0}, "resampled"),
        ({"hum_db": 25.0}, "mains hum"),
        ({"pitch_hz": 220.0}, "another voice"),
        ({"spectrum": (20.0,) * 8 + (-20.0,) * 8}, "another microphone or voice"),
    ],
)
def test_a_planted_stray_is_listed_with_what_is_unusual(change: dict[str, object], words: str) -> None:
    recordings = usual(200)
    stray = replace(recordings[7], measures=replace(recordings[7].measures or USUAL, **change))
    recordings[7] = stray
    found = find_outliers(recordings)
    assert found[0]["id"] == "anna7"
    assert words in found[0]["words"] and "others" in found[0]["words"]
    # A second speaker for whom the value is usual changes nothing.
    others = [replace(r, measures=replace(r.measures or USUAL, **change)) for r in usual(50, "ben")]
    assert {row["id"] for row in find_outliers([*recordings, *others])} == {row["id"] for row in found}


def test_figures_that_are_missing_are_not_unusual() -> None:
    nothing = Measures(**{field.name: None for field in dataclasses.fields(Measures)} | {  # type: ignore[arg-type]
        "speech_seconds": 0.0, "clipped": 0.0, "soft_clipped": 0.0, "dc": 0.0})  # fmt: skip
    silent = [spoken(str(number), "anna", nothing, None) for number in range(30)]
    assert find_outliers(silent) == []
    assert len(find_outliers([*silent, *usual(100)])) <= 1
