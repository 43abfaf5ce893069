"""Stage `report`: draw the results of all stages as one page to look at and listen to."""

import argparse
from pathlib import Path

from sonorant.evaluation.report.report_page import ReportConfig, ReportInputs, write_report
from tasks.origin import hashes_of
from tasks.params import load
from tasks.stage import add_inputs, run, stage_of_graph


def main() -> None:
    """Read section `report`, write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.report",
        description="Draw one self-contained HTML page: what ships and why, error rates, latency, size, parity checks, "
        "quantisation, loss curves, samples to listen to, corpus, lineage. Settings: params.yaml, section 'report'.",
        epilog="Next: open the page.",
    )
    add_inputs(parser, "metrics", "evaluation", "choice", "parity", "quantization", "prepared", "audit")
    add_inputs(parser, "predictor", "waveform", "quantized", "families")
    parser.add_argument("--out", type=Path, required=True, help="HTML file to write")
    given = vars(parser.parse_args())
    out, summary = given.pop("out"), given.pop("prepared") / "summary.json"
    audit = given.pop("audit") / "summary.json"
    inputs = ReportInputs(**given, summary=summary, audit=audit, hashes=hashes_of(stage_of_graph("report")["deps"]))
    write_report(out, inputs, load("report", ReportConfig))


if __name__ == "__main__":
    run(main, stage="report")
