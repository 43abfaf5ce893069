"""Speaking processes: shared memory, silent deaths, exit with the server."""

import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from sonorant.errors import SonorantError
from sonorant.serving import mother
from sonorant.serving.request import Piece, ServedRequest
from sonorant.serving.voice_processes import LoadedVoice, NotSpoken, WorkerDied
from tests.support.serving import started
from tests.support.waiting import PATIENCE, wait_until

TEXT = "The rain had stopped, and nobody came. " * 5

HANGS_ONCE = """\
import pathlib, sys, time
from sonorant.serving import mother, speech_worker
hung, advance = pathlib.Path(sys.argv[3]), speech_worker._Turn.advance
def advance_or_hang(turn):
    if turn.given == 2 and not hung.exists():
        hung.touch()
        time.sleep(1e6)
    return advance(turn)
speech_worker.HUNG_SECONDS, speech_worker._Turn.advance = 1.0, advance_or_hang
mother.main()
"""

HANGS_WITH_A_CHILD = """\
import os, pathlib, subprocess, sys, time
child = subprocess.Popen(["sleep", "1000000"], close_fds=False)
pathlib.Path(sys.argv[3]).write_text(f"{os.getpid()} {child.pid}")
time.sleep(1e6)
"""


@asynccontextmanager
async def loaded(bundle: Path, workers: int) -> AsyncIterator[LoadedVoice]:
    voice = await LoadedVoice.start(bundle, workers, died=lambda: None)
    try:
        yield voice
    finally:
        voice.close()


async def spoken(
    voice: LoadedVoice,
    request: ServedRequest,
    kill_at: int | None = None,
    told: asyncio.Queue[tuple[str, ...]] | None = None,
) -> bytes:
    """Speech of a process that is killed after the given number of pieces. `told` receives the pieces."""
    sound, count = b"", 0
    async for piece in voice.speak(request, told):
        if isinstance(piece, Piece):
            sound += piece.sound
            count += 1
        if count == kill_at:
            [pid] = [worker.pid for worker in voice._workers if worker.speeches and not worker.dead]
            os.kill(pid, signal.SIGKILL)
            kill_at = None
    assert kill_at is None
    return sound


@pytest.mark.parametrize("encoding", ["wav", "mp3", "opus", "flac"])
def test_a_process_that_is_killed_loses_nothing_of_what_it_spoke(voice_bundle: Path, encoding: str) -> None:
    async def work() -> None:
        async with loaded(voice_bundle, 2) as voice:
            wish = ServedRequest(text=TEXT, encoding=encoding)
            whole = await spoken(voice, wish)
            assert await spoken(voice, wish, kill_at=3) == whole
            while voice.alive < 2:
                await asyncio.sleep(0.05)

    asyncio.run(work())


def test_a_voice_that_cannot_be_loaded_again_is_told_so_and_comes_back(voice_bundle: Path, tmp_path: Path) -> None:
    """Each waiting request would hold a place shared by all voices."""
    bundle = tmp_path / "voice"
    shutil.copytree(voice_bundle, bundle)

    async def work() -> None:
        async with loaded(bundle, 2) as voice:
            whole = await spoken(voice, ServedRequest(text=TEXT))
            (bundle / "vocoder.fp32.onnx").rename(tmp_path / "away")
            for pid in voice.pids:
                os.kill(pid, signal.SIGKILL)
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(NotSpoken, match="cannot be replaced yet"):
                    while True:
                        with suppress(WorkerDied):  # deaths are detected one by one
                            await spoken(voice, ServedRequest(text=TEXT))
            assert voice.trouble
            (tmp_path / "away").rename(bundle / "vocoder.fp32.onnx")
            while voice.alive < 2:
                await asyncio.sleep(0.05)
            assert await spoken(voice, ServedRequest(text=TEXT)) == whole
            assert voice.trouble == ""

    asyncio.run(work())


