"""This machine among the machines of one training, as torchrun's PET_* variables have it. Knows nothing of ranks or models."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from sonorant.errors import SonorantError

DEFAULT_PORT = "29500"
LOCAL = ("localhost", "127.0.0.1", "::1")
"""Names that can only mean: all nodes are on this machine."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """One machine of a training."""

    rank: int = 0
    """0 is the first node: it writes the model and the run directory, and holds the rendezvous."""
    count: int = 1
    """How many machines train together."""
    host: str = ""
    """Address of the first node; empty where there is only one."""
    port: str = DEFAULT_PORT
    """Of the rendezvous on the first node."""

    @property
    def first(self) -> bool:
        """Whether this is the node with global rank 0."""
        return self.rank == 0

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Node:
        """From PET_NNODES, PET_NODE_RANK and PET_RDZV_ENDPOINT or PET_MASTER_ADDR with PET_MASTER_PORT. Raises SonorantError."""
        count = env.get("PET_NNODES", "1")
        if not count.isdigit() or int(count) < 1:
            raise SonorantError(
                f"PET_NNODES={count}: give one number; a training goes on with other machines by being started again"
            )
        if count == "1":
            return cls()
        rank = env.get("PET_NODE_RANK", "")
        if not rank.isdigit() or int(rank) >= int(count):
            raise SonorantError(f"PET_NODE_RANK={rank or '(unset)'}: of {count} nodes the first needs 0, the last {int(count) - 1}")
        host, _, port = env.get("PET_RDZV_ENDPOINT", "").rpartition(":")
        if not host:
            host, port = port or env.get("PET_MASTER_ADDR", ""), env.get("PET_MASTER_PORT", DEFAULT_PORT)
        if not host:
            raise SonorantError("PET_MASTER_ADDR is unset: it is the first node's address, the same on every node")
        return cls(rank=int(rank), count=int(count), host=host, port=port)


def interface_towards(host: str) -> str | None:
    """Name of the network interface by which this machine reaches `host`; None where that cannot be told.

    gloo takes the one that the machine's own name leads to, on many systems loopback, where no other node finds it. Raises
    SonorantError if `host` is such a name.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # sends nothing: only the route is looked up
            own = probe.getsockname()[0]
            if own.startswith("127.") and host not in LOCAL:
                raise SonorantError(f"the first node's address {host} is loopback on this node: give one that all nodes can reach")
            return next((name for _, name in socket.if_nameindex() if _address(probe, name) == own), None)
    except OSError:
        return None


def _address(probe: socket.socket, interface: str) -> str | None:
    ask_address = 0x8915  # SIOCGIFADDR of Linux
    try:
        return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), ask_address, struct.pack("256s", interface.encode()[:15]))[20:24])
    except OSError:
        return None
