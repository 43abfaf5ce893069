"""`sonorant demo-page`: a page on this machine to try a voice. Does not know what the page looks like."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import closing

from sonorant.commands.voices import add_voice, bundle_folder

EXAMPLES = """\
examples:
  sonorant demo-page --voice artifacts/voice
  sonorant demo-page --voice models:/sonorant-demo@champion --port 0
"""


def add(commands: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    page = commands.add_parser(
        "demo-page",
        help="a page on this machine where one types a text and hears it",
        description="Serve a page to this machine alone (127.0.0.1) where one types a text and hears it while it is computed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_voice(page)
    page.add_argument(
        "--port", type=int, default=8765, metavar="N", help="port to listen on; 0 takes any that is free; default 8765"
    )
    page.add_argument("--workers", type=int, metavar="N", help="requests computed at a time (default: one a core)")
    page.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Serve until interrupted or terminated."""
    from sonorant.page.server import PageServer
    from sonorant.page.synthesis import Synthesis

    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # so that a bundle of the registry is removed
    with (
        bundle_folder(arguments.voice) as bundle,
        closing(Synthesis(bundle, workers=arguments.workers)) as synthesis,
        PageServer(synthesis, arguments.port) as server,
    ):
        print(f"open {server.url} (ctrl-C ends it)", flush=True)
        server.serve_forever()
