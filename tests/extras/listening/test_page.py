from pathlib import Path

import numpy as np
import pytest
import soundfile
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from sonorant.extras.listening.answers import Answer, read_answers
from tests.extras.listening.conftest import RATE, Start, heard
from tests.support.browser import Browser
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.long

SOUND = """
const done = arguments[1];
fetch(`sounds/${arguments[0]}`).then((answer) => answer.arrayBuffer()).then((wav) =>
  done(Array.from(new Int16Array(wav.slice(44)))));
"""
UNNAMED = """
const named = (e) => e.labels?.length || e.ariaLabel || e.textContent.trim();
return [...document.querySelectorAll('button, input, progress, fieldset')].filter((e) => !named(e)).map((e) => e.id)
"""


class Page:
    def __init__(self, browser: Browser, address: str) -> None:
        self.browser = browser
        browser.open(address)
        self.until("typeof test !== 'undefined'")

    def until(self, condition: str) -> None:
        ready = f"return Boolean({condition})"
        WebDriverWait(self.browser.driver, PATIENCE, 0.02).until(lambda _: self.browser.run(ready))

    def press(self, *keys: str) -> None:
        self.browser.driver.switch_to.active_element.send_keys(*keys)

    def tab_to(self, condition: str) -> None:
        """Press Tab until element `e` of the condition has the focus."""
        for _ in range(20):
            if self.browser.run(f"const e = document.activeElement; return Boolean({condition})"):
                return
            self.press(Keys.TAB)
        raise AssertionError(f"no Tab leads to {condition}")

    def shows(self, title: str) -> None:
        self.until(
            f"document.getElementById('title').textContent === '{title}' && document.activeElement.id === 'title'"
        )

    def says(self, line: str) -> None:
        self.until(f"document.getElementById('error').textContent === '{line}'")

    def begin(self, name: str) -> None:
        self.tab_to("e.id === 'name'")
        self.press(name, Keys.ENTER)

    def hear(self, *keys: str) -> None:
        for key in keys:
            self.press(key)
            self.until(f"test.players.find((player) => player.key === '{key}').heard")

    def systems(self) -> list[str]:
        tokens = self.browser.run("return test.trial.sounds")
        sounds = [np.array(self.browser.driver.execute_async_script(SOUND, token)) for token in tokens]
        return [heard(samples / 32768, RATE) for samples in sounds]

    def choose(self, steps: int) -> None:
        self.tab_to("e.name === 'choice'")
        self.press(" ", *[Keys.ARROW_RIGHT] * steps)

    def send(self) -> None:
        self.tab_to("e.id === 'next'")
        self.press(Keys.ENTER)


def test_a_whole_test_by_keys_alone(browser: Browser, start: Start, tmp_path: Path) -> None:
    page = Page(browser, start(count=2).url)
    assert browser.run("return document.activeElement.id") == "name", "one may type at once"
    page.begin("Anna")
    page.shows("Question 1 of 4")
    page.send()
    page.says("The first has not been played to the end yet.")
    page.hear("1")
    page.send()
    page.says("The second has not been played to the end yet.")
    assert browser.run("return document.activeElement.textContent").startswith("Play the second")
    page.press(Keys.ENTER)
    page.until("test.players[1].heard")
    page.send()
    page.says("Choose one of the three.")
    expected: list[object] = [page.systems()[0]]
    page.choose(0)
    page.send()
    page.shows("Question 2 of 4")
    page.says("")

    page = Page(browser, browser.driver.current_url)  # after a reload the window keeps the listener
    page.shows("Question 2 of 4")
    assert browser.run("return [...document.getElementsByName('choice')].filter((e) => e.checked).length") == 0
    page.hear("1", "2")
    page.choose(1)
    page.send()
    page.shows("Question 3 of 4")
    expected.append(None)

    for number in (3, 4):
        page.hear("0", "1", "2", "3", "4")
        page.send()
        page.says("Sound 1 is not rated yet; move its slider.")
        systems = page.systems()
        for place, presses in enumerate(((Keys.END,), (Keys.HOME,), (Keys.ARROW_RIGHT,), (Keys.ARROW_LEFT,) * 3)):
            page.tab_to(f"e === test.players.find((player) => player.key === '{place + 1}').range")
            page.press(*presses)
        page.hear("2")
        told = "return test.players.filter((e) => e.range).map((e) => e.range.getAttribute('aria-valuetext'))"
        assert browser.run(told) == ["100, excellent", "0, bad", "51, fair", "47, fair"]
        expected.append(dict(zip(systems, (100, 0, 51, 47), strict=True)))
        page.send()
        page.shows("Done" if number == 4 else "Question 4 of 4")

    def said(answer: Answer) -> object:
        return answer.prefers if answer.kind == "pair" else answer.scores

    answers = read_answers(tmp_path / "answers.jsonl")[1]
    assert [said(answer) for answer in answers] == expected
    assert browser.complaints() == []
    assert all(address.startswith(browser.driver.current_url) for address in browser.requests())
    page.tab_to("e.id === 'another'")
    page.press(Keys.ENTER)
    page.until("!document.getElementById('begin').hidden && !document.getElementById('name').value")


