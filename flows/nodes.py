"""Start, monitor and cancel the other nodes of a training run, each in a run of the deployment `train-node`.

Node 0 is the process of the stage.
"""

import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from prefect import get_run_logger
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL
from prefect.states import Cancelled, Cancelling, State

from flows.command import run_logged
from flows.graph import read_graph
from sonorant.errors import SonorantError
from tasks.origin import origin_tags

DEPLOYMENT = "train-node/node"
WORKER = "prefect worker start --pool sonorant-nodes --limit 1"
ADDRESS = "SONORANT_NODE_ADDRESS"
POLL_SECONDS = 2.0
FINISH_SECONDS = 30.0
"""Maximum seconds for the other nodes to finish after node 0."""
CANCEL_SECONDS = 45.0
"""Maximum seconds for a cancelled node to stop; Prefect's worker gives its processes 30."""


@dataclass(frozen=True, kw_only=True)
class Nodes:
    count: int
    shared: bool
    """Whether all nodes have the project under the same path; otherwise they fetch features from DVC's remote."""
    join_seconds: int
    """Maximum seconds for all nodes to join."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One node's part of a training run; the parameter of the node's flow run."""

    stage: str
    rank: int
    count: int
    endpoint: str
    """host:port of the first node."""
    meeting: str
    """Id of this attempt, which excludes nodes of other attempts."""
    join_seconds: int
    commit: str
    folder: str | None = None
    """Project folder of the first node, if shared; None means that the node copies its local project and fetches
    features."""
    params: str = ""
    lock: str = ""
    """Contents of the first node's dvc.lock, for the node's copy of the project."""

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PET_NNODES": str(self.count),
            "PET_NODE_RANK": str(self.rank),
            "PET_RDZV_ENDPOINT": self.endpoint,
            "PET_RDZV_ID": self.meeting,
            "PET_RDZV_CONF": f"timeout={self.join_seconds}",
        }


def first_part(stage: str, root: Path, where: Path, nodes: Nodes) -> Part:
    """Return node 0's part in training `stage` of the project `root` in the folder `where`.

    Unless the folder is shared, push the stage's inputs to DVC's remote for the other nodes.
    """
    if not nodes.shared:
        push = [sys.executable, "-m", "dvc", "push", *map(str, read_graph(where).inputs[stage])]
        why = "cannot push its features for the other nodes; add a DVC remote (dvc remote add) or set shared=true"
        run_logged(f"stage '{stage}': {why}", push, where, {})
    return Part(
        stage=stage,
        rank=0,
        count=nodes.count,
        endpoint=f"{own_address()}:{_free_port()}",
        meeting=secrets.token_hex(8),
        join_seconds=nodes.join_seconds,
        commit=origin_tags(root).get("git_commit", "unknown"),
        folder=str(where) if nodes.shared else None,
        params="" if nodes.shared else (where / "params.yaml").read_text(encoding="utf-8"),
        lock="" if nodes.shared else (where / "dvc.lock").read_text(encoding="utf-8"),
    )


@contextmanager
def other_nodes(first: Part) -> Iterator[Callable[[], None]]:
    """Start the other nodes and yield a function to call often, which raises SonorantError if a node has failed.

    When the block finishes, wait for the nodes; when it raises, cancel them.
    """
    others = OtherNodes(first)
    try:
        others.start()
        yield others.check
    except Exception:
        others.cancel(CANCEL_SECONDS)
        raise
    except BaseException:  # this run is cancelled and has only seconds left
        others.cancel(0.0)
        raise
    others.finish()


class OtherNodes:
    def __init__(self, first: Part) -> None:
        self._first = first
        self._logger = get_run_logger()
        self._deadline = time.monotonic() + first.join_seconds
        self._next = 0.0
        self._runs: dict[int, Any] = {}

    def start(self) -> None:
        first = self._first
        try:
            for rank in range(1, first.count):
                part, name = {"part": asdict(replace(first, rank=rank))}, f"{first.stage} {first.meeting} {rank}"
                run: Any = run_deployment(DEPLOYMENT, parameters=part, flow_run_name=name, timeout=0)
                self._runs[rank] = run.id
        except ObjectNotFound:
            raise SonorantError(f"Prefect has no deployment {DEPLOYMENT}; run: prefect deploy --all") from None
        self._logger.info("%s waits for %d other nodes at %s", first.stage, first.count - 1, first.endpoint)

    def check(self) -> None:
        """Check the nodes, no more often than every `POLL_SECONDS`. An unreachable server does not stop training."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + POLL_SECONDS
        with get_client(sync_client=True) as client:
            for rank in self._runs:
                state = self._state(client, rank)
                if state is None:
                    continue
                if state.is_final() and not state.is_completed():
                    raise SonorantError(
                        f"node {rank} ended in state {state.name}: {' '.join((state.message or '').split())}"
                    )
                if now > self._deadline and not (state.is_running() or state.is_final()):
                    started = f"run on each other node: {WORKER}"
                    raise SonorantError(f"no worker started node {rank} in time (state {state.name}); {started}")

    def finish(self) -> None:
        """Wait for the nodes to finish; cancel those that do not finish in time, such as nodes that never joined."""
        if not self._ended(FINISH_SECONDS):
            self.cancel(CANCEL_SECONDS)

    def cancel(self, patience: float) -> None:
        """Cancel all nodes; after `patience` seconds, force their states, to free their slots in the pool."""
        self._set(Cancelling())
        if patience and not self._ended(patience):
            self._set(Cancelled(message="the node did not respond"), force=True)

    def _set(self, state: State[Any], force: bool = False) -> None:
        with get_client(sync_client=True) as client:
            for rank, run in self._runs.items():
                now = self._state(client, rank)
                if now is None or not now.is_final():
                    try:
                        client.set_flow_run_state(run, state, force=force)
                        self._logger.info("node %d: %s", rank, state.name)
                    except Exception as error:
                        self._logger.warning("node %d could not be cancelled: %s", rank, error)

    def _ended(self, patience: float) -> bool:
        deadline = time.monotonic() + patience
        with get_client(sync_client=True) as client:
            while not all((state := self._state(client, rank)) is not None and state.is_final() for rank in self._runs):
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.5)
        return True

    def _state(self, client: SyncPrefectClient, rank: int) -> State[Any] | None:
        try:
            return client.read_flow_run(self._runs[rank]).state
        except Exception as error:
            self._logger.warning("the state of node %d is unknown: %s", rank, error)
            return None


def own_address() -> str:
    """Return SONORANT_NODE_ADDRESS, or this machine's address on the route to Prefect's server. Raises SonorantError if
    that is a loopback address."""
    named = os.environ.get(ADDRESS)
    if named:
        return named
    server = urlparse(PREFECT_API_URL.value() or "").hostname or "localhost"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((server, 9))  # only looks up the route
            address = str(probe.getsockname()[0])
        except OSError:
            address = "127.0.0.1"
    if address.startswith("127."):
        raise SonorantError(f"Prefect's server is on loopback; set {ADDRESS} to an address that other nodes can reach")
    return address


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])
