from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from sonorant.corpus.decisions import Decision, clip_name, read_decisions, write_decision
from sonorant.corpus.manifest import read_manifest, write_manifest
from sonorant.extras.review.review_server import ReviewServer
from tests.extras.review.conftest import TEXTS
from tests.support.browser import Browser
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.long

Start = Callable[[], ReviewServer]
SHOWN = "return [...document.querySelectorAll('#list li')].filter((item) => !item.hidden).length"


class Page:
    """The page and the file of decisions."""

    def __init__(self, browser: Browser, address: str, file: Path, **view: Any) -> None:
        self.browser, self.file = browser, file
        browser.open(address, **view)

    def until(self, condition: str, *arguments: Any) -> None:
        ready = f"return Boolean({condition})"
        WebDriverWait(self.browser.driver, PATIENCE, 0.02).until(lambda _: self.browser.run(ready, *arguments))

    def on(self, id: str) -> None:
        self.until("review.clip?.id === arguments[0] && audio.readyState > 0 && review.edges", id)

    def press(self, *keys: str) -> None:
        ActionChains(self.browser.driver).send_keys(*keys).perform()

    def said(self, line: str) -> None:
        self.until("document.getElementById('status').textContent.startsWith(arguments[0])", line)

    def text(self, id: str) -> str:
        return self.browser.driver.find_element(By.ID, id).text

    def seek(self, seconds: float) -> None:
        self.browser.run("seek(arguments[0])", seconds)

    def decisions(self) -> dict[str, Decision]:
        return read_decisions(self.file) if self.file.exists() else {}


@pytest.fixture
def page(browser: Browser, start: Start, folder: Path) -> Page:
    opened = Page(browser, start().url, folder / "decisions.csv")
    opened.on("two")
    return opened


def test_a_review_by_keys_from_the_first_clip_to_the_last(
    page: Page, browser: Browser, start: Start, folder: Path, names: dict[str, str]
) -> None:
    address = browser.driver.current_url
    assert (page.text("decided"), page.text("fault-name")) == ("0 of 5 decided", "other text")
    faults = Select(browser.driver.find_element(By.ID, "fault"))
    faults.select_by_index(2)
    assert browser.run(SHOWN) == 2, "the one with this fault and the one shown"
    faults.select_by_index(0)
    browser.run("document.activeElement.blur()")
    assert page.text("text") == TEXTS["two"], "markup is text"
    page.press("d")
    page.on("three")
    page.said("Dropped: two.")
    assert page.decisions() == {names["two"]: Decision(clip=names["two"], decision="drop")}

    page.press("e")
    page.until("document.activeElement.id === 'new-text'")
    browser.run("document.getElementById('new-text').select()")
    page.press('The dusk, "so" it is.', Keys.ENTER)
    page.said("New text.")
    edited = Decision(clip=names["three"], decision="edit", text='The dusk, "so" it is.')
    assert page.decisions()[names["three"]] == edited
    assert (page.text("text"), page.text("original")) == (edited.text, f"Before: {TEXTS['three']}")
    page.seek(0.4)
    page.press("s")
    page.said("New start: 0.40 s.")
    page.seek(2.6)
    page.press("t")
    page.said("New end: 2.60 s.")
    whole = Decision(clip=names["three"], decision="edit", text=edited.text, start=0.4, end=2.6)
    assert page.decisions()[names["three"]] == whole
    page.press("u")
    page.said("Undone")
    assert page.decisions()[names["three"]] == Decision(clip=whole.clip, decision="edit", text=whole.text, start=0.4)

    page.press("k")
    page.on("four")
    page.said("Kept as edited")
    assert page.decisions()[names["three"]].decision == "edit", "keeping keeps the edit"
    page.press("k")
    page.on("one")
    assert page.decisions()[names["four"]].decision == "keep"
    page.press("u")
    page.on("four")
    assert names["four"] not in page.decisions()

    server = start()  # another port: state is in the file
    assert server.url != address
    again = Page(browser, server.url, folder / "decisions.csv")
    again.on("four")
    assert again.text("decided") == "2 of 5 decided"
    browser.driver.find_element(By.ID, "undecided").click()
    assert browser.run(SHOWN) == 3
    for id in ("one", "part"):
        again.press("k")
        again.on(id)
    again.press("d")
    again.said("Dropped: part. All clips shown are decided; dvc repro applies the decisions.")
    assert {clip: row.decision for clip, row in again.decisions().items()} == {
        names[id]: decision
        for id, decision in {"two": "drop", "three": "edit", "four": "keep", "one": "keep", "part": "drop"}.items()
    }
    assert browser.complaints() == []
    assert all(asked.startswith(server.url) for asked in browser.requests())


