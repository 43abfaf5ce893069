"""Compare a benchmark's times with an earlier result and report changes beyond noise.

Noise is estimated from blocks of consecutive rounds within each run (see `benchmarks.turns`). The ratio of the two
medians is divided by the control's slowdown and gets a 99 % interval by resampling blocks of both runs. Changes below
`LEAST` are never reported, because two runs also differ in ways that no block shows, such as memory placement.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.turns import CONTROL, RESAMPLES, SEED

LEAST = 0.05
SAME = ("cpu", "cores", "gpu", "system")
"""Properties that must be equal for two machines' times to be comparable."""
VOICE = "voice_sha256"
"""Hash of the timed voice; must be equal too."""
AUDIO, BLOCKS = "audio_s", "blocks_ms"
"""Keys of a cell: seconds of audio, which must be equal, and the medians of its blocks of rounds."""


def compare(earlier: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Compare two verdicts of `benchmarks.report.finish`.

    Returns the changes, or `{"not comparable": why}`. Each row is `{what, ratio, ci99}`; a ratio (time now over
    time then) above 1 is slower.
    """
    fixed = [
        {key: verdict["machine"].get(key) for key in SAME}
        | {VOICE: verdict["result"].get(VOICE)}
        | dict(_cells(verdict["result"], AUDIO))
        for verdict in (earlier, now)
    ]
    for key in fixed[0].keys() & fixed[1].keys():
        if fixed[0][key] != fixed[1][key]:
            return {"not comparable": f"{key} was {fixed[0][key]}, is {fixed[1][key]}"}
    before, after = ({path: np.array(b) for path, b in _cells(verdict["result"], BLOCKS)} for verdict in (earlier, now))
    rows = [_row(path, before, after) for path in after if path in before and not path.endswith(f"/{CONTROL}")]
    moved = [row for row in rows if abs(row["ratio"] - 1) > LEAST and not row["ci99"][0] <= 1 <= row["ci99"][1]]
    moved.sort(key=lambda row: -abs(np.log(row["ratio"])))
    return {
        "compared": len(rows),
        "slower": [row for row in moved if row["ratio"] > 1],
        "faster": [row for row in moved if row["ratio"] < 1],
        "not in both": sorted(before.keys() ^ after.keys()),
    }


def _row(path: str, before: dict[str, NDArray[np.float64]], after: dict[str, NDArray[np.float64]]) -> dict[str, Any]:
    control = f"{path.rpartition('/')[0]}/{CONTROL}"
    draw = np.random.default_rng(SEED)
    ratio = np.median(after[path]) / np.median(before[path])
    drawn = _medians(after[path], draw) / _medians(before[path], draw)
    if control in before and control in after:
        ratio /= np.median(after[control]) / np.median(before[control])
        drawn /= _medians(after[control], draw) / _medians(before[control], draw)
    low, high = np.percentile(drawn, [0.5, 99.5])
    return {"what": path, "ratio": round(float(ratio), 3), "ci99": [round(float(low), 3), round(float(high), 3)]}


def _medians(blocks: NDArray[np.float64], draw: np.random.Generator) -> NDArray[np.float64]:
    return np.median(blocks[draw.integers(0, len(blocks), (RESAMPLES, len(blocks)))], axis=1)


def _cells(found: Any, key: str, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with this key in a result, with its path.

    The path's last part names the timed candidate; a / in a name becomes a colon.
    """
    if isinstance(found, dict):
        if key in found:
            yield path, found[key]
        for name, value in found.items():
            part = name.replace("/", ":")
            yield from _cells(value, key, f"{path}/{part}" if path else part)
