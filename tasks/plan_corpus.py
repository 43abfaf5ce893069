"""`sonorant plan corpus`: what so many hours of recordings take before training: time, memory, disk and money, from a
probe on the recordings that are here."""

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path

from sonorant.audio.conditioning import ConditionConfig
from sonorant.audio.mel import MelConfig
from sonorant.corpus.audit.audit import AuditConfig
from sonorant.corpus.preparation import PrepareConfig
from sonorant.errors import SonorantError
from sonorant.extras.planning.corpus_plan import Machines, forecast, measure, table
from sonorant.text import TextConfig
from tasks import params
from tasks.stage import INPUTS, run

EXAMPLES = """\
examples:
  sonorant plan corpus --hours 1000                                      on machines as this one
  sonorant plan corpus --hours 100,10000,100000 --cores 64 --machines 8  on eight of 64 cores, by a scheduler
  sonorant plan corpus --hours 10000 --price 3.2 --gb-month 0.023        and what it costs
"""


def main() -> None:
    """Probe, and print a column for each size."""
    parser = argparse.ArgumentParser(
        prog="sonorant plan corpus", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("--hours", required=True, metavar="LIST", help="of speech, such as 1,100,10000")
    add("--corpus", type=Path, default=Path("data/corpus"), help=INPUTS["corpus"])
    add("--prepared", type=Path, default=Path("data/prepared"), help=INPUTS["prepared"])
    add("--recordings", type=int, default=100, metavar="N", help="to measure at most (default 100)")
    add("--cores", type=int, default=os.cpu_count(), metavar="N", help="of a machine (default: this one's)")
    add("--machines", type=int, default=1, metavar="N", help="that share the work, see docs/scale_out.md (default 1)")
    add("--price", type=float, metavar="X", help="of an hour of a machine, in your currency")
    add("--gb-month", type=float, metavar="X", help="of a gigabyte in the store for a month")
    add("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    sizes = read_hours(arguments.hours)
    if arguments.recordings < 1:
        raise SonorantError(f"--recordings {arguments.recordings}: give at least 1")
    machines = Machines(
        cores=arguments.cores, machines=arguments.machines, price=arguments.price, gb_month=arguments.gb_month
    )
    rates = measure(
        arguments.corpus,
        arguments.prepared,
        arguments.recordings,
        config=params.load("prepare", PrepareConfig),
        condition=params.load("condition", ConditionConfig),
        text=params.load("text", TextConfig),
        audio=params.load("audio", MelConfig),
    )
    audited = bool(params.load("audit", AuditConfig).sources)
    found = [forecast(rates, hours, machines, audited=audited) for hours in sizes]
    print(json.dumps({"measured": asdict(rates), "plans": found}) if arguments.json else table(rates, found))


def read_hours(text: str) -> list[float]:
    """Hours by rising size, such as of "1,100,10000". Raises SonorantError for what is no list of hours above 0."""
    try:
        sizes = sorted({float(word) for word in text.split(",")})
    except ValueError:
        sizes = []
    if not sizes or not all(0 < size < float("inf") for size in sizes):
        raise SonorantError(f"--hours {text}: give hours above 0, such as 1,100,10000")
    return sizes


if __name__ == "__main__":
    run(main)
