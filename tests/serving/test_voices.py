import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonorant.audio.wav import pcm16
from sonorant.errors import SonorantError
from sonorant.registry import RegisterConfig, register
from sonorant.registry.download import download_bundle
from sonorant.registry.tracking import open_store
from sonorant.registry.tracking.mlflow_store import TrackingUnavailable
from sonorant.serving.server import ServeConfig
from sonorant.serving.voice_processes import LoadedVoice, NotSpoken
from sonorant.serving.voices import Offer, Offered, Voices
from sonorant.speech import Voice
from tests.support.loudness import body, louder, loudest
from tests.support.serving import Running, ask, lines_of, running
from tests.support.waiting import PATIENCE, wait_until

LONG = "The rain had stopped, and nobody came. " * 60


@pytest.mark.parametrize(
    ("text", "name"),
    [("voices/anna", "anna"), ("a=voices/anna", "a"), ("models:/demo@champion", "demo"), ("models:/demo/3", "demo")],
)
def test_a_voice_is_named_as_it_is_given(text: str, name: str) -> None:
    assert Offer.parse(text).name == name


@pytest.mark.parametrize("text", ["a b=voices/anna", "=voices/anna", "a/b=voices/anna"])
def test_a_name_that_no_request_can_give_is_refused(text: str) -> None:
    with pytest.raises(SonorantError, match="is not a valid voice name"):
        Offer.parse(text)


def test_two_voices_of_one_name_are_refused(voice_bundle: Path) -> None:
    offers = (Offer(name="a", where=str(voice_bundle)),) * 2
    from sonorant.serving.following import fetch

    with pytest.raises(SonorantError, match="two voices are named 'a'"):
        Voices([fetch(offer, Path()) for offer in offers], workers=1, memory=None, log="ERROR", died=lambda: None)


def test_idle_voices_are_unloaded_when_memory_is_short(voice_bundle: Path) -> None:
    offers = tuple(Offer(name=name, where=str(voice_bundle)) for name in ("one", "two"))
    with running(ServeConfig(offers=offers, workers=1, memory_mib=1)) as server:
        voices = server.service.voices
        assert voices.named("one").loaded
        assert lines_of(server.url, "/v1/speech", text="Hi.", voice="two")[-1].get("end")
        assert voices.named("one").loaded is None
        assert lines_of(server.url, "/v1/speech", text="Hi.", voice="one")[-1].get("end")
        assert voices.named("two").loaded is None


def told_of(server: Running, name: str) -> str | None:
    trouble: str | None = json.loads(ask(server.url, "/readyz").read())["voices"][name]["trouble"]
    return trouble


def test_a_server_is_ready_while_one_of_its_loaded_voices_speaks(voice_bundle: Path, tmp_path: Path) -> None:
    offers = tuple(Offer(name=name, where=str(tmp_path / name)) for name in ("one", "two", "three"))
    for offer in offers:
        shutil.copytree(voice_bundle, offer.where)
    with running(ServeConfig(offers=offers, workers=1)) as server:
        assert lines_of(server.url, "/v1/speech", text="Hi.", voice="two")[-1].get("end")
        for name, status in (("one", 200), ("two", 503)):
            kill_for_good(server, name)
            told = ask(server.url, "/readyz")
            assert told.status == status
            voices = json.loads(told.read())["voices"]
            assert "vocoder.fp32.onnx" in voices[name]["trouble"]
            assert voices["three"]["trouble"] is None and not voices["three"]["loaded"]


def kill_for_good(server: Running, name: str) -> None:
    one = server.service.voices.named(name)
    assert one.loaded
    (one.bundle / "vocoder.fp32.onnx").unlink()
    for pid in one.loaded.pids:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: one.loaded and one.loaded.trouble and not one.loaded.alive)


