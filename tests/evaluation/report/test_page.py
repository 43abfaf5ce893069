"""Report content: choice, order, marks, reasons in place of figures, errors."""

import re
import shutil
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


def header_of(page: str) -> str:
    return page.split("<header>")[1].split("</header>")[0]


def words_of(markup: str) -> str:
    """Text between the tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", markup).split())


def test_the_same_inputs_give_the_same_bytes(inputs: ReportInputs, own: ReportInputs) -> None:
    assert drawn(inputs) == drawn(own)


def test_the_verdict_names_what_ships_and_what_was_stopped(inputs: ReportInputs) -> None:
    header = header_of(drawn(inputs))
    assert "int8 on onnxruntime ships" in header and "int8 ships: 1.6 times as fast" in header
    assert "2 passed" in header and "1 failed</span> onnxruntime/fp16" in header and "1 not run</span>" in header


def test_what_was_not_run_is_words_and_never_a_number(inputs: ReportInputs) -> None:
    text = drawn(inputs)
    rows = [row for row in re.findall(r"<tr>(.*?)</tr>", text) if "tensorrt/fp32" in row]
    assert len(rows) == 3  # choice, latency, parity
    for row in rows:
        words = words_of(row).replace("tensorrt/fp32", "")
        assert "not run: TensorRT is not installed" in words and not re.search(r"\d", words)


def test_a_variant_that_could_not_be_heard_is_words_among_the_error_rates(own: ReportInputs) -> None:
    failed = "failed: NaN or infinity in 3 of 3 sentences"
    with edited(own.metrics) as metrics:
        metrics["intelligibility"]["fp16"] = metrics["naturalness"]["fp16"] = failed
    assert drawn(own).count(failed) == 2


def test_words_that_nobody_heard_are_told_by_name_everywhere(own: ReportInputs) -> None:
    why = "not run: the recogniser hears English only"
    with edited(own.metrics) as metrics:
        metrics["intelligibility"] = dict.fromkeys(metrics["intelligibility"], why)
        metrics["evaluator"] = {"passed": why, "sentences": 3}
        unheard = {"intelligibility": dict.fromkeys(("recordings", "int8"), why)}
        metrics["speakers"] = [speaker(name, 0.0) | unheard for name in ("anna", "ben")]
    with edited(own.families / "parallel" / "family.json") as family:
        family["variants"]["fp32"]["intelligibility"] = why
    for folder in (own.evaluation, own.families / "parallel"):
        file = folder / "sentences.jsonl"
        rows = read_jsonl(file)
        for row in rows:
            row["transcripts"] = row["word_errors"] = dict.fromkeys(row["transcripts"], why)
        write_jsonl(file, rows)
    page = drawn(own)
    assert f"The words were not judged: {why}." in page and why in header_of(page)
    assert "the evaluator&#39;s test of itself did not run" in page or "test of itself did not run" in page
    assert "no error" not in page and "Word error rate, 95 % interval" not in page


def test_the_words_of_a_voice_have_their_times_and_those_of_a_person_have_none(own: ReportInputs) -> None:
    listen = drawn(own).partition('id="intelligibility"')[0]
    cards = listen.split('<div class="card">')[1:]
    timed = [card for card in cards if "<rt>" in card]
    assert timed and all(("recording" in card.partition("</h4>")[0]) != (card in timed) for card in cards)
    assert any("<ruby>&lt;flickered&gt;<rt>0.75</rt></ruby>" in card for card in timed)


def test_missing_word_times_have_a_reason(own: ReportInputs) -> None:
    told = "not run: a voice of the family x does not tell"
    file = own.evaluation / "sentences.jsonl"
    rows = read_jsonl(file)
    for row in rows:
        row["timings"] = dict.fromkeys(row["timings"], told)
    write_jsonl(file, rows)
    page = drawn(own)
    assert page.count(f"Times of its words: {told}") == page.count("Times of its words") > 0


def speaker(name: str, wer: float, runaways: float | None = None) -> dict[str, Any]:
    """A row of section `speakers`."""
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


def test_each_speaker_has_a_row_and_words_where_none_was_judged(own: ReportInputs) -> None:
    with edited(own.metrics) as metrics:
        unheard = {"speaker": "eve", "sentences": 0} | dict.fromkeys(("intelligibility", "naturalness", "decoding"))
        metrics["speakers"] = [speaker("anna <b>", 9.9), speaker("ben", 20.0, 0.1), unheard]
    page = drawn(own)
    words = words_of(page)
    assert (
        "anna &lt;b&gt; 3 9.9 [8.9, 10.9] 9.9 [8.9, 10.9] +9.9 [+8.9, +10.9] not run: x – 0.61 [0.50, 0.70] –" in words
    )
    assert "10.0 [0.0, 20.0]" in words and "eve 0 not one sentence was judged" in words
    assert "Words misheard beyond the recordings" in words and "As whom" not in words


def test_who_is_recognised_is_a_matrix_and_the_recordings_have_theirs(own: ReportInputs) -> None:
    with edited(own.metrics) as metrics:
        metrics["speakers"] = [speaker("anna", 9.9), speaker("ben", 20.0)]
        metrics["confusion"] = {
            "recordings": [recognised("anna", "ben", 10), recognised("ben", "anna", 10)],
            "int8": [recognised("anna", "ben", 9), recognised("ben", "anna", 2)],
        }
    words = words_of(drawn(own))
    assert "meant anna ben own, % anna 9 1 90 [80, 90] ben 8 2 20 [10, 20]" in words
    assert "meant anna ben own, % anna 10 0 100 [90, 100] ben 0 10 100 [90, 100]" in words
    with edited(own.metrics) as metrics:
        metrics["confusion"] = dict.fromkeys(("recordings", "int8"), "not run: resemblyzer is not installed")
    assert "As whom each sentence is recognised: not run: resemblyzer is not installed." in words_of(drawn(own))


def test_a_voice_of_one_speaker_has_no_section_of_them(own: ReportInputs) -> None:
    with edited(own.metrics) as metrics:
        metrics["speakers"] = [{"speaker": "anna", "sentences": 3}]
    assert 'id="speakers"' not in drawn(own)


def test_the_slowest_of_a_hundred_is_shown_of_a_hundred_rounds_alone(own: ReportInputs) -> None:
    with edited(own.metrics) as metrics:
        for threads in metrics["speed"]["onnxruntime/fp32"].values():
            for figures in threads.values():
                figures |= {"p99_ms": 12345.6, "repeats": 99}
    assert "12345.6" not in drawn(own)
    with edited(own.metrics) as metrics:
        metrics["speed"]["onnxruntime/fp32"]["short"]["threads_1"]["repeats"] = 100
    assert drawn(own).count("12345.6") == 1


def test_the_worst_sentence_comes_first_and_as_many_as_settings_say(inputs: ReportInputs) -> None:
    identities = r'<span class="id">(set-\d)</span>'
    assert re.findall(identities, drawn(inputs)) == ["set-1", "set-0"]
    assert re.findall(identities, drawn(inputs, sentences=1)) == ["set-1"]


def test_text_from_the_corpus_is_no_markup(inputs: ReportInputs) -> None:
    text = drawn(inputs)
    assert "<script" not in text and "&lt;script&gt;" in text
    assert "<flickered>" not in text and "&lt;flickered&gt;" in text


def test_nothing_of_the_page_is_elsewhere(inputs: ReportInputs) -> None:
    addresses = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"'\s>)]{1,30})""", drawn(inputs))
    assert addresses and [address for address in addresses if not address.startswith(("data:", "#"))] == []


