import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sonorant.cli.main import main
from sonorant.errors import SonorantError
from sonorant.extras.elsewhere.browser_runtime import BrowserRuntime, browser_runtime
from sonorant.extras.elsewhere.speaking_page import export_page
from sonorant.speech import Voice
from tests.support.browser import Browser, start_browser
from tests.support.waiting import wait_until

SENTENCES = ("Good morning.", "No?", "We came, we saw, and it was over in a moment!")
ROUNDING = 1e-3
SAMPLES = """
const [text, manner, done] = arguments;
voice.say(text, manner).then(({samples, unknown}) => done([Array.from(samples), unknown]));
"""


@pytest.fixture(scope="module")
def runtime() -> BrowserRuntime:
    try:
        return browser_runtime()
    except SonorantError as error:
        pytest.skip(f"not run: {error}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = start_browser()
    yield found
    found.driver.quit()


@pytest.fixture(scope="module")
def page(voice_bundle: Path, runtime: BrowserRuntime, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    (folder / "words.txt").write_text(" ".join(SENTENCES).translate(str.maketrans("", "", ".,?!")), encoding="utf-8")
    voice = Voice.load(voice_bundle)
    with pytest.MonkeyPatch.context() as patched:  # loading gruut's lexicon takes half a minute
        patched.setattr("sonorant.extras.elsewhere.exported_lexicon._words_of_gruut", lambda frontend: [])
        export_page(voice, folder / "voice.html", runtime, folder / "words.txt")
    return folder / "voice.html"


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    browser.open(page)
    wait_until(lambda: browser.run("return document.getElementById('status').textContent.startsWith('Ready')"))
    return browser


def said(browser: Browser, text: str, **manner: float) -> tuple[np.ndarray, list[str]]:
    samples, unknown = browser.driver.execute_async_script(SAMPLES, text, manner)
    return np.array(samples, np.float32), unknown


@pytest.mark.parametrize("manner", [{}, {"speed": 1.5, "pitch": 3.0, "energy": -6.0}])
def test_the_page_has_the_samples_of_onnx_runtime(
    manner: dict[str, float], opened: Browser, voice_bundle: Path
) -> None:
    voice = Voice.load(voice_bundle)
    for text in SENTENCES:
        found, unknown = said(opened, text, **manner)
        expected = voice.say(text, **manner)
        assert not unknown and found.shape == expected.shape
        assert np.abs(found - expected).max() < ROUNDING
    all_of_it, _ = said(opened, " ".join(SENTENCES), **manner)
    assert len(all_of_it) == sum(len(voice.say(text, **manner)) for text in SENTENCES)


def test_it_asks_nobody_and_complains_of_nothing(opened: Browser, page: Path) -> None:
    said(opened, SENTENCES[0])
    assert opened.requests() in ([], [page.resolve().as_uri()])
    assert opened.complaints() == [] and opened.overflow() <= 0


def test_the_button_plays_the_text_and_lists_unknown_words(opened: Browser) -> None:
    opened.run("document.getElementById('text').value = 'Good xylophones, good morning. 42!'")
    opened.run("document.getElementById('speak').click()")
    wait_until(lambda: "s of speech" in opened.run("return document.getElementById('status').textContent"))
    told = opened.run("return document.getElementById('unknown').textContent")
    assert told == "Unknown words, not spoken: xylophones, 42"
    wait_until(lambda: opened.run("return document.getElementById('player').duration > 0.3"))
    assert opened.run("return document.getElementById('error').textContent") == ""
    opened.run("document.getElementById('text').value = '42!'")
    opened.run("document.getElementById('speak').click()")
    wait_until(lambda: "nothing to say" in opened.run("return document.getElementById('status').textContent"))


def test_files_of_another_release_are_refused(tmp_path: Path, runtime: BrowserRuntime) -> None:
    with pytest.raises(SonorantError, match=r"ort\.wasm\.bundle\.min\.mjs: missing; install npm"):
        browser_runtime(tmp_path)
    (tmp_path / "ort.wasm.bundle.min.mjs").write_bytes(runtime.script + b"//")
    with pytest.raises(SonorantError, match="not the file of onnxruntime-web 1"):
        browser_runtime(tmp_path)


def test_without_npm_the_command_says_what_to_do(
    voice_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit):
        main(["export-page", "--voice", str(voice_bundle), "-o", str(tmp_path / "voice.html")])
    assert "needs ONNX Runtime for browsers: install npm" in capsys.readouterr().err
    assert not (tmp_path / "voice.html").exists()
