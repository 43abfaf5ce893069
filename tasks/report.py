"""Stage `report`: write the results of all stages as one self-contained HTML page with audio.

Settings: params.yaml, section `report`.
"""

from sonorant.evaluation.report.report_page import ReportConfig, ReportInputs, write_report
from tasks.origin import hashes_of
from tasks.params import load
from tasks.stage import run, stage_arguments, stage_of_graph


def main() -> None:
    read = ["metrics", "evaluation", "choice", "parity", "quantization", "prepared", "audit"]
    read += ["predictor", "waveform", "quantized", "families"]
    given = vars(stage_arguments("report", __doc__, *read, out="HTML file to write"))
    out, summary = given.pop("out"), given.pop("prepared") / "summary.json"
    audit = given.pop("audit") / "summary.json"
    inputs = ReportInputs(**given, summary=summary, audit=audit, hashes=hashes_of(stage_of_graph("report")["deps"]))
    write_report(out, inputs, load("report", ReportConfig))


if __name__ == "__main__":
    run(main, stage="report")