def test_wrong_words_are_marked_and_missing_ones_struck_through() -> None:
    assert marked("a b c", "a x c d") == [
        ("a", "", ""), ("x", "mark", "instead of: b"), ("c", "", ""), ("d", "mark", "superfluous")
    ]  # fmt: skip
    assert marked("a b", "a") == [("a", "", ""), ("b", "del", "missing")]
    assert marked("a b", "") == [("a b", "del", "missing")]
    assert marked("", "a") == [("a", "mark", "")] and marked("", "") == []


def test_hostile_words_are_no_markup_wherever_they_come_from(own: ReportInputs) -> None:
    """Transcripts and all texts and names in the reports."""
    hostile = '"><script>alert(1)</script><img src="http://a">'
    words = [Words(hostile), Words(hostile, "mark", hostile), Words(hostile, "del", "missing")]
    player = Player(
        name=hostile, ships=False, errors=hostile, heard=words, sound="data:,", picture="data:,", shown=hostile, width=1
    )
    article = Article(id=hostile, reference=hostile, players=[player], folded=[player])
    table = Table(caption=hostile, head=[hostile, hostile, hostile], rows=[[hostile, hostile, Badge(hostile, "bad")]])
    parts = [hostile, article, table, Fold(summary=hostile, parts=[table]), Group(title=hostile, parts=[])]
    parts.append(Charts(charts=[bars(hostile, [ChartRow(name=hostile, value=1, said=hostile)])]))
    headline = Headline(
        hostile, hostile, [Fact(hostile, hostile, hostile, hostile)], [(Badge(hostile, "bad"), hostile)]
    )
    sections = [Section(anchor=hostile, title=hostile, parts=parts)]
    page = render("sonorant.evaluation.report", "report.html", title=hostile, headline=headline, sections=sections)
    assert "<script" not in page and 'src="http' not in page and page.count("&lt;script&gt;") > 30
    assert page.count("script-src") == 0 and "default-src &#39;none&#39;" in page


