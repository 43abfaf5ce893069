from flows import results
from sonorant.export.choice import ChooseConfig, choose
from tests.export.choice.figures import figures, variant

HEARD = {"wer": 11.94, "wer_ci95": [9.4, 14.6], "cer": 6.0, "words": 1402}
CONFIG = ChooseConfig(target="latency", max_wer_above_fp32=2.0, min_speedup=1.05)


def test_every_kind_has_a_row_with_its_interval_and_how_far_it_lies_above_fp32() -> None:
    above = {"above_fp32": {"wer": 0.5, "wer_ci95": [-0.4, 1.4]}}
    judged = {"recordings": HEARD, "vocoder": HEARD, "fp32": HEARD, "int8": HEARD | above, "bf16": "not run: NaN"}
    rows = results.intelligibility_rows({"intelligibility": judged})
    assert [row["spoken by"] for row in rows] == [
        "the recordings", "vocoder's copy of them", "the voice, fp32", "the voice, int8", "the voice, bf16",
    ]  # fmt: skip
    assert rows[3]["above fp32"] == "+0.5 (-0.4 to +1.4)" and rows[2]["above fp32"] == ""
    assert rows[4]["WER %"] == "not run: NaN"


def test_each_speaker_of_several_has_a_row() -> None:
    heard = {"int8": HEARD | {"above_recordings": {"wer": 1.2, "wer_ci95": [-0.5, 3.0]}}}
    judged = [{"speaker": name, "sentences": 40, "intelligibility": heard} for name in ("anna", "ben")]
    known = [{"speaker": "anna", "recognised": 0.9, "recognised_ci95": [0.8, 0.95]}]
    judged.append({"speaker": "eve", "sentences": 0, "intelligibility": None})
    rows = results.speaker_rows({"speakers": judged, "confusion": {"int8": known}}, "int8")
    assert rows[0] == {
        "speaker": "anna", "sentences": "40", "WER %": "11.9", "above recordings": "+1.2 (-0.5 to +3.0)",
        "recognised %": "90.0 (80.0 - 95.0)",
    }  # fmt: skip
    assert rows[1]["recognised %"] == "" and rows[2]["WER %"] == "not judged"
    assert results.speaker_rows({"speakers": [{"speaker": "anna", "sentences": 3}]}, "int8") == []
    assert results.speaker_rows({}, None) == []


def test_the_choice_is_marked_and_a_missing_figure_is_a_dash() -> None:
    absent = variant("tensorrt/fp16")
    absent["parity"]["tensorrt/fp16"] = absent["speed"]["tensorrt/fp16"] = "not run: TensorRT is not installed"
    rows = results.choice_rows(choose(figures(variant("onnxruntime/int8", 1.6), absent), CONFIG))
    assert [row["candidate"] for row in rows] == ["onnxruntime/fp32", "onnxruntime/int8 (ships)", "tensorrt/fp16"]
    assert [row["times fp32's speed"] for row in rows] == ["1.00", "1.60", "-"]
    assert [row["MB"] for row in rows] == ["16.0", "5.0", "8.1"]
    assert rows[2]["verdict"] == "not run: TensorRT is not installed"


def test_tables_show_what_there_is_and_nothing_where_nothing_was_measured() -> None:
    found = {"fp32": {"mcd_db": 5.1, "dnsmos": "not run: speechmos is not installed"}, "bf16": "not run: NaN"}
    assert results.naturalness_rows({"naturalness": found})[0]["DNSMOS"] == "-"
    for table in ("intelligibility", "choice", "naturalness", "codec", "decoding"):
        assert getattr(results, f"{table}_rows")({}) == []
    assert results.plain_table([]) == "  -"


def test_a_reason_runs_over_the_columns_that_have_nothing_to_show() -> None:
    why = "slower than fp32: at best 0.92 times its speed"
    table = results.plain_table([{"a": "fp32", "b": "13.5", "c": "1449"}, {"a": "fp16", "b": why, "c": ""}])
    assert table.splitlines() == ["  a     b     c", "  fp32  13.5  1449", f"  fp16  {why}"]


def test_a_codec_and_a_decoder_have_their_rows_and_the_copy_is_the_codecs() -> None:
    decoding = {"sentences": 160, "runaways": 2, "runaway_rate": 0.0125, "runaway_rate_ci95": [0.0034, 0.0443]}
    decoding |= {"retries": 3, "unrecovered": 1}
    metrics = {
        "family": "codec_lm",
        "intelligibility": {"vocoder": HEARD},
        "codec": {"bits_per_second": 622.8, "frames_per_second": 31.25, "use": [0.97, 0.853]},
        "decoding": {"fp32": decoding, "int8": "failed: NaN"},
        "first_audio": {"fp32": {"p50_ms": 71.4, "p95_ms": 96.6, "sentences": 20}},
    }
    assert results.intelligibility_rows(metrics)[0]["spoken by"] == "codec's copy of them"
    told = {"bit/s": "623", "frames/s": "31.25", "codebooks": "2", "codes in use %": "97, 85"}
    assert results.codec_rows(metrics) == [told]
    [row] = results.decoding_rows(metrics)
    assert (row["ran away"], row["still abnormal"]) == ("2", "1")
    assert row["rate % (95 % interval)"] == "1.2 (0.3 - 4.4)"
    assert row["first audio ms"] == "71 (p95 97)"
    assert results.decoding_rows(metrics | {"first_audio": {"fp32": "not run: no threads"}})[0]["first audio ms"] == "-"
