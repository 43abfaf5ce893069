"""All looks at the machine in order. Knows nothing of how findings are shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sonorant.doctor.finding import Finding, not_run


def examine(*, features: Path | None, runs: Path | None, lock: Path | None, ranks: bool) -> Iterator[Finding]:
    """Findings of this machine, as they are made.

    `features`: feature store that training reads; `runs`: folder of run directories; `lock`: requirements.lock;
    `ranks`: whether to start ranks and let them average gradients, which takes some ten seconds.
    """
    try:
        import torch
    except ModuleNotFoundError:
        yield not_run(
            "versions",
            "torch",
            "not installed, so nothing about training can be said",
            "pip install 'sonorant[pipeline]'",
        )
        return
    from sonorant.doctor import devices, machine, network, self_test, storage, versions

    yield from versions.look(lock)
    yield from devices.look()
    yield from machine.look(os.environ, torch.cuda.device_count())
    yield from (
        storage.look_at_read(features)
        if features
        else [not_run("storage", "features", "no folder given", "--data <feature store>")]
    )
    yield from (
        storage.look_at_write(runs) if runs else [not_run("storage", "runs", "no folder given", "--runs <folder>")]
    )
    yield from network.look(os.environ)
    yield from self_test.look(os.environ) if ranks else [not_run("ranks", "self-test", "left out (--no-ranks)")]
