from pathlib import Path

import pytest

from sonorant.errors import SonorantError
from sonorant.export.bundling import Sources, export_variants, export_voice
from sonorant.export.onnx_graph import ExportConfig
from sonorant.extras.codec_lm.saved import load_codec
from sonorant.extras.codec_lm.source_codec import SourceCodec
from sonorant.extras.tensorrt.rules import check_graph
from sonorant.speech.bundle import read_bundle
from tests.support.runtimes import edited
from tests.support.tiny_voice import CORPUS, DECODING, write_trained_codec_lm


def test_graphs_are_of_any_size_and_keep_tensorrts_rules(codec_lm_variants: Path) -> None:
    bundle = read_bundle(codec_lm_variants)
    for name in bundle.graphs:
        graph = bundle.description.graphs[name]
        for variant in graph.variants:
            assert check_graph(bundle.graph_file(name, variant)) == []
        shapes = {tensor.name: tensor.shape for tensor in (*graph.inputs, *graph.outputs)}
        assert {shape[0] for shape in shapes.values()} == {"batch"}
    assert b".py" not in bundle.graph_file("step").read_bytes(), "the file holds source lines"


def test_the_bundle_says_how_it_is_decoded(codec_lm_bundle: Path, trained_codec_lm: tuple[Path, Path]) -> None:
    description = read_bundle(codec_lm_bundle).description
    codec, decoding = load_codec(trained_codec_lm[1])[0], description.decoding
    assert (decoding.codebooks, decoding.codes, decoding.stride, decoding.samples_per_frame) == (2, 15, 2, 512)
    assert (decoding.layers, decoding.heads, decoding.head_width, decoding.advances) == (2, 2, 8, 3)
    assert (decoding.frames_per_second, decoding.defaults) == (16000 / 512, DECODING)
    assert isinstance(codec, SourceCodec) and description.family == "codec_lm"
    sees = description.receptive_field
    assert (sees.decoder, sees.vocoder) == (codec.frames_receptive_field, codec.receptive_field)


def test_a_codec_that_the_language_model_was_not_trained_on_is_refused(
    trained_codec_lm: tuple[Path, Path], tmp_path: Path
) -> None:
    _, other = write_trained_codec_lm(tmp_path / "other", seed=1)
    told = r"codec: not the codec that the language model was trained on; train the language model again: \w+"
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
    with pytest.raises(SonorantError, match=r"decoding: does not match family codec_lm"):
        read_bundle(copy)
