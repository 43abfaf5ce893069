"""Import corpora of long recordings and their texts."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    corpora={"long": "sonorant.extras.long.importer:import_corpus"},
)
