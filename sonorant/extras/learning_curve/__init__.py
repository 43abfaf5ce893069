"""`sonorant curve`: error rates as a function of the minutes of recordings, fitted by a power law."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    programs={"curve": ("flows", "estimate whether more recordings would help, by training on fewer minutes")},
)
