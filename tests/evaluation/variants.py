"""Bundles with more variants than fp32, made of its own files: what they compute is known."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from sonorant.files import write_json
from sonorant.runtime.bundle import DESCRIPTION, GraphFile, read_bundle


def with_copies(bundle: Path, out: Path, *variants: str) -> Path:
    """Copy a bundle to `out`, with fp32's graphs once more as each of the `variants`."""
    shutil.copytree(bundle, out)
    description = read_bundle(out).description
    graphs = {}
    for name, graph in description.graphs.items():
        files = dict(graph.variants)
        for variant in variants:
            copy = out / f"{name}.{variant}.onnx"
            shutil.copyfile(out / files["fp32"].file, copy)
            files[variant] = GraphFile.of(copy, variant)
        graphs[name] = dataclasses.replace(graph, variants=files)
    write_json(out / DESCRIPTION, dataclasses.asdict(dataclasses.replace(description, graphs=graphs)))
    return out


def replace_graph(bundle: Path, name: str, variant: str, content: Path) -> None:
    """Put another file in the place of one graph's variant."""
    description = read_bundle(bundle).description
    target = bundle / description.graphs[name].variants[variant].file
    shutil.copyfile(content, target)
    files = description.graphs[name].variants | {variant: GraphFile.of(target, variant)}
    graphs = description.graphs | {name: dataclasses.replace(description.graphs[name], variants=files)}
    write_json(bundle / DESCRIPTION, dataclasses.asdict(dataclasses.replace(description, graphs=graphs)))
