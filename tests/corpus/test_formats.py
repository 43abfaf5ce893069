"""Recordings of all formats become a corpus; each fault has one reason and affects nothing else."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from sonorant.corpus.importers import CorpusConfig, import_corpus
from sonorant.corpus.manifest import Defect, Utterance, read_manifest
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.corpus.sound import read_sound
from sonorant.files import read_json, read_jsonl
from tests.support.conditions import UNCONDITIONED
from tests.support.encoding import FORMATS, encode, without_sound

Murmur = Callable[..., np.ndarray]
TEXTS = "Nobody noticed that the {} clocks had stopped."


def fill(folder: Path, murmur: Murmur, seconds: float = 2.5) -> dict[str, str]:
    """A recording in each format, in capitals for one; return the text by name."""
    folder.mkdir(parents=True)
    for number, (name, how) in enumerate(FORMATS.items()):
        encode(folder / name, murmur(seconds, number, how["rate"])[:, None], **how)
    (folder / "mp3.mp3").rename(folder / "mp3.MP3")
    soundfile.write(folder / "plain.wav", murmur(seconds, 99), 16000)
    names = [path.name for path in sorted(folder.iterdir())]
    return {name: TEXTS.format(number + 2) for number, name in enumerate(names)}


def prepared(
    source: Path, kind: str, work: Path, config: PrepareConfig
) -> tuple[list[Utterance], dict[str, tuple[str, str]]]:
    """Import and prepare; return the accepted utterances, and reason and detail by id of the others."""
    import_corpus(source, work / "corpus", CorpusConfig(kind=kind, path=str(source)))  # type: ignore[arg-type]
    prepare(work / "corpus", work / "prepared", replace(config, max_rejected=1.0), "gruut", condition=UNCONDITIONED)
    rejected = read_jsonl(work / "prepared/rejected.jsonl")
    return read_manifest(work / "prepared/manifest.jsonl"), {v["id"]: (v["reason"], v["detail"]) for v in rejected}


def test_a_folder_of_mixed_formats_as_ljspeech(tmp_path: Path, murmur: Murmur, prepare_config: PrepareConfig) -> None:
    texts = fill(tmp_path / "in/wavs", murmur)
    for name in texts:  # an id for each
        (tmp_path / "in/wavs" / name).rename(tmp_path / "in/wavs" / f"of-{name.replace('.', '-')}{Path(name).suffix}")
    lines = [f"of-{name.replace('.', '-')}|{text}\n" for name, text in texts.items()]
    (tmp_path / "in/metadata.csv").write_text("".join(lines))
    accepted, rejected = prepared(tmp_path / "in", "ljspeech", tmp_path, prepare_config)
    assert (len(accepted), rejected) == (len(texts), {})
    _check(accepted, tmp_path)


def _check(accepted: list[Utterance], work: Path) -> None:
    """What the manifest says is what is heard, whole and in part."""
    for utterance in accepted:
        assert utterance.seconds == pytest.approx(2.5, abs=0.1), utterance.audio
        samples, rate = read_sound(work / "corpus", utterance)
        assert (rate, len(samples) / rate) == (utterance.sample_rate, pytest.approx(utterance.seconds, abs=1e-5))
        part, _ = read_sound(work / "corpus", replace(utterance, start=0.5, end=1.25), 16000)
        assert len(part) == pytest.approx(0.75 * 16000, abs=17)
    assert read_json(work / "prepared/summary.json")["channels"].keys() == {"one channel"}


def faults(folder: Path, murmur: Murmur) -> dict[str, tuple[str, str]]:
    """One recording of each fault; return reason and a word of the detail by id."""
    folder.mkdir(parents=True)
    number = iter(range(100))
    expected = {}

    def sound(rate: int = 44100) -> np.ndarray:
        return murmur(2.5, next(number), rate)[:, None]

    for name in ("aac.m4a", "fragments.mp4", "film.mp4", "opus.webm", "live.webm", "wma.wma", "pcm.aiff", "film.mkv"):
        how = FORMATS[name]
        whole = encode(folder / name, sound(how["rate"]), **how)
        data = whole.read_bytes()
        whole.rename(folder / f"cut-{name}").write_bytes(data[: len(data) * 6 // 10])
        expected[f"cut-{name}"] = (Defect.TRUNCATED, "")
    without_sound(folder / "mute.mp4")
    expected["mute.mp4"] = (Defect.UNREADABLE, "holds no audio stream")
    (folder / "text.m4a").write_text("No sound at all.\n" * 40)
    expected["text.m4a"] = (Defect.UNREADABLE, "not recognised")
    for name, old, new, word in (
        ("drm.m4a", b"mp4a", b"drms", "protected"),
        ("odd.m4a", b"alac", b"xxxx", "codec"),
    ):
        file = encode(folder / name, sound(), rate=44100, codec="alac" if old == b"alac" else "aac")
        head, table, tail = file.read_bytes().partition(b"stsd")
        file.write_bytes(head + table + tail.replace(old, new))
        expected[name] = (Defect.UNREADABLE, word)
    one, other = sound(), sound()
    pairs = {
        "inverted": ((one, -one), "phase-inverted"),
        "two": ((one, other), "different sounds"),
        "apart": ((one, np.roll(one, 60)), "1.4 ms apart"),
    }
    for name, (pair, word) in pairs.items():
        encode(folder / f"{name}.m4a", np.concatenate(pair, axis=1), rate=44100, codec="alac")
        expected[f"{name}.m4a"] = (Defect.CHANNELS_DIFFER, word)
    return expected


def test_each_fault_is_one_reason(
    tmp_path: Path, murmur: Murmur, prepare_config: PrepareConfig, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = faults(tmp_path / "in/clips", murmur)
    encode(tmp_path / "in/clips/good.m4a", murmur(2.5, 50, 44100)[:, None], rate=44100, codec="aac")
    speech = murmur(2.5, 51, 44100)[:, None]
    encode(tmp_path / "in/clips/dead.m4a", np.concatenate([0 * speech, speech], 1), rate=44100, codec="alac")
    names = [path.name for path in sorted((tmp_path / "in/clips").iterdir())]
    rows = [{"audio": f"clips/{n}", "text": TEXTS.format(i), "id": n} for i, n in enumerate(names)]
    (tmp_path / "in/table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    accepted, rejected = prepared(tmp_path / "in/table.jsonl", "table", tmp_path, prepare_config)
    assert {utterance.id: utterance.channels for utterance in accepted} == {
        "good.m4a": "one channel",
        "dead.m4a": "one alive, others dead",
    }
    assert rejected.keys() == expected.keys()
    for id, (reason, word) in expected.items():
        assert rejected[id][0] == reason and word in rejected[id][1], (id, rejected[id])
        assert "\n" not in rejected[id][1]
    bars = ("importing", "examining")
    assert [
        line for line in capfd.readouterr().err.splitlines() if line.strip() and not any(b in line for b in bars)
    ] == []


def test_the_check_of_channels_can_be_switched_off(
    tmp_path: Path, murmur: Murmur, prepare_config: PrepareConfig
) -> None:
    pair = np.stack([murmur(2.5, 1), murmur(2.5, 2)], axis=1)
    (tmp_path / "in/wavs").mkdir(parents=True)
    soundfile.write(tmp_path / "in/wavs/a.wav", pair, 16000, subtype="FLOAT")
    (tmp_path / "in/metadata.csv").write_text(f"a|{TEXTS.format(3)}\n")
    (utterance,), _ = prepared(
        tmp_path / "in", "ljspeech", tmp_path, replace(prepare_config, min_channel_correlation=None)
    )
    assert utterance.channels == "not alike" and abs(utterance.channel_correlation or 1.0) < 0.5
    np.testing.assert_allclose(read_sound(tmp_path / "corpus", utterance)[0], pair.mean(axis=1), atol=1e-6)
