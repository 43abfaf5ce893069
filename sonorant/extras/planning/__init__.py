"""`sonorant plan`: estimate memory, time and cost of a training before it runs."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    programs={"plan": ("tasks", "estimate the memory, time and cost of a training of params.yaml")},
)
