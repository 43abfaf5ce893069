"""Sound is conditioned as planned; limits reject by name; outliers are listed."""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import soundfile

from sonorant.audio import dnsmos
from sonorant.audio.arrays import Floats
from sonorant.audio.conditioning import ConditionConfig, apply
from sonorant.audio.loudness import loudness
from sonorant.audio.measures import BANDS, Measures, measure
from sonorant.audio.mel import MelConfig
from sonorant.audio.voice_activity import speech_probability
from sonorant.audio.wav import read_audio, resample
from sonorant.corpus.manifest import Defect, Utterance, read_manifest, write_manifest
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.corpus.preparation.checks import LIMITS, beyond_limit
from sonorant.corpus.preparation.prepare import examine
from sonorant.corpus.preparation.sound_summary import Outlier, Recording, find_outliers
from sonorant.corpus.sound import read_sound
from sonorant.errors import SonorantError
from sonorant.features.feature_store import FeatureStore
from sonorant.features.feature_writer import write_features
from sonorant.files import read_json, read_jsonl, write_jsonl
from sonorant.text import TextConfig
from tasks.params import load
from testbed.synthetic_corpus import store_beside
from tests.audio.conftest import in_room, noisy
from tests.evaluation.conftest import SENTENCES, speak_with_flite
from tests.support.conditions import UNCONDITIONED
from tests.support.imports import ROOT

CONDITION = ConditionConfig(margin=0.1, longest_pause=0.3, remove_dc=True, loudness=-23.0, true_peak=-1.0)
USUAL = Measures(
    speech_seconds=4.0, snr_db=30.0, noise_floor_db=-60.0, reverberation=0.3, bandwidth_hz=11000.0, hum_db=3.0,
    clipped=0.0, soft_clipped=0.0, dc=0.0, pitch_hz=120.0, spectrum=(0.0,) * len(BANDS),
)  # fmt: skip


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An imported corpus: four sentences of flite's in a second of noise each, with an offset."""
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


def prepared(
    corpus: Path, out: Path, config: PrepareConfig, condition: ConditionConfig = CONDITION, cache: Path | None = None
) -> list[Utterance]:
    trained = replace(config, validation=0.0, test=0.0, max_rejected=1.0)
    prepare(corpus, out, trained, "gruut", condition=condition, cache=cache)
    return read_manifest(out / "manifest.jsonl")


def test_features_are_of_the_sound_as_planned(corpus: Path, tmp_path: Path, prepare_config: PrepareConfig) -> None:
    utterances = prepared(corpus, tmp_path / "out", prepare_config)
    mel, text = load("audio", MelConfig, ROOT / "params.yaml"), load("text", TextConfig, ROOT / "params.yaml")
    write_features(corpus, utterances, tmp_path / "features", mel, text, 1, store=store_beside(tmp_path / "features"))
    store = FeatureStore.open(tmp_path / "features")
    for number, utterance in enumerate(utterances):
        planned = utterance.conditioning
        assert planned is not None and utterance.measures is not None
        assert planned.before.seconds - planned.after.seconds > 1.5
        assert planned.before.dc == pytest.approx(0.01, abs=1e-3) and abs(planned.after.dc) < 1e-3
        assert planned.after.loudness == pytest.approx(-23.0, abs=0.05)
        recorded, rate = read_audio(corpus / str(utterance.audio))
        heard = resample(apply(recorded, rate, planned), rate, mel.sample_rate) if rate != mel.sample_rate else (
            apply(recorded, rate, planned)
        )  # fmt: skip
        assert np.array_equal(read_sound(corpus, utterance, mel.sample_rate)[0], heard)
        assert len(heard) / mel.sample_rate == pytest.approx(utterance.seconds, abs=1e-3)
        stored = store.samples(number)[: len(heard)] / 32768
        assert np.abs(stored - heard).max() <= 0.51 / 32768


def test_switched_off_the_sound_is_the_recording_bit_by_bit(
    corpus: Path, tmp_path: Path, prepare_config: PrepareConfig
) -> None:
    for utterance in prepared(corpus, tmp_path / "out", prepare_config, UNCONDITIONED):
        recorded, rate = read_audio(corpus / str(utterance.audio))
        heard, heard_rate = read_sound(corpus, utterance)
        assert heard_rate == rate and np.array_equal(heard, recorded)
        assert utterance.seconds == len(recorded) / rate


def test_the_summary_says_what_was_done(corpus: Path, tmp_path: Path, prepare_config: PrepareConfig) -> None:
    utterances = prepared(corpus, tmp_path / "out", prepare_config)
    sound = read_json(tmp_path / "out/summary.json")["sound"]
    plans = [utterance.conditioning for utterance in utterances if utterance.conditioning]
    assert sound["conditioning"]["trimmed_seconds"] == pytest.approx(sum(plan.trimmed for plan in plans), abs=1e-2)
    assert sound["conditioning"]["trimmed_utterances"] == 4
    assert sound["measures"]["snr_db"]["max"] == max(u.measures.snr_db or 0 for u in utterances if u.measures)
    assert sound["measures"]["dnsmos"] is None
    assert sound["conditioning"]["gain_lowered_utterances"] == 0
    prepared(corpus, tmp_path / "loud", prepare_config, replace(CONDITION, loudness=-6.0))
    assert read_json(tmp_path / "loud/summary.json")["sound"]["conditioning"]["gain_lowered_utterances"] == 4
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
    found = beyond_limit(broken, config)
    assert found is not None and found[0] == defect and "{" not in found[1]
    assert beyond_limit(replace(USUAL, **{field: value}), config) is None
    assert beyond_limit(broken, off) is None
    if field != "soft_clipped":
        assert beyond_limit(replace(USUAL, **{field: None}), config) is None


