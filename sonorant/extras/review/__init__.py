"""`sonorant review`: a local page to keep, drop or edit doubtful clips."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    programs={"review": ("tasks", "a local page: listen to doubtful recordings first, then keep, drop or edit them")},
)
