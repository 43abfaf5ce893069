"""`sonorant review`: serve a local page to listen to clips, most doubtful first, and decide which to keep."""

import argparse
import signal
import sys
from contextlib import suppress
from pathlib import Path

from sonorant.corpus.preparation import PrepareConfig
from sonorant.errors import SonorantError
from tasks.params import load
from tasks.stage import INPUTS, check_existing, run

EXAMPLES = """\
examples:
  sonorant review --decisions corpora/mine.decisions.csv   write decisions to this file
  sonorant review                                          write them to prepare.decisions of params.yaml
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="sonorant review",
        description=__doc__.partition(": ")[2],
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--corpus", type=Path, default=Path("data/corpus"), metavar="FOLDER", help=INPUTS["corpus"])
    add("--prepared", type=Path, default=Path("data/prepared"), metavar="FOLDER", help=INPUTS["prepared"])
    audit = "folder written by the stage audit; without it, the order is the manifest's"
    add("--audit", type=Path, default=Path("data/audit"), metavar="FOLDER", help=audit)
    add("--decisions", type=Path, metavar="FILE", help="file of decisions (default: prepare.decisions of params.yaml)")
    port = "port to listen on; 0 means any free port; default 8766"
    add("--port", type=int, default=8766, metavar="N", help=port)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    applied = load("prepare", PrepareConfig).decisions
    decisions = arguments.decisions or (Path(applied) if applied else None)
    if decisions is None:
        raise SonorantError("no file for decisions; give one with --decisions corpora/<name>.decisions.csv")
    check_existing(arguments.corpus, arguments.prepared)
    from sonorant.extras.review.review_server import Review, ReviewServer

    review = Review(arguments.corpus, arguments.prepared, arguments.audit, decisions)
    with ReviewServer(review, arguments.port) as server, suppress(KeyboardInterrupt):
        if applied is None or Path(applied).resolve() != decisions.resolve():
            print(f"note: the stage prepare does not use {decisions} yet; set prepare.decisions to it in params.yaml")
        print(f"open {server.url} (press Ctrl-C to stop)", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    run(main)
