import re
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest

from sonorant.errors import SonorantError
from sonorant.evaluation.report.candidates_section import Fact, Headline
from sonorant.evaluation.report.players import Article, Player
from sonorant.evaluation.report.report_page import ReportConfig, ReportInputs, write_report
from sonorant.evaluation.report.sentences_section import Words, marked
from sonorant.files import read_jsonl, write_jsonl, write_text
from sonorant.pages.blocks import Badge, Fold, Group, Section, Table, render
from sonorant.pages.charts import ChartLine, ChartRow, Charts, bars, lines
from tests.evaluation.report.stages import drawn
from tests.support.edited import edited

UNHEARD = "not run: the recogniser hears English only"


def words_of(markup: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", markup).split())


def header_of(page: str) -> str:
    return words_of(page.split("<header>")[1].split("</header>")[0])


def changed(inputs: ReportInputs, file: str, key: str, value: Any) -> ReportInputs:
    """Set a dotted key of a report; None deletes it."""
    *parents, last = key.split(".")
    with edited(getattr(inputs, file)) as found:
        place = reduce(getitem, parents, found)
        place[last] = value
        if value is None:
            del place[last]
    return inputs


def rewritten(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    rows = read_jsonl(file)
    for row in rows:
        change(row)
    write_jsonl(file, rows)


def refusal(inputs: ReportInputs) -> str:
    out = inputs.evaluation.parent / "report" / "index.html"
    with pytest.raises(SonorantError) as caught:
        write_report(out, inputs, ReportConfig(sentences=6))
    assert not out.exists() and "\n" not in str(caught.value)
    return str(caught.value)


def test_the_same_inputs_give_the_same_bytes(inputs: ReportInputs, own: ReportInputs) -> None:
    assert drawn(inputs) == drawn(own)


def test_the_first_screen_shows_the_choice_beside_the_recordings(own: ReportInputs) -> None:
    for kind, score in (("recordings", 3.4), ("int8", 3.1)):
        rated = {"dnsmos": {"ovrl": score, "ovrl_ci95": [score - 0.1, score + 0.1]}}
        changed(own, "metrics", f"naturalness.{kind}", rated | {"mcd_db": 1, "f0_rmse_cents": 1, "duration_ratio": 1})
    header = header_of(drawn(own))
    assert "int8 on onnxruntime ships" in header and "int8 ships: 1.6 times as fast" in header
    assert "2 passed" in header and "1 failed onnxruntime/fp16" in header and "1 not run" in header
    assert "Word error rate, % 12.0 [10.0, 14.0] recordings 10.0 [8.0, 12.0]" in header
    assert "Naturalness (DNSMOS) 3.10 [3.00, 3.20] recordings 3.40 [3.30, 3.50]" in header


def test_what_was_not_run_is_words_and_never_a_number(inputs: ReportInputs) -> None:
    rows = [row for row in re.findall(r"<tr>(.*?)</tr>", drawn(inputs)) if "tensorrt/fp32" in row]
    assert len(rows) == 3  # choice, latency, parity
    for row in rows:
        words = words_of(row).replace("tensorrt/fp32", "")
        assert "not run: TensorRT is not installed" in words and not re.search(r"\d", words)


def test_without_a_recogniser_the_reason_replaces_every_word_figure(own: ReportInputs) -> None:
    with edited(own.metrics) as metrics:
        metrics["intelligibility"] = dict.fromkeys(metrics["intelligibility"], UNHEARD)
        metrics["evaluator"] = {"passed": UNHEARD, "sentences": 3}
        unheard = {"intelligibility": dict.fromkeys(("recordings", "int8"), UNHEARD)}
        metrics["speakers"] = [speaker(name, 0.0) | unheard for name in ("anna", "ben")]
    with edited(own.families / "parallel" / "family.json") as family:
        family["variants"]["fp32"]["intelligibility"] = UNHEARD

    def unheard_row(row: dict[str, Any]) -> None:
        row["transcripts"] = row["word_errors"] = dict.fromkeys(row["transcripts"], UNHEARD)

    for folder in (own.evaluation, own.families / "parallel"):
        rewritten(folder / "sentences.jsonl", unheard_row)
    page = drawn(own)
    assert f"Words were not judged: {UNHEARD}." in page and UNHEARD in header_of(page)
    assert "no error" not in page and "Word error rate, 95 % interval" not in page


def test_the_voice_has_word_times_or_a_reason(own: ReportInputs) -> None:
    cards = drawn(own).partition('id="intelligibility"')[0].split('<div class="card">')[1:]
    timed = [card for card in cards if "<rt>" in card]
    assert timed and all(("recording" in card.partition("</h4>")[0]) != (card in timed) for card in cards)
    assert any("<ruby>&lt;flickered&gt;<rt>0.75</rt></ruby>" in card for card in timed)
    why = "not run: a family without timings"
    rewritten(own.evaluation / "sentences.jsonl", lambda row: row.update(timings=dict.fromkeys(row["timings"], why)))
    page = drawn(own)
    assert page.count(f"No word times: {why}") == page.count("No word times") > 0


def speaker(name: str, wer: float, runaways: float | None = None) -> dict[str, Any]:
    rates = {"wer": wer, "wer_ci95": [wer - 1, wer + 1]}
    sound = {"dnsmos_below_recordings": "not run: x", "pitch_correlation": 0.61, "pitch_correlation_ci95": [0.5, 0.7]}
    went = {"runaway_rate": runaways, "runaway_rate_ci95": [0.0, 0.2]}
    return {
        "speaker": name,
        "sentences": 3,
        "intelligibility": {"recordings": rates, "int8": rates | {"above_recordings": rates}},
        "naturalness": {"int8": sound},
        "decoding": {} if runaways is None else {"int8": went},
    }


def recognised(name: str, other: str, own: int) -> dict[str, Any]:
    counts = {name: own, other: 10 - own}
    share = {"recognised": own / 10, "recognised_ci95": [own / 10 - 0.1, own / 10]}
    return {"speaker": name, "sentences": 10, "as": dict(sorted(counts.items()))} | share


def test_each_speaker_has_a_row_and_the_confusions_a_matrix(own: ReportInputs) -> None:
    unheard = {"speaker": "eve", "sentences": 0} | dict.fromkeys(("intelligibility", "naturalness", "decoding"))
    changed(own, "metrics", "speakers", [speaker("anna <b>", 9.9), speaker("ben", 20.0, 0.1), unheard])
    matrices = {
        "recordings": [recognised("anna", "ben", 10), recognised("ben", "anna", 10)],
        "int8": [recognised("anna", "ben", 9), recognised("ben", "anna", 2)],
    }
    words = words_of(drawn(changed(own, "metrics", "confusion", matrices)))
    assert (
        "anna &lt;b&gt; 3 9.9 [8.9, 10.9] 9.9 [8.9, 10.9] +9.9 [+8.9, +10.9] not run: x – 0.61 [0.50, 0.70] –" in words
    )
    assert "10.0 [0.0, 20.0]" in words and "eve 0 no sentence was judged" in words
    assert "intended anna ben correct, % anna 9 1 90 [80, 90] ben 8 2 20 [10, 20]" in words
    assert "intended anna ben correct, % anna 10 0 100 [90, 100] ben 0 10 100 [90, 100]" in words
    changed(own, "metrics", "confusion", dict.fromkeys(matrices, "not run: no network"))
    assert "Speaker recognition: not run: no network." in drawn(own)
    assert 'id="speakers"' not in drawn(changed(own, "metrics", "speakers", [{"speaker": "anna", "sentences": 3}]))


def test_the_99th_percentile_needs_a_hundred_rounds(own: ReportInputs) -> None:
    with edited(own.metrics) as metrics:
        for threads in metrics["speed"]["onnxruntime/fp32"].values():
            for figures in threads.values():
                figures |= {"p99_ms": 12345.6, "repeats": 99}
        metrics["speed"]["onnxruntime/fp32"]["short"]["threads_1"]["repeats"] = 100
    assert drawn(own).count("12345.6") == 1


def test_the_worst_sentence_comes_first_and_as_many_as_settings_say(inputs: ReportInputs) -> None:
    identities = r'<span class="id">(set-\d)</span>'
    assert re.findall(identities, drawn(inputs)) == ["set-1", "set-0"]
    assert re.findall(identities, drawn(inputs, sentences=1)) == ["set-1"]


def test_the_page_loads_nothing(inputs: ReportInputs) -> None:
    addresses = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"'\s>)]{1,30})""", drawn(inputs))
    assert addresses and [address for address in addresses if not address.startswith(("data:", "#"))] == []


def test_wrong_words_are_marked_and_missing_ones_struck_through() -> None:
    assert marked("a b c", "a x c d") == [
        ("a", "", ""), ("x", "mark", "instead of: b"), ("c", "", ""), ("d", "mark", "extra")
    ]  # fmt: skip
    assert marked("a b", "a") == [("a", "", ""), ("b", "del", "missing")]
    assert marked("", "a") == [("a", "mark", "")] and marked("", "") == []


def test_hostile_words_are_no_markup_wherever_they_come_from() -> None:
    hostile = '"><script>alert(1)</script><img src="http://a">'
    words = [Words(hostile), Words(hostile, "mark", hostile), Words(hostile, "del", "missing")]
    player = Player(
        name=hostile, ships=False, errors=hostile, heard=words, sound="data:,", picture="data:,", shown=hostile, width=1
    )
    article = Article(id=hostile, reference=hostile, players=[player], folded=[player])
    table = Table(caption=hostile, head=[hostile, hostile, hostile], rows=[[hostile, hostile, Badge(hostile, "bad")]])
    parts = [hostile, article, table, Fold(summary=hostile, parts=[table]), Group(title=hostile, parts=[])]
    parts.append(Charts(charts=[bars(hostile, [ChartRow(name=hostile, value=1, said=hostile)])]))
    facts, tally = [Fact(hostile, hostile, hostile, hostile)], [(Badge(hostile, "bad"), hostile)]
    headline = Headline(hostile, hostile, facts, tally)
    sections = [Section(anchor=hostile, title=hostile, parts=parts)]
    page = render("sonorant.evaluation.report", "report.html", title=hostile, headline=headline, sections=sections)
    assert "<script" not in page and 'src="http' not in page and page.count("&lt;script&gt;") > 30
    assert page.count("script-src") == 0 and "default-src &#39;none&#39;" in page


@pytest.mark.parametrize(
    ("file", "key", "value", "message"),
    [
        ("metrics", "intelligibility.int8.wer_ci95", None, "key 'intelligibility.int8.wer_ci95' is missing"),
        ("metrics", "speed.torch/fp32.long.threads_1.p50_ms", {}, "p50_ms' must be a number, not {}"),
        ("choice", "table", {}, "choice.json: key 'table' must be a list"),
        ("parity", "onnxruntime/fp32.passed", "yes", "fp32.passed' must be true or false"),
        ("summary", "splits", 3, "summary.json: key 'splits' must be an object, not 3"),
    ],
)
def test_an_input_of_another_shape_is_one_line(
    own: ReportInputs, file: str, key: str, value: Any, message: str
) -> None:
    assert message in refusal(changed(own, file, key, value))


def test_a_file_that_is_missing_is_named(own: ReportInputs) -> None:
    assert "absent.json: no such file" in refusal(replace(own, parity=Path("absent.json")))
    for sample in ("short_texts/1.int8.wav", "samples/set-1.int8.wav"):
        (own.evaluation / sample).unlink()
        assert f"{Path(sample).name}: no such file" in refusal(own)
    for recording in (own.evaluation / "samples").glob("*.recording.wav"):
        recording.unlink()
    assert "no sentence of sentences.jsonl has a sample" in refusal(own)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("step,train/loss\n1,2\n", "curves.csv: column 'validation/loss' is missing"),
        ("step,train/loss,validation/loss\n1,much,\n", "curves.csv: column 'train/loss': could not convert"),
        ("step,train/loss,validation/loss\n1,,\n", "curves.csv contains no loss"),
    ],
)
def test_curves_that_cannot_be_drawn_are_one_line(own: ReportInputs, text: str, message: str) -> None:
    write_text(own.waveform / "curves.csv", text)
    assert message in refusal(own)


