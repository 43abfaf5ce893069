"""The runtime `tensorrt`: entry in the runtime table, loader and static check of graphs. Importing this does not
require TensorRT."""

from sonorant.extras.tensorrt.engines import Engines
from sonorant.extras.tensorrt.key import this_machine
from sonorant.extras.tensorrt.rules import check_graph
from sonorant.speech.bundle import Bundle
from sonorant.speech.runtimes import ExtraRuntime, LoadOptions, Runtime, RuntimeRow


def load_parallel(bundle: Bundle, options: LoadOptions) -> Runtime:
    """Load a bundle's engines. Raises SonorantError if one is missing or stale."""
    engines = Engines(bundle, this_machine(), options.engines)
    from sonorant.extras.tensorrt.parallel_runtime import load_engines

    return load_engines(bundle, engines, options)


TENSORRT = ExtraRuntime(
    row=RuntimeRow(name="tensorrt", engine="tensorrt", device="cuda", needs="TensorRT, cuda-bindings", strict=True),
    loaders={"parallel": load_parallel},
    check_graph=check_graph,
)
