"""The bounded queue before the voices: how many are spoken to at a time, and how many may wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class BusyError(Exception):
    """Too many requests are waiting."""

    def __init__(self) -> None:
        super().__init__("too many are speaking; try again in a moment")


class Turns:
    """Places for requests. Those who have one are spoken to in turns; the others wait in order, up to a limit."""

    def __init__(self, places: int, waiting: int) -> None:
        self.places, self.most_waiting = places, waiting
        self.waiting = self.speaking = 0
        self._free = asyncio.Semaphore(places)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place. Raises BusyError at once if too many wait."""
        if self._free.locked() and self.waiting >= self.most_waiting:
            raise BusyError
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.speaking += 1
        try:
            yield
        finally:
            self.speaking -= 1
            self._free.release()
