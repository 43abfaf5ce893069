"""Why training waits for its data: storage, workers or transforms. Knows nothing of how batches are made beyond what it cost."""

from __future__ import annotations

from sonorant.data.loading import Cost

LIMIT = 0.02
"""Share of the steps' time above which waiting for data is worth a warning."""
BUSY = 0.7
"""Share of their time in which loader processes work above which they are too few, or starved of cores."""


def cause(cost: Cost, wall: float, workers: int, cores: int) -> tuple[str, str]:
    """What made the ranks wait, as a word and as a sentence with its mend.

    Args:
        cost: of the batches loaded in `wall` seconds.
        workers: loader processes of this rank; 0: the training process loads itself.
        cores: that this rank may use.
    """
    working = cost.reading + cost.transforming
    if cost.reading > cost.transforming:
        return "storage", (
            f"storage: {cost.reading:.2f} s of {working:.2f} s of loading went into reading, with {cost.faults:.0f} pages from disk; "
            "set data.preload to memory or folder"
        )
    if workers == 0:
        return "transforms", (
            f"transforms: {cost.transforming:.2f} s of {working:.2f} s of loading went into making tensors, in the training process "
            "itself; set data.workers to 1 or more"
        )
    if cost.computing < BUSY * cost.transforming:
        return "workers", (
            f"workers: the {workers} had a core for only {cost.computing:.2f} s of the {cost.transforming:.2f} s they worked; "
            "lower data.workers, or give this rank more cores"
        )
    if working < BUSY * workers * wall:
        return "workers", (
            f"workers: the {workers} worked for {working:.2f} s of {wall:.2f} s and were waited for all the same, as when an epoch of few "
            "steps starts them anew; set data.workers to 0, or data.preload to memory"
        )
    if workers < cores:
        return (
            "workers",
            f"workers: the {workers} were busy all the time and too few; raise data.workers (this rank has {cores} cores)",
        )
    return "transforms", (
        f"transforms: making tensors took {cost.transforming:.2f} s in {wall:.2f} s, more than {cores} cores can do; "
        "give this rank more cores"
    )
