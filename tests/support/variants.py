import dataclasses
import shutil
from pathlib import Path

from sonorant.speech.bundle import BundledFile, read_bundle, write_bundle


def with_variant(bundle: Path, out: Path, variant: str, graphs: dict[str, Path]) -> Path:
    """Copy `bundle` to `out` with an added variant: `graphs` are its files, the default's are used for the rest."""
    source = read_bundle(bundle)
    described, files = {}, []
    for name in source.graphs:
        graph = source.description.graphs[name]
        own = out.with_name(f"{name}.{variant}.onnx")
        shutil.copyfile(graphs.get(name, source.graph_file(name)), own)
        files += [own, *(source.folder / file.file for file in graph.variants.values())]
        described[name] = dataclasses.replace(graph, variants={**graph.variants, variant: BundledFile.of(own)})
    write_bundle(out, dataclasses.replace(source.description, graphs=described), files)
    return out
