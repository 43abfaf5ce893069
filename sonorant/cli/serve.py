"""The command `sonorant serve`."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from sonorant.cli.say import utf8
from sonorant.errors import SonorantError, needing
from sonorant.processes import at_most_cores

EXAMPLES = """\
examples:
  sonorant serve artifacts/voice
  sonorant serve models:/sonorant-demo@champion german=voices/thorsten --port 8000
  sonorant serve artifacts/voice --keys keys.json --new-key app      create a key and print it
  sonorant serve artifacts/voice --keys keys.json --allow-host voice.example.org   behind a TLS proxy on this machine
  sonorant serve artifacts/voice --keys keys.json --host 0.0.0.0     behind a TLS proxy on another machine

For a client of OpenAI's API: base_url http://127.0.0.1:8000/v1, model = the voice's name, voice = one
of its speakers. GET /v1/models lists both, GET /openapi.json describes all routes.
"""


def add_serve(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "serve",
        help="serve voices over HTTP: a demo page, OpenAI's API, and an API with word times",
        description="Serve voices over HTTP; speech is streamed while it is computed. The page works "
        "without keys, so it is off with --keys.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.add_argument
    voice = "[<name>=]bundle folder, or a registered voice: models:/<name>@<alias> or models:/<name>/<version>"
    add("voices", nargs="*", type=utf8, metavar="VOICE", help=voice)
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on; default 127.0.0.1 (loopback)")
    allow = "further allowed host name, such as the TLS proxy's; may be repeated"
    add("--allow-host", dest="allow_hosts", action="append", default=[], metavar="NAME", help=allow)
    add("--port", type=int, default=8000, metavar="N", help="port to listen on; 0 means any free port; default 8000")
    add("--workers", type=int, metavar="N", help="processes per voice, at most one per core (the default)")
    add("--streams", type=int, default=16, metavar="N", help="requests each process speaks alternately; default 16")
    add("--queue", type=int, default=128, metavar="N", help="maximum number of waiting requests; default 128")
    add("--characters", type=int, default=5_000, metavar="N", help="maximum characters per request; default 5000")
    memory = "unload idle voices when all voices together use more memory (default: never)"
    add("--memory-mib", type=int, metavar="N", help=memory)
    poll = "seconds between checks of the registry for moved aliases; default 5"
    add("--poll-seconds", type=float, default=5.0, metavar="X", help=poll)
    add("--keys", type=Path, metavar="FILE", help="file of hashed API keys and limits (default: no key is required)")
    add(
        "--new-key",
        type=utf8,
        metavar="NAME",
        help="add a key with this name to the file of --keys, print it, and exit",
    )
    add("--no-page", dest="page", action="store_false", help="do not serve the demo page")
    markup = "interpret SSML and double brackets on OpenAI's route too (default: plain text)"
    add("--markup", action="store_true", help=markup)
    refuse = "answer 400 to a text in which nothing can be spoken, such as an emoji (default: a moment of silence)"
    add("--refuse-silence", action="store_true", help=refuse)
    add("--log-texts", action="store_true", help="log requests and their texts")
    drain = "maximum seconds to finish running requests after SIGTERM; default 300"
    add("--drain-seconds", type=float, default=300.0, metavar="X", help=drain)
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    with needing("serve", "sonorant serve"):
        from sonorant.serving.keys import new_key
        from sonorant.serving.server import ServeConfig, serve
        from sonorant.serving.voices import Offer
    if arguments.new_key is not None:
        if arguments.keys is None:
            raise SonorantError("--new-key requires a file; give it with --keys keys.json")
        print(new_key(arguments.keys, arguments.new_key))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # a normal exit
    arguments.workers = at_most_cores(arguments.workers, "--workers")
    given = {name: value for name, value in vars(arguments).items() if name not in ("voices", "new_key", "run")}
    config = ServeConfig(offers=tuple(Offer.parse(voice) for voice in arguments.voices), **given)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    if config.log_texts:
        logging.getLogger("sonorant.serving").setLevel(logging.INFO)
    if not config.loopback:
        keys = "" if config.keys else " and without keys; give --keys"
        print(f"warning: listening on {config.host} without TLS{keys}; put a proxy in front of it", file=sys.stderr)
    page = "" if config.keys or not config.page else ", page {url}"
    says = f"serving at {{url}}v1{page} (press Ctrl-C to stop)"
    try:
        serve(config, lambda url: print(says.format(url=url), flush=True))
    except (SystemExit, KeyboardInterrupt) as end:
        _leave(int(end.code or 0) if isinstance(end, SystemExit) else 128 + signal.SIGINT)


def _leave(status: int) -> NoReturn:
    """Exit without waiting for threads, because MLflow may hang in one."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the reader closed the pipe
            stream.flush()
    os._exit(status)
