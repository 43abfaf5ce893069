import base64
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from sonorant.audio.wav import pcm16
from sonorant.speech import Voice
from tests.support.browser import Browser
from tests.support.waiting import PATIENCE

TEXT = "One apple. Two pears, and what else?"
pytestmark = pytest.mark.long

LONG = "The rain had stopped, and nobody came. " * 120
SHOWN = "return [...document.querySelectorAll('.choices input')].filter((f) => f.offsetParent).map((f) => f.id)"
SAMPLES = """
const all = player.heard.flatMap((part) => Array.from(part, (sample) => Math.round(sample * 32768)));
return btoa(Array.from(new Uint8Array(Int16Array.from(all).buffer), (byte) => String.fromCharCode(byte)).join(""));
"""
SPEAK_UNHEARD = """
const done = arguments[0];
document.getElementById("speak").click();
(async () => {
  for (let turn = 0; turn < 1000 && !player.context; turn++) await null;
  await player.context.suspend();
  done(player.context.currentTime);
})();
"""
"""Speaks with a stopped clock: late samples are scheduled as if in time."""
LOUDEST = """
const meter = new AnalyserNode(player.context, { fftSize: 32768 });
player.output.connect(meter);
player.context.resume();
const done = arguments[0];
let loudest = 0;
const look = () => {
  const samples = new Float32Array(meter.fftSize);
  meter.getFloatTimeDomainData(samples);
  loudest = Math.max(loudest, ...samples.map(Math.abs));
  const { currentTime } = player.context;
  if (loudest > 0 || currentTime > player.ends + 1) done([loudest, currentTime]); else setTimeout(look, 20);
};
look();
"""


LIT = "return [...document.querySelectorAll('#spoken .lit')].map((span) => span.textContent)"
LIT_WORDS = """
const done = arguments[0];
const lit = [];
new MutationObserver((changes) => {
  for (const { target } of changes)
    if (target.classList.contains("lit")) lit.push([target.textContent, player.context.currentTime]);
}).observe(document.getElementById("spoken"), { attributes: true, attributeFilter: ["class"], subtree: true });
player.context.resume();
const look = () => (player.context.currentTime > player.ends + 0.3 ? done(lit) : setTimeout(look, 20));
look();
"""
"""Collects the highlighted text until the end of the speech, using the sound's clock."""
READY = "return typeof player !== 'undefined' && player.rate > 0"


@pytest.fixture
def opened(browser: Browser, page: str) -> Browser:
    browser.open(page)
    until(browser, READY)
    return browser


def until(browser: Browser, condition: str) -> None:
    WebDriverWait(browser.driver, PATIENCE, 0.05).until(lambda _: browser.run(condition))


def speak(browser: Browser, text: str) -> None:
    field = browser.driver.find_element(By.ID, "text")
    field.clear()
    field.send_keys(text)
    browser.driver.find_element(By.ID, "speak").click()


def paste(browser: Browser, text: str) -> None:
    browser.run("document.getElementById('text').value = arguments[0]", text)
    browser.driver.find_element(By.ID, "speak").click()


def heard(browser: Browser) -> np.ndarray:
    until(browser, "return player.complete !== null")
    return np.frombuffer(base64.b64decode(browser.run(SAMPLES)), "<i2")


def line(browser: Browser, id: str) -> str:
    return browser.driver.find_element(By.ID, id).text


def test_what_is_typed_is_heard_as_say_speaks_it(opened: Browser, two_variants: Path) -> None:
    assert opened.run(SHOWN) == ["speed", "pitch", "energy"]
    opened.driver.find_element(By.ID, "text").send_keys(TEXT)
    began = opened.driver.execute_async_script(SPEAK_UNHEARD)
    samples = heard(opened)
    np.testing.assert_allclose(samples, pcm16(Voice.load(two_variants, threads=1).say(TEXT)), atol=1)
    seconds = len(samples) / 16000
    assert seconds - 0.01 < opened.run("return player.ends") < began + seconds + 0.1
    loudest, now = opened.driver.execute_async_script(LOUDEST)
    assert loudest > 0
    assert now > began
    until(opened, "return document.getElementById('status').textContent.startsWith('Spoken')")
    assert opened.complaints() == []
    assert all(address.startswith(opened.driver.current_url) for address in opened.requests())


