"""The demo's prompts are enough, each fits the corpus, and together they say every sound of English; the counts are
right."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from sonorant.data.prompt_coverage import SILENCE, Coverage, describe, measure_coverage, read_prompts
from sonorant.errors import SonorantError
from sonorant.text import Frontend, load_frontend
from tests.support.command import run_command

ROOT = Path(__file__).parents[2]
PROMPTS = ROOT / "corpora/demo/prompts.txt"
SUBSET = 1000  # the fewest prompts a demo corpus may have
RAREST = (
    30  # occurrences of every phone among the first SUBSET prompts; the rarest, the s of "measure", is there 52 times
)


@pytest.fixture(scope="module")
def prompts() -> list[str]:
    return read_prompts(PROMPTS)


@pytest.fixture(scope="module")
def frontend() -> Frontend:
    return load_frontend("gruut", "en-us")


@pytest.fixture(scope="module")
def coverage(prompts: list[str], frontend: Frontend) -> Coverage:
    return measure_coverage(prompts[:SUBSET], frontend)


def test_there_are_enough_prompts(prompts: list[str]) -> None:
    assert len(prompts) >= SUBSET


def test_every_prompt_is_a_sentence_of_fitting_length_in_plain_characters(prompts: list[str]) -> None:
    assert [prompt for prompt in prompts if not 25 <= len(prompt) <= 90] == []
    assert [prompt for prompt in prompts if not re.fullmatch(r"[A-Z][A-Za-z0-9 .,?!'\-:;$%&]*[.?!]", prompt)] == []


def test_no_prompt_comes_twice(prompts: list[str]) -> None:
    words = Counter(" ".join(re.findall(r"[a-z0-9']+", prompt.lower())) for prompt in prompts)
    assert [text for text, count in words.items() if count > 1] == []


def test_openings_vary(prompts: list[str]) -> None:
    openings = Counter(" ".join(prompt.lower().split()[:3]) for prompt in prompts)
    opening, count = openings.most_common(1)[0]
    assert count <= 5, f"{count} prompts begin with '{opening}'"


def test_every_phone_of_english_is_said_often(coverage: Coverage) -> None:
    assert {phone: count for phone, count in coverage.phones.items() if count < RAREST} == {}


def test_statements_questions_and_exclamations_are_there(coverage: Coverage) -> None:
    assert coverage.pauses["."] > coverage.pauses["?"] > coverage.pauses["!"] > 0


def test_counts_are_those_of_a_sentence_counted_by_hand(frontend: Frontend) -> None:
    counted = measure_coverage(["See me, sea!"], frontend)  # s iː m iː , s iː !
    see, me = ("s", "i"), ("m", "i")
    assert (counted.sentences, counted.characters) == (1, 12)
    assert {phone: count for phone, count in counted.phones.items() if count} == {"m": 1, "s": 2, "i": 3}
    assert counted.pauses == {",": 1, ".": 0, "?": 0, "!": 1}
    assert counted.diphones == {(SILENCE, "s"): 2, see: 2, ("i", "m"): 1, me: 1, ("i", SILENCE): 2}
    assert measure_coverage(["See me"], frontend).diphones == {
        (SILENCE, "s"): 1,
        see: 1,
        ("i", "m"): 1,
        me: 1,
        ("i", SILENCE): 1,
    }
    assert "ʒ" in counted.missing and "s" not in counted.missing
    assert list(counted.phones.values()) == sorted(counted.phones.values())


def test_report_names_what_is_missing(frontend: Frontend) -> None:
    report = describe(measure_coverage(["See me, sea!"], frontend))
    missing = report.splitlines()[-1].split()
    assert missing[0] == "missing" and "ʒ" in missing and "i" not in missing
    assert "5 seen of" in report


def test_readme_tells_what_its_command_prints() -> None:
    readme = (ROOT / "corpora/demo/README.md").read_text(encoding="utf-8")
    command = re.findall(r"`python -m (tasks\.prompt_coverage [^`]+)`", readme)[0].split()
    done = run_command(*command, cwd=ROOT)
    totals = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    figures = [totals["sentences"], totals["phones"].split(", ")[0], totals["ʒ"], totals["ɔɪ"], totals["d͡ʒ"]]
    figures += re.findall(r"[\d,]+", totals["diphones"])[:2]
    assert [figure for figure in figures if not re.search(rf"(?<![\d,]){figure}(?![\d])", readme)] == []


def test_coverage_adds_up_over_prompts(prompts: list[str], frontend: Frontend) -> None:
    first, second = prompts[:5], prompts[5:12]
    whole, parts = (
        measure_coverage(first + second, frontend),
        [measure_coverage(part, frontend) for part in (first, second)],
    )
    assert Counter(whole.diphones) == Counter(parts[0].diphones) + Counter(parts[1].diphones)
    assert whole.phones == {phone: sum(part.phones[phone] for part in parts) for phone in whole.phones}


@pytest.mark.parametrize("prompt", ["He paid ☃ for it.", "..."])
def test_a_prompt_that_cannot_be_spoken_is_named(frontend: Frontend, prompt: str) -> None:
    with pytest.raises(SonorantError, match=r"prompt 2 .*cannot be spoken"):
        measure_coverage(["This one is fine.", prompt], frontend)


def test_a_file_without_prompts_is_one_line_that_names_it(tmp_path: Path) -> None:
    latin, empty = tmp_path / "latin.txt", tmp_path / "empty.txt"
    latin.write_bytes("fine\ncafé\n".encode("latin-1"))
    empty.write_text("\n  \n")
    for path, words in (
        (latin, "latin.txt:2: not UTF-8"),
        (empty, "empty.txt: holds no prompts"),
        (tmp_path / "gone.txt", "gone.txt: cannot"),
    ):
        with pytest.raises(SonorantError, match=words):
            read_prompts(path)
