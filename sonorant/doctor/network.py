"""The network that ranks of several nodes talk over. Knows nothing of what they say; where nodes are one, loopback will do."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from sonorant.doctor.finding import Finding, ok, problem, warning

AREA = "network"

SIOCGIFADDR = 0x8915
"""Linux: ask for an interface's IPv4 address."""


def look(env: Mapping[str, str]) -> Iterator[Finding]:
    """Findings of names, interfaces and the rendezvous in the environment `env`."""
    several = env.get("PET_NNODES", "1") not in ("", "1")
    addresses = interface_addresses()
    yield find_gloo(env, addresses, several)
    if env.get("NCCL_SOCKET_IFNAME"):
        yield find_named("NCCL", "NCCL_SOCKET_IFNAME", env["NCCL_SOCKET_IFNAME"], addresses)
    yield find_rendezvous(env, several)
    yield from find_infiniband()


def find_gloo(env: Mapping[str, str], addresses: dict[str, str], several: bool) -> Finding:
    """The interface gloo takes: the one it is told, else the one that this machine's name leads to."""
    if env.get("GLOO_SOCKET_IFNAME"):
        return find_named("gloo", "GLOO_SOCKET_IFNAME", env["GLOO_SOCKET_IFNAME"], addresses)
    outside = [name for name, address in addresses.items() if not address.startswith("127.")]
    mend = f"export GLOO_SOCKET_IFNAME={outside[0] if outside else '<interface>'} on every node"
    host = socket.gethostname()
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return (problem if several else warning)(AREA, "gloo", f"the name of this machine, {host}, has no address", mend)
    name = next((name for name, own in addresses.items() if own == address), None)
    value = f"{host} is {address}, interface {name or 'unknown'}"
    if several and address.startswith("127."):
        return problem(AREA, "gloo", f"{value}: other nodes cannot reach it", mend)
    return ok(AREA, "gloo", value)


def find_named(who: str, variable: str, wanted: str, addresses: dict[str, str]) -> Finding:
    """Whether the interface that an environment variable names is there; NCCL takes prefixes, `=exact` and `^but not`."""
    exact = wanted.startswith("=") or who == "gloo"
    names = [name.strip() for name in wanted.lstrip("=").split(",")]
    present = all(any(name == own if exact else own.startswith(name) for own in addresses) for name in names)
    if wanted.startswith("^") or present:
        used = ", ".join(f"{own} {address}" for own, address in addresses.items() if any(own.startswith(name) for name in names))
        return ok(AREA, who, f"{variable}={wanted}" + (f": {used}" if used else ""))
    return problem(
        AREA,
        who,
        f"{variable}={wanted}, which has no IPv4 address here",
        f"export {variable}=<one of: {', '.join(addresses) or 'none'}>",
    )


def find_rendezvous(env: Mapping[str, str], several: bool) -> Finding:
    """Whether the node where all meet has an address."""
    place = env.get("PET_RDZV_ENDPOINT") or env.get("PET_MASTER_ADDR") or ""
    if not several:
        return ok(AREA, "rendezvous", "one node (PET_NNODES is not set above 1)")
    if not place:
        return problem(
            AREA,
            "rendezvous",
            f"PET_NNODES={env['PET_NNODES']} but nowhere to meet",
            "export PET_MASTER_ADDR=<name of the first node> PET_MASTER_PORT=29400 PET_NODE_RANK=<number of this node>",
        )
    host = place.rsplit(":", 1)[0] if place.count(":") == 1 else place
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return problem(AREA, "rendezvous", f"{host} has no address", "name the first node so that all nodes find it")
    return ok(AREA, "rendezvous", f"{place} is {address}")


def find_infiniband(devices: Path = Path("/sys/class/infiniband")) -> Iterator[Finding]:
    """Fast network cards, where there are any, and whether their memory may be locked."""
    import resource

    names = sorted(entry.name for entry in devices.iterdir()) if devices.is_dir() else []
    if not names:
        return
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if locked != resource.RLIM_INFINITY and os.geteuid() != 0:
        yield problem(
            AREA,
            "InfiniBand",
            f"{', '.join(names)}; only {locked // 1024} KiB of memory may be locked",
            "ulimit -l unlimited (in a container --ulimit memlock=-1), or NCCL_IB_DISABLE=1 to go without",
        )
    else:
        yield ok(AREA, "InfiniBand", ", ".join(names))


def interface_addresses() -> dict[str, str]:
    """IPv4 address of each interface that has one; empty on systems other than Linux."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        for _, name in socket.if_nameindex():
            try:
                reply = fcntl.ioctl(asker, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            found[name] = socket.inet_ntoa(reply[20:24])
    return found
