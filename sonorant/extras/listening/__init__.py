"""`sonorant listen`: a blind listening test of two voices on a local page."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    commands={"listen": "sonorant.extras.listening.command:add_listen"},
)