def test_several_processes_have_curves_of_their_own(own: ReportInputs) -> None:
    columns = ",".join(f"train/loss_by_rank/rank{rank}" for rank in range(10))
    losses = ",".join(str(1 + rank / 10) for rank in range(10))
    table = f"step,{columns},train/loss,validation/loss\n1,{losses},1.5,\n2{',' * 12}\n"
    write_text(own.waveform / "curves.csv", table)
    page = drawn(own)
    assert "Loss of the vocoder, by process, the first 8 of 10" in page
    assert all(f'class="line line{rank}"' in page for rank in range(8)) and 'line8"' not in page


def test_a_pretrained_codec_has_a_name_in_place_of_a_curve(own: ReportInputs) -> None:
    with edited(own.waveform / "model.json") as description:
        description |= {"kind": "codec", "pretrained": {"name": "dac_16khz", "revision": f"sha256 {'5' * 64}"}}
        description["provenance"] |= {"steps": 0, "pretrained": "dac_16khz"}
        del description["provenance"]["validation_loss"]
    (own.waveform / "curves.csv").unlink()
    page = drawn(changed(own, "quantization", "waveform.sensitivity", []))
    assert f"The codec is the pretrained dac_16khz ({'5' * 12}), used unchanged." in page
    assert "Loss of the acoustic model" in page and "Loss of the codec" not in page
    assert "0 of 0" not in page and "Layers, codec" not in page