def test_the_first_screen_sets_words_and_naturalness_beside_the_recordings(own: ReportInputs) -> None:
    with edited(own.metrics) as metrics:
        natural = metrics["naturalness"]
        for kind, score in (("recordings", 3.4), ("int8", 3.1)):
            rated = {"dnsmos": {"ovrl": score, "ovrl_ci95": [score - 0.1, score + 0.1]}}
            natural[kind] = natural.get(kind, natural["fp32"]) | rated
    header = words_of(header_of(drawn(own)))
    assert "Word error rate, % 12.0 [10.0, 14.0] recordings 10.0 [8.0, 12.0]" in header
    assert "Naturalness (DNSMOS) 3.10 [3.00, 3.20] recordings 3.40 [3.30, 3.50]" in header


@pytest.mark.parametrize(
    ("file", "key", "value", "message"),
    [
        ("metrics", "intelligibility.int8.wer_ci95", None, "key 'intelligibility.int8.wer_ci95' is missing"),
        ("metrics", "intelligibility.int8", None, "metrics.json: key 'intelligibility.int8' is missing"),
        ("metrics", "memory", None, "metrics.json: key 'memory' is missing"),
        ("metrics", "speed.torch/fp32.long.threads_1.p50_ms", "fast", "p50_ms' must be a"),
        ("metrics", "intelligibility.fp32.wer_ci95", [1], "wer_ci95' must be two numbers, not [1]"),
        ("choice", "sentence", None, "choice.json: key 'sentence' is missing"),
        ("choice", "table", {}, "choice.json: key 'table' must be a list"),
        ("parity", "onnxruntime/fp32.passed", "yes", "fp32.passed' must be true or false"),
        ("quantization", "waveform", None, "quantization.json: key 'waveform' is missing"),
        ("audit", "doubtful", None, "audit.json: key 'doubtful' is missing"),
        ("summary", "splits", 3, "summary.json: key 'splits' must be an object, not 3"),
    ],
)
def test_an_input_of_another_shape_is_one_line(
    own: ReportInputs, file: str, key: str, value: Any, message: str
) -> None:
    """None: missing key."""
    *parents, last = key.split(".")
    with edited(getattr(own, file)) as found:
        place = reduce(getitem, parents, found)
        place[last] = value
        if value is None:
            del place[last]
    assert message in refusal(own)


