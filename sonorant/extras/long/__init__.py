"""Recordings of minutes to hours beside their texts, cut into utterances."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    corpora={"long": "sonorant.extras.long.importer:import_corpus"},
)
