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


def _need_onnx() -> None:
    """Raises SonorantError where the package is missing: a voice is spoken without it."""
    try:
        import onnx  # noqa: F401
    except ModuleNotFoundError:
        raise SonorantError("joining a voice's graphs needs onnx; run: pip install 'sonorant[pipeline]'") from None
