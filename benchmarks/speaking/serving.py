"""How does the server perform under load? `python -m benchmarks serving`

1, 8, 32 and 128 listeners send requests to `sonorant serve` without pauses, from one process on the same machine,
which uses some of the cores. Two real-time factors: the listener's, including the wait, and the server's work alone.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from benchmarks.report import command, finish, options
from benchmarks.speaking.random_voice import shipped, voice_of
from benchmarks.speaking.texts import TEXTS
from infra.speaking_server import served
from tasks.stage import run

LISTENERS = (1, 8, 32, 128)
KEPT = 0.8
"""Minimum speech per second for 32 and 128 listeners relative to 8 listeners."""
GROWTH = 1.1
"""Maximum memory after the last round relative to that after 8 listeners, when all processes have spoken."""
SHORT = {"seconds": 3.0}


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--voice", type=Path, help="voice bundle; default: what the pipeline made, else random weights")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each number of listeners (default 60)")
    given = options(parser, SHORT)
    with (
        voice_of(given.voice or shipped("parallel"), "parallel") as (voice, weights),
        served(f"voice={voice['bundle']}") as url,
    ):
        rows = []
        for listeners in LISTENERS:
            rows.append(asyncio.run(load(url, listeners, given.seconds)))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        counted = metrics(url)
    made = {row["listeners"]: row["speech_a_second"] for row in rows}
    claims = {
        "every request is answered whole, at 1, 8, 32 and 128 listeners": not any(row["lost"] for row in rows),
        f"32 and 128 listeners get at least {KEPT:g} times the speech a second of 8": (
            min(made[32], made[128]) >= KEPT * made[8]
        ),
        f"memory after the last round is at most {GROWTH:g} times that after 8 listeners": (
            rows[-1]["memory_mib"] <= GROWTH * rows[1]["memory_mib"]
        ),
        f"the server's own memory too is at most {GROWTH:g} times that after 8 listeners, and it leaves no file open": (
            rows[-1]["server_mib"] <= GROWTH * rows[1]["server_mib"] and rows[-1]["open_files"] <= rows[0]["open_files"]
        ),
    }
    result = {"weights": weights, "seconds": given.seconds, "rounds": rows}
    result["worker_deaths"] = counted["sonorant_worker_deaths_total"]
    finish("serving", result, claims, given)


@dataclass
class Heard:
    first: list[float] = field(default_factory=list)
    """Seconds to the first sound of each request."""
    factors: list[float] = field(default_factory=list)
    """Ratio of each request's seconds to those of its speech."""
    audio: float = 0.0
    lost: int = 0


async def load(url: str, listeners: int, seconds: float) -> dict[str, Any]:
    before = metrics(url)
    heard, numbers, began = Heard(), count(), time.perf_counter()
    await asyncio.gather(*(listen(url, heard, numbers, began + seconds) for _ in range(listeners)))
    took = time.perf_counter() - began
    counted = metrics(url)
    work, spoken = (
        counted[f"sonorant_real_time_factor_{part}"] - before.get(f"sonorant_real_time_factor_{part}", 0.0)
        for part in ("sum", "count")
    )
    return {
        "listeners": listeners,
        "requests": len(heard.first),
        "lost": heard.lost,
        "requests_a_second": round(len(heard.first) / took, 2),
        "first_audio_ms": {name: round(value * 1000.0, 1) for name, value in percentiles(heard.first).items()},
        "speech_a_second": round(heard.audio / took, 2),
        "real_time_factor": {name: round(value, 4) for name, value in percentiles(heard.factors).items()},
        "work_real_time_factor": round(work / spoken, 4),
        "memory_mib": round(counted["sonorant_voice_memory_bytes"] / 2**20, 1),
        "server_mib": round(counted["process_resident_memory_bytes"] / 2**20, 1),
        "open_files": int(counted["process_open_fds"]),
        "load_average": round(os.getloadavg()[0], 1),
    }


def percentiles(values: list[float]) -> dict[str, float]:
    return {f"p{share}": float(np.percentile(values, share)) for share in (50, 95, 99)}


async def listen(url: str, heard: Heard, numbers: Iterator[int], until: float) -> None:
    texts = list(TEXTS.values())
    while time.perf_counter() < until:
        began = time.perf_counter()
        lines = await ask(url, {"text": texts[next(numbers) % len(texts)], "format": "pcm", "timings": False})
        first = None
        last: dict[str, Any] = {}
        async for line in lines:
            last = json.loads(line)
            if first is None and "audio" in last:
                first = time.perf_counter() - began
        if first is None or not last.get("end"):
            heard.lost += 1
        else:
            heard.first.append(first)
            heard.factors.append((time.perf_counter() - began) / last["seconds"])
            heard.audio += last["seconds"]


async def ask(url: str, wish: dict[str, Any]) -> Any:
    """The lines of a response, by HTTP/1.0."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=2**20)
    body = json.dumps(wish).encode()
    head = f"POST /v1/speech HTTP/1.0\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def lines() -> Any:
        try:
            while (await reader.readline()).strip():
                pass
            while line := await reader.readline():
                yield line
        finally:
            writer.close()

    return lines()


def metrics(url: str) -> dict[str, float]:
    """The server's counters, summed over voices."""
    from urllib.request import urlopen

    text = urlopen(f"{url}metrics").read().decode()
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.split(" ")
            found[name.partition("{")[0]] = found.get(name.partition("{")[0], 0.0) + float(value)
    return found


if __name__ == "__main__":
    run(main)