def test_a_limit_rejects_in_the_stage_without_measuring_again(
    corpus: Path, tmp_path: Path, prepare_config: PrepareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Mock(side_effect=examine)
    monkeypatch.setattr(sys.modules["sonorant.corpus.preparation.prepare"], "examine", seen)
    ratios = sorted(u.measures.snr_db or 0 for u in prepared(corpus, tmp_path / "a", prepare_config,
                    cache=tmp_path / "cache") if u.measures)  # fmt: skip
    assert seen.call_count == 4
    stricter = replace(prepare_config, min_snr_db=(ratios[0] + ratios[1]) / 2)
    assert len(prepared(corpus, tmp_path / "b", stricter, cache=tmp_path / "cache")) == 3
    assert seen.call_count == 4
    (row,) = read_jsonl(tmp_path / "b/rejected.jsonl")
    assert row["reason"] == Defect.NOISY and "dB above the noise, at least" in row["detail"]
    prepared(corpus, tmp_path / "c", stricter, replace(CONDITION, margin=0.2), cache=tmp_path / "cache")
    assert seen.call_count == 8


def test_dnsmos_is_asked_for_by_name(
    corpus: Path, tmp_path: Path, prepare_config: PrepareConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(prepare_config, rate_dnsmos=True)
    if dnsmos.installed():
        found = [u.measures.dnsmos or 0 for u in prepared(corpus, tmp_path / "out", config) if u.measures]
        assert len(found) == 4 and all(1 < value < 5 for value in found)
    monkeypatch.setattr(dnsmos, "installed", lambda: False)
    with pytest.raises(SonorantError, match=r"rate_dnsmos: speechmos is not installed; pip install"):
        prepared(corpus, tmp_path / "absent", config)
    with pytest.raises(ValueError, match="min_dnsmos needs ratings"):
        replace(prepare_config, min_dnsmos=3.0)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"measures": {"snr": 3}}, r"unknown key 'measures\.snr'|'measures\.speech_seconds' is missing"),
        ({"conditioning": {"gain_db": "much"}}, r"'conditioning\."),
        ({"measures": 3}, r"field 'measures' must be dict"),
    ],
)
def test_what_a_manifest_holds_is_read_strictly(
    corpus: Path, tmp_path: Path, prepare_config: PrepareConfig, change: dict[str, object], named: str
) -> None:
    prepared(corpus, tmp_path / "out", prepare_config)
    path = tmp_path / "out/manifest.jsonl"
    first, second, *_ = read_jsonl(path)
    write_jsonl(path, [first, second | change])
    with pytest.raises(SonorantError, match=rf"manifest\.jsonl: row 2: .*{named}"):
        read_manifest(path)


def usual(count: int, speaker: str = "anna") -> list[Recording]:
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
        found.append(Recording(id=f"{speaker}{number}", speaker=speaker, measures=sound, loudness=loud))
    return found


def words_of(found: Iterable[Outlier], id: str) -> str:
    return next((outlier.words for outlier in found if outlier.id == id), "")


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
    stray = replace(recordings[7], measures=replace(USUAL, **{"spectrum": recordings[7].measures.spectrum} | change))
    recordings[7] = stray
    found = find_outliers(recordings)
    assert found[0].id == "anna7"
    assert words in found[0].words and "others" in found[0].words
    # A second speaker, for whom it is usual, changes nothing.
    others = [replace(r, measures=replace(r.measures, **change)) for r in usual(50, "ben")]
    mixed = find_outliers([*recordings, *others])
    assert words in words_of(mixed, "anna7") and not any(outlier.id.startswith("ben") for outlier in mixed)


def test_figures_that_are_missing_are_not_unusual() -> None:
    nothing = Measures(**{field.name: None for field in dataclasses.fields(Measures)} | {  # type: ignore[arg-type]
        "speech_seconds": 0.0, "clipped": 0.0, "soft_clipped": 0.0, "dc": 0.0})  # fmt: skip
    silent = [Recording(id=str(number), speaker="anna", measures=nothing, loudness=None) for number in range(30)]
    assert find_outliers(silent) == []
    assert len(find_outliers([*silent, *usual(100)])) <= 1


PLANTED: dict[str, Callable[[Floats, int], Floats]] = {
    "another room": lambda samples, rate: in_room(samples, rate, 0.6),
    "resampled": lambda samples, rate: resample(resample(samples, rate, 8000), 8000, rate),
    "noise": lambda samples, rate: noisy(samples, 20 * np.log10(samples.std()) - 8),
    "nearer": lambda samples, rate: 3.2 * samples,
}


def test_strays_among_recordings_of_a_person_are_listed() -> None:
    folder = (ROOT / "../shared/data/kathleen/wavs").resolve()
    if not folder.is_dir():
        pytest.skip("the recordings of a person (kathleen) are absent")

    def recording(id: str, samples: Floats, rate: int) -> Recording:
        sound = measure(samples, rate, speech_probability(samples, rate))
        return Recording(id=id, speaker="kathleen", measures=sound, loudness=loudness(samples, rate))

    paths = sorted(folder.glob("*.flac"))[3::19]
    recordings = [recording(path.stem, *read_audio(path)) for path in paths]
    assert len(find_outliers(recordings)) <= 2
    for words, change in PLANTED.items():
        strays = []
        for path in paths[::20]:
            samples, rate = read_audio(path)
            strays.append(recording(f"{words} {path.stem}", change(samples, rate).astype(np.float32), rate))
        found = find_outliers(recordings + strays)
        assert all(words in words_of(found, stray.id) for stray in strays), words
    json.dumps([dataclasses.asdict(stray) for stray in strays], allow_nan=False)
