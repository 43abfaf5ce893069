"""The graphs of the family parallel as a `sonorant.runtime.runtimes.Runtime`, whatever computes them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from sonorant.arrays import Floats, Ints

Arrays = Mapping[str, NDArray[Any]]

OUTPUTS = {"encoder": ["states", "ends"], "decoder": ["mel"], "vocoder": ["samples"]}
"""Names of each graph's outputs, in order."""


class GraphRuntime(ABC):
    """A runtime that computes one graph at a time, by name."""

    @abstractmethod
    def run(self, graph: str, inputs: Arrays) -> Arrays:
        """Outputs of a graph by name. `inputs` come in the order of the graph's inputs."""

    def encode(self, tokens: Ints, lengths: Ints, speaker: Ints, speed: Floats) -> tuple[Floats, Ints]:
        inputs: Arrays = {"tokens": tokens, "lengths": lengths, "speaker": speaker, "speed": speed}
        found = self.run("encoder", inputs)
        return found["states"], found["ends"]

    def decode(self, states: Floats, ends: Ints, time: Ints) -> Floats:
        return self.run("decoder", {"states": states, "ends": ends, "time": time})["mel"]

    def vocode(self, mel: Floats, lengths: Ints) -> Floats:
        return self.run("vocoder", {"mel": mel, "lengths": lengths})["samples"]
