"""An arriving text ends when nothing more comes."""

import asyncio
from itertools import count

import pytest

from sonorant.serving import page_routes
from sonorant.serving.page_routes import Arriving, More


@pytest.mark.parametrize(("text", "longest"), [("", 60.0), ("a", 0.3)])
def test_a_text_that_does_not_grow_or_grows_for_ever_is_over(
    text: str, longest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that sends rarely must not block others."""
    monkeypatch.setattr(page_routes, "IDLE", 0.2)
    monkeypatch.setattr(page_routes, "LONGEST", longest)

    async def typed() -> list[tuple[str, ...]]:
        arriving, told = Arriving(), []
        for _ in count():
            arriving.add(More(id="one", text=text))
            await asyncio.sleep(0.02)
            while not arriving.told.empty():
                told.append(arriving.told.get_nowait())
            if ("close",) in told:
                return told
        raise AssertionError

    told = asyncio.run(asyncio.wait_for(typed(), 20))
    assert len(told) > 3


def test_a_text_that_grows_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_routes, "IDLE", 5.0)

    async def typed() -> list[tuple[str, ...]]:
        arriving = Arriving()
        for _ in range(10):
            arriving.add(More(id="one", text="a"))
            await asyncio.sleep(0.01)
        arriving.forget()
        return [arriving.told.get_nowait() for _ in range(arriving.told.qsize())]

    assert asyncio.run(typed()) == [("text", "a")] * 10
