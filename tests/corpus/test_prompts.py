import re
from pathlib import Path

import pytest

from sonorant.corpus.prompt_coverage import SILENCE, describe, measure_coverage, read_prompts
from sonorant.errors import SonorantError
from sonorant.evaluation.short_texts.english import KINDS
from sonorant.text import Frontend, load_frontend
from tests.support.command import run_command
from tests.support.imports import ROOT

PROMPTS = ROOT / "corpora/demo/prompts.txt"
SUBSET = 1000  # minimum number of prompts in a demo corpus
RAREST = 30  # the rarest, the s of "measure", comes 52 times


@pytest.fixture(scope="module")
def prompts() -> list[str]:
    return read_prompts(PROMPTS)


@pytest.fixture(scope="module")
def frontend() -> Frontend:
    return load_frontend("gruut", "en-us")


def test_there_are_enough_sentences_of_fitting_length_in_plain_characters_and_some_single_words(
    prompts: list[str],
) -> None:
    assert len(prompts) >= SUBSET
    short = [prompt for prompt in prompts if len(prompt) < 25]
    assert [prompt for prompt in prompts if len(prompt) > 90] == [prompt for prompt in short if len(prompt) > 16] == []
    assert 0.05 < len([prompt for prompt in prompts[:SUBSET] if prompt in short]) / SUBSET < 0.1


def test_what_a_voice_is_judged_by_is_not_among_the_prompts(prompts: list[str]) -> None:
    known = {re.sub(r"[^a-z0-9 ]", "", prompt.lower()) for prompt in prompts}
    judged = {re.sub(r"[^a-z0-9 ]", "", text.lower()) for texts in KINDS.values() for text in texts}
    assert known & judged == set()


def test_every_phone_of_english_is_said_often_in_all_kinds_of_sentences(prompts: list[str], frontend: Frontend) -> None:
    coverage = measure_coverage(prompts[:SUBSET], frontend)
    assert {phone: count for phone, count in coverage.phones.items() if count < RAREST} == {}
    assert coverage.pauses["."] > coverage.pauses["?"] > coverage.pauses["!"] > 0


def test_counts_are_those_of_a_sentence_counted_by_hand(frontend: Frontend) -> None:
    counted = measure_coverage(["See me, sea!"], frontend)  # s iː m iː , s iː !
    assert counted.sentences == 1
    assert {phone: count for phone, count in counted.phones.items() if count} == {"m": 1, "s": 2, "i": 3}
    assert counted.pauses == {",": 1, ".": 0, "?": 0, "!": 1}
    once = {(SILENCE, "s"): 1, ("s", "i"): 1, ("i", "m"): 1, ("m", "i"): 1, ("i", SILENCE): 1}
    assert measure_coverage(["See me"], frontend).diphones == once
    assert counted.diphones == once | {(SILENCE, "s"): 2, ("s", "i"): 2, ("i", SILENCE): 2}
    assert list(counted.phones.values()) == sorted(counted.phones.values())
    assert "5 of" in describe(counted)


def test_readme_tells_what_its_command_prints() -> None:
    readme = (ROOT / "corpora/demo/README.md").read_text(encoding="utf-8")
    command = re.findall(r"`python -m (tasks\.prompt_coverage [^`]+)`", readme)[0].split()
    done = run_command(*command, cwd=ROOT)
    totals = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    figures = [totals["sentences"], totals["phones"].split(", ")[0], totals["ʒ"], totals["ɔɪ"], totals["d͡ʒ"]]
    figures += re.findall(r"[\d,]+", totals["diphones"])[:2]
    assert [figure for figure in figures if not re.search(rf"(?<![\d,]){figure}(?![\d])", readme)] == []


@pytest.mark.parametrize("prompt", ["He paid ☃ for it.", "..."])
def test_a_prompt_that_cannot_be_spoken_is_named(frontend: Frontend, prompt: str) -> None:
    with pytest.raises(SonorantError, match=r"prompt 2 .*cannot be spoken"):
        measure_coverage(["This one is fine.", prompt], frontend)


def test_a_file_without_prompts_is_one_line_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("fine\ncafé\n".encode("latin-1"))
    (tmp_path / "empty.txt").write_text("\n  \n")
    for words in ("latin.txt:2: not UTF-8", "empty.txt: contains no prompts", "gone.txt: cannot"):
        with pytest.raises(SonorantError, match=words):
            read_prompts(tmp_path / words.split(":")[0])
