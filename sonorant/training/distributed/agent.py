"""Run torchrun with its arguments and PET_* variables, printing one line per failed rank instead of a traceback."""

import logging
import os
import sys
import time

from torch.distributed import DistError
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main

from sonorant.training.worker import STOPPED

HINT = "check that each runs the same command with a different PET_NODE_RANK and can reach that port"
LINGER_SECONDS = 2.0
"""Seconds that the first node's agent lingers, because other nodes need its store."""


def run() -> None:
    for part in "agent.server.api", "multiprocessing.api":  # warn of each signal that they pass on
        logging.getLogger(f"torch.distributed.elastic.{part}").setLevel(logging.ERROR)
    try:
        main()
        if os.environ.get("PET_NODE_RANK") == "0":
            time.sleep(LINGER_SECONDS)
    except ChildFailedError as error:
        for rank, failure in error.failures.items():
            code = failure.exitcode
            if code != STOPPED:
                cause = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
                print(f"rank {rank} (process {failure.pid}) {cause}", file=sys.stderr)
        raise SystemExit(1) from None
    except SignalException:
        raise SystemExit(1) from None  # the ranks received the signal too
    except DistError as error:
        nodes, endpoint = os.environ.get("PET_NNODES"), os.environ.get("PET_RDZV_ENDPOINT")
        cause = str(error).splitlines()[0]
        print(f"error: {nodes} nodes could not connect at {endpoint} ({cause}); {HINT}", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    run()
