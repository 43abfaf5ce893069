"""Threads whose end nobody waits for."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Value = TypeVar("Value")


async def in_daemon_thread(function: Callable[..., Value], *arguments: object) -> Value:
    """As `asyncio.to_thread`, for what may hang: asyncio waits for threads of its own when the server ends."""
    answer: Future[Value] = Future()
    answer.set_running_or_notify_cancel()  # whoever leaves does not cancel it, so it can always be answered

    def work() -> None:
        try:
            answer.set_result(function(*arguments))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(answer)
