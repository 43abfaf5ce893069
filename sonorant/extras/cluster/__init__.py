"""Spread work over several machines with a Dask cluster."""

from sonorant.plugins import Plugin

PLUGIN = Plugin(
    executors=dict.fromkeys(("tcp", "tls"), "sonorant.extras.cluster.flight:spread_over"),
    commands={
        "scheduler": "sonorant.extras.cluster.command:add_scheduler",
        "worker": "sonorant.extras.cluster.command:add_worker",
    },
)
