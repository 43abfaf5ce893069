"""Parity checks: compare every variant under every runtime that runs here with torch.

Checks in order: files, interface, static (rules of plug-in runtimes), integers (int8 under ONNX Runtime), load, values,
float (int8 against the float models), written (fp16 against its file), tokens (autoregressive voices), padding, parts,
size (int8). A failed check ends only its candidate's checks. int8 is compared with torch's fake-quantised models, the
others with its float models.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sonorant.errors import SonorantError
from sonorant.export.candidate import Trained, run_checks
from sonorant.export.tolerance import VerifyConfig
from sonorant.plugins import load_family
from sonorant.speech.bundle import Bundle
from sonorant.speech.runtimes import BASELINE, all_runtimes


def verify_voice(
    bundle: Bundle,
    trained: Trained,
    utterances: Sequence[NDArray[np.integer]],
    config: VerifyConfig,
    *,
    quantized: Trained | None = None,
) -> dict[str, dict[str, Any] | str]:
    """Check every candidate. `trained` are the folders of predictor and waveform model, `utterances` the token ids (N,
    3) of each, shortest first, and `quantized` the folders of the fake-quantised models, required for int8.

    Returns `{"<runtime>/<variant>": {passed, failed, <check>: measurements} or "not run: <why>"}`; `graphs` contains
    the measurements of the check `values`. Raises SonorantError if onnxruntime/fp32 fails.
    """
    variants = list(bundle.description.graphs[bundle.graphs[0]].variants)
    if "int8" in variants and quantized is None:
        raise SonorantError(
            f"{bundle.folder} has int8 graphs; give verify the quantised models from which they were exported"
        )
    candidate = load_family(bundle.description.family).candidate()
    of_float = candidate.expect(bundle, trained, utterances, "torch")
    of_int8 = candidate.expect(bundle, quantized, utterances, "torch's fake-quantised model") if quantized else of_float
    report: dict[str, dict[str, Any] | str] = {}
    for name in tqdm(
        [f"{runtime}/{variant}" for runtime in all_runtimes() for variant in variants], desc="verify", unit="candidate"
    ):
        runtime, variant = name.split("/")
        if runtime not in config.runtimes and name != BASELINE:
            report[name] = f"not run: {runtime} is not among verify.runtimes"
            continue
        models, expected = (quantized, of_int8) if variant == "int8" else (trained, of_float)
        report[name] = found = run_checks(candidate(bundle, runtime, variant, models, expected, of_float, config))
        if name == BASELINE and not (isinstance(found, dict) and found["passed"]):
            raise SonorantError(
                f"{name}: {found if isinstance(found, str) else found['failed']}; export or train the voice again"
            )
    return report