def test_a_process_that_hangs_ends_and_loses_nothing(
    voice_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def work() -> None:
        async with loaded(voice_bundle, 1) as voice:
            whole = await spoken(voice, ServedRequest(text=TEXT))

        def start(words: list[str], **settings: Any) -> subprocess.Popen[bytes]:
            assert words[1:3] == ["-m", "sonorant.serving.mother"]
            return popen([words[0], "-c", HANGS_ONCE, *words[3:], str(tmp_path / "hung")], **settings)

        popen = subprocess.Popen
        monkeypatch.setattr("sonorant.serving.voice_processes.subprocess.Popen", start)
        async with loaded(voice_bundle, 1) as voice, asyncio.timeout(PATIENCE):
            assert await spoken(voice, ServedRequest(text=TEXT)) == whole
        assert (tmp_path / "hung").exists()
        assert "advance_or_hang" in capfd.readouterr().err  # where it hung

    asyncio.run(work())


def test_a_process_that_hangs_while_it_loads_is_killed_and_so_is_what_it_started(
    voice_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"

    def start(words: list[str], **settings: Any) -> subprocess.Popen[bytes]:
        process = popen([words[0], "-c", HANGS_WITH_A_CHILD, *words[3:], str(pids)], **settings)
        wait_until(lambda: pids.exists() and " " in pids.read_text())
        return process

    async def work() -> None:
        async with asyncio.timeout(PATIENCE):
            await LoadedVoice.start(voice_bundle, 1, died=lambda: None)

    popen = subprocess.Popen
    monkeypatch.setattr("sonorant.serving.voice_processes.subprocess.Popen", start)
    monkeypatch.setattr("sonorant.serving.voice_processes.LOAD_SECONDS", 0.2)
    with pytest.raises(SonorantError, match=r"the process that loads it hung for 0\.2 s and was killed"):
        asyncio.run(work())
    hung = [int(pid) for pid in pids.read_text().split()]
    assert len(hung) == 2
    wait_until(lambda: not any(map(runs, hung)))


def test_a_graph_that_may_not_be_read_is_one_line(
    voice_bundle: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = socket.socketpair()
    monkeypatch.setattr("sys.argv", ["", str(theirs.detach()), str(voice_bundle)])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr("sonorant.speech.bundle.sha256_file", lambda path: path.parent.read_bytes())
    mother.main()
    assert b"Is a directory; check the path" in ours.recv(1000)
    assert capfd.readouterr().err == ""


def runs(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def test_a_process_that_reads_nothing_holds_up_nobody(voice_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonorant.serving.voice_processes.SILENT_SECONDS", 0.2)

    async def work() -> None:
        async with loaded(voice_bundle, 2) as voice, asyncio.timeout(PATIENCE):
            whole = await spoken(voice, ServedRequest(text=TEXT))
            while len(voice.pids) < 3:
                await asyncio.sleep(0.05)
            stopped = voice._workers[0]
            assert stopped.pid
            os.kill(stopped.pid, signal.SIGSTOP)
            rescue = threading.Timer(30.0, os.kill, (stopped.pid, signal.SIGKILL))  # otherwise the loop would block
            rescue.start()
            try:
                for _ in range(2000):
                    stopped.tell("more", -1)  # more than a pipe holds
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await spoken(voice, ServedRequest(text=TEXT))
                assert await spoken(voice, ServedRequest(text=TEXT)) == whole
                assert rescue.is_alive()
            finally:
                rescue.cancel()
                os.kill(stopped.pid, signal.SIGKILL)

    asyncio.run(work())


def test_a_text_that_kills_each_time_is_given_up(voice_bundle: Path) -> None:
    async def work() -> None:
        async with loaded(voice_bundle, 1) as voice:

            async def kill() -> None:
                while True:
                    for worker in voice._workers:
                        if worker.speeches and worker.pid and not worker.dead:
                            with suppress(ProcessLookupError):
                                os.kill(worker.pid, signal.SIGKILL)
                    await asyncio.sleep(0)

            killing = asyncio.create_task(kill())
            with pytest.raises(SonorantError, match="has died; try again"):
                await spoken(voice, ServedRequest(text=TEXT * 5))
            killing.cancel()

    asyncio.run(work())


@pytest.mark.parametrize("seed", range(3))
def test_however_a_text_arrives_it_is_spoken_to_its_end(voice_bundle: Path, seed: int) -> None:
    """Letters, words or nothing, with pauses, all at once or during speech."""
    draw = random.Random(seed)

    async def work() -> None:
        async with loaded(voice_bundle, 1) as voice:
            whole = await spoken(voice, ServedRequest(text=TEXT))
            told: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()
            arriving = asyncio.ensure_future(spoken(voice, ServedRequest(text="", arrives=True), told=told))
            rest = TEXT
            while rest:
                count = draw.choice([0, 1, 7, 100])
                told.put_nowait(("text", rest[:count]))
                if rest[:count].rstrip().endswith(".") and draw.random() < 0.7:
                    told.put_nowait(("pause",))
                rest = rest[count:]
                await asyncio.sleep(draw.choice([0, 0, 0.001, 0.02]))
            told.put_nowait(("pause",))
            told.put_nowait(("close",))
            async with asyncio.timeout(PATIENCE):
                sound = await arriving
            assert sound == whole

    asyncio.run(work())


def test_processes_share_the_pages_of_the_voice(voice_bundle: Path) -> None:

    async def work() -> None:
        async with loaded(voice_bundle, 1) as one, loaded(voice_bundle, 4) as four:
            for voice in (one, four):
                await spoken(voice, ServedRequest(text="Hi."))
            await asyncio.sleep(0.5)
            assert four.memory() < one.memory() * 2.5

    asyncio.run(work())


def test_processes_end_when_the_server_is_killed(voice_bundle: Path) -> None:
    with started(f"tiny={voice_bundle}", "--workers", "2") as (process, _):
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == 3
        process.kill()
        process.wait()
    wait_until(lambda: not any(child.is_running() for child in children))
