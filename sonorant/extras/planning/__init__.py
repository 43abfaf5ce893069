"""`sonorant plan`: estimate the memory, time and cost of a training run in advance."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    programs={"plan": ("tasks", "estimate the memory, time and cost of a training of params.yaml")},
)
