"""A third family of voice, as an installed package would bring it: this folder and one entry point."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(families={"toy": "tests.families.toy.family:TOY"})