def test_every_figure_beside_the_recordings_stands_with_its_meaning(own: ReportInputs) -> None:
    similarity = {"mean": 0.85, "recordings": 0.9, "others": 0.57, "utterances": 12}
    words = words_of(drawn(changed(own, "metrics", "naturalness.fp32.speaker_similarity", similarity)))
    assert "copy of the recording int8 like the recordings" in words and "the same for fp32, fp16" in words
    assert "[0.98, 1.04] 1.01 [0.98, 1.04] 1; above: too fast" in words
    assert "-8.2 [-8.6, -7.8]" in words and "correlation not run: only 1 of 3" in words
    assert "0.850 (other speakers 0.570, recordings 0.900)" in words and "not run: webrtcvad is not installed" in words


def test_pitch_curves_pause_where_nothing_is_voiced(inputs: ReportInputs) -> None:
    articles = re.findall(r"<article>.*?</article>", drawn(inputs), flags=re.DOTALL)
    assert articles and all(article.count("<figcaption>Pitch, Hz</figcaption>") == 1 for article in articles)
    assert re.findall(r'text-anchor="start">([^<]+)</text>', articles[0]) == ["recording", "copy", "int8"]
    points = ((0.0, 1.0), (1.0, 2.0), (2.0, float("nan")), (3.0, 4.0), (4.0, 3.0))
    chart = lines("a", "b", [ChartLine(name="c", points=points)])
    curve = [shape.attributes["points"] for shape in chart.shapes if shape.tag == "polyline"]
    assert len(curve) == 2 and "nan" not in "".join(curve)


