"""`sonorant export-sherpa` and `sonorant export-page`: a voice for programs other than Sonorant."""

from __future__ import annotations

import argparse
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.say import add_voice, bundle_folder

SHERPA = """\
examples:
  sonorant export-sherpa --voice artifacts/voice -o sherpa
  sonorant export-sherpa --voice models:/sonorant-demo@champion --variant int8 -o sherpa

sherpa-onnx (pip install sherpa-onnx, or its libraries for phones) is told of the three files:
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

Open the file in a browser; it needs no server and no network. Numbers have to be written as words.
"""


def add_export_sherpa(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "export-sherpa",
        help="write a voice for sherpa-onnx: phones, small boards, other languages",
        description="Write a voice as sherpa-onnx takes it: one graph, a table of tokens, a lexicon of words. Family "
        "parallel; English, German, Spanish and French.",
        epilog=SHERPA,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=_run_sherpa)
    _add_shared(command)
    command.add_argument("-o", "--out", type=Path, required=True, metavar="FOLDER", help="the folder to write")


def add_export_page(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser(
        "export-page",
        help="write a voice as a page that speaks in a browser, without a server",
        description="Write a voice as one HTML file that holds all it needs: the voice, the language's words, and ONNX "
        "Runtime for browsers, which npm brings the first time. Family parallel.",
        epilog=PAGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=_run_page)
    _add_shared(command)
    command.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="the HTML file to write")
    runtime = "folder `dist` of the npm package onnxruntime-web (default: npm brings it)"
    command.add_argument("--browser-runtime", type=Path, metavar="FOLDER", help=runtime)


def _add_shared(command: argparse.ArgumentParser) -> None:
    add_voice(command)
    command.add_argument("--variant", metavar="NAME", help="fp32, fp16 or int8 (default: what the voice ships)")
    words = "file of words that must be known too, in UTF-8, parted by blanks; a language without gruut needs one"
    command.add_argument("--words", type=Path, metavar="FILE", help=words)


def _run_sherpa(arguments: argparse.Namespace) -> None:
    _need_onnx()
    from sonorant.elsewhere.pronunciations import pronunciations
    from sonorant.elsewhere.sherpa import export_sherpa
    from sonorant.runtime import Voice

    with bundle_folder(arguments.voice) as folder:
        voice = Voice.load(folder, variant=arguments.variant)
        if arguments.out.exists():
            raise SonorantError(f"{arguments.out} exists; give a new folder")
        words = pronunciations(voice.frontend, arguments.words)
        export_sherpa(voice.bundle, arguments.out, voice.symbols, words, arguments.variant)
    print(f"{arguments.out}: {len(words)} words; sonorant export-sherpa --help says how to speak with it")


def _run_page(arguments: argparse.Namespace) -> None:
    _need_onnx()
    from sonorant.elsewhere.browser_runtime import browser_runtime
    from sonorant.elsewhere.page import export_page
    from sonorant.elsewhere.pronunciations import pronunciations
    from sonorant.runtime import Voice

    with bundle_folder(arguments.voice) as folder:
        voice, runtime = Voice.load(folder, variant=arguments.variant), browser_runtime(arguments.browser_runtime)
        words = pronunciations(voice.frontend, arguments.words)
        export_page(voice.bundle, arguments.out, voice.symbols, words, runtime, arguments.variant)
    size = arguments.out.stat().st_size / 2**20
    print(f"{arguments.out}: {len(words)} words, {size:.1f} MiB; open it in a browser")


def _need_onnx() -> None:
    """Raises SonorantError where the package is missing: a voice is spoken without it."""
    try:
        import onnx  # noqa: F401
    except ModuleNotFoundError:
        raise SonorantError("joining a voice's graphs needs onnx; run: pip install 'sonorant[pipeline]'") from None
