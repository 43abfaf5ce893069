"""The server: settings, application, HTTP with uvicorn, and a shutdown that finishes running requests."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import math
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn
from fastapi import FastAPI

from sonorant.errors import SonorantError
from sonorant.processes import usable_cores
from sonorant.serving.answers import add_error_handlers
from sonorant.serving.following import fetch, follow
from sonorant.serving.gate import HEAD_BYTES, LOOPBACK, Gate, PatientProtocol, allowed_connections, host_name
from sonorant.serving.keys import Keys
from sonorant.serving.native_routes import native_routes
from sonorant.serving.openai_routes import openai_routes
from sonorant.serving.operation_routes import operation_routes
from sonorant.serving.page_routes import page_routes
from sonorant.serving.prometheus import Metrics
from sonorant.serving.request import LIMITS
from sonorant.serving.service import Service, Turns
from sonorant.serving.voice_processes import in_daemon_thread
from sonorant.serving.voices import REGISTRY, Offer, Voices
from sonorant.speech.request import MOMENT

SEND_BUFFER = 128 * 1024
"""Size in bytes of the kernel's send buffer per client."""
FILES = 100
"""Number of open files in addition to connections and pipes to processes."""
BYTES_A_CHARACTER = 12
"""Maximum bytes per character: two JSON escapes such as \\ud83d."""
BYTES_BESIDE_TEXT = 16_000
SAYS = "Speech from voices trained with Sonorant: OpenAI's API, and one with more settings and times."
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ServeConfig:
    """Settings of `sonorant serve`."""

    offers: tuple[Offer, ...]
    host: str = "127.0.0.1"
    allow_hosts: Sequence[str] = ()
    """Additional allowed host names, such as the proxy's. By default, a server on loopback allows only loopback names,
    and any other server allows all names."""
    port: int = 8000
    """Port; 0 means any free port."""
    workers: int | None = None
    """Number of processes per voice; None means one per core."""
    streams: int = 16
    """Number of requests that a process serves alternately."""
    queue: int = 128
    """Maximum number of waiting requests."""
    characters: int = LIMITS.characters
    """Maximum number of characters per request."""
    memory_mib: int | None = None
    """Maximum memory of all voices in MiB; None means no limit."""
    poll_seconds: float = 5.0
    """Seconds between polls of the registry."""
    keys: Path | None = None
    """File of API keys; None means that no key is required."""
    markup: bool = False
    """Whether OpenAI's route interprets markup."""
    refuse_silence: bool = False
    """Whether a text in which nothing can be spoken gets status 400 instead of silence."""
    log_texts: bool = False
    page: bool = True
    """Whether to serve the demo page; it is never served if keys are required."""
    drain_seconds: float = 300.0
    """Maximum time in seconds to finish running requests at shutdown."""

    def __post_init__(self) -> None:
        least = {"workers": 1, "streams": 1, "queue": 0, "characters": 1, "memory_mib": 1}
        for name, smallest in least.items():
            value = getattr(self, name)
            if value is not None and value < smallest:
                raise SonorantError(f"{name.replace('_', '-')} must be at least {smallest}, not {value}")
        if not self.poll_seconds > 0 or not self.drain_seconds >= 0:
            raise SonorantError("poll-seconds must be above 0, and drain-seconds at least 0")
        if not self.offers:
            raise SonorantError("no voice; give a bundle folder or models:/<name>@<alias>")
        _ = self.hosts  # raises SonorantError for an invalid name

    @property
    def loopback(self) -> bool:
        with suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"

    @property
    def hosts(self) -> frozenset[str] | None:
        """Allowed host names; None means any."""
        if not self.loopback and not self.allow_hosts:
            return None
        return LOOPBACK.union(map(host_name, (self.host, *self.allow_hosts)))


def application(service: Service, *, hosts: frozenset[str] | None, page: bool) -> FastAPI:
    """Return the ASGI application. `hosts`: allowed names; None means any."""
    app = FastAPI(title="Sonorant", description=SAYS, version=version("sonorant"), docs_url=None, redoc_url=None)
    for routes in (openai_routes, native_routes, operation_routes):
        app.include_router(routes(service))
    if page:
        app.include_router(page_routes(service))
    add_error_handlers(app)
    most = service.limits.characters * BYTES_A_CHARACTER + BYTES_BESIDE_TEXT
    app.add_middleware(Gate, most_bytes=most, hosts=hosts)
    return app


class Server(uvicorn.Server):
    """uvicorn server with a start callback and a shutdown that loses no request."""

    GRACE_SECONDS = 0.5
    """Seconds to wait for connections accepted just before shutdown."""

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
    """Bind a socket. Raises SonorantError if the port is taken or not allowed."""
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
    """Yield a service that has loaded its first voice and follows the registry. Raises SonorantError if a voice is
    missing or the first cannot speak."""
    workers = config.workers or usable_cores()
    metrics = Metrics()
    log = "INFO" if config.log_texts else "ERROR"
    place: AbstractContextManager[str] = nullcontext("")
    if any(offer.where.startswith(REGISTRY) for offer in config.offers):
        place = TemporaryDirectory(prefix="sonorant-serve-", ignore_cleanup_errors=True)
    with place as folder:
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
            markup=config.markup,
            silence=0.0 if config.refuse_silence else MOMENT,
            log_texts=config.log_texts,
        )
        following = asyncio.create_task(follow(voices, Path(folder), config.poll_seconds))
        try:
            async with voices.use(voices.first, asked=False):
                pass
            yield service
        finally:
            following.cancel()
            voices.close()


def serve(config: ServeConfig, tell: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C. `tell` is called with the address. Raises SonorantError as `listen` and `living`
    do."""
    asyncio.run(_serve(config, tell))


async def _serve(config: ServeConfig, tell: Callable[[str], None]) -> None:
    with listen(config.host, config.port) as listener:
        async with living(config) as service:
            host = f"[{config.host}]" if ":" in config.host else config.host
            url = f"http://{host}:{listener.getsockname()[1]}/"
            await server_of(config, service, lambda: tell(url)).serve(sockets=[listener])


def server_of(config: ServeConfig, service: Service, started: Callable[[], None]) -> Server:
    """Return the HTTP server of a service. Raises SonorantError if the system allows too few open files."""
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
        limit_concurrency=connections + 1,  # uvicorn refuses at the limit
        backlog=connections,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_graceful_shutdown=math.ceil(config.drain_seconds),
    )
    return Server(options, service, started)
