"""Export a voice for sherpa-onnx, or as a page that speaks in a browser."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    commands={
        "export-sherpa": "sonorant.extras.elsewhere.command:add_export_sherpa",
        "export-page": "sonorant.extras.elsewhere.command:add_export_page",
    },
)
