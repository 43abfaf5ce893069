"""`sonorant doctor`: check the machine and suggest remedies."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    commands={"doctor": "sonorant.extras.doctor.command:add_doctor"},
)
