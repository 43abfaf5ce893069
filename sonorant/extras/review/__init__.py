"""`sonorant review`: a local page to keep, drop or edit doubtful clips."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    programs={"review": ("tasks", "listen to recordings on a local page, worst first, and keep, drop or edit them")},
)
