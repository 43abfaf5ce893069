"""Choose the variant that ships, and write its bundle.

The choice depends only on the measurements of all candidates (`<runtime>/<variant>`). fp32 ships unless another variant
passes every parity check, is about as intelligible, and is significantly faster (confidence interval of ratios measured
alternately). Without a recogniser for the language only fp32 ships. A variant that fails the gates of `champion` is not
chosen if fp32 passes them. The shipped bundle contains all variants that passed; the chosen one is the default.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from sonorant.checked import Amount, Interval, Positive
from sonorant.errors import SonorantError
from sonorant.speech.bundle import Bundle, Graph, write_bundle
from sonorant.speech.runtimes import BASELINE, REFERENCE, runtime_row

Target = Literal["latency", "throughput"]
HEARD_UNDER = "onnxruntime"
SENTENCES = "medium"
TARGETS: dict[Target, str] = {"latency": "threads_all", "throughput": "threads_1"}


@dataclass(frozen=True, kw_only=True)
class ChooseConfig:
    """Section `choose` of params.yaml: conditions for replacing fp32."""

    target: Target = "latency"
    """`latency` optimises a medium sentence on all cores; `throughput` one request per core, each on one thread."""
    max_wer_above_fp32: Amount = 2.0
    """Maximum increase in word error rate over fp32, in percentage points."""
    min_speedup: Annotated[Positive, Interval(ge=1)] = 1.05
    """Minimum speed relative to fp32, for the lower end of the 95 % interval."""


@dataclass(frozen=True, kw_only=True)
class CandidateRow:
    """Measurements and result of a candidate; None means not measured."""

    candidate: str
    passed: bool
    """Whether all parity checks and the word error rate passed."""
    reason: str
    p50_ms: float | None
    rtf: float | None
    speedup: float | None
    """Speed divided by that of `BASELINE`, measured alternately."""
    speedup_ci95: list[float] | None
    wer: float | None
    wer_above_fp32: float | None
    wer_above_fp32_ci95: list[float] | None
    bytes: int | None

    @property
    def runtime(self) -> str:
        return self.candidate.split("/", 1)[0]

    @property
    def variant(self) -> str:
        return self.candidate.split("/", 1)[1]

    @property
    def standalone(self) -> bool:
        return runtime_row(self.runtime).standalone


def choose(
    metrics: Mapping[str, Any], config: ChooseConfig, gates: Callable[[str], str] = lambda _: ""
) -> dict[str, Any]:
    """Return the data for reports/choice.json, given that of reports/metrics.json.

    `gates` returns why a candidate fails the gates of `champion`, or "". Raises SonorantError if onnxruntime/fp32
    failed.
    """
    try:
        candidates = dict.fromkeys([BASELINE, *metrics["parity"], *metrics["speed"]])
        rows = [_row(candidate, metrics, config) for candidate in candidates]
    except (AttributeError, KeyError, TypeError) as error:
        raise SonorantError(f"incomplete figures ({error}); run the stage evaluate again") from None
    if not rows[0].passed:
        raise SonorantError(f"{BASELINE}: {rows[0].reason}; fix this first, since no voice can ship")
    able = [row for row in rows if row.passed and row.standalone]
    refused = {} if gates(BASELINE) else {row.candidate: why for row in able if (why := gates(row.candidate))}
    kept_back = "refused by gates that fp32 passes: "
    rows = [
        replace(row, reason=kept_back + refused[row.candidate]) if row.candidate in refused else row for row in rows
    ]
    fast = [row for row in able if row.candidate not in refused and _certainly_faster(row, config)]
    best = max(fast, key=lambda row: row.speedup or 0.0, default=rows[0])
    return {
        "variant": best.variant,
        "runtime": best.runtime,
        "target": config.target,
        "sentence": _sentence(best, rows, config),
        "table": [asdict(row) for row in rows],
    }


def shipped_variants(choice: Mapping[str, Any]) -> list[str]:
    """Return the variants that passed under a runtime that requires only the bundle."""
    passed = [row["candidate"].split("/", 1) for row in choice["table"] if row["passed"]]
    return list(dict.fromkeys(variant for runtime, variant in passed if runtime_row(runtime).standalone))


def _row(candidate: str, metrics: Mapping[str, Any], config: ChooseConfig) -> CandidateRow:
    runtime, variant = candidate.split("/", 1)
    heard, speed = metrics["intelligibility"].get(variant), metrics["speed"].get(candidate)
    parity = metrics["parity"].get(candidate)
    ran = isinstance(parity, dict) and parity["passed"]
    own = runtime_row(runtime).standalone  # torch runs the trained models
    judged: Mapping[str, Any] = heard if ran and own and isinstance(heard, dict) else {}
    timed: Mapping[str, Any] = speed[SENTENCES][TARGETS[config.target]] if isinstance(speed, dict) else {}
    above = judged.get("above_fp32", {})
    unheard = f"; words {heard}" if own and isinstance(heard, str) else ""
    refused = _refused(candidate, parity, heard, metrics["intelligibility"].get("recordings"), speed, config)
    row = CandidateRow(
        candidate=candidate,
        passed=refused is None,
        reason=refused or "",
        p50_ms=timed.get("p50_ms"),
        rtf=timed.get("rtf"),
        speedup=1.0 if candidate == BASELINE and timed else timed.get("over_fp32"),
        speedup_ci95=timed.get("over_fp32_ci95"),
        wer=judged.get("wer"),
        wer_above_fp32=above.get("wer"),
        wer_above_fp32_ci95=above.get("wer_ci95"),
        bytes=metrics["size"].get(variant, {}).get("bytes") if own else None,
    )
    return row if refused else CandidateRow(**asdict(row) | {"reason": _standing(row, config) + unheard})


def _refused(candidate: str, parity: Any, heard: Any, everyone: Any, speed: Any, config: ChooseConfig) -> str | None:
    """Return why a candidate may not ship, or None. `everyone` is the recogniser's result for the recordings."""
    if candidate == REFERENCE:
        return None if isinstance(speed, dict) else speed
    if not isinstance(parity, dict):
        return parity or "not run: verify did not compare it"
    if not parity["passed"]:
        return f"failed verify: {parity['failed']}"
    nobody_listened = isinstance(heard, str) and heard == everyone
    if not isinstance(heard, dict) and not (nobody_listened and candidate.split("/", 1)[1] == "fp32"):
        return heard or "not run: no sentence of this variant was transcribed under ONNX Runtime on the CPU"
    above = heard.get("above_fp32") if isinstance(heard, dict) else None
    if above and above["wer"] > config.max_wer_above_fp32:
        low, high = above["wer_ci95"]
        limit = f"choose.max_wer_above_fp32 is {config.max_wer_above_fp32:g}"
        points = f"{above['wer']:+.1f} points above fp32 (95 % interval {low:+.1f} to {high:+.1f}; {limit})"
        return f"less intelligible: WER {points}{_where_heard(candidate)}"
    if not isinstance(speed, dict):
        return speed or "not run: evaluate did not time it"
    return None


