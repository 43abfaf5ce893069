"""Whether a variant's files are what the bundle says, before anything runs them. Knows nothing of what they compute."""

from __future__ import annotations

from sonorant.errors import SonorantError
from sonorant.export.fault import Fault
from sonorant.export.voice import read_tensors
from sonorant.runtime.bundle import Bundle, VoiceDescription

Dtypes = dict[str, str]

PARALLEL: dict[str, tuple[Dtypes, Dtypes]] = {
    "encoder": (
        {"tokens": "int64", "lengths": "int64", "speaker": "int64", "speed": "float32"},
        {"states": "float32", "ends": "int64"},
    ),
    "decoder": ({"states": "float32", "ends": "int64", "time": "int64"}, {"mel": "float32"}),
    "vocoder": ({"mel": "float32", "lengths": "int64"}, {"samples": "float32"}),
}


def interface_of(description: VoiceDescription) -> dict[str, tuple[Dtypes, Dtypes]]:
    """By graph: names and dtypes of the inputs and outputs that every runtime counts on, whatever it computes in between."""
    decoding = description.decoding
    if decoding is None:
        return PARALLEL
    cache = {f"{side}_{layer}": "float32" for side in ("key", "value") for layer in range(decoding.layers)}
    step = {"codes": "int64", "state": "float32", "age": "int64", "position": "int64", "slot_position": "int64"}
    prompt = {"prompt": "int64", "prompt_lengths": "int64"}
    return {
        "encoder": ({"tokens": "int64", "lengths": "int64", "speaker": "int64"}, {"states": "float32"}),
        "prefill": ({"states": "float32", "lengths": "int64", **prompt}, {**cache, "position": "int64"}),
        "step": ({**step, **cache}, {"logits": "float32", "advance": "float32", **{f"new_{name}": "float32" for name in cache}}),
        "vocoder": ({"codes": "int64", "lengths": "int64"}, {"samples": "float32"}),
    }


def check_files(bundle: Bundle, variant: str) -> dict[str, int]:
    """Bytes of each graph's file. Raises Fault where one is absent or not the bytes that the bundle describes."""
    try:
        return {graph: bundle.graph_file(graph, variant).stat().st_size for graph in bundle.graphs}
    except SonorantError as error:
        raise Fault(str(error)) from None


def check_interface(bundle: Bundle, variant: str) -> None:
    """Raises Fault naming the graph whose inputs or outputs have other names, dtypes or shapes than every runtime counts on."""
    for graph, wanted in interface_of(bundle.description).items():
        described = bundle.description.graphs[graph]
        try:
            found = read_tensors(bundle.graph_file(graph, variant))
        except SonorantError as error:
            raise Fault(str(error)) from None
        for kind, tensors, names, told in zip(
            ("inputs", "outputs"), found, wanted, (described.inputs, described.outputs), strict=True
        ):
            got = {tensor.name: tensor.dtype for tensor in tensors}
            if got != names:
                raise Fault(f"graph {graph}: its {kind} are {got}, must be {names}; export the voice again")
            if tensors != told:
                raise Fault(f"graph {graph}: its {kind} are not those that voice.json describes; export the voice again")
