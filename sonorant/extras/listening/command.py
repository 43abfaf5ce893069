"""`sonorant listen`: a blind listening test of two voices on a page of this machine, and what its answers say."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sonorant.cli.say import end_cleanly_on_sigterm
from sonorant.errors import SonorantError

if TYPE_CHECKING:
    from sonorant.extras.listening.trials import ListeningTest

EXAMPLES = """\
examples:
  sonorant listen old/ new/ recordings/                  sounds of one sentence have one name: old/07.wav, new/07.wav
  sonorant listen artifacts/voice models:/sonorant-demo@champion --sentences sentences.txt
  sonorant listen artifacts/voice old/voice data/corpus --sentences data/prepared/manifest.jsonl
  sonorant listen --results listening.jsonl              what the answers say so far

Each listener types a name, hears pairs in random order and on random sides and may prefer one or neither. With
recordings, ratings from 0 to 100 beside the recording follow, with the recording hidden among them and a low-passed one
as anchor (MUSHRA, ITU-R BS.1534). All sounds are equally loud. Who comes back goes on where they stopped.
"""


def add_listen(commands: argparse._SubParsersAction) -> None:
    listen = commands.add_parser(
        "listen",
        help="a page on this machine: hear two voices blind and say which is better",
        description="Serve a blind listening test of A and B to this machine alone (127.0.0.1).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = listen.add_argument
    add("a", nargs="?", metavar="A", help="folder of sounds, or a voice: its folder, or models:/<name>@<alias>")
    add("b", nargs="?", metavar="B", help="what to compare it with")
    add("recordings", nargs="?", metavar="RECORDINGS", help="folder of the same sentences as a person reads them")
    sentences = "what voices say: a text with a sentence a line (or name|text), or a manifest.jsonl: what it holds out"
    add("--sentences", type=Path, metavar="FILE", help=sentences)
    answers = "where answers go, each at once; default listening.jsonl"
    add("--answers", type=Path, default=Path("listening.jsonl"), metavar="FILE", help=answers)
    add("--count", type=int, default=20, metavar="N", help="sentences to hear, drawn by the seed; default 20")
    add("--seed", type=int, default=1, metavar="N", help="of the sentences, their order and the sides; default 1")
    add("--port", type=int, default=8767, metavar="N", help="port to listen on; 0 takes any that is free; default 8767")
    add("--results", type=Path, metavar="FILE", help="print what the answers in a file say, and serve nothing")
    listen.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Serve the test until ctrl-C and print its results, or print those of a file."""
    try:
        from sonorant.extras.listening.answers import AnswersFile, read_answers
        from sonorant.extras.listening.results import told
        from sonorant.extras.listening.test_server import ListenServer, Sitting
    except ModuleNotFoundError as error:
        raise _needs(error) from None
    if arguments.results is not None:
        if arguments.a is not None:
            raise SonorantError("--results prints what a file says; leave out A and B")
        print(told(*read_answers(arguments.results)))
        return
    end_cleanly_on_sigterm()
    test = _test(arguments)
    with (
        AnswersFile(arguments.answers, test.header) as answers,
        ListenServer(Sitting(test, answers), arguments.port) as server,
    ):
        print(f"open {server.url} (ctrl-C ends it); answers go to {arguments.answers}", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    print(told(*read_answers(arguments.answers)))


def _test(arguments: argparse.Namespace) -> ListeningTest:
    """Read or speak all sounds. Raises SonorantError naming what is missing."""
    from sonorant.extras.listening.systems import read_sentences
    from sonorant.extras.listening.test_sounds import RECORDINGS, A, B, gather
    from sonorant.extras.listening.trials import ListeningTest

    if arguments.b is None:
        raise SonorantError("give A and B, two folders or voices; or --results FILE")
    if arguments.count < 1:
        raise SonorantError(f"--count must be at least 1, not {arguments.count}")
    places = {A: arguments.a, B: arguments.b}
    if arguments.recordings is not None:
        places[RECORDINGS] = arguments.recordings
    sentences = [] if arguments.sentences is None else read_sentences(arguments.sentences)
    try:
        sounds = gather(places, sentences, count=arguments.count, seed=arguments.seed)
    except ModuleNotFoundError as error:
        raise _needs(error) from None
    for note in sounds.notes:
        print(note)
    pairs = f"{len(sounds.sentences)} pairs"
    rated = f", then {len(sounds.sentences)} ratings beside the recordings" if sounds.rated else ""
    print(f"{pairs}{rated}; seed {arguments.seed}")
    return ListeningTest(sounds, places, arguments.seed)


def _needs(error: ModuleNotFoundError) -> SonorantError:
    return SonorantError(f"sonorant listen needs {error.name}: pip install 'sonorant[pipeline]'")
