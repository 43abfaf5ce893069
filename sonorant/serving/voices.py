"""A server's voices: loaded on first request, unloaded when memory is short, replaced by new versions."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.serving.voice_processes import LoadedVoice, NotSpoken
from sonorant.speech.bundle import VoiceDescription, read_bundle

REGISTRY = "models:/"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A voice as named on the command line."""

    name: str
    where: str
    """Bundle folder, models:/<name>@<alias> or models:/<name>/<version>."""

    @classmethod
    def parse(cls, text: str) -> Offer:
        """Parse `<name>=<where>`, or `<where>` alone, whose folder or model gives the name. Raises SonorantError if the
        name is invalid."""
        name, found, where = text.partition("=")
        if not found:
            where = text
            name = re.split("[@/]", where.removeprefix(REGISTRY))[0] if where.startswith(REGISTRY) else ""
            name = name or Path(where).resolve().name
        if not re.fullmatch(r"[\w.-]{1,100}", name):
            raise SonorantError(
                f"{text}: '{name}' is not a valid voice name; use letters, digits, . _ or -: <name>={where}"
            )
        return cls(name=name, where=where)


class Offered:
    def __init__(self, offer: Offer, bundle: Path, version: str) -> None:
        self.offer, self.bundle, self.version = offer, bundle, version
        """`version` is <model>/<number>, or empty for a folder."""
        self.description: VoiceDescription = read_bundle(bundle).description
        self.loaded: LoadedVoice | None = None
        self.trouble = ""
        """Why a newer version is not used or the registry cannot be reached."""
        self.not_loaded = ""
        """Why the last attempt to load the voice failed."""
        self.since = time.time()
        """Time at which this version came into use."""
        self.used = 0.0
        self.load: asyncio.Task[None] | None = None
        """Task that loads the voice, shared by waiting requests."""
        self.waiting = 0
        """Number of requests waiting for the voice to load."""


class Voices:
    def __init__(
        self,
        offered: list[Offered],
        *,
        workers: int,
        memory: int | None,
        log: str,
        died: Callable[[], None],
        late: Callable[[str, int], None] = lambda *_: None,
    ) -> None:
        """`workers`: number of processes per voice. `memory`: maximum memory of all voices in bytes; None means no
        limit. `late`: called with a voice's name and the number of graphs compiled while requests waited. `log` and
        `died` are as in `LoadedVoice.start`. Raises SonorantError for duplicate names."""
        self.by_name: dict[str, Offered] = {}
        for one in offered:
            if one.offer.name in self.by_name:
                raise SonorantError(f"two voices are named '{one.offer.name}'; rename one: <name>={one.offer.where}")
            self.by_name[one.offer.name] = one
        self._workers, self._memory, self._log, self._died, self._late = workers, memory, log, died, late
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def first(self) -> Offered:
        """The default voice."""
        return next(iter(self.by_name.values()))

    def named(self, name: str | None) -> Offered:
        """Return a voice by name; None means the first. Raises SonorantError if the name is unknown."""
        if name is None:
            return self.first
        if name not in self.by_name:
            raise SonorantError(f"no voice '{name}'; choose one of: {', '.join(self.by_name)}")
        return self.by_name[name]

    @asynccontextmanager
    async def use(self, one: Offered, *, asked: bool = True) -> AsyncIterator[LoadedVoice]:
        """Load the voice if needed and keep it loaded; `asked`: whether a request is waiting. Raises NotSpoken if it
        cannot be loaded."""
        one.waiting += 1
        try:
            while one.loaded is None:
                if one.load is None or one.load.done():
                    one.load = asyncio.create_task(self._load(one, asked))
                await asyncio.shield(one.load)  # cancelling one request does not cancel the load
            loaded = one.loaded
        finally:
            one.waiting -= 1
        one.used = time.monotonic()
        with loaded.used():  # not unloaded, since nothing was awaited
            yield loaded

    async def _load(self, one: Offered, asked: bool) -> None:
        bundle = one.bundle  # may be replaced during the load
        try:
            loaded = await self.start(bundle)
        except SonorantError as error:
            if one.bundle != bundle:
                return
            one.not_loaded = str(error)
            raise NotSpoken(f"the voice {one.offer.name} is not loaded: {error}") from None
        if one.bundle == bundle:
            one.loaded, one.not_loaded = loaded, ""
            if asked:
                self._late(one.offer.name, len(loaded.description.graphs))
            self.keep_to_memory(but=one)
        else:
            loaded.close()

    async def start(self, bundle: Path) -> LoadedVoice:
        return await LoadedVoice.start(bundle, self._workers, log=self._log, died=self._died)

    def replace(self, one: Offered, bundle: Path, version: str, loaded: LoadedVoice) -> None:
        """Switch to another version; the old version finishes its requests before its download is removed."""
        before, former = one.loaded, one.bundle
        one.bundle, one.version, one.loaded, one.since = bundle, version, loaded, time.time()
        one.description, one.trouble, one.not_loaded = loaded.description, "", ""
        task = asyncio.create_task(_retire(before, former))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.keep_to_memory(but=one)

    def keep_to_memory(self, *, but: Offered | None = None) -> None:
        """Unload idle voices, least recently used first, to keep to the memory limit."""
        if self._memory is None:
            return
        for one in sorted(self.by_name.values(), key=lambda one: one.used):
            if self.memory() <= self._memory:
                return
            if one is not but and one.loaded is not None and not (one.loaded.users or one.waiting):
                _log.warning("unloaded the voice %s, because memory is short", one.offer.name)
                one.loaded.close()
                one.loaded = None

    def memory(self) -> int:
        return sum(one.loaded.memory() for one in self.by_name.values() if one.loaded)

    def close(self) -> None:
        for one in self.by_name.values():
            if one.loaded:
                one.loaded.close()


async def _retire(before: LoadedVoice | None, downloaded: Path) -> None:
    if before is not None:
        await before.retire()
    remove(downloaded)


def remove(downloaded: Path) -> None:
    """Remove a download in the background, because its disk may hang."""
    threading.Thread(target=shutil.rmtree, args=(downloaded, True), daemon=True).start()