def test_a_listener_goes_on_at_another_server_and_others_begin(browser: Browser, start: Start, tmp_path: Path) -> None:
    page = Page(browser, start(count=2).url)
    browser.run("sessionStorage.clear()")
    page = Page(browser, browser.driver.current_url)
    page.begin("ben")
    page.shows("Question 1 of 4")
    page.hear("2", "1")
    page.choose(2)
    second = page.systems()[1]
    server = start(count=2)  # a new server without the old sounds
    page.send()
    page.until("document.getElementById('error').textContent.startsWith('The server cannot be reached')")
    page = Page(browser, server.url)  # another port, hence a new listener
    page.begin("ben")
    page.shows("Question 1 of 4")
    assert page.systems()[1] == second, "the same order"
    server.sitting.answer("ben", browser.run("return test.trial.token"), "none")  # in another window
    page.hear("1", "2")
    page.choose(0)
    page.send()
    page.shows("Question 2 of 4")
    assert [answer.prefers for answer in read_answers(tmp_path / "answers.jsonl")[1]] == [None]
    browser.run("sessionStorage.clear()")
    page = Page(browser, server.url)
    page.begin("carl")
    page.shows("Question 1 of 4")


def test_one_sound_plays_at_a_time_and_stops_when_the_next_begins(
    browser: Browser, start: Start, places: dict[str, str]
) -> None:
    for folder in places.values():
        for file in Path(folder).iterdir():
            samples, rate = soundfile.read(file)
            soundfile.write(file, np.tile(samples, 60), rate)
    page = Page(browser, start("A", "B", count=1).url)
    browser.run("sessionStorage.clear()")
    page = Page(browser, browser.driver.current_url)
    page.begin("eva")
    page.shows("Question 1 of 1")
    playing = "test.players.map((player) => !player.audio.paused && player.audio.currentTime > 0).join()"
    page.press("1")
    page.until(f"{playing} === 'true,false'")
    page.press("2")
    page.until(f"{playing} === 'false,true'")
    assert browser.run("return document.querySelectorAll('.playing').length") == 1
    page.send()
    page.says("The first has not been played to the end yet.")


def test_it_fits_a_phone_and_everything_has_a_name(browser: Browser, start: Start) -> None:
    server, width = start(count=1), 390
    browser.open(server.url, width=width)
    browser.run("sessionStorage.setItem('listener', 'finn')")
    for kind in ("pair", "rating"):
        browser.open(server.url, width=width)
        WebDriverWait(browser.driver, PATIENCE, 0.02).until(lambda _: browser.run("return Boolean(test.trial)"))
        assert browser.run("return test.trial.kind") == kind
        assert browser.overflow() <= 0
        assert browser.run(UNNAMED) == []
        sizes = "return [...document.querySelectorAll('#trial button')].map((e) => e.getBoundingClientRect().height)"
        assert min(browser.run(sizes)) >= 44
        if kind == "pair":
            server.sitting.answer("finn", browser.run("return test.trial.token"), "none")
    assert browser.complaints() == []
