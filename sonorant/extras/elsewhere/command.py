"""`sonorant export-sherpa` and `sonorant export-page`: a voice for programs other than Sonorant."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sonorant.cli.say import add_voice, bundle_folder
from sonorant.errors import SonorantError, needing
from sonorant.files import check_name

if TYPE_CHECKING:
    from sonorant.speech import Voice

SHERPA = """\
examples:
  sonorant export-sherpa --voice artifacts/voice -o sherpa
  sonorant export-sherpa --voice models:/sonorant-demo@champion --variant int8 -o sherpa

To speak with sherpa-onnx (pip install sherpa-onnx, or its libraries for phones):
  import sherpa_onnx as sherpa
  files = dict(model="sherpa/model.onnx", lexicon="sherpa/lexicon.txt", tokens="sherpa/tokens.txt")
  model = sherpa.OfflineTtsModelConfig(vits=sherpa.OfflineTtsVitsModelConfig(**files))
  speech = sherpa.OfflineTts(sherpa.OfflineTtsConfig(model=model)).generate("Good morning.")
  sherpa.write_wave("morning.wav", speech.samples, speech.sample_rate)
"""
PAGE = """\
examples:
  sonorant export-page --voice artifacts/voice -o voice.html
  sonorant export-page --voice models:/sonorant-demo@champion --variant int8 -o voice.html

Open the file in a browser; it needs no server and no network. Write numbers as words in the text to speak.
"""


def add_export_sherpa(commands: argparse._SubParsersAction) -> None:
    command = _added(
        commands,
        "export-sherpa",
        "export a voice for sherpa-onnx (phones, small boards, other programming languages)",
        SHERPA,
    )
    command.description = (
        "Write a voice for sherpa-onnx: one graph, a token table and a lexicon. Requires a voice of family parallel in "
        "English, German, Spanish or French."
    )
    command.set_defaults(run=_run_sherpa)
    command.add_argument("-o", "--out", type=Path, required=True, metavar="FOLDER", help="the new folder to write")


def add_export_page(commands: argparse._SubParsersAction) -> None:
    command = _added(
        commands, "export-page", "export a voice as a page that speaks in a browser, without a server", PAGE
    )
    command.description = (
        "Write one HTML file with the voice, a lexicon of the language, and ONNX Runtime for browsers, which npm "
        "downloads on first use. Requires a voice of family parallel."
    )
    command.set_defaults(run=_run_page)
    command.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="the HTML file to write")
    runtime = "folder `dist` of the npm package onnxruntime-web (default: npm downloads it)"
    command.add_argument("--browser-runtime", type=Path, metavar="FOLDER", help=runtime)


def _added(commands: argparse._SubParsersAction, name: str, what: str, examples: str) -> argparse.ArgumentParser:

    shape = argparse.RawDescriptionHelpFormatter
    command: argparse.ArgumentParser = commands.add_parser(name, help=what, epilog=examples, formatter_class=shape)
    add_voice(command)
    command.add_argument("--variant", metavar="NAME", help="fp32, fp16 or int8 (default: the voice's default)")
    words = "UTF-8 file of words to add to the lexicon, separated by spaces; required if gruut lacks the language"
    command.add_argument("--words", type=Path, metavar="FILE", help=words)
    return command


def _run_sherpa(arguments: argparse.Namespace) -> None:
    if arguments.out.exists():
        raise SonorantError(f"{arguments.out} already exists; give a new folder")
    with _voice(arguments) as voice:
        from sonorant.extras.elsewhere.sherpa import export_sherpa

        words = export_sherpa(voice, arguments.out, arguments.words, arguments.variant)
    print(f"{arguments.out}: {words} words; sonorant export-sherpa --help has an example of its use")


def _run_page(arguments: argparse.Namespace) -> None:
    check_name(arguments.out, [".html", ".htm"])
    with _voice(arguments) as voice:
        from sonorant.extras.elsewhere.browser_runtime import browser_runtime
        from sonorant.extras.elsewhere.speaking_page import export_page

        runtime = browser_runtime(arguments.browser_runtime)
        words = export_page(voice, arguments.out, runtime, arguments.words, arguments.variant)
    size = arguments.out.stat().st_size / 2**20
    print(f"{arguments.out}: {words} words, {size:.1f} MiB; open it in a browser")


@contextmanager
def _voice(arguments: argparse.Namespace) -> Iterator[Voice]:
    with needing("pipeline", "exporting a voice"):
        import onnx  # noqa: F401
    from sonorant.speech import Voice

    with bundle_folder(arguments.voice) as folder:
        yield Voice.load(folder, variant=arguments.variant)
