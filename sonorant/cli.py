"""The command `sonorant`. Knows nothing of what its subcommands do; each is a file of `sonorant.commands`."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys

from sonorant.commands import demo_page, doctor, plan, say, sync_tracking
from sonorant.errors import SonorantError


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a SonorantError becomes one line and exit status 1."""
    parsed = _parser().parse_args(arguments)
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        parsed.run(parsed)
    except SonorantError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except BrokenPipeError:  # whoever read the output has enough; Python would complain once more when it closes it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(128 + signal.SIGPIPE) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sonorant", description="Use a voice that Sonorant trained, and the machine that trains it."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (say, demo_page, doctor, sync_tracking, plan):
        command.add(commands)
    return parser


if __name__ == "__main__":
    main()
