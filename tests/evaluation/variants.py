import dataclasses
import shutil
from pathlib import Path

from sonorant.files import write_json
from sonorant.speech.bundle import DESCRIPTION, BundledFile, read_bundle


def with_copies(bundle: Path, out: Path, *variants: str) -> Path:
    """Copy a bundle to `out`, with fp32's graphs as each of `variants`."""
    shutil.copytree(bundle, out)
    for name in read_bundle(bundle).description.graphs:
        for variant in variants:
            replace_graph(out, name, variant, bundle / f"{name}.fp32.onnx")
    return out


def replace_graph(bundle: Path, name: str, variant: str, content: Path) -> None:
    description = read_bundle(bundle).description
    target = bundle / f"{name}.{variant}.onnx"
    shutil.copyfile(content, target)
    files = description.graphs[name].variants | {variant: BundledFile.of(target)}
    graphs = description.graphs | {name: dataclasses.replace(description.graphs[name], variants=files)}
    write_json(bundle / DESCRIPTION, dataclasses.asdict(dataclasses.replace(description, graphs=graphs, sha256=None)))
