"""`sonorant listen`: serve a blind listening test of two voices, or print its results."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from sonorant.cli.say import end_cleanly_on_sigterm
from sonorant.errors import SonorantError, needing

EXAMPLES = """\
examples:
  sonorant listen old/ new/ recordings/                  files of a sentence share a name: old/07.wav, new/07.wav
  sonorant listen artifacts/voice models:/sonorant-demo@champion --sentences sentences.txt
  sonorant listen artifacts/voice old/voice data/corpus --sentences data/prepared/manifest.jsonl
  sonorant listen --results listening.jsonl              print the results so far

Each listener enters a name and, in pairs in random order, chooses the better sound or neither. With recordings, ratings
from 0 to 100 follow; the rated sounds include the recording and a low-passed copy as anchor (MUSHRA, ITU-R BS.1534).
All sounds have the same loudness. A listener can stop and continue later under the same name.
"""


def add_listen(commands: argparse._SubParsersAction) -> None:
    listen = commands.add_parser(
        "listen",
        help="run a blind listening test of two voices on a local page",
        description="Serve a blind listening test of A and B on this machine only (127.0.0.1).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = listen.add_argument
    add("a", nargs="?", metavar="A", help="folder of sounds, or a voice: its folder, or models:/<name>@<alias>")
    add("b", nargs="?", metavar="B", help="folder or voice to compare with A")
    add("recordings", nargs="?", metavar="RECORDINGS", help="folder of a person's recordings of the same sentences")
    sentences = (
        "sentences for voices to speak: a text file, one per line (or name|text), or a manifest.jsonl (held-out rows)"
    )
    add("--sentences", type=Path, metavar="FILE", help=sentences)
    answers = "file to write answers to; default listening.jsonl"
    add("--answers", type=Path, default=Path("listening.jsonl"), metavar="FILE", help=answers)
    add("--count", type=int, default=20, metavar="N", help="number of sentences; default 20")
    add("--seed", type=int, default=1, metavar="N", help="random seed for sentences, order and sides; default 1")
    add("--port", type=int, default=8767, metavar="N", help="port to listen on; 0 takes any free port; default 8767")
    add("--results", type=Path, metavar="FILE", help="print the results of an answers file instead of serving")
    listen.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    with needing("pipeline", "sonorant listen"):
        _run(arguments)


def _run(arguments: argparse.Namespace) -> None:
    from sonorant.extras.listening.answers import AnswersFile, read_answers
    from sonorant.extras.listening.listening_server import ListenServer, Sitting
    from sonorant.extras.listening.listening_sounds import RECORDINGS, A, B, gather
    from sonorant.extras.listening.results import told
    from sonorant.extras.listening.systems import read_sentences
    from sonorant.extras.listening.trials import ListeningTest

    if arguments.results is not None:
        if arguments.a is not None:
            raise SonorantError("--results only prints the results of a file; leave out A and B")
        print(told(*read_answers(arguments.results)))
        return
    if arguments.b is None:
        raise SonorantError("give A and B, two folders or voices; or --results FILE")
    if arguments.count < 1:
        raise SonorantError(f"--count must be at least 1, not {arguments.count}")
    end_cleanly_on_sigterm()
    places = {A: arguments.a, B: arguments.b}
    if arguments.recordings is not None:
        places[RECORDINGS] = arguments.recordings
    sentences = [] if arguments.sentences is None else read_sentences(arguments.sentences)
    sounds = gather(places, sentences, count=arguments.count, seed=arguments.seed)
    print("".join(f"{note}\n" for note in sounds.notes), end="")
    rated = f", then {len(sounds.sentences)} ratings against the recordings" if sounds.rated else ""
    print(f"{len(sounds.sentences)} pairs{rated}; seed {arguments.seed}")
    test = ListeningTest(sounds, places, arguments.seed)
    with (
        AnswersFile(arguments.answers, test.header) as answers,
        ListenServer(Sitting(test, answers), arguments.port) as server,
    ):
        print(f"open {server.url} (ctrl-C stops it); answers are written to {arguments.answers}", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    print(told(*read_answers(arguments.answers)))