def _where_heard(candidate: str) -> str:
    """Return a note if the word error rate was measured under a different runtime."""
    return "" if candidate.split("/", 1)[0] == HEARD_UNDER else f" as measured under {HEARD_UNDER}"


def _certainly_faster(row: CandidateRow, config: ChooseConfig) -> bool:
    return row.speedup_ci95 is not None and row.speedup_ci95[0] >= config.min_speedup


def _standing(row: CandidateRow, config: ChooseConfig) -> str:
    if row.speedup_ci95 is None:
        return "passed: the baseline of the others"
    low, high = row.speedup_ci95
    figures = f"{row.speedup:.2f} times fp32's speed (95 % interval {low:.2f} - {high:.2f})"
    if not row.standalone:
        return f"for comparison only, since a bundle does not contain the trained models: {figures}"
    if _certainly_faster(row, config):
        standing = f"passed: {figures}"
    elif high < 1:
        standing = f"passed, but slower: {figures}"
    else:
        standing = f"passed, but not significantly faster: {figures}; choose.min_speedup is {config.min_speedup:g}"
    heard = _where_heard(row.candidate)
    return f"{standing}; WER{heard}" if heard else standing


def _sentence(best: CandidateRow, rows: list[CandidateRow], config: ChooseConfig) -> str:
    if best.candidate == BASELINE:
        others = [f"{row.candidate} {row.reason}" for row in rows if row.candidate != BASELINE and row.standalone]
        tried = [other for other in others if "not run: " not in other]
        found = f": {'; '.join(tried)}" if tried else ", because no other candidate could be judged"
        return f"{BASELINE} ships ({config.target}){found}"
    above, size = best.wer_above_fp32, rows[0].bytes
    low, high = best.wer_above_fp32_ci95 or (0.0, 0.0)
    smaller = f", {best.bytes / size:.2f} of its size" if best.bytes and size else ""
    interval = f"(95 % interval {low:+.1f} to {high:+.1f}){_where_heard(best.candidate)}"
    worse = f", WER {above:+.1f} points {interval}" if above is not None else ""
    return f"{best.candidate} ships ({config.target}): {best.speedup:.2f} times fp32's speed{worse}{smaller}"


def ship(exported: Bundle, choice: Mapping[str, Any], out: Path) -> None:
    """Write the bundle `out` from the `exported` one, atomically. Raises SonorantError if a graph lacks the chosen
    variant or a file is damaged."""
    variants, default = shipped_variants(choice), choice["variant"]
    exports = exported.description.graphs
    graphs = {name: _kept(exported, name, graph, variants, default) for name, graph in exports.items()}
    files = [exported.graph_file(name, variant) for name, graph in graphs.items() for variant in graph.variants]
    files += [file for file in (exported.reference_file(), exported.lexicon_file()) if file is not None]
    write_bundle(out, replace(exported.description, graphs=graphs, choice=dict(choice)), dict.fromkeys(files))


def _kept(exported: Bundle, name: str, graph: Graph, variants: list[str], default: str) -> Graph:
    if default not in graph.variants:
        raise SonorantError(f"{exported.folder}: graph {name} lacks the chosen variant '{default}'; run evaluate again")
    kept = {variant: graph.variants[variant] for variant in variants if variant in graph.variants}
    return replace(graph, variants=kept, default_variant=default)
