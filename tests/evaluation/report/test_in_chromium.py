from itertools import pairwise
from pathlib import Path

import pytest

from sonorant.evaluation.report.report_page import ReportInputs
from sonorant.files import write_text
from tests.evaluation.report.stages import KINDS, drawn
from tests.support.browser import Browser

pytestmark = pytest.mark.long

PHONE = 390
LOADED = """
const done = arguments[0], players = [...document.querySelectorAll('audio')];
const settled = player => player.readyState > 0 || player.error;
const ask = () => players.every(settled) ? done(players.map(p => p.error ? 0 : p.duration)) : setTimeout(ask, 20);
ask();
"""
DRAWN = """
const box = part => part.getBoundingClientRect(), empty = b => b.width <= 0 && b.height <= 0;
return [...document.querySelectorAll('.chart svg')].map(chart => ({
  title: chart.getAttribute('aria-label'), height: box(chart).height, width: box(chart).width,
  marks: [...chart.querySelectorAll('.mark, .line')].filter(mark => !empty(box(mark))).length,
  outside: [...chart.querySelectorAll('.mark, .line, text')].filter(part =>
    box(part).left < box(chart).left - 1 || box(part).right > box(chart).right + 1 ||
    box(part).bottom > box(chart).bottom + 1).length,
  letters: Math.min(...[...chart.querySelectorAll('text')].map(
    text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)),
}))
"""
PALE = """
const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
const light = colour => { const [r, g, b] = numbers(colour).map(v => linear(v / 255));
  return .2126 * r + .7152 * g + .0722 * b; };
const paper = part => { for (let p = part; p; p = p.parentElement) { const c = getComputedStyle(p).backgroundColor;
  if (numbers(c).length < 4 || numbers(c)[3] > 0) return c; } return 'rgb(255, 255, 255)'; };
const words = part => [...part.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
const text = part => words(part) && part.getClientRects().length;
return [...document.body.querySelectorAll('*')].filter(text).filter(part => part.tagName !== 'title').filter(part => {
  const style = getComputedStyle(part), ink = part.closest('svg') ? style.fill : style.color;
  const [a, b] = [light(ink), light(paper(part))].sort((x, y) => y - x);
  return (a + .05) / (b + .05) < 4.5;
}).map(part => part.tagName + '.' + part.getAttribute('class') + ': ' + part.textContent.slice(0, 40))
"""


@pytest.fixture(scope="module")
def page(inputs: ReportInputs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "index.html"
    write_text(file, drawn(inputs))
    return file


def faults(browser: Browser, page: Path, *, width: int, dark: bool = False) -> list[str]:
    """Problems with everything unfolded."""
    browser.open(page, width=width, dark=dark)
    browser.run("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    durations = browser.driver.execute_async_script(LOADED)
    found = [f"player {place} does not load" for place, seconds in enumerate(durations) if not seconds]
    for chart in browser.run(DRAWN):
        named, letters = f"chart '{chart['title']}'", chart["letters"]
        found += [f"{named} is empty"] if not (chart["marks"] and chart["height"] > 40) else []
        found += [f"{named} draws outside its box"] if chart["outside"] else []
        found += [f"{named} has letters of {letters:.0f} px"] if letters < 10 else []
    blank = browser.run("return [...document.images].filter(image => !image.naturalWidth || !image.clientWidth).length")
    found += [f"{blank} pictures are blank"] if blank else []
    found += [f"wider than the window by {browser.overflow()} px"] if browser.overflow() > 0 else []
    found += [f"pale: {text}" for text in browser.run(PALE)]
    found += [f"asks for {address}" for address in browser.requests() if address != page.resolve().as_uri()]
    return found + [f"console: {line}" for line in browser.complaints()]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, 1200])
