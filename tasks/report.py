"""Stage `report`: draw the results of all stages as one page to look at and listen to."""

from __future__ import annotations

import argparse
from pathlib import Path

from sonorant.report.page import ReportConfig, ReportInputs, write_report
from tasks.origin import hashes_of
from tasks.params import load
from tasks.stage import run, stage_of_graph


def main() -> None:
    """Read section `report`, write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.report",
        description="Draw one self-contained HTML page: what ships and why, error rates, latency, size, parity checks, "
        "quantisation, loss curves, samples to listen to, corpus, lineage. Settings: params.yaml, section 'report'.",
        epilog="Next: open the page.",
    )
    parser.add_argument("--metrics", type=Path, required=True, help="JSON the stage evaluate wrote")
    parser.add_argument("--evaluation", type=Path, required=True, help="folder the stage evaluate wrote")
    parser.add_argument("--choice", type=Path, required=True, help="JSON the stage choose wrote")
    parser.add_argument("--parity", type=Path, required=True, help="JSON the stage verify wrote")
    parser.add_argument("--quantization", type=Path, required=True, help="JSON the stage quantize wrote")
    parser.add_argument("--prepared", type=Path, required=True, help="folder the stage prepare wrote")
    parser.add_argument("--predictor", type=Path, required=True, help="trained acoustic or language model")
    parser.add_argument("--waveform", type=Path, required=True, help="trained vocoder or codec")
    parser.add_argument("--quantized", type=Path, required=True, help="folder the stage quantize wrote")
    parser.add_argument("--families", type=Path, required=True, help="folder with evaluate's figures of each family")
    parser.add_argument("--out", type=Path, required=True, help="HTML file to write")
    arguments = parser.parse_args()
    inputs = ReportInputs(
        metrics=arguments.metrics,
        evaluation=arguments.evaluation,
        choice=arguments.choice,
        parity=arguments.parity,
        quantization=arguments.quantization,
        summary=arguments.prepared / "summary.json",
        predictor=arguments.predictor,
        waveform=arguments.waveform,
        quantized=arguments.quantized,
        families=arguments.families,
        hashes=hashes_of(stage_of_graph("report")["deps"]),
    )
    write_report(arguments.out, inputs, load("report", ReportConfig))


if __name__ == "__main__":
    run(main, stage="report")