@pytest.mark.parametrize("bundle", ["two_variants", "codec_lm_bundle"])
def test_what_is_typed_is_spoken_while_it_is_typed(
    browser: Browser, bundle: str, request: pytest.FixtureRequest
) -> None:
    browser.open(request.getfixturevalue("page" if bundle == "two_variants" else "codec_lm_page"))
    until(browser, READY)
    voice = Voice.load(request.getfixturevalue(bundle), threads=1)
    field, box = (browser.driver.find_element(By.ID, id) for id in ("text", "typed"))
    box.click()
    field.send_keys("One apple. T")
    alone = len(voice.say("One apple."))
    until(browser, f"return player.seconds * 16000 > {alone} - 1")
    assert browser.run("return player.complete") is None
    field.send_keys("wo pears,")
    assert line(browser, "spoken").rstrip() == "One apple. Two"  # the last word may continue
    field.send_keys(" and what else?")
    longer = len(voice.say(TEXT))
    until(browser, f"return player.seconds * 16000 > {longer} - 1")  # after a pause
    assert browser.run("return player.complete") is None
    box.click()
    np.testing.assert_allclose(heard(browser), pcm16(voice.say(TEXT)), atol=1)
    assert line(browser, "spoken") == TEXT
    assert not box.is_selected()
    assert browser.complaints() == []


def test_what_was_given_to_the_voice_cannot_be_changed(opened: Browser) -> None:
    field, box = (opened.driver.find_element(By.ID, id) for id in ("text", "typed"))
    box.click()
    field.send_keys("One apple. Tow")
    until(opened, "return player.typed?.sent === 'One apple. '")
    field.send_keys(Keys.BACKSPACE * 2, "wo ")  # of a word that may continue
    until(opened, "return player.typed.sent === 'One apple. Two '")
    field.send_keys(Keys.BACKSPACE * 3)
    assert line(opened, "error").startswith("The text that you changed was already sent to the voice")
    field.send_keys("wo pears.")
    assert line(opened, "error") == ""
    box.click()
    heard(opened)
    assert line(opened, "spoken") == "One apple. Two pears."


def test_speech_begins_before_the_end_is_computed_and_stops_when_asked(opened: Browser) -> None:
    paste(opened, LONG)
    until(opened, "return player.heard.length > 0 && player.context.currentTime > 0.1")
    assert opened.run("return player.complete === null")
    opened.driver.find_element(By.ID, "stop").click()
    until(opened, "return player.context === null && document.getElementById('stop').disabled")
    assert line(opened, "status") == ""
    speak(opened, "Again.")
    until(opened, "return player.complete !== null")
    assert line(opened, "error") == ""


def test_speaker_speed_and_variant_change_what_is_heard(opened: Browser) -> None:
    def choose(id: str, value: str) -> np.ndarray:
        Select(opened.driver.find_element(By.ID, id)).select_by_value(value)
        speak(opened, TEXT)
        return heard(opened)

    plain = choose("variant", "")
    np.testing.assert_allclose(choose("variant", "quiet"), plain / 2, atol=2)
    ben = choose("speaker", "ben")
    assert not np.array_equal(2 * ben, plain)
    opened.run(
        "const speed = document.getElementById('speed'); speed.value = 2; speed.dispatchEvent(new Event('input'))"
    )
    assert line(opened, "speed-shown") == "2.00"
    speak(opened, TEXT)
    assert len(heard(opened)) < len(ben)


