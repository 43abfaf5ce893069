"""The server's process: voices loaded, HTTP by uvicorn, an end in which nothing is lost."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import math
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import uvicorn

from sonorant.errors import SonorantError
from sonorant.processes import usable_cores
from sonorant.serving.app import application
from sonorant.serving.connections import PatientProtocol, allowed_connections
from sonorant.serving.following import fetch, follow
from sonorant.serving.keys import Keys
from sonorant.serving.prometheus import Metrics
from sonorant.serving.request_checks import HEAD_BYTES, LOOPBACK, host_name
from sonorant.serving.service import Service
from sonorant.serving.threads import in_daemon_thread
from sonorant.serving.turns import Turns
from sonorant.serving.voices import Offer, Voices
from sonorant.serving.webhook import PATH
from sonorant.serving.wish import LIMITS

SEND_BUFFER = 128 * 1024
"""Bytes that the system keeps for a listener, beside those that wait here."""
POLL_SECONDS, POLL_SECONDS_CALLED = 5.0, 60.0
WEBHOOK_SECRET = "SONORANT_WEBHOOK_SECRET"
"""Environment variable; needed where several servers stand behind one address. Without it each start draws one."""
FILES = 100
"""That the server has open beside connections, and beside a pipe to each process, of which there are twice as many
while a newer version is loaded."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ServeConfig:
    """How a server is run."""

    offers: tuple[Offer, ...]
    host: str = "127.0.0.1"
    allow_hosts: Sequence[str] = ()
    """Names by which it may be called, such as that of the proxy before it, beside its own; without any, a server on
    loopback has its own alone, and another goes by every name."""
    port: int = 8000
    """0 = any free one."""
    workers: int | None = None
    """Processes that speak of each voice; None = one a core."""
    streams: int = 16
    """Requests that each of them speaks in turns."""
    queue: int = 128
    """Requests that may wait beyond those."""
    characters: int = LIMITS.characters
    """Of one request."""
    memory_mib: int | None = None
    """That all voices may take; None = any."""
    poll_seconds: float | None = None
    """Between two questions to the registry; None = 5, and 60 where it calls."""
    webhook: str | None = None
    """Address at which the registry reaches this server, to call it when an alias moves."""
    keys: Path | None = None
    """File of API keys; None = whoever reaches the server may speak."""
    log_texts: bool = False
    page: bool = True
    """Whether there is a page to type a text and hear it; never beside keys, as it has none."""
    drain_seconds: float = 300.0
    """At most, for what is spoken when the server is told to end."""

    def __post_init__(self) -> None:
        least = {"workers": 1, "streams": 1, "queue": 0, "characters": 1, "memory_mib": 1}
        for name, smallest in least.items():
            value = getattr(self, name)
            if value is not None and value < smallest:
                raise SonorantError(f"{name.replace('_', '-')} must be at least {smallest}, not {value}")
        if not (self.poll_seconds is None or self.poll_seconds > 0) or not self.drain_seconds >= 0:
            raise SonorantError("poll-seconds must be above 0, and drain-seconds at least 0")
        if not self.offers:
            raise SonorantError("name a voice: a folder, or models:/<name>@<alias>")
        _ = self.hosts  # raises SonorantError for what is no name

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches the server."""
        with suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"

    @property
    def hosts(self) -> frozenset[str] | None:
        """Names by which it may be called, that of `webhook` among them; None = any."""
        if not self.loopback and not self.allow_hosts:
            return None
        try:
            called = urlsplit(self.webhook or "").hostname
        except ValueError:
            raise SonorantError(
                f"webhook must be an address such as https://voices.example, not {self.webhook}"
            ) from None
        return LOOPBACK.union(map(host_name, (self.host, *self.allow_hosts, *([called] if called else []))))


class Server(uvicorn.Server):
    """uvicorn's server, which tells where it listens, and loses nothing when it ends."""

    GRACE_SECONDS = 0.5
    """For requests whose connections were accepted just before the end."""

    def __init__(self, config: uvicorn.Config, service: Service, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._tell_started = service, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.draining = True
        for server in self.servers:
            server.close()
        await asyncio.sleep(self.GRACE_SECONDS)
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises SonorantError if the port is taken or not allowed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        reason = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be listened on ({error.strerror})"
        raise SonorantError(f"port {port} {reason}; give another with --port, or 0 for any free one") from None
    except OverflowError:
        listener.close()
        raise SonorantError(f"port must be 0 to 65535, not {port}") from None
    return listener


@asynccontextmanager
async def living(config: ServeConfig) -> AsyncIterator[Service]:
    """A service whose first voice is loaded and whose registry is followed; its voices end with the block. Raises
    SonorantError if a voice is not there, or the first does not speak."""
    workers = config.workers or usable_cores()
    metrics = Metrics()
    log = "INFO" if config.log_texts else "ERROR"
    with TemporaryDirectory(prefix="sonorant-serve-", ignore_cleanup_errors=True) as folder:
        offered = [await in_daemon_thread(fetch, offer, Path(folder)) for offer in config.offers]
        memory = config.memory_mib * 2**20 if config.memory_mib else None
        voices = Voices(
            offered, workers=workers, memory=memory, log=log, died=metrics.deaths.inc, late=metrics.were_late
        )
        service = Service(
            voices=voices,
            turns=Turns(workers * config.streams, config.queue),
            metrics=metrics,
            keys=Keys(config.keys) if config.keys else None,
            limits=replace(LIMITS, characters=config.characters),
            log_texts=config.log_texts,
        )
        seconds = config.poll_seconds or POLL_SECONDS
        if config.webhook:
            service.webhook = await in_daemon_thread(_subscribed, config.webhook, seconds)
            seconds = (config.poll_seconds or POLL_SECONDS_CALLED) if service.webhook else seconds
        following = asyncio.create_task(follow(voices, Path(folder), seconds, service.moved))
        try:
            async with voices.use(voices.first, asked=False):
                pass
            yield service
        finally:
            following.cancel()
            voices.close()


def _subscribed(address: str, seconds: float) -> str | None:
    """The secret that the registry signs with, None if it does not call: then it is asked."""
    secret = os.environ.get(WEBHOOK_SECRET) or secrets.token_urlsafe(32)
    try:
        from sonorant.registry.webhooks import subscribe  # needs mlflow, which voices in folders do not

        subscribe(address, PATH, secret)
    except ModuleNotFoundError as error:
        raise SonorantError(f"--webhook: needs '{error.name}'; run: pip install 'sonorant[pipeline]'") from None
    except SonorantError as error:
        _log.warning("%s; it is asked every %g seconds instead", error, seconds)
        return None
    return secret


def serve(config: ServeConfig, tell: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, which let what is spoken come to its end; `tell` is given the address once the
    server listens. Raises SonorantError if it cannot start."""
    asyncio.run(_serve(config, tell))


async def _serve(config: ServeConfig, tell: Callable[[str], None]) -> None:
    with listen(config.host, config.port) as listener:
        async with living(config) as service:
            host = f"[{config.host}]" if ":" in config.host else config.host
            url = f"http://{host}:{listener.getsockname()[1]}/"
            await server_of(config, service, lambda: tell(url)).serve(sockets=[listener])


def server_of(config: ServeConfig, service: Service, started: Callable[[], None]) -> Server:
    """The HTTP server of a service. Raises SonorantError if the system allows too few open files."""
    processes = len(config.offers) * ((config.workers or usable_cores()) + 1)
    connections = allowed_connections(FILES + 2 * processes)
    options = uvicorn.Config(
        application(service, hosts=config.hosts, page=config.page and service.keys is None),
        http=PatientProtocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=connections + 1,  # uvicorn refuses at it, not beyond it
        backlog=connections,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_graceful_shutdown=math.ceil(config.drain_seconds),
    )
    return Server(options, service, started)