def test_edges_are_dragged_and_moved_by_arrow_keys(page: Page, browser: Browser, names: dict[str, str]) -> None:
    view = browser.driver.find_element(By.ID, "view")
    handle = browser.driver.find_element(By.ID, "end")
    ActionChains(browser.driver).drag_and_drop_by_offset(handle, -view.size["width"] // 3, 0).perform()
    page.said("New end")
    assert page.decisions()[names["two"]].end == pytest.approx(2.0, abs=0.02)
    browser.run("document.getElementById('start').focus()")
    page.press(Keys.ARROW_RIGHT)
    page.said("New start: 0.01 s.")
    ActionChains(browser.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_RIGHT).key_up(Keys.SHIFT).perform()
    page.said("New start: 0.11 s.")
    assert page.decisions()[names["two"]].start == 0.11
    assert handle.get_attribute("aria-valuetext") == f"{page.decisions()[names['two']].end:.2f} s"
    page.seek(2.9)
    page.press("s")
    page.until("document.getElementById('error').textContent === 'The start must be before the end.'")
    assert page.decisions()[names["two"]].start == 0.11


def test_a_word_is_heard_where_it_is_and_the_playhead_seeks(page: Page, browser: Browser) -> None:
    page.press(Keys.ARROW_DOWN)
    page.on("three")
    (doubtful,) = browser.driver.find_elements(By.CSS_SELECTOR, "#text .doubtful")
    assert doubtful.text == "third"
    word = next(word for word in browser.run("return review.clip.words") if word["text"] == "third")
    span = browser.driver.find_element(By.CSS_SELECTOR, ".unexplained")
    assert span.get_attribute("aria-label") == "Speech that is not in the text, 2.75 to 2.95 s"
    page.press(" ")
    page.until("!review.playing")
    doubtful.click()
    page.until("review.playing && audio.currentTime >= arguments[0]", word["start"] - 0.05)
    assert browser.run("return review.playing.stop") == pytest.approx(word["end"] + 0.03)
    page.until("!review.playing && audio.paused")
    assert browser.run("return review.at") == pytest.approx(word["start"] - 0.03), "ready to be heard again"
    page.seek(2.5)
    page.press(" ")
    page.until("review.playing && audio.currentTime > 2.5")
    assert browser.complaints() == []


def test_a_decision_by_hand_meanwhile_is_shown_and_stays(page: Page, names: dict[str, str]) -> None:
    by_hand = Decision(clip=names["two"], decision="drop", note="by hand")
    write_decision(page.file, by_hand.clip, by_hand)
    page.press("k")
    page.until("document.getElementById('error').textContent.includes('now has another decision on this clip')")
    assert page.decisions() == {by_hand.clip: by_hand}
    assert (page.text("verdict"), page.browser.run("return document.getElementById('note').value")) == (
        "dropped",
        "by hand",
    )
    assert len(page.browser.complaints()) == 1, "the answer's status"


def test_a_note_goes_with_the_decision_and_letters_in_it_decide_nothing(page: Page, names: dict[str, str]) -> None:
    page.browser.driver.find_element(By.ID, "note").click()
    page.press("kudos, a dog", Keys.ENTER)
    assert page.decisions() == {}
    page.press("d")
    page.on("three")
    assert page.decisions()[names["two"]].note == "kudos, a dog"


def test_of_a_large_corpus_the_list_shows_the_clips_around(browser: Browser, start: Start, folder: Path) -> None:
    """With 500 clips; in a full list of 10,000 a key would take seconds."""
    for name in ("corpus", "prepared"):
        rows = read_manifest(folder / name / "manifest.jsonl")
        [part] = [row for row in rows if row.id == "part"]
        more = [replace(part, id=f"part {number}", start=1 + number / 1000) for number in range(1, 501)]
        if name == "prepared":
            more = [replace(row, clip=clip_name(str(row.sha256), row.start, row.end)) for row in more]
        write_manifest(folder / name / "manifest.jsonl", rows + more)
    page = Page(browser, start().url, folder / "decisions.csv")
    page.on("two")
    entries = "return [...document.querySelectorAll('#list .small')].map((entry) => entry.textContent)"
    assert len(browser.run(entries)) == 200 and browser.run(SHOWN) == 201
    browser.driver.find_element(By.XPATH, "//button[text()='305 later clips']").click()
    browser.driver.find_element(By.XPATH, "//span[text()='part 300']/ancestor::button").click()
    page.on("part 300")
    page.press("k")
    page.on("part 301")
    assert len(page.decisions()) == 1


def test_readable_on_a_phone_and_every_field_has_a_name(browser: Browser, start: Start, folder: Path) -> None:
    (folder / "audit/audit.jsonl").unlink()
    page = Page(browser, start().url, folder / "decisions.csv", width=360, height=800, dark=True)
    page.on("one")
    assert page.text("notice").startswith("This corpus has not been audited")
    assert browser.overflow() == 0
    each = "return [...document.querySelectorAll(arguments[0])]"
    labels = browser.run(f"{each}.map((field) => field.labels[0]?.textContent.trim())", "textarea, select, input")
    assert len(labels) == 6 and all(labels)
    sliders = browser.run(f"{each}.map((slider) => slider.getAttribute('aria-valuenow'))", "[role=slider]")
    assert sliders == ["0.000", "3.000"]
    heights = browser.run(f"{each}.map((button) => button.offsetHeight).filter(Boolean)", "main > .buttons button")
    assert min(heights) >= 44
