"""The voices that a server offers: loaded when they are first asked for, unloaded when memory is short, replaced when
the registry's alias moves."""

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
    """A voice to be offered."""

    name: str
    """What requests call it."""
    where: str
    """Folder of a bundle, or models:/<name>@<alias> or models:/<name>/<version>."""

    @classmethod
    def parse(cls, text: str) -> Offer:
        """Read `<name>=<where>` or `<where>`, which is then named as its folder or its registered model. Raises
        SonorantError for a name that a request cannot give."""
        name, found, where = text.partition("=")
        if not found:
            where = text
            name = re.split("[@/]", where.removeprefix(REGISTRY))[0] if where.startswith(REGISTRY) else ""
            name = name or Path(where).resolve().name
        if not re.fullmatch(r"[\w.-]{1,100}", name):
            raise SonorantError(
                f"{text}: '{name}' is no name of a voice; give letters, digits, . _ or -: <name>={where}"
            )
        return cls(name=name, where=where)


class Offered:
    """A voice of the server, loaded or not."""

    def __init__(self, offer: Offer, bundle: Path, version: str) -> None:
        self.offer, self.bundle, self.version = offer, bundle, version
        """`version`: <model>/<number> of the registry; empty for a folder."""
        self.description: VoiceDescription = read_bundle(bundle).description
        self.loaded: LoadedVoice | None = None
        self.trouble = ""
        """Why a newer version is not spoken with, or the registry not followed."""
        self.not_loaded = ""
        """Why the version itself could not be loaded when it was last tried."""
        self.since = time.time()
        """When this version was taken."""
        self.used = 0.0
        self.load: asyncio.Task[None] | None = None
        """Loads it, for all who wait."""
        self.waiting = 0
        """Requests that wait for it; until they have it, it is not idle."""


class Voices:
    """All voices of a server by name. Reads folders; the registry is `sonorant.serving.following`'s."""

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
        """`workers`: processes that speak of each voice; `memory`: bytes that all may take, None = any; `late` is told
        a voice's name and how many graphs were prepared while requests waited for it; the rest as `LoadedVoice.start`.
        Raises SonorantError if two voices have one name."""
        self.by_name: dict[str, Offered] = {}
        for one in offered:
            if one.offer.name in self.by_name:
                raise SonorantError(f"two voices are named '{one.offer.name}'; name one: <name>={one.offer.where}")
            self.by_name[one.offer.name] = one
        self._workers, self._memory, self._log, self._died, self._late = workers, memory, log, died, late
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def first(self) -> Offered:
        """The voice that is spoken with where none is named."""
        return next(iter(self.by_name.values()))

    def named(self, name: str | None) -> Offered:
        """A voice by name, None = the first. Raises SonorantError if there is none."""
        if name is None:
            return self.first
        if name not in self.by_name:
            raise SonorantError(f"no voice '{name}'; there are: {', '.join(self.by_name)}")
        return self.by_name[name]

    @asynccontextmanager
    async def use(self, one: Offered, *, asked: bool = True) -> AsyncIterator[LoadedVoice]:
        """The voice, loaded, for one request, or before there is one (`asked`). Raises NotSpoken if it cannot be
        loaded."""
        one.waiting += 1
        try:
            while one.loaded is None:
                if one.load is None or one.load.done():
                    one.load = asyncio.create_task(self._load(one, asked))
                await asyncio.shield(one.load)  # whoever leaves does not end what others wait for
            loaded = one.loaded
        finally:
            one.waiting -= 1
        one.used = time.monotonic()
        with loaded.used():  # nothing was awaited since, so nobody has found the voice idle and unloaded it
            yield loaded

    async def _load(self, one: Offered, asked: bool) -> None:
        bundle = one.bundle  # another may be taken meanwhile, which is not to be touched then
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
        """A bundle loaded, and heard. Raises SonorantError if it does not speak."""
        return await LoadedVoice.start(bundle, self._workers, log=self._log, died=self._died)

    def replace(self, one: Offered, bundle: Path, version: str, loaded: LoadedVoice) -> None:
        """Take another version. The one before speaks its requests to their end, and then its download is removed."""
        before, former = one.loaded, one.bundle
        one.bundle, one.version, one.loaded, one.since = bundle, version, loaded, time.time()
        one.description, one.trouble, one.not_loaded = loaded.description, "", ""
        task = asyncio.create_task(_retire(before, former))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.keep_to_memory(but=one)

    def keep_to_memory(self, *, but: Offered | None = None) -> None:
        """Unload idle voices, the one that was used least lately first, until all keep to the limit."""
        if self._memory is None:
            return
        for one in sorted(self.by_name.values(), key=lambda one: one.used):
            if self.memory() <= self._memory:
                return
            if one is not but and one.loaded is not None and not (one.loaded.users or one.waiting):
                _log.warning("the voice %s is unloaded: memory is short", one.offer.name)
                one.loaded.close()
                one.loaded = None

    def memory(self) -> int:
        """Bytes that the voices take."""
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
    """Remove a download; nobody waits for it, as its disk may hang."""
    threading.Thread(target=shutil.rmtree, args=(downloaded, True), daemon=True).start()