def test_what_cannot_be_spoken_is_said_in_a_line(opened: Browser) -> None:
    speak(opened, "...")
    until(opened, "return document.getElementById('error').textContent !== ''")
    assert line(opened, "error") == "nothing in the text can be spoken in en-us: '...'"
    assert opened.driver.find_element(By.ID, "error").get_attribute("role") == "alert"
    paste(opened, "Hello 你 there.")
    until(opened, "return player.complete !== null")
    assert line(opened, "unknown").endswith("你")
    assert line(opened, "error") == ""
    [told] = opened.complaints()
    assert "400 (Bad Request)" in told, "the browser tells of the refused request, and of nothing else"


def test_a_voice_of_codes_offers_seed_and_temperature_instead_of_speed(
    browser: Browser, codec_lm_page: str, codec_lm_bundle: Path
) -> None:
    browser.open(codec_lm_page)
    until(browser, READY)
    assert browser.run(SHOWN) == ["temperature", "seed"]
    assert line(browser, "temperature-shown") == "0.00"
    voice = Voice.load(codec_lm_bundle, threads=1)
    speak(browser, "One apple.")
    np.testing.assert_allclose(heard(browser), pcm16(np.concatenate(list(voice.stream("One apple.")))), atol=1)
    browser.run("const f = document.getElementById('temperature'); f.value = 0.9; f.dispatchEvent(new Event('input'))")
    assert line(browser, "temperature-shown") == "0.90"
    for seed in (1, 2):
        browser.run("document.getElementById('seed').value = arguments[0]", seed)
        speak(browser, "One apple.")
        stream = voice.stream("One apple.", seed=seed, decoding={"temperature": 0.9})
        np.testing.assert_allclose(heard(browser), pcm16(np.concatenate(list(stream))), atol=1)
        assert line(browser, "bad").startswith("A sentence did not go well") == any(stream.finish_reasons)
    assert browser.complaints() == []


@pytest.mark.parametrize("family", ["parallel", "codec_lm"])
def test_words_are_lit_while_they_are_spoken(
    family: str, browser: Browser, page: str, codec_lm_page: str, two_variants: Path, codec_lm_bundle: Path
) -> None:
    text = "😀 One apple, two pears. And 22 more?"
    bundle = two_variants if family == "parallel" else codec_lm_bundle
    browser.open(page if family == "parallel" else codec_lm_page)
    until(browser, READY)
    _, words = Voice.load(bundle, threads=1).say_timed(text)
    browser.run("document.getElementById('text').value = arguments[0]", text)
    began = browser.driver.execute_async_script(SPEAK_UNHEARD)
    heard(browser)
    assert line(browser, "spoken") == text
    shown = browser.run("return player.words.map(({span, start, end}) => [span.textContent, start, end])")
    assert shown == [[word.text, round(word.start, 4), round(word.end, 4)] for word in words]
    assert browser.run(LIT) == []
    lit = browser.driver.execute_async_script(LIT_WORDS)
    order = [[word.text for word in words].index(word) for word, _ in lit]
    assert len(lit) > 1 and order == sorted(set(order))  # a busy browser may skip words
    for text_lit, at in lit:  # a frame of the browser may be late
        [own] = [word for word in words if word.text == text_lit]
        assert own.start - 0.01 <= at - began - 0.05 <= own.end + 0.2
    assert browser.run(LIT) == []
    speak(browser, "Two.")
    until(browser, "return document.getElementById('spoken').textContent === 'Two.'")
    assert browser.complaints() == []


def test_readable_on_a_phone_and_every_field_has_a_label(browser: Browser, page: str) -> None:
    browser.open(page, width=360, height=700)
    until(browser, READY)
    assert browser.overflow() == 0
    each = "return [...document.querySelectorAll(arguments[0])]"
    labels = browser.run(f"{each}.map((f) => f.labels[0]?.textContent.trim())", "textarea, select, input")
    assert len(labels) == 9 and all(labels)
    assert min(browser.run(f"{each}.map((b) => b.getBoundingClientRect().height)", "button")) >= 44
