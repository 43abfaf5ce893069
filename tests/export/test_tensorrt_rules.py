"""All that is exported keeps TensorRT's published rules: every graph in every precision, with either decoder."""

from __future__ import annotations

from pathlib import Path

from sonorant.export.onnx import ExportConfig
from sonorant.families.parallel.graphs import export_decoder
from sonorant.families.parallel.saved import load_acoustic
from sonorant.runtime.bundle import read_bundle
from sonorant.tensorrt.rules import check_graph
from tests.support.tiny_voice import write_trained


def test_every_graph_of_every_variant_keeps_the_rules(variants: Path) -> None:
    files = [
        variants / f"{graph}.{variant}.onnx"
        for graph in read_bundle(variants).graphs
        for variant in ("fp32", "fp16", "bf16", "int8")
    ]
    assert {file.name: check_graph(file) for file in files} == {file.name: [] for file in files}


def test_the_other_decoder_keeps_the_rules(export_config: ExportConfig, tmp_path: Path) -> None:
    acoustic, _ = write_trained(tmp_path, decoder="flow")
    export_decoder(load_acoustic(acoustic)[0], tmp_path / "flow.onnx", export_config)
    assert check_graph(tmp_path / "flow.onnx") == []
