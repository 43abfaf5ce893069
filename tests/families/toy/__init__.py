"""A third voice family, as an installed package would provide it: this folder and one entry point."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(families={"toy": "tests.families.toy.family:TOY"})
