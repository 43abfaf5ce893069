"""`sonorant plan`: memory, time and cost of a training or a corpus before it runs."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    programs={"plan": ("tasks", "memory, time and money that a training of params.yaml takes")},
)
