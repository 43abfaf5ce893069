"""`sonorant serve`."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from sonorant.errors import SonorantError

EXAMPLES = """\
examples:
  sonorant serve artifacts/voice
  sonorant serve models:/sonorant-demo@champion german=voices/thorsten --port 8000
  sonorant serve artifacts/voice --keys keys.json --new-key app      makes a key, prints it and ends
  sonorant serve artifacts/voice --keys keys.json --allow-host voice.example.org   a proxy here ends TLS
  sonorant serve artifacts/voice --keys keys.json --host 0.0.0.0     the proxy is another machine

For a client of OpenAI's interface: base_url http://127.0.0.1:8000/v1, model = the voice's name, voice = one
of its speakers. GET /v1/models lists both, GET /openapi.json describes all routes.
"""


def add_serve(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "serve",
        help="serve voices over HTTP: a page to type a text and hear it, OpenAI's interface, and one with word times",
        description="Serve voices over HTTP; speech is streamed while it is computed. The page needs no keys, so it is "
        "off with --keys.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.add_argument
    voice = "[<name>=]folder of a voice bundle, or of the registry models:/<name>@<alias> or models:/<name>/<version>"
    add("voices", nargs="*", metavar="VOICE", help=voice)
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on; default 127.0.0.1, loopback")
    allow = "further host name of the server, such as that of its TLS proxy; may be repeated"
    add("--allow-host", dest="allow_hosts", action="append", default=[], metavar="NAME", help=allow)
    add("--port", type=int, default=8000, metavar="N", help="port to listen on; 0 takes any that is free; default 8000")
    add("--workers", type=int, metavar="N", help="processes per voice (default: one a core)")
    add("--streams", type=int, default=16, metavar="N", help="requests each process speaks in turn; default 16")
    add("--queue", type=int, default=128, metavar="N", help="further requests that may wait; default 128")
    add("--characters", type=int, default=5_000, metavar="N", help="most characters of a request; default 5000")
    memory = "unload idle voices when all use more memory (default: never)"
    add("--memory-mib", type=int, metavar="N", help=memory)
    poll = "seconds between polls of the registry for moved aliases; default 5"
    add("--poll-seconds", type=float, default=5.0, metavar="X", help=poll)
    add(
        "--keys", type=Path, metavar="FILE", help="file of hashed API keys and their limits (default: no key is needed)"
    )
    add("--new-key", metavar="NAME", help="add a key of this name to the file of --keys, print it, and exit")
    add("--no-page", dest="page", action="store_false", help="do not serve the demo page")
    add("--log-texts", action="store_true", help="log requests and their texts")
    drain = "most seconds to finish running speech after SIGTERM; default 300"
    add("--drain-seconds", type=float, default=300.0, metavar="X", help=drain)
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    try:
        from sonorant.serving.keys import new_key
        from sonorant.serving.server import ServeConfig, serve
        from sonorant.serving.voices import Offer
    except ModuleNotFoundError as error:
        raise SonorantError(f"needs '{error.name}'; run: pip install 'sonorant[serve]'") from None
    if arguments.new_key is not None:
        if arguments.keys is None:
            raise SonorantError("--new-key needs the file: --keys keys.json")
        print(new_key(arguments.keys, arguments.new_key))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # a normal end
    given = {name: value for name, value in vars(arguments).items() if name not in ("voices", "new_key", "run")}
    config = ServeConfig(offers=tuple(Offer.parse(voice) for voice in arguments.voices), **given)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    if config.log_texts:
        logging.getLogger("sonorant.serving").setLevel(logging.INFO)
    if not config.loopback:
        keys = "" if config.keys else ", and without keys: give --keys"
        print(f"warning: listens on {config.host} without TLS{keys}; put a proxy before it", file=sys.stderr)
    page = "" if config.keys or not config.page else ", page {url}"
    says = f"speaks at {{url}}v1{page} (ctrl-C ends it)"
    try:
        serve(config, lambda url: print(says.format(url=url), flush=True))
    except (SystemExit, KeyboardInterrupt) as end:
        _leave(int(end.code or 0) if isinstance(end, SystemExit) else 128 + signal.SIGINT)


def _leave(status: int) -> NoReturn:
    """Exit without waiting for threads: MLflow may hang in one."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # its reader has gone
            stream.flush()
    os._exit(status)
