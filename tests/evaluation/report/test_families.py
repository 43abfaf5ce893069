import re
from pathlib import Path

from sonorant.evaluation.report.report_page import ReportInputs
from tests.evaluation.report.stages import REFERENCES, drawn, reports, write_family
from tests.support.edited import edited


def section(page: str, anchor: str) -> str:
    return page.split(f'<section aria-labelledby="{anchor}">')[1].split("</section>")[0]


def rows(page: str) -> dict[str, str]:
    found = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', section(page, "families"))
    return {name: re.sub(r"<[^>]*>", " ", rest) for name, rest in found}


def test_a_family_that_was_not_run_says_how(own: ReportInputs) -> None:
    page = drawn(own)
    assert "11.0 [9.0, 13.0]" in rows(page)["parallel"] and "not applicable" in rows(page)["parallel"]
    assert "not run: evaluate it with make demo FAMILY=codec_lm" in rows(page)["codec_lm"]
    assert "<audio" not in section(page, "families") and 'id="decoding"' not in page and "#decoding" not in page


def test_both_stand_side_by_side_and_are_compared_in_pairs(own: ReportInputs, tmp_path: Path) -> None:
    write_family(tmp_path / "own", "codec_lm", wrong=2)
    page = drawn(own)
    told = rows(page)["codec_lm"]
    assert "11.0 [9.0, 13.0]" in told and "33.3 [6.0, 79.0]" in told
    words = sum(len(text.split()) for text in REFERENCES)
    assert f"{100 / words:+.1f} [" in told, "one word more is wrong"
    assert section(page, "families").count("<audio") == 2 * 3, "two sentences by the recording and both families"


def test_figures_of_other_sentences_are_not_shown(own: ReportInputs, tmp_path: Path) -> None:
    write_family(tmp_path / "own", "codec_lm", sentences="b" * 64)
    told = rows(drawn(own))["codec_lm"]
    assert "evaluated on different sentences or with another recogniser; run make demo FAMILY=codec_lm" in told
    assert not re.search(r"\d", told)


def test_a_codec_and_its_decoding_have_a_section(own: ReportInputs, tmp_path: Path) -> None:
    write_family(tmp_path / "own", "codec_lm")
    codec = {"bits_per_second": 622.8, "frames_per_second": 31.25, "use": [0.97, 0.853]}
    decoding = {"fp32": reports()["decoded"], "int8": "failed: NaN"}
    with edited(own.metrics) as metrics:
        metrics |= {"family": "codec_lm", "codec": codec, "decoding": decoding}
    page = drawn(own)
    told = section(page, "decoding")
    assert all(words in told for words in ("623 bit/s", "85.3", "33.3 [6.0, 79.0]", "well 3", "failed: NaN"))
    assert next(iter(rows(page))) == "codec_lm", "the report's own family comes first"


def test_the_parity_check_shows_greedy_tokens_where_they_were_compared(own: ReportInputs) -> None:
    assert "greedy tokens" not in section(drawn(own), "parity")
    with edited(own.parity) as parity:
        parity["onnxruntime/int8"]["tokens"] = {"identical": False, "share": 0.985294, "ties": 1, "decisions": 408}
    told = section(drawn(own), "parity")
    assert "98.53 % of 408" in told
