import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sonorant.audio.mel import MelConfig, log_mel
from sonorant.audio.pitch import track_pitch
from sonorant.audio.wav import read_audio
from sonorant.corpus.manifest import Utterance
from sonorant.errors import SonorantError
from sonorant.evaluation.renderings import Spoken, copier, render, summarize
from sonorant.evaluation.short_texts.texts import SUITES
from sonorant.extras.codec_lm.saved import load_codec
from sonorant.files import read_json, read_jsonl, write_json
from sonorant.speech.bundle import DESCRIPTION
from sonorant.speech.voice import Voice
from tasks import evaluate
from tests.evaluation.stages import EVALUATE, RECOGNIZE, lay_out, run_stage
from tests.evaluation.variants import with_copies
from tests.export.planted import change_matrix, plant, with_nan
from tests.support.edited import edited

GRAPHS = ("encoder", "prefill", "step", "decoder", "vocoder")
CODES = {"bits_per_second": 488.3, "frames_per_second": 31.25, "use": [0.9, 0.8], "entropy_bits": [3.5, 3.4]}


def never_ending(bundle: Path, out: Path) -> Path:
    """A copy with a frame budget that makes every first attempt a runaway."""
    shutil.copytree(bundle, out)
    with edited(out / DESCRIPTION) as description:
        description["decoding"]["defaults"] |= {"longest_phoneme": 0.001, "budget": 0.001, "retries": 1}
    return out


@pytest.fixture(scope="module")
def place(
    spoken_corpus: tuple[Path, list[Utterance]],
    codec_lm_bundle: Path,
    trained_codec_lm: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    corpus, _ = spoken_corpus
    folder = tmp_path_factory.mktemp("codec_lm")
    lay_out(folder, trained_codec_lm)
    for name in ("audio", "prepared"):
        (folder / name).symlink_to(corpus / name)
    (folder / "voice").symlink_to(codec_lm_bundle)
    graphs = {graph: {"max_abs_diff": 1e-6, "tolerance": 1e-3} for graph in GRAPHS}
    passed = {"passed": True, "failed": None, "graphs": graphs}
    by_step = passed | {"graphs": graphs | {"prefill": "not run: torch has no such graph"}}
    parity = {"onnxruntime/fp32": passed, "torch/fp32": by_step, "tensorrt/fp32": "not run: another family"}
    write_json(folder / "parity.json", parity)
    write_json(folder / "codes" / "header.json", {"version": 1, "family": "codec_lm", "report": CODES})
    assert run_stage(folder, "recognize_recordings", *RECOGNIZE).returncode == 0
    return folder


@pytest.fixture(scope="module")
def metrics(place: Path) -> dict[str, Any]:
    """Runs in this process with few short texts, because random weights run away on each."""
    few = replace(SUITES["en"], kinds={"yes_no": ("Yes.", "No.")})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr("sys.argv", ["evaluate", *EVALUATE])
        patch.setattr("sonorant.evaluation.short_texts.judgement.suite", lambda language: few)
        evaluate.main()
    return dict(read_json(place / "metrics.json"))


def test_codec_and_decoding_have_figures(metrics: dict[str, Any], place: Path) -> None:
    assert metrics["family"] == "codec_lm" and metrics["codec"] == CODES
    found = metrics["decoding"]["fp32"]
    assert found["sentences"] == 3 == sum(found["finish_reasons"].values())
    low, high = found["runaway_rate_ci95"]
    assert 0 <= low <= found["runaway_rate"] <= high <= 1
    rows = read_jsonl(place / "evaluation" / "sentences.jsonl")
    assert sum(row["finish_reasons"]["fp32"] != "well" for row in rows) == found["unrecovered"]
    assert all(set(row["timings"]) == {"fp32"} and row["timings"]["fp32"] for row in rows)
    assert read_json(place / "family" / "family.json")["variants"]["fp32"]["decoding"] == found
    assert set(metrics["parity"]["torch/fp32"]["max_abs_diff"]) == {"encoder", "step", "decoder", "vocoder"}
    assert set(metrics["size"]["fp32"]["graphs"]) == set(GRAPHS)
    assert metrics["speed"]["torch/fp32"]["medium"]["threads_1"]["rtf"] > 0
    assert json.dumps(metrics, allow_nan=False)


def test_a_variant_whose_codes_are_no_numbers_is_named_and_the_others_are_heard(
    codec_lm_bundle: Path, spoken_corpus: tuple[Path, list[Utterance]], tmp_path: Path
) -> None:
    corpus, utterances = spoken_corpus
    copies = with_copies(codec_lm_bundle, tmp_path / "copies", "bf16")
    bundle = plant(copies, "step", "bf16", change_matrix(with_nan), tmp_path / "planted").folder
    heard = render(bundle, None, ["fp32", "bf16"], utterances, corpus)
    assert set(heard.sounds) == {"recordings", "fp32"} == {"recordings", *heard.decoded}
    assert heard.unspoken["bf16"].startswith("failed: the language model's logits contain NaN or infinity")
    with pytest.raises(SonorantError, match=r"planted: variant bf16: the language model's logits contain NaN"):
        render(bundle, None, ["bf16", "fp32"], utterances, corpus)


def test_the_codecs_copy_is_its_decoder_on_what_its_encoder_heard(
    codec_lm_bundle: Path, trained_codec_lm: tuple[Path, Path], place: Path
) -> None:
    voice = Voice.load(codec_lm_bundle)
    recording, _ = read_audio(place / "audio" / "0.wav", voice.sample_rate)
    copy = copier(voice, trained_codec_lm[1])(recording)
    assert np.abs(copy).max() > 0
    codec, _ = load_codec(trained_codec_lm[1])
    with torch.inference_mode():
        mel = log_mel(torch.from_numpy(recording)[None], MelConfig(**asdict(voice.description.audio)))
        padded = np.pad(recording, (0, -len(recording) % 256))
        pitch = torch.from_numpy(track_pitch(padded, voice.sample_rate, 256, mel.shape[2]).T[None])
        codes = codec.encode(torch.cat([mel, pitch], dim=1))
        wanted = codec.decode(codes)[0, : len(recording)].clamp(-1, 1).numpy()
    np.testing.assert_allclose(copy, wanted, atol=1e-4)


def test_a_sentence_is_spoken_the_same_beside_others_and_runaways_are_counted(
    codec_lm_bundle: Path, spoken_corpus: tuple[Path, list[Utterance]], tmp_path: Path
) -> None:
    corpus, utterances = spoken_corpus
    together = render(codec_lm_bundle, None, ["fp32"], utterances, corpus)
    for index, utterance in enumerate(utterances):
        alone = render(codec_lm_bundle, None, ["fp32"], [utterance], corpus)
        np.testing.assert_allclose(alone.sounds["fp32"][0], together.sounds["fp32"][index], atol=1e-4)
    stuck = render(never_ending(codec_lm_bundle, tmp_path / "stuck"), None, ["fp32"], utterances, corpus)
    assert all(each.ran_away for each in stuck.decoded["fp32"])


def test_a_sentence_that_went_well_only_in_another_attempt_ran_away() -> None:
    went = [("well", 1), ("well", 2), ("stuck", 3), ("well", 1), ("silence", 1)]
    found = summarize([Spoken(np.zeros(1, np.float32), None, *each) for each in went])
    assert found["sentences"] == 5 and found["runaways"] == 3 and found["runaway_rate"] == 0.6
    assert found["retries"] == 3 and found["unrecovered"] == 2
    assert found["finish_reasons"] == {"silence": 1, "stuck": 1, "well": 3}
