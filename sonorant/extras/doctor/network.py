"""Check the network between the ranks of several nodes; a single node needs only loopback."""

import fcntl
import os
import resource
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.extras.doctor.examination import Finding, ok, problem, warning
from sonorant.training.distributed.launch import Node, interface_towards

AREA = "network"

SIOCGIFADDR = 0x8915
"""Linux: ask for an interface's IPv4 address."""


def examine(env: Mapping[str, str]) -> Iterator[Finding]:
    """Findings of names, interfaces and the rendezvous in the environment `env`."""
    addresses = interface_addresses()
    try:
        node = Node.of(env)
    except SonorantError as error:
        hint = "set them as docs/training.md says for several nodes"
        yield problem(AREA, "rendezvous", f"PET_* variables: {error}", hint)
        node = Node()
    else:
        yield check_rendezvous(node)
    if env.get("GLOO_SOCKET_IFNAME"):
        yield check_named("gloo", "GLOO_SOCKET_IFNAME", env["GLOO_SOCKET_IFNAME"], addresses)
    else:
        yield check_gloo(node, addresses)
    if env.get("NCCL_SOCKET_IFNAME"):
        yield check_named("NCCL", "NCCL_SOCKET_IFNAME", env["NCCL_SOCKET_IFNAME"], addresses)
    yield from check_infiniband()


def check_rendezvous(node: Node) -> Finding:
    """Whether the first node, where all meet, has an address."""
    if node.count == 1:
        return ok(AREA, "rendezvous", "one node (PET_NNODES is not set above 1)")
    try:
        address = socket.gethostbyname(node.host)
    except OSError:
        hint = "name the first node so that all nodes find it"
        return problem(AREA, "rendezvous", f"{node.host} has no address", hint)
    first = f"the first is {node.host} ({address}), port {node.port}"
    return ok(AREA, "rendezvous", f"node {node.rank} of {node.count}; {first}")


def check_gloo(node: Node, addresses: Mapping[str, str]) -> Finding:
    """The interface gloo takes: with several nodes the one towards the first, else that of this machine's name."""
    if node.count > 1:
        try:
            interface = interface_towards(node.host)
        except SonorantError as error:
            hint = "export PET_MASTER_ADDR=<an address of the first node that all nodes reach>"
            return problem(AREA, "gloo", str(error), hint)
        if interface is None:
            hint = "export GLOO_SOCKET_IFNAME=<interface>"
            return warning(AREA, "gloo", f"no interface towards {node.host} is known", hint)
        return ok(AREA, "gloo", f"interface {interface}, by the route to {node.host}")
    host = socket.gethostname()
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return warning(AREA, "gloo", f"this machine's name, {host}, has no address", "export GLOO_SOCKET_IFNAME=lo")
    name = next((name for name, own in addresses.items() if own == address), "unknown")
    return ok(AREA, "gloo", f"{host} is {address}, interface {name}")


def check_named(who: str, variable: str, wanted: str, addresses: Mapping[str, str]) -> Finding:
    """Whether the interface named by an environment variable exists; NCCL accepts prefixes, `=exact` and `^but not`."""
    exact = wanted.startswith("=") or who == "gloo"
    names = [name.strip() for name in wanted.lstrip("=").split(",")]
    present = all(any(name == own if exact else own.startswith(name) for own in addresses) for name in names)
    if wanted.startswith("^") or present:
        used = ", ".join(f"{own} {address}" for own, address in addresses.items() if own.startswith(tuple(names)))
        return ok(AREA, who, f"{variable}={wanted}" + (f": {used}" if used else ""))
    value = f"{variable}={wanted}, which has no IPv4 address here"
    return problem(AREA, who, value, f"export {variable}=<one of: {', '.join(addresses) or 'none'}>")


def check_infiniband(devices: Path = Path("/sys/class/infiniband")) -> Iterator[Finding]:
    """InfiniBand cards, if any, and whether their memory may be locked."""
    names = sorted(entry.name for entry in devices.iterdir()) if devices.is_dir() else []
    if not names:
        return
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if locked != resource.RLIM_INFINITY and os.geteuid() != 0:
        value = f"{', '.join(names)}; only {locked // 1024} KiB of memory may be locked"
        hint = "ulimit -l unlimited (in a container --ulimit memlock=-1), or NCCL_IB_DISABLE=1 to go without"
        yield problem(AREA, "InfiniBand", value, hint)
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
