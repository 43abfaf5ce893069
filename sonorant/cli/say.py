"""`sonorant say`: speak a text from an argument or standard input into a sound file or standard output."""

from __future__ import annotations

import argparse
import codecs
import os
import select
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sonorant.errors import SonorantError, needing
from sonorant.files import check_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sonorant.speech import Voice
    from sonorant.speech.streaming import Speech
    from sonorant.speech.subtitles import TimingsFile
    from sonorant.text.arriving import Fragment

EXAMPLES = """\
examples:
  sonorant say "Good morning." --voice artifacts/voice -o morning.wav
  echo "Read this aloud." | sonorant say - --voice artifacts/voice -o aloud.wav
  sonorant say "More slowly." --voice artifacts/voice --speed 0.8 -o slow.wav
  sonorant say "In a higher, louder voice." --voice artifacts/voice --pitch 3 --energy 4 -o high.wav
  sonorant say - --stream --voice artifacts/voice -o - < book.txt | aplay
  sonorant say - --stream --raw --voice artifacts/voice -o - < book.txt | aplay -f S16_LE -r 16000
  chatbot | sonorant say - --stream --patience 0.5 --voice artifacts/voice -o - | aplay
  sonorant say "Call [[ʃ ɪ v ˈɔ n]]. [[pause 0.5]] Then wait." --voice artifacts/voice -o call.wav
  sonorant say - --voice artifacts/voice -o letter.wav < letter.ssml
  sonorant say "Words light up." --voice artifacts/voice -o words.wav --timings words.vtt
  sonorant say "From the registry." --voice models:/sonorant-demo@champion -o champion.wav

A voice of the family codec_lm samples its speech code by code. At temperature 0, the usual default, a text always
sounds the same:
  sonorant say "Another way." --voice artifacts/voice --temperature 0.7 --seed 1 -o one.wav
  sonorant say "The best of four." --voice artifacts/voice --temperature 0.7 --candidates 4 -o best.wav
A sentence that does not end properly is spoken again; if all attempts fail, a warning is printed. With --stream there
is no second attempt. Such a voice does not support --speed, --pitch and --energy.
"""
_BYTES_AT_ONCE = 4096


