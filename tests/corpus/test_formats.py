import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile

from sonorant.corpus.importers import CorpusConfig, import_corpus
from sonorant.corpus.manifest import Defect, Utterance, read_manifest
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.files import read_jsonl
from tests.support.conditions import UNCONDITIONED
from tests.support.encoding import FORMATS, encode, without_sound

Murmur = Callable[..., np.ndarray]
TEXTS = "Nobody noticed that the {} clocks had stopped."


def prepared(source: Path, work: Path, config: PrepareConfig) -> tuple[list[Utterance], dict[str, tuple[str, str]]]:
    """Import and prepare; return the accepted utterances, and reason and detail by id of the others."""
    import_corpus(source, work / "corpus", CorpusConfig(kind="table", path=str(source)))
    config = replace(config, max_rejected=1.0, validation=0.0, test=0.0)
    prepare(work / "corpus", work / "prepared", config, "gruut", condition=UNCONDITIONED)
    rejected = read_jsonl(work / "prepared/rejected.jsonl")
    return read_manifest(work / "prepared/manifest.jsonl"), {v["id"]: (v["reason"], v["detail"]) for v in rejected}


def faults(folder: Path, murmur: Murmur) -> dict[str, tuple[str, str]]:
    """Write one recording per fault; return the reason and a word of its detail by id."""
    folder.mkdir(parents=True)
    number = iter(range(100))
    expected = {}

    def sound(rate: int = 44100) -> np.ndarray:
        return murmur(2.5, next(number), rate)[:, None]

    for name in ("aac.m4a", "opus.webm", "wma.wma"):
        how = FORMATS[name]
        whole = encode(folder / name, sound(how["rate"]), **how)
        data = whole.read_bytes()
        whole.rename(folder / f"cut-{name}").write_bytes(data[: len(data) * 6 // 10])
        expected[f"cut-{name}"] = (Defect.TRUNCATED, "")
    without_sound(folder / "mute.mp4")
    expected["mute.mp4"] = (Defect.UNREADABLE, "it contains no audio stream")
    (folder / "text.m4a").write_text("No sound at all.\n" * 40)
    expected["text.m4a"] = (Defect.UNREADABLE, "not recognised")
    file = encode(folder / "drm.m4a", sound(), rate=44100, codec="aac")
    head, table, tail = file.read_bytes().partition(b"stsd")
    file.write_bytes(head + table + tail.replace(b"mp4a", b"drms"))
    expected["drm.m4a"] = (Defect.UNREADABLE, "protected")
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


def test_each_fault_is_one_reason(tmp_path: Path, murmur: Murmur, prepare_config: PrepareConfig) -> None:
    expected = faults(tmp_path / "in/clips", murmur)
    encode(tmp_path / "in/clips/good.m4a", murmur(2.5, 50, 44100)[:, None], rate=44100, codec="aac")
    speech = murmur(2.5, 51, 44100)[:, None]
    encode(tmp_path / "in/clips/dead.m4a", np.concatenate([0 * speech, speech], 1), rate=44100, codec="alac")
    soundfile.write(tmp_path / "in/clips/gsm.wav", murmur(2.5, 52, 8000), 8000, subtype="GSM610")
    names = [path.name for path in sorted((tmp_path / "in/clips").iterdir())]
    rows = [{"audio": f"clips/{n}", "text": TEXTS.format(i), "id": n} for i, n in enumerate(names)]
    (tmp_path / "in/table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    accepted, rejected = prepared(tmp_path / "in/table.jsonl", tmp_path, prepare_config)
    assert {utterance.id: utterance.channels for utterance in accepted} == {
        "good.m4a": "one channel",
        "dead.m4a": "one alive, others dead",
        "gsm.wav": "one channel",
    }
    assert rejected.keys() == expected.keys()
    for id, (reason, word) in expected.items():
        assert rejected[id][0] == reason and word in rejected[id][1], (id, rejected[id])
        assert "\n" not in rejected[id][1]