@pytest.mark.parametrize("file", ["metrics", "choice", "parity", "quantization", "summary", "audit"])
def test_an_input_that_is_not_there_is_one_line(inputs: ReportInputs, file: str) -> None:
    assert "absent.json: no such file" in refusal(replace(inputs, **{file: Path("absent.json")}))


def test_a_sample_that_is_not_there_is_named(own: ReportInputs) -> None:
    (own.evaluation / "samples" / "set-1.int8.wav").unlink()
    assert "set-1.int8.wav: no such file" in refusal(own)
    shutil.rmtree(own.evaluation / "samples")
    assert "no sentence of sentences.jsonl has a sample" in refusal(own)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "curves.csv: column 'step' is missing"),
        ("step,train/loss\n1,2\n", "curves.csv: column 'validation/loss' is missing"),
        ("step,train/loss,validation/loss\n1,much,\n", "curves.csv:2: 'train/loss' is not a number: 'much'"),
        ("step,train/loss,validation/loss\n1,,\n", "curves.csv: holds no loss"),
    ],
)
def test_curves_that_cannot_be_drawn_are_one_line(own: ReportInputs, text: str, message: str) -> None:
    write_text(own.waveform / "curves.csv", text)
    assert message in refusal(own)


def test_processes_have_curves_of_their_own_and_one_alone_has_none(own: ReportInputs) -> None:
    assert "by process" not in drawn(own)
    columns = ",".join(f"train/loss_by_rank/rank{rank}" for rank in range(10))
    losses = ",".join(str(1 + rank / 10) for rank in range(10))
    write_text(
        own.waveform / "curves.csv", f"step,{columns},train/loss,validation/loss\n1,{losses},1.5,\n2{',' * 12}\n"
    )
    page = drawn(own)
    assert "Loss of the vocoder, by process, the first 8 of 10" in page
    assert all(f'class="line line{rank}"' in page for rank in range(8)) and 'line8"' not in page


@pytest.mark.parametrize(
    ("revision", "named"), [(f"sha256 {'5' * 64}", f"dac_16khz ({'5' * 12})"), (None, "dac_16khz")]
)
def test_a_codec_that_was_taken_has_words_in_place_of_a_curve(
    own: ReportInputs, revision: str | None, named: str
) -> None:
    """No curves, no loss, nothing to quantize."""
    with edited(own.waveform / "model.json") as description:
        description |= {"kind": "codec", "pretrained": {"name": "dac_16khz", "revision": revision}}
        description["provenance"] |= {"steps": 0, "pretrained": "dac_16khz"}
        del description["provenance"]["validation_loss"]
    (own.waveform / "curves.csv").unlink()
    with edited(own.quantization) as found:
        found["waveform"] |= {"sentence": "codec: all of it stays float", "sensitivity": []}
    page = drawn(own)
    assert f"The codec is {named}, which others trained: it was taken as it is." in page
    assert "Loss of the acoustic model" in page and "Loss of the codec" not in page
    assert "codec: all of it stays float" in page and "0 of 0" not in page and "Layers, codec" not in page


def refusal(inputs: ReportInputs) -> str:
    """The one-line error."""
    out = inputs.evaluation.parent / "report" / "index.html"
    with pytest.raises(SonorantError) as caught:
        write_report(out, inputs, ReportConfig(sentences=6))
    assert not out.exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_speaker_similarity_stands_between_its_floor_and_its_ceiling(own: ReportInputs) -> None:
    similarity = {"mean": 0.85, "recordings": 0.9, "others": 0.57, "utterances": 12}
    with edited(own.metrics) as metrics:
        metrics["naturalness"]["fp32"]["speaker_similarity"] = similarity
    page = drawn(own)
    assert "0.850 (other speakers 0.570, recordings 0.900)" in page
    assert "not run: webrtcvad is not installed" in page, "the others have not run"
    with edited(own.metrics) as metrics:
        del metrics["naturalness"]["fp32"]["speaker_similarity"]["others"]
    assert "0.850 (recordings 0.900)" in drawn(own), "one speaker has no floor"