def test_a_reader_has_nothing_to_complain_of(browser: Browser, page: Path, width: int, dark: bool) -> None:
    assert faults(browser, page, width=width, dark=dark) == []


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("</main>", '<img alt="" src="http://127.0.0.1:9001/pixel.png"></main>', "console: "),
        ("</main>", "<script>console.error('boo')</script></main>", "console: "),
        ("data:audio/flac;base64,ZkxhQw", "data:audio/flac;base64,AAAAAA", "player 0 does not load"),
        ("data:image/png;base64,iVBOR", "data:image/png;base64,AAAAA", "1 pictures are blank"),
        ("<p ", '<p style="width:500px" ', "wider than the window"),
        ("--soft: #555c66", "--soft: #b5bcc6", "pale: "),
        ("svg text { font: 13px", "svg text { font: 7px", "letters of 7 px"),
        (".chart svg { width: 100%; height: auto;", ".chart svg { height: 0;", "is empty"),
    ],
)
def test_each_fault_is_seen(browser: Browser, page: Path, tmp_path: Path, old: str, new: str, named: str) -> None:
    text = page.read_text(encoding="utf-8")
    assert old in text
    spoilt = tmp_path / "spoilt.html"
    write_text(spoilt, text.replace(old, new, 1))
    found = faults(browser, spoilt, width=PHONE)
    assert any(named in fault for fault in found), found


def test_the_first_screen_is_for_a_listener(browser: Browser, page: Path) -> None:
    """Verdict and players are visible; the rest unfolds without a script."""
    browser.open(page, width=1280, height=900)
    seen = "e => e.checkVisibility() && e.getBoundingClientRect().bottom < 900"
    named = "e => (e.ariaLabel || e.textContent).split(':')[0]"
    found = browser.run(f"return [...document.querySelectorAll('h1, audio')].filter({seen}).map({named})")
    assert found[:4] == ["int8 on onnxruntime ships", "recording", "copy of the recording", "int8"]
    absent = "return [...document.querySelectorAll('th')].filter(e => e.textContent.includes('tensorrt/fp32'))"
    assert browser.run(f"{absent}.map(e => e.checkVisibility())") == [False] * 3
    browser.run("document.querySelectorAll('summary').forEach(line => line.click())")
    assert browser.run(f"{absent}.map(e => e.checkVisibility())") == [True] * 3


def test_without_the_policy_a_request_would_be_seen(browser: Browser, page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("img-src data:", "img-src *", 1)
    spoilt = tmp_path / "spoilt.html"
    write_text(spoilt, text.replace("</main>", '<img alt="" src="http://127.0.0.1:9001/pixel.png"></main>', 1))
    assert "asks for http://127.0.0.1:9001/pixel.png" in faults(browser, spoilt, width=PHONE)


def test_every_kind_plays_for_as_long_as_its_sample(browser: Browser, page: Path) -> None:
    browser.open(page)
    durations = browser.driver.execute_async_script(LOADED)
    spoken, short_texts = durations[: 2 * len(KINDS)], durations[2 * len(KINDS) :]
    assert spoken == pytest.approx([0.6] * len(KINDS) + [0.5] * len(KINDS), abs=1e-3)  # worst sentence first
    assert all(short_texts), "the worst short texts play too"
    played = """const player = document.querySelector('audio'), done = arguments[0];
    player.onended = () => done(player.currentTime);
    player.play()"""
    assert browser.driver.execute_async_script(played) == pytest.approx(0.6, abs=0.01)


def test_a_screen_reader_finds_its_way(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.run("return document.documentElement.lang") == "en"
    headings = browser.run("return [...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))")
    assert headings[0] == 1 and headings.count(1) == 1
    assert all(level - before <= 1 for before, level in pairwise(headings))
    for selected, holds in (
        ("audio, img, svg, nav, [role=region]", "e => e.ariaLabel || e.alt"),
        ("nav a", "e => document.querySelector(e.getAttribute('href'))"),
        ("table", "e => e.caption && e.querySelector('th[scope=col]')"),
    ):
        assert browser.run(f"return [...document.querySelectorAll('{selected}')].every({holds})"), selected
