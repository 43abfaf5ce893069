"""`sonorant say`: from an argument or standard input to a wav file or standard output. Does not know how a voice
speaks."""

from __future__ import annotations

import argparse
import codecs
import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonorant.commands.voices import add_voice, bundle_folder
from sonorant.errors import SonorantError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sonorant.runtime import Voice

EXAMPLES = """\
examples:
  sonorant say "Good morning." --voice artifacts/voice -o morning.wav
  echo "Read this aloud." | sonorant say - --voice artifacts/voice -o aloud.wav
  sonorant say "Not so fast." --voice artifacts/voice --speed 0.8 -o slow.wav
  sonorant say - --stream --voice artifacts/voice -o - < book.txt | aplay
  sonorant say - --stream --raw --voice artifacts/voice -o - < book.txt | aplay -f S16_LE -r 16000
  sonorant say "From the registry." --voice models:/sonorant-demo@champion -o champion.wav

A voice of the family codec_lm draws what it says code by code; at the temperature that most are shipped with, 0, it always says a text
the same way:
  sonorant say "Another way." --voice artifacts/voice --temperature 0.7 --seed 1 -o one.wav
  sonorant say "The best of four." --voice artifacts/voice --temperature 0.7 --candidates 4 -o best.wav
A sentence that does not come to its end as it should is spoken anew, and told on standard error if it never does. With --stream it is
heard while it is made, and cannot be taken back: it is told only. It has a pace of its own, so --speed is refused.
"""
_BYTES_AT_ONCE = 4096
_TYPED_SENTENCE = re.compile(r"(?<=[.!?:…])([\"'”’»)\]]*)[^\S\n]*\n\Z")
"""The end of a line that ends like a sentence."""


