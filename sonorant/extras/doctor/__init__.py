"""`sonorant doctor`: checks of the machine, each finding with a hint."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    commands={"doctor": "sonorant.extras.doctor.command:add_doctor"},
)