@pytest.mark.parametrize(
    ("file", "key", "value", "before", "after"),
    [
        ("audit", "sources", {"aligner": "not run: too few"}, "likely fault: sound is cut at the end", "too few"),
        ("summary", "unplaced", None, "12 s of speech and 7 words of text could not be matched", ""),
        ("metrics", "intelligibility.recordings.read_in_training", 2, "3 held-out", "2 are also in the training set"),
        ("metrics", "short_texts.int8", "not run: de", "yes no 20 5.0 [", "Short texts were not judged: not run: de"),
        ("metrics", "intelligibility.fp16", "failed: NaN", "fp16 11.0", "fp16 failed: NaN"),
    ],
)
def test_a_reason_takes_the_place_of_a_figure(
    own: ReportInputs, file: str, key: str, value: Any, before: str, after: str
) -> None:
    assert before in words_of(drawn(own))
    words = words_of(drawn(changed(own, file, key, value)))
    assert before not in words and after in words


def test_short_texts_stand_by_kind_with_the_worst_to_listen_to(inputs: ReportInputs) -> None:
    section = drawn(inputs).split('id="short-texts"')[1].split("</section>")[0]
    assert "words cut from recordings not run: the audit has no word times" in words_of(section)
    assert "evaluated sentences 20 0.0 [0.0, 16.1]" in words_of(section)
    assert "Yes, &lt;please&gt;." in section and "3 of 2 wrong" in section and section.count("<audio") == 1