def add_say(commands: argparse._SubParsersAction) -> None:
    say = commands.add_parser(
        "say",
        help="speak a text and write a sound file",
        description="Speak a text and write it as a sound file.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    say.set_defaults(run=run)
    add = say.add_argument
    add("text", type=utf8, help="text to speak; - reads it from standard input (UTF-8)")
    add_voice(say)
    out = "file to write: .wav (or no ending), .mp3, .flac, .opus, .ogg or, as --raw, .raw; - is standard output"
    add("-o", "--out", required=True, metavar="FILE", help=out)
    stream = "write speech while the text is still being read, which can have any length"
    add("--stream", action="store_true", help=stream)
    patience = "with - and --stream: speak a complete sentence after this long without new text (default: wait)"
    add("--patience", type=float, metavar="SECONDS", help=patience)
    raw = "write samples without a wav header: 16-bit, little-endian, mono, at the voice's sample rate (demo: 16000 Hz)"
    add("--raw", action="store_true", help=raw)
    timings = "also write the time of each word: .json (with phonemes), .srt or .vtt (subtitles)"
    add("--timings", type=Path, metavar="FILE", help=timings)
    add("--lexicon", type=Path, metavar="FILE", help="words and their phonemes, as in text.lexicon of params.yaml")
    add("--speaker", type=utf8, metavar="NAME", help="speaker of a voice with several (default: the first)")
    speed = "0.5 (slow) to 2.0 (fast); default 1.0; codec_lm supports only 1.0"
    add("--speed", type=float, default=1.0, metavar="X", help=speed)
    add("--pitch", type=float, default=0.0, metavar="X", help="semitones higher, -12 to 12; default 0")
    energy = "dB louder, -12 to 12, with the timbre of a louder speaker; default 0"
    add("--energy", type=float, default=0.0, metavar="X", help=energy)
    _add_decoding(say)
    marks = "speak [[ ]] and <speak> literally, not as phonemes, pauses and SSML (docs/pronunciation.md)"
    add("--no-markup", dest="markup", action="store_false", help=marks)
    lines = "a line end ends a sentence, as in lists and headings (default: only an empty line does)"
    add("--lines", action="store_true", help=lines)
    add("--variant", metavar="NAME", help="precision of the graphs, such as int8 (default: the voice's)")
    runtime = "runtime of the graphs: onnxruntime (default), onnxruntime-cuda or tensorrt"
    add("--runtime", default="onnxruntime", metavar="NAME", help=runtime)
    engines = "folder of TensorRT engines (default: in the user's cache)"
    add("--engines", type=Path, metavar="FOLDER", help=engines)
    add("--threads", type=int, metavar="N", help="CPU threads, at most one per core (the default)")


def _add_decoding(say: argparse.ArgumentParser) -> None:
    note = "other voices reject these options; the voice sets the defaults"
    add = say.add_argument_group("voices of the family codec_lm", note).add_argument
    add("--seed", type=int, metavar="N", help="random seed, default 0; used above temperature 0")
    add("--temperature", type=float, metavar="X", help="0: always the likeliest code; 0.7: lively; 1: as trained")
    add("--top-k", type=int, metavar="N", help="sample only from the N likeliest codes; 0: all")
    add(
        "--top-p",
        type=float,
        metavar="X",
        help="sample only from codes of this total probability; 1: all",
    )
    candidates = "speak each sentence N times and keep the best; default 1"
    add("--candidates", type=int, default=1, metavar="N", help=candidates)
    prompt = "recording whose style to continue, if the voice was trained with references"
    add("--prompt", type=Path, metavar="WAV", help=prompt)


def add_voice(command: argparse.ArgumentParser) -> None:
    voice = "bundle folder, or a registered voice: models:/<name>@<alias> or models:/<name>/<version>"
    command.add_argument("--voice", required=True, metavar="VOICE", help=voice)


def utf8(argument: str) -> str:
    """Check an argument of the command line. Raises SonorantError if it is not UTF-8."""
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        place = len(argument[: error.start].encode())
        raise SonorantError(f"argument {ascii(argument)[:60]}: not UTF-8 (byte {place}); convert it first") from None
    return argument


@contextmanager
def bundle_folder(voice: str) -> Iterator[Path]:
    """Yield the bundle's folder, a temporary download if the voice is in the registry."""
    if not voice.startswith("models:/"):
        yield Path(voice)
        return
    with TemporaryDirectory() as temporary:
        with needing("pipeline", voice):
            from sonorant.registry import download_bundle  # needs mlflow, which speaking from a folder does not
        yield download_bundle(voice, Path(temporary))


def end_cleanly_on_sigterm() -> None:
    """Unwind the stack on SIGTERM, so that unfinished files and temporary folders are removed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def run(arguments: argparse.Namespace) -> None:
    """Speak the text. An error leaves no file; a closed pipe stops the speech."""
    from sonorant.audio.encoding import ENDINGS, sound_file
    from sonorant.audio.wav import pcm16, wav_header
    from sonorant.speech import Voice
    from sonorant.speech.subtitles import timings_file

    out = Path(arguments.out)
    check_name(out, ENDINGS)
    encoding = ENDINGS[out.suffix.lower()]
    if arguments.raw and out.suffix and encoding != "pcm":
        raise SonorantError(f"{out}: --raw writes samples alone; use a name that ends in .raw or .pcm")
    if arguments.patience is not None and not (arguments.stream and arguments.text == "-" and arguments.patience >= 0):
        raise SonorantError("--patience must be at least 0 seconds, and needs --stream and the text -")
    end_cleanly_on_sigterm()
    with bundle_folder(arguments.voice) as bundle:
        variant, engines = arguments.variant, arguments.engines
        voice = Voice.load(bundle, arguments.runtime, arguments.threads, variant=variant, engines=engines)
        told = _speech(voice, arguments)
        try:
            with timings_file(arguments.timings) if arguments.timings else nullcontext() as timings:
                speech = _heard(told, timings, whole=not arguments.stream)
                if arguments.out == "-":
                    first = next(speech)  # an error here must not write a header
                    length = None if arguments.stream else len(first)
                    header = b"" if arguments.raw else wav_header(voice.sample_rate, length)
                    parts = (pcm16(samples).tobytes() for samples in chain([first], speech))
                    _write_to_standard_output(chain([header], parts))
                else:
                    with sound_file(out, voice.sample_rate, "pcm" if arguments.raw else encoding) as append:
                        for samples in speech:
                            append(samples)
        except OSError as error:
            error.filename = error.filename or ("standard output" if arguments.out == "-" else arguments.out)
            raise


def _write_to_standard_output(speech: Iterable[bytes]) -> None:
    if sys.stdout is None:
        raise SonorantError("standard output is closed; give a file with -o")
    # Not sys.stdout: Python would try to write the rest again when it exits.
    with open(sys.stdout.fileno(), "wb", closefd=False) as output:
        for data in speech:
            output.write(data)
            output.flush()


def _heard(speech: Speech, timings: TimingsFile | None, *, whole: bool) -> Iterator[NDArray[np.float32]]:
    import numpy as np

    parts = []
    for samples in speech:
        if timings:
            timings.add(speech.completed)
        if whole:
            parts.append(samples)
        else:
            yield samples
    if whole:
        yield np.concatenate(parts)


def _speech(voice: Voice, arguments: argparse.Namespace) -> Speech:
    from sonorant.speech.request import Allowance, Limits, SpeechRequest
    from sonorant.speech.voice import AT_ONCE
    from sonorant.text.user_lexicon import read_lexicon

    words, language = {}, voice.description.frontend.language
    if arguments.lexicon:
        if (lexicon := read_lexicon(arguments.lexicon, language)) is None:
            raise SonorantError(f"{arguments.lexicon}: has no words of {language}; begin them with [{language}]")
        words = lexicon.bound(voice.frontend.symbols).entries
    text: Any = _read_standard_input(arguments) if arguments.text == "-" else arguments.text
    if not arguments.stream:  # read no further than the limit
        text = "".join(part for part in Allowance(AT_ONCE).read(text) if isinstance(part, str))
    decoding = {name: getattr(arguments, name) for name in ("temperature", "top_k", "top_p")}
    return voice.speak(
        SpeechRequest(
            text=text,
            speaker=arguments.speaker,
            speed=arguments.speed,
            pitch=arguments.pitch,
            energy=arguments.energy,
            markup=arguments.markup,
            lexicon=words,
            lines=arguments.lines,
            timings=arguments.timings is not None,
            whole=not arguments.stream or arguments.candidates > 1,  # candidates are compared when complete
            limits=Limits() if arguments.stream else AT_ONCE,
            seed=arguments.seed,
            decoding={name: value for name, value in decoding.items() if value is not None},
            candidates=arguments.candidates,
            prompt=None if arguments.prompt is None else voice.prompt(arguments.prompt),
        )
    )


def _read_standard_input(arguments: argparse.Namespace) -> Iterator[Fragment]:
    """Yield standard input as it arrives; with --stream, also yield a `Lull` after each typed line and after --patience
    seconds without text. Raises SonorantError for a read error or invalid UTF-8."""
    from sonorant.text.arriving import Lull

    if sys.stdin is None:
        raise SonorantError("standard input is closed; give the text as an argument or through a pipe")
    typed = arguments.stream and sys.stdin.isatty()
    patience = arguments.patience
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    read, data = 0, b" "
    while data:
        undecoded = len(decoder.getstate()[0])
        try:
            if patience is not None and not select.select([sys.stdin], [], [], patience)[0]:
                yield Lull.LONG
            data = os.read(sys.stdin.fileno(), _BYTES_AT_ONCE)
            text = decoder.decode(data, final=not data)
        except OSError as error:
            raise SonorantError(f"standard input: cannot be read ({error.strerror})") from None
        except UnicodeDecodeError as error:
            place = read - undecoded + error.start
            raise SonorantError(f"standard input: not UTF-8 (byte {place}); convert the text to UTF-8 first") from None
        yield text
        if typed and text.endswith("\n"):
            yield Lull.LONG
        read += len(data)
