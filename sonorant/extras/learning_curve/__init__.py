"""`sonorant curve`: error rates by minutes of recordings, and a power law through them."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    programs={"curve": ("flows", "would more recordings help? the same training on fewer minutes")},
)