def test_every_figure_beside_the_recordings_stands_with_what_it_means(own: ReportInputs) -> None:
    words = words_of(drawn(own))
    caption = "Every sentence beside its recording"
    assert f"{caption} copy of the recording int8 like the recordings" in words, "the copy, and what ships"
    assert f"the same of fp32, fp16 {caption} fp32 fp16" in words
    assert "tempo, times theirs " + "1.01 [0.98, 1.04] " * 2 + "1; above: it hurries" in words
    assert "-8.2 [-8.6, -7.8]" in words and "melody, correlation not run: only 1 of 3" in words
    with edited(own.metrics) as metrics:
        for figures in metrics["naturalness"].values():
            for key in [key for key in figures if key.endswith("_ci95")]:
                del figures[key]
    assert "Beside the recordings" not in drawn(own), "a voice judged before there were such figures"


def test_melodies_lie_over_one_another_and_pause_where_nothing_is_voiced(inputs: ReportInputs) -> None:
    page = drawn(inputs)
    articles = re.findall(r"<article>.*?</article>", page, flags=re.DOTALL)
    assert articles and all(article.count("<figcaption>Pitch, Hz</figcaption>") == 1 for article in articles)
    named = [re.findall(r'text-anchor="start">([^<]+)</text>', article) for article in articles]
    assert named[0] == ["recording", "copy", "int8"]


def test_a_curve_is_interrupted_where_there_is_no_value() -> None:
    points = ((0.0, 1.0), (1.0, 2.0), (2.0, float("nan")), (3.0, 4.0), (4.0, 3.0))
    chart = lines("a", "b", [ChartLine(name="c", points=points)])
    drawn_points = [shape.attributes["points"] for shape in chart.shapes if shape.tag == "polyline"]
    assert len(drawn_points) == 2 and "nan" not in "".join(drawn_points)


def test_what_the_audit_found_stands_with_the_corpus(own: ReportInputs) -> None:
    assert "likely fault: sound is cut at the end" in drawn(own)
    with edited(own.audit) as found:
        found["sources"] = {"aligner": "not run: too few"}
    page = drawn(own)
    assert "not run: too few" in page and "likely fault" not in page, "what did not run found nothing"


def test_what_had_no_place_in_long_recordings_stands_with_the_corpus(own: ReportInputs) -> None:
    assert "Of the long recordings 12 s of speech and 7 words of the texts had no place." in drawn(own)
    with edited(own.summary) as found:
        del found["unplaced"]
    assert "long recordings" not in drawn(own)


def test_sentences_that_training_read_are_not_called_held_out(own: ReportInputs) -> None:
    assert "held-out sentences" in drawn(own)
    with edited(own.metrics) as metrics:
        for judged in metrics["intelligibility"].values():
            judged["read_in_training"] = 2
    page = drawn(own)
    assert "not held out: training read 2 of them" in page and "held-out sentences" not in page


def test_short_texts_stand_by_kind_beside_the_persons_with_the_worst_to_listen_to(own: ReportInputs) -> None:
    page = drawn(own)
    section = page.split('id="short-texts"')[1].split("</section>")[0]
    words = words_of(section)
    assert "yes no 20 5.0 [" in words and "words cut out of recordings not run: the audit does not say" in words
    assert "Yes, &lt;please&gt;." in section and "3 of 2 wrong" in words and section.count("<audio") == 1
    assert "judged sentences 20 0.0 [0.0, 16.1]" in words
    with edited(own.metrics) as metrics:
        metrics["short_texts"] = dict.fromkeys(metrics["short_texts"], "not run: there are no short texts in 'de'")
    assert "Short texts were not judged: not run: there are no short texts in" in drawn(own)
    with edited(own.metrics) as metrics:
        del metrics["short_texts"]
    assert "rare faults" not in drawn(own)


def test_a_short_text_whose_sample_is_gone_is_named(own: ReportInputs) -> None:
    (own.evaluation / "short_texts" / "1.int8.wav").unlink()
    assert "1.int8.wav: no such file" in refusal(own)
