"""TensorRT engines of a bundle's graphs, and the runtime for them."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    runtimes={"tensorrt": "sonorant.extras.tensorrt.runtime:TENSORRT"},
    settings={"engine": "sonorant.extras.tensorrt.key:EngineConfig"},
)