def add(commands: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    say = commands.add_parser(
        "say",
        help="speak a text into a wav file",
        description="Speak a text into a 16-bit wav file.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    say.add_argument("text", help="what to say; - reads it from standard input (UTF-8)")
    add_voice(say)
    say.add_argument(
        "-o", "--out", required=True, metavar="FILE", help="the wav file to write; - writes it to standard output"
    )
    say.add_argument(
        "--stream",
        action="store_true",
        help="speak while the text is still being read: text of any length, first speech at once",
    )
    say.add_argument(
        "--raw",
        action="store_true",
        help="samples without a wav header: 16 bits, little-endian, mono, at the voice's rate (the demo's: 16000 Hz)",
    )
    say.add_argument("--speaker", metavar="NAME", help="who speaks, where the voice has several (default: the first)")
    say.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="X",
        help="0.5 (slow) to 2.0 (fast); default 1.0, all that codec_lm takes",
    )
    _add_decoding(say)
    say.add_argument(
        "--variant", metavar="NAME", help="precision of the graphs, such as int8 (default: the voice's own choice)"
    )
    say.add_argument(
        "--runtime",
        default="onnxruntime",
        metavar="NAME",
        help="what runs the graphs: onnxruntime (default), onnxruntime-cuda or tensorrt",
    )
    say.add_argument(
        "--engines",
        type=Path,
        metavar="FOLDER",
        help="engines of the runtime tensorrt (default: the voice's in the user's cache)",
    )
    say.add_argument("--threads", type=int, metavar="N", help="processor threads (default: one a core)")
    say.set_defaults(run=run)


def _add_decoding(say: argparse.ArgumentParser) -> None:
    group = say.add_argument_group(
        "voices of the family codec_lm", "refused by other voices; without them it speaks as it was shipped"
    )
    group.add_argument(
        "--seed", type=int, metavar="N", help="another seed says it another way, above temperature 0; default 0"
    )
    group.add_argument(
        "--temperature", type=float, metavar="X", help="0 = always the likeliest code; 0.7 is lively, 1 as it learned"
    )
    group.add_argument("--top-k", type=int, metavar="N", help="draw from the N likeliest codes only; 0 = from all")
    group.add_argument(
        "--top-p", type=float, metavar="X", help="draw from the likeliest codes that make up this probability; 1 = all"
    )
    group.add_argument(
        "--candidates",
        type=int,
        default=1,
        metavar="N",
        help="speak each sentence N times and keep the best; default 1",
    )
    group.add_argument(
        "--prompt",
        type=Path,
        metavar="WAV",
        help="a recording whose beginning to go on from, if the voice was trained with references",
    )


def run(arguments: argparse.Namespace) -> None:
    """Speak. An error leaves no file; whoever stops listening stops the speech."""
    from sonorant.audio.wav import atomic_wav, pcm16, wav_header
    from sonorant.runtime import Voice

    if Path(arguments.out).is_dir():
        raise SonorantError(f"{arguments.out}: is a folder; give the name of a wav file")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the unfinished file is removed
    with bundle_folder(arguments.voice) as bundle:
        voice = Voice.load(
            bundle, arguments.runtime, arguments.threads, variant=arguments.variant, engines=arguments.engines
        )
        speech = (pcm16(samples) for samples in _speech(voice, arguments))
        first = next(speech)  # what cannot be spoken at all shall write nothing at all
        try:
            if arguments.out == "-":
                header = (
                    b"" if arguments.raw else wav_header(voice.sample_rate, None if arguments.stream else len(first))
                )
                _to_standard_output(chain([header, first.tobytes()], (samples.tobytes() for samples in speech)))
            else:
                with atomic_wav(Path(arguments.out), voice.sample_rate, header=not arguments.raw) as append:
                    for samples in chain([first], speech):
                        append(samples)
        except BrokenPipeError:
            raise
        except OSError as error:
            name = "standard output" if arguments.out == "-" else arguments.out
            raise SonorantError(f"{name}: cannot be written ({error.strerror})") from None


def _to_standard_output(speech: Iterable[bytes]) -> None:
    if sys.stdout is None:
        raise SonorantError("standard output is closed; give a file to write with -o")
    # A file of its own: sys.stdout would try once more, as Python ends, to write what could not be written.
    with open(sys.stdout.fileno(), "wb", closefd=False) as output:
        for data in speech:
            output.write(data)
            output.flush()


def _speech(voice: Voice, arguments: argparse.Namespace) -> Iterator[NDArray[np.float32]]:
    from sonorant.runtime.speaking import Allowance
    from sonorant.runtime.voice import AT_ONCE

    text = _standard_input() if arguments.text == "-" else iter([arguments.text])
    how: dict[str, Any] = {
        "seed": arguments.seed,
        "decoding": voice.decoding(temperature=arguments.temperature, top_k=arguments.top_k, top_p=arguments.top_p),
        "candidates": arguments.candidates,
        "prompt": None if arguments.prompt is None else voice.prompt(arguments.prompt),
    }
    if arguments.stream:
        # Candidates can be compared only when they are whole.
        return voice.stream(text, arguments.speaker, arguments.speed, whole=arguments.candidates > 1, **how)
    whole = "".join(Allowance(AT_ONCE).read(text))  # reads no further than the limit
    return iter([voice.say(whole, arguments.speaker, arguments.speed, **how)])


def _standard_input() -> Iterator[str]:
    """Standard input as it comes. Raises SonorantError if it cannot be read, or naming the first byte that is not
    UTF-8."""
    if sys.stdin is None:
        raise SonorantError("standard input is closed; give the text as an argument or through a pipe")
    typed = sys.stdin.isatty()
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    read, data = 0, b" "
    while data:
        undecoded = len(decoder.getstate()[0])
        try:
            data = os.read(sys.stdin.fileno(), _BYTES_AT_ONCE)
            text = decoder.decode(data, final=not data)
        except OSError as error:
            raise SonorantError(f"standard input: cannot be read ({error.strerror})") from None
        except UnicodeDecodeError as error:
            place = read - undecoded + error.start
            raise SonorantError(f"standard input: not UTF-8 (byte {place}); convert the text first") from None
        # Whether a sentence has ended shows when a word follows it, or the paragraph ends; a person who typed one waits
        # to hear it.
        yield _TYPED_SENTENCE.sub(r"\1\n\n", text) if typed else text
        read += len(data)