@pytest.fixture
def registry(voice_bundle: Path, tracked_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working folder with a registry: `tiny` version 1, version 2 half as loud, version 3 silent."""
    shutil.copytree(tracked_project, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for number, loudness in enumerate((1.0, 0.5, 0.0), 1):
        bundle = louder(voice_bundle, tmp_path / f"bundle{number}", loudness)
        register(bundle, {}, tmp_path / "no report", RegisterConfig(model="tiny"), {})
    champion(1)
    return tmp_path


def champion(version: int) -> None:
    open_store().client.set_registered_model_alias("tiny", "champion", str(version))


@pytest.fixture
def server(registry: Path) -> Iterator[Running]:
    offers = (Offer(name="tiny", where="models:/tiny@champion"),)
    with running(ServeConfig(offers=offers, workers=1, poll_seconds=0.1)) as served:
        yield served


def version(server: Running) -> str:
    return server.service.voices.named("tiny").version


def test_a_promotion_and_a_rollback_are_heard_by_the_next_request_and_cut_no_sentence(
    server: Running, registry: Path
) -> None:
    plain = loudest(server)
    expected = pcm16(Voice.load(registry / "bundle1", threads=1).say(LONG))
    response = ask(server.url, "/v1/audio/speech", body(LONG))
    heard = [response.read(44 + 2 * 1000)[44:]]
    champion(2)
    wait_until(lambda: version(server) == "tiny/2")
    assert abs(loudest(server) - plain / 2) <= 1
    heard.append(response.read())
    np.testing.assert_allclose(np.frombuffer(b"".join(heard), "<i2"), expected, atol=1)
    champion(1)
    wait_until(lambda: version(server) == "tiny/1")
    assert loudest(server) == plain


def test_a_version_that_says_nothing_is_not_spoken_with_and_readyz_says_why(server: Running) -> None:
    plain = loudest(server)
    champion(3)
    wait_until(lambda: server.service.voices.named("tiny").trouble)
    told = ask(server.url, "/readyz")
    trouble = json.loads(told.read())["voices"]["tiny"]["trouble"]
    assert told.status == 200
    assert "models:/tiny/3 was refused; tiny/1 remains in use: cannot speak its check sentence" in trouble
    assert (version(server), loudest(server)) == ("tiny/1", plain)
    champion(2)
    wait_until(lambda: version(server) == "tiny/2")
    assert json.loads(ask(server.url, "/readyz").read())["voices"]["tiny"]["trouble"] is None


def test_a_version_that_hangs_while_it_loads_holds_up_no_later_one_and_readyz_says_why(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(words: list[str], **settings: Any) -> subprocess.Popen[bytes]:
        return popen([words[0], "-c", "import time; time.sleep(1e6)"], **settings)

    plain, popen = loudest(server), subprocess.Popen
    with monkeypatch.context() as patched:
        patched.setattr("sonorant.serving.voice_processes.subprocess.Popen", start)
        patched.setattr("sonorant.serving.voice_processes.LOAD_SECONDS", 0.2)
        champion(2)
        wait_until(lambda: "hung for 0.2 s" in str(told_of(server, "tiny")))
    assert "models:/tiny/2 was refused; tiny/1 remains in use" in str(told_of(server, "tiny"))
    assert (version(server), loudest(server)) == ("tiny/1", plain)
    champion(1)
    wait_until(lambda: told_of(server, "tiny") is None)
    champion(2)
    wait_until(lambda: version(server) == "tiny/2")


def test_a_version_whose_download_breaks_off_is_downloaded_again(
    server: Running, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads = []

    def download(uri: str, out: Path) -> Path:
        downloads.append(out)
        if len(downloads) == 1:
            raise TrackingUnavailable("the store does not answer")
        return download_bundle(uri, out)

    monkeypatch.setattr("sonorant.registry.download.download_bundle", download)
    monkeypatch.setattr("sonorant.serving.following.AGAIN_SECONDS", 0.3)
    champion(2)
    wait_until(lambda: "remains in use: the store does not answer" in server.service.voices.named("tiny").trouble)
    wait_until(lambda: version(server) == "tiny/2")
    folder = downloads[0].parent
    wait_until(lambda: len(list(folder.iterdir())) == 1)  # neither the old version nor downloads remain
    [kept] = folder.iterdir()
    assert (kept / "voice.json").exists()


class Slow:
    """A voice that takes time to load; `then` is the outcome of each load."""

    def __init__(self, one: Offered, *then: Callable[[], None]) -> None:
        self.voices = Voices([one], workers=1, memory=None, log="ERROR", died=lambda: None)
        self.voices.start = self._start  # type: ignore[method-assign]
        self.bundles: list[Path] = []
        self._one, self._then = one, then

    async def _start(self, bundle: Path) -> LoadedVoice:
        self.bundles.append(bundle)
        await asyncio.sleep(0.2)
        self._then[len(self.bundles) - 1]()
        return LoadedVoice(bundle, 0, "ERROR", lambda: None)

    async def use(self) -> Path:
        async with self.voices.use(self._one) as loaded:
            return loaded.bundle


def broken() -> None:
    raise SonorantError("it is damaged")


def test_all_who_wait_for_a_voice_that_is_not_loaded_hear_of_its_one_failure(voice_bundle: Path) -> None:
    async def work() -> None:
        slow = Slow(Offered(Offer(name="tiny", where=str(voice_bundle)), voice_bundle, ""), broken, lambda: None)
        failures = await asyncio.gather(*(slow.use() for _ in range(20)), return_exceptions=True)
        assert {type(failure) for failure in failures} == {NotSpoken}
        assert {str(failure) for failure in failures} == {"the voice tiny is not loaded: it is damaged"}
        assert slow.bundles == [voice_bundle]
        assert await slow.use() == voice_bundle, "whoever asks later has it tried again"

    asyncio.run(work())


def test_a_voice_is_not_unloaded_before_those_who_waited_for_it_have_it(voice_bundle: Path) -> None:
    """Memory is short while another voice finishes loading."""

    async def work() -> None:
        one, two = (Offered(Offer(name=name, where=str(voice_bundle)), voice_bundle, "") for name in ("one", "two"))
        voices = Voices([one, two], workers=1, memory=0, log="ERROR", died=lambda: None)
        both, loads = asyncio.Event(), []

        async def start(bundle: Path) -> LoadedVoice:
            loads.append(bundle)
            if len(loads) == 2:
                both.set()
            await both.wait()
            loaded = LoadedVoice(bundle, 0, "ERROR", lambda: None)
            loaded.memory = lambda: 1  # type: ignore[method-assign]
            loaded.close = lambda: None  # type: ignore[method-assign]
            return loaded

        async def use(wanted: Offered) -> None:
            async with voices.use(wanted):
                await asyncio.sleep(0)

        voices.start = start  # type: ignore[method-assign]
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(use(wanted) for wanted in (one, two) * 3))
        assert len(loads) == 2

    asyncio.run(work())


def test_a_promotion_while_the_voice_loads_is_no_failure(voice_bundle: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    shutil.copytree(voice_bundle, newer)
    one = Offered(Offer(name="tiny", where="models:/tiny@champion"), voice_bundle, "tiny/1")

    def replaced() -> None:
        one.bundle = newer
        raise SonorantError("its download is removed")

    async def work() -> None:
        assert await Slow(one, replaced, lambda: None).use() == newer
        assert one.trouble == one.not_loaded == ""

    asyncio.run(work())


def test_a_registry_that_is_away_changes_nothing(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = loudest(server)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    wait_until(lambda: "does not answer" in server.service.voices.named("tiny").trouble)
    assert loudest(server) == plain
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    wait_until(lambda: not server.service.voices.named("tiny").trouble)
