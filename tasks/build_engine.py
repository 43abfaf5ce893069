"""Action `build_engine`: build TensorRT engines of a voice bundle's graphs for this machine's GPU."""

import argparse
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.extras.tensorrt.engines import Engines
from sonorant.extras.tensorrt.key import EngineConfig, this_machine
from sonorant.speech.bundle import Bundle, read_bundle
from tasks.params import load
from tasks.stage import add_inputs, run


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tasks.build_engine",
        description="Build TensorRT engines of a voice bundle for this machine's GPU, unless one exists for the same "
        "graph, GPU, TensorRT and settings. "
        "Settings: params.yaml, section 'engine'.",
        epilog="Requires TensorRT 10 or 11 and a GPU; see docs/deploy.md.",
    )
    add_inputs(parser, "voice")
    parser.add_argument("--variant", action="append", help="variant of the graphs; repeatable (default: all)")
    parser.add_argument(
        "--engines", type=Path, help="folder to write (default: the bundle's folder in the user's cache)"
    )
    arguments = parser.parse_args()
    config, bundle = load("engine", EngineConfig), read_bundle(arguments.voice)
    engines = Engines(bundle, this_machine(), arguments.engines)
    for variant in arguments.variant or all_variants(bundle):
        for graph in bundle.graphs:
            print(f"{engines.folder}: {graph} {variant}: {engines.build(graph, variant, config)}", flush=True)


def all_variants(bundle: Bundle) -> list[str]:
    """Return the variants that all graphs have. Raises SonorantError if there are none."""
    graphs = [bundle.description.graphs[graph].variants for graph in bundle.graphs]
    shared = [variant for variant in graphs[0] if all(variant in variants for variants in graphs)]
    if not shared:
        graphs_named = ", ".join(bundle.graphs)
        raise SonorantError(f"{bundle.folder}: no variant is common to {graphs_named}; export the voice again")
    return shared


if __name__ == "__main__":
    run(main)
