"""Graphs of codec voices compute what torch computes, and the bundle describes the decoding."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.export.bundling import Sources, export_variants, export_voice
from sonorant.export.onnx_graph import ExportConfig
from sonorant.extras.codec_lm.decoding.session import Prompt, Session, TokenRuntime
from sonorant.extras.codec_lm.graphs import export_step
from sonorant.extras.codec_lm.language_model import LanguageModel
from sonorant.extras.codec_lm.saved import load_codec, load_language_model
from sonorant.extras.codec_lm.source_codec import SourceCodec
from sonorant.extras.codec_lm.step_buffers import cache_names
from sonorant.extras.tensorrt.rules import check_graph
from sonorant.layers.kv_cache import DynamicCache
from sonorant.speech.bundle import Bundle, read_bundle
from sonorant.speech.runtimes import LoadOptions, load_runtime
from tests.support.runtimes import edited, padded, utterance
from tests.support.tiny_voice import CORPUS, DECODING, write_trained_codec_lm

LENGTHS = ([5, 2], [31], [9, 31, 3, 17])
"""Phonemes of each row, by batch."""
STEPS = 20
TOLERANCE = 1e-4


@pytest.fixture(
    params=[("codec_lm_bundle", "trained_codec_lm"), ("codec_lm_variants", "trained_prompted")],
    ids=["plain", "prompted"],
)
def voice(request: pytest.FixtureRequest) -> tuple[Bundle, LanguageModel, Path]:
    """A voice without prompts and one with prompts; the folder of its codec."""
    bundle, (speech, sound) = map(request.getfixturevalue, request.param)
    return read_bundle(bundle), load_language_model(speech)[0], sound


def session(bundle: Bundle, graph: str) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(bundle.graph_file(graph), providers=["CPUExecutionProvider"])


def arrays(*tensors: torch.Tensor) -> list[np.ndarray]:
    return [tensor.numpy() for tensor in tensors]


def with_rubbish(side: np.ndarray, axis: int) -> np.ndarray:
    return np.pad(side, [(0, 3 if axis == other else 0) for other in range(4)], constant_values=9.0)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@torch.inference_mode()
def test_encoder_prefill_and_steps_equal_torch(voice: tuple[Bundle, LanguageModel, Path], lengths: list[int]) -> None:
    bundle, model, _ = voice
    rows, codebooks = len(lengths), model.codebooks
    lengths_B, speaker_B = torch.tensor(lengths), torch.arange(rows) % 2
    tokens, _ = padded([utterance(length) for length in lengths])
    inputs = {"tokens": tokens, "lengths": lengths_B.numpy(), "speaker": speaker_B.numpy()}
    states_BNC = model.encode_speech(torch.from_numpy(inputs["tokens"]), lengths_B, speaker_B)
    np.testing.assert_allclose(session(bundle, "encoder").run(None, inputs)[0], states_BNC.numpy(), atol=TOLERANCE)

    random = torch.Generator().manual_seed(rows)
    prompts_B = torch.arange(rows) % 4  # the first row of each batch has none
    prompt_BPG = torch.randint(model.codes, (rows, max(1, int(prompts_B.max())), codebooks), generator=random)
    cache = DynamicCache(model.config.layers)
    model.prefill(states_BNC, lengths_B, prompt_BPG, prompts_B, cache)
    names = ("states", "lengths", "prompt", "prompt_lengths")
    *caches, positions_BS = session(bundle, "prefill").run(
        None, dict(zip(names, arrays(states_BNC, lengths_B, prompt_BPG, prompts_B), strict=True))
    )
    np.testing.assert_array_equal(positions_BS, cache.positions.numpy())
    for layer, (key, value) in enumerate(zip(caches[0::2], caches[1::2], strict=True)):
        np.testing.assert_allclose(key.swapaxes(2, 3), cache.keys[layer].numpy(), atol=TOLERANCE)
        np.testing.assert_allclose(value, cache.values[layer].numpy(), atol=TOLERANCE)

    axes = [3, 2] * model.config.layers  # slots of keys and values
    step, position_B = session(bundle, "step"), cache.positions.amax(1) + 1
    for number in range(STEPS):
        codes_BG = torch.randint(model.codes + 1, (rows, codebooks), generator=random)
        fed = codes_BG, states_BNC[:, number % min(lengths)], torch.full((rows,), number * 3), position_B + number
        # Empty slots with values must have no effect.
        room = [with_rubbish(side, slots) for side, slots in zip(caches, axes, strict=True)]
        given = dict(zip(("codes", "state", "age", "position"), arrays(*fed), strict=True))
        given["slot_position"] = np.pad(positions_BS, [(0, 0), (0, 3)], constant_values=-1)
        given |= dict(zip(cache_names(model.config.layers), room, strict=True))
        logits, advance, *new = step.run(None, given)
        for found, wanted in zip((logits, advance), model.step(*fed, cache), strict=True):
            np.testing.assert_allclose(found, wanted.numpy(), atol=TOLERANCE)
        positions_BS = np.concatenate([positions_BS, fed[3].numpy()[:, None]], 1)
        caches = [
            np.concatenate([side, np.expand_dims(own, slots)], slots)
            for side, own, slots in zip(caches, new, axes, strict=True)
        ]


@pytest.mark.parametrize("frames", [1, 2, 40])
def test_the_codecs_graphs_equal_torch(voice: tuple[Bundle, LanguageModel, Path], frames: int) -> None:
    bundle, _, sound = voice
    codec = load_codec(sound)[0]
    random = torch.Generator().manual_seed(frames)
    codes_BFG = torch.randint(codec.codes, (3, frames, codec.codebooks), generator=random)
    lengths_B = torch.tensor([frames, (frames + 1) // 2, 1])
    assert isinstance(codec, SourceCodec)
    with torch.inference_mode():
        frames_BDT = codec.frames(codes_BFG, lengths_B)
        given = {"frames": codec.with_source(frames_BDT).numpy(), "lengths": (lengths_B * codec.stride).numpy()}
        wanted = codec.decode(codes_BFG, lengths_B)
    found = session(bundle, "decoder").run(None, {"codes": codes_BFG.numpy(), "lengths": lengths_B.numpy()})[0]
    np.testing.assert_allclose(found, frames_BDT.numpy(), atol=TOLERANCE)
    found = session(bundle, "vocoder").run(None, given)[0]
    np.testing.assert_allclose(found, wanted.numpy(), atol=TOLERANCE)
    assert found.shape == (3, frames * codec.samples_per_frame)


def test_graphs_are_of_any_size_and_keep_tensorrts_rules(voice: tuple[Bundle, LanguageModel, Path]) -> None:
    bundle, _, _ = voice
    for name in bundle.graphs:
        graph = bundle.description.graphs[name]
        for variant in graph.variants:
            assert check_graph(bundle.graph_file(name, variant)) == []
        shapes = {tensor.name: tensor.shape for tensor in (*graph.inputs, *graph.outputs)}
        assert {shape[0] for shape in shapes.values()} == {"batch"}
        if name == "prefill":
            assert shapes["key_1"] == ("batch", 2, 8, "prompt + 1")
        if name == "step":
            assert shapes["key_1"] == ("batch", 2, 8, "slots")
            assert shapes["value_0"] == ("batch", 2, "slots", 8)
            assert shapes["new_key_0"] == shapes["new_value_1"] == ("batch", 2, 8)
    assert b".py" not in bundle.graph_file("step").read_bytes(), "the file holds source lines"


@pytest.mark.parametrize("attention", ["sliding", "block"])
def test_attention_that_sees_a_part_keeps_tensorrts_rules_and_gives_the_same_bytes(
    attention: str, tmp_path: Path
) -> None:
    model, _ = load_language_model(write_trained_codec_lm(tmp_path, attention=attention)[0])
    for name in ("first", "second"):
        export_step(model, tmp_path / name, ExportConfig(opset=20))
    assert check_graph(tmp_path / "first") == []
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_the_bundle_says_how_it_is_decoded(codec_lm_bundle: Path, trained_codec_lm: tuple[Path, Path]) -> None:
    description = read_bundle(codec_lm_bundle).description
    codec, decoding = load_codec(trained_codec_lm[1])[0], description.decoding
    assert (decoding.codebooks, decoding.codes, decoding.stride, decoding.samples_per_frame) == (2, 15, 2, 512)
    assert (decoding.layers, decoding.heads, decoding.head_width, decoding.advances) == (2, 2, 8, 3)
    assert decoding.silence == tuple(codec.silence.tolist())
    assert decoding.frames_per_second == 16000 / 512
    assert (decoding.frames_per_phoneme.median, decoding.frames_per_phoneme.p99) == (2.0, 4.0)
    assert decoding.defaults == DECODING
    assert isinstance(codec, SourceCodec) and description.family == "codec_lm"
    sees = description.receptive_field
    assert (sees.decoder, sees.vocoder) == (codec.frames_receptive_field, codec.receptive_field)
    assert set(description.provenance) == {"sonorant", "language_model", "codec"}


def test_a_codec_that_the_language_model_was_not_trained_on_is_refused(
    trained_codec_lm: tuple[Path, Path], tmp_path: Path
) -> None:
    _, other = write_trained_codec_lm(tmp_path / "other", seed=1)
    told = r"codec: not the codec that the language model was trained on; train it again: \w+"
    with pytest.raises(SonorantError, match=told):
        export_voice(trained_codec_lm[0], other, tmp_path / "voice", CORPUS, ExportConfig(opset=20), DECODING)
    assert not (tmp_path / "voice").exists()


def test_models_of_two_families_are_refused(
    trained: tuple[Path, Path], trained_codec_lm: tuple[Path, Path], tmp_path: Path
) -> None:
    speech, vocoder = trained_codec_lm[0], trained[1]
    for sources, told in (
        (Sources(speech, vocoder, decoding=DECODING), "vocoder: holds a model of kind 'vocoder', not 'codec'"),
        (Sources(vocoder, vocoder), "vocoder: holds a model of kind 'vocoder', not 'acoustic' or 'language_model'"),
        (Sources(*trained_codec_lm), "no decoding settings"),
    ):
        with pytest.raises(SonorantError, match=told):
            export_variants(sources, tmp_path / "voice", CORPUS, ExportConfig(opset=20))


def test_a_bundle_without_its_decoding_is_refused(codec_lm_bundle: Path, tmp_path: Path) -> None:
    copy = edited(codec_lm_bundle, tmp_path / "voice", lambda data: data.update(decoding=None))
    with pytest.raises(SonorantError, match=r"decoding: does not go with family codec_lm"):
        read_bundle(copy)


def test_a_prompt_is_heard(codec_lm_variants: Path) -> None:
    bundle = read_bundle(codec_lm_variants)
    runtime: TokenRuntime = load_runtime("onnxruntime", bundle, LoadOptions(threads=1))
    lengths, described = np.array([12]), bundle.description.decoding
    states = runtime.encode(utterance(12)[None], lengths, np.zeros(1, np.int64))

    def spoken(prompt: Prompt | None) -> np.ndarray:
        return Session(runtime.stepper(), states, lengths, described, DECODING, [(0, 0, 0)], prompt).more(20)

    padding, some = (spoken(Prompt(np.full((1, 3, 2), 7), np.array([length]))) for length in (0, 3))
    np.testing.assert_array_equal(spoken(None), padding)
    assert not np.array_equal(padding, some)
